//! Finds a session by its id, the end of its id, or its key.

use plexus_proto::SessionId;
use plexus_proto::api::Session;
use serde_json::value::RawValue;

use crate::client::{self, Hub};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::short_id::{self, MAX_CANDIDATES};

/// Finds the only session with this id, key or end of its id. A text without a colon is also a name given to
/// `plexus tools call --session NAME`.
pub(in crate::commands) async fn session_id(hub: &Hub, text: &str) -> anyhow::Result<SessionId> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let key = if text.contains(':') { text.to_owned() } else { format!("named:{text}") };
    // The hub filters by prefix.
    let is_exact = |raw: &RawValue| client::decode::<Session>(raw).is_ok_and(|session| session.key == key);
    let filters = [("key", Some(key.clone()))];
    let page = listing::fetch(
        hub,
        &["sessions"],
        &filters,
        &ListArgs { limit: MAX_CANDIDATES, cursor: None },
        is_exact,
    )
    .await?;
    let found: Vec<Session> = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    match found.as_slice() {
        [session] => Ok(session.id),
        [] => by_id_suffix(hub, text).await,
        several => {
            let mut message = format!("several sessions have the key {key:?}:");
            for session in several {
                message.push_str(&format!("\n  {}  {}", session.id, session.owner));
            }
            Err(Failure::new(Exit::Usage, message).hint("use the id of one of them").into())
        }
    }
}

/// Finds the only session whose id ends with the text.
async fn by_id_suffix(hub: &Hub, text: &str) -> anyhow::Result<SessionId> {
    let mut found: Vec<Session> = Vec::new();
    if let Some(suffix) = short_id::parse_suffix(text) {
        let args = ListArgs { limit: MAX_CANDIDATES + 1, cursor: None };
        let page = listing::fetch(hub, &["sessions"], &[("id", Some(suffix))], &args, |_| true).await?;
        found = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    }
    match found.as_slice() {
        [session] => Ok(session.id),
        [] => Err(Failure::new(Exit::Usage, format!("there is no session with the id or key {text:?}"))
            .hint("`plexus sessions list` shows the ids and keys")
            .into()),
        several => {
            let line = |session: &Session| format!("{}  {}  {}", session.id, session.owner, session.key);
            let candidates: Vec<String> = several.iter().map(line).collect();
            Err(short_id::ambiguous("sessions", text, &candidates).into())
        }
    }
}
