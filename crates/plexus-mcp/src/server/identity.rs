//! Which session a client's calls belong to.

use http::HeaderMap;
use plexus_auth::Principal;
use plexus_tools::SessionKey;
use serde_json::{Map, Value};

use super::headers;
use super::rpc::RpcError;

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
    headers: &HeaderMap,
    mcp_session: Option<&str>,
) -> Result<SessionKey, RpcError> {
    let named = client.unwrap_or("unknown");
    // Whoever starts a client says it where the client itself does not: Claude Code sends no id of its
    // conversation, but any header it was configured with.
    let given = headers::session(headers)?;
    let key = match conversation(meta).or(given) {
        Some(id) => match client {
            Some(client) => SessionKey::of_conversation(client, id),
            None => SessionKey::new("external", &[named, id], None),
        },
        None => SessionKey::new("external", &[named, mcp_session.unwrap_or(principal.name())], client),
    };
    Ok(key.in_folder(headers::folder(headers)?.as_deref()))
}

/// The conversation that a client names itself.
pub fn conversation(meta: &Map<String, Value>) -> Option<&str> {
    CONVERSATION.iter().find_map(|key| meta.get(*key)?.as_str().filter(|id| !id.is_empty()))
}
