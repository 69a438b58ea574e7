//! Determines the session that a client's calls belong to.

use http::HeaderMap;
use plexus_auth::Principal;
use plexus_tools::SessionKey;
use serde_json::{Map, Value};

use super::headers;
use super::rpc::RpcError;

/// The `_meta` keys in which clients send a conversation id, most specific first.
const CONVERSATION: &[&str] = &[
    "threadId",
    "claudecode/sessionId",
    "openai/session",
    "vscode.conversationId",
    "ai.opencode/sessionID",
    "antigravity.google/conversation_id",
];

/// The key of the session: by the client's conversation, else by its MCP session, else by token and client, which is
/// all that is known of a stateless client.
pub(super) fn session_key(
    principal: &Principal,
    client: Option<&str>,
    meta: &Map<String, Value>,
    headers: &HeaderMap,
    mcp_session: Option<&str>,
) -> Result<SessionKey, RpcError> {
    let client_name = client.unwrap_or("unknown");
    // The header serves clients that send no conversation id but can be configured with headers, such as Claude Code.
    let from_header = headers::session(headers)?;
    let key = match conversation(meta).or(from_header) {
        Some(id) => match client {
            Some(client) => SessionKey::of_conversation(client, id),
            None => SessionKey::new("external", &[client_name, id], None),
        },
        None => SessionKey::new("external", &[client_name, mcp_session.unwrap_or(principal.name())], client),
    };
    Ok(key.in_folder(headers::folder(headers)?.as_deref()))
}

/// The conversation id that a client sends in `_meta`.
pub fn conversation(meta: &Map<String, Value>) -> Option<&str> {
    CONVERSATION.iter().find_map(|key| meta.get(*key)?.as_str().filter(|id| !id.is_empty()))
}
