//! Which session a client's calls belong to.

use axum::http::HeaderMap;
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

/// Where whoever starts a client says it, if the client itself does not: Claude Code sends no id of its
/// conversation, but any header it was configured with.
const SESSION_HEADER: &str = "plexus-session";

/// The satellite session: by the conversation the client names, else by its MCP session, else by
/// token and client, which is all that a stateless client has.
pub(super) fn session_key(
    principal: &Principal,
    client: Option<&str>,
    meta: &Map<String, Value>,
    headers: &HeaderMap,
    mcp_session: Option<&str>,
) -> SessionKey {
    let named = client.unwrap_or("unknown");
    let in_meta = CONVERSATION.iter().find_map(|key| meta.get(*key)?.as_str());
    let conversation = in_meta.or_else(|| in_header(headers));
    match conversation {
        Some(id) if named.starts_with("codex") => SessionKey::new("codex", &[id], client),
        Some(id) if named.starts_with("claude") => SessionKey::new("claude", &[id], client),
        Some(id) => SessionKey::new("external", &[named, id], client),
        None => SessionKey::new("external", &[named, mcp_session.unwrap_or(principal.name())], client),
    }
}

/// Empty is as good as absent: that is what a variable expands to which nobody has set.
fn in_header(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(SESSION_HEADER)?.to_str().ok()?.trim();
    (!id.is_empty()).then_some(id)
}
