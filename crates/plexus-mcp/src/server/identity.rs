//! Which session a client's calls belong to.

use plexus_auth::Principal;
use plexus_tools::SessionKey;
use serde_json::{Map, Value};

/// Where clients put the id of a conversation, most telling first.
const CONVERSATION: &[&str] = &[
    "threadId",
    "claudecode/sessionId",
    "openai/session",
    "vscode.conversationId",
    "ai.opencode/sessionID",
    "antigravity.google/conversation_id",
];

/// The satellite session: by the conversation the client names, else by its MCP session, else by
/// token and client, which is all that a stateless client has.
pub(super) fn session_key(
    principal: &Principal,
    client: Option<&str>,
    meta: &Map<String, Value>,
    mcp_session: Option<&str>,
) -> SessionKey {
    let named = client.unwrap_or("unknown");
    let conversation = CONVERSATION.iter().find_map(|key| meta.get(*key)?.as_str());
    match conversation {
        Some(id) if named.starts_with("codex") => SessionKey::new("codex", &[id], client),
        Some(id) if named.starts_with("claude") => SessionKey::new("claude", &[id], client),
        Some(id) => SessionKey::new("external", &[named, id], client),
        None => SessionKey::new("external", &[named, mcp_session.unwrap_or(principal.name())], client),
    }
}
