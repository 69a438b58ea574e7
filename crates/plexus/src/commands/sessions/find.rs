//! The session that a person means: by its id, or by its key where that says it.

use plexus_proto::SessionId;
use plexus_proto::api::Session;
use serde_json::value::RawValue;

use crate::client::{self, Hub};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};

/// Sessions of the same key, of different owners, that are named in an error.
const SHOWN: usize = 20;

/// The id itself, or that of the only session with this key; a name alone is that of
/// `plexus tools call --session NAME`.
pub(in crate::commands) async fn one(hub: &Hub, text: &str) -> anyhow::Result<SessionId> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let key = if text.contains(':') { text.to_owned() } else { format!("named:{text}") };
    // The hub finds what begins like this.
    let exact = |raw: &RawValue| client::decode::<Session>(raw).is_ok_and(|session| session.key == key);
    let filters = [("key", Some(key.clone()))];
    let page =
        listing::fetch(hub, &["sessions"], &filters, &ListArgs { limit: SHOWN, cursor: None }, exact).await?;
    let found: Vec<Session> = page.items.iter().map(|raw| client::decode(raw)).collect::<Result<_, _>>()?;
    match found.as_slice() {
        [session] => Ok(session.id),
        [] => Err(Failure::new(Exit::Usage, format!("there is no session with the id or key {text:?}"))
            .hint("`plexus sessions list` shows the ids and keys")
            .into()),
        several => {
            let mut message = format!("several sessions have the key {key:?}:");
            for session in several {
                message.push_str(&format!("\n  {}  {}", session.id, session.owner));
            }
            Err(Failure::new(Exit::Usage, message).hint("say which one by its id").into())
        }
    }
}
