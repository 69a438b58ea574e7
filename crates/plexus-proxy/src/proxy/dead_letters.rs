//! Writes that could not be delivered: told to the hub, which keeps them with their session, and to the agent with its next
//! call. Neither is told by a line in a log alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::StatusCode;
use plexus_store::outbox::{Outbox, OutboxError, Told, Write, WriteState};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Shared;

/// Told of at once.
const AT_ONCE: u32 = 20;

/// Tells the hub of letters that it does not know of. Those that it cannot take now are told later.
pub(super) async fn tell_hub(proxy: &Shared, outbox: &Outbox) -> Result<(), OutboxError> {
    loop {
        let letters = outbox.untold(Told::Hub, None, AT_ONCE).await?;
        if letters.is_empty() {
            return Ok(());
        }
        let mut by_session: BTreeMap<(String, String), Vec<Write>> = BTreeMap::new();
        for letter in letters {
            by_session.entry((client(&letter), letter.session.clone())).or_default().push(letter);
        }
        for ((client, session), letters) in by_session {
            let told: Vec<Value> = letters.iter().map(told).collect();
            let body = json!({ "client": client, "session": session, "letters": told }).to_string();
            let asked = async {
                let reply = proxy.hub.post("api/v1/outbox/letters", &Bytes::from(body)).await.ok()?;
                let status = reply.status();
                let _ = reply.whole().await;
                Some(status)
            };
            let status = tokio::time::timeout(proxy.options.timing.answer, asked).await.ok().flatten();
            if !status.is_some_and(is_settled) {
                return Ok(());
            }
            outbox.mark_told(Told::Hub, &letters).await?;
        }
    }
}

/// Whether the hub has taken it. What it will never take is not sent for ever.
fn is_settled(status: StatusCode) -> bool {
    const LATER: [StatusCode; 3] =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    status.is_success() || status.is_client_error() && !LATER.contains(&status)
}

/// Name of the client.
fn client(letter: &Write) -> String {
    let info: Value = serde_json::from_str(&letter.client).unwrap_or_default();
    info["name"].as_str().unwrap_or("unknown").to_owned()
}

fn told(letter: &Write) -> Value {
    json!({
        "key": letter.key, "tool": letter.tool, "reason": reason(letter), "occurred_at": letter.occurred_at,
        "attempts": letter.attempts,
    })
}

fn reason(letter: &Write) -> &str {
    match &letter.state {
        WriteState::Dead { reason, .. } => reason,
        WriteState::Waiting { .. } | WriteState::Sending { .. } => "",
    }
}

impl Shared {
    /// The answer to a call, with a word on writes of the agent that could not be delivered.
    pub(super) async fn with_letters(&self, json: Bytes) -> Bytes {
        let Some(outbox) = &self.outbox else { return json };
        let may_tell = self.letters.load(Ordering::Acquire) && has_content(&json);
        if !may_tell || !self.letters.swap(false, Ordering::AcqRel) {
            return json;
        }
        match add_letters(outbox, &json).await {
            Ok(Some((told, more))) => {
                self.letters.fetch_or(more, Ordering::AcqRel);
                told
            }
            Ok(None) => json,
            Err(error) => {
                tracing::error!(%error, "the outbox cannot be read");
                self.letters.store(true, Ordering::Release);
                json
            }
        }
    }

    /// Looks whether there is anything to tell.
    pub(super) async fn look_for_letters(&self) {
        let Some(outbox) = &self.outbox else { return };
        match outbox.untold(Told::Agent, None, 1).await {
            Ok(letters) => self.letters.store(!letters.is_empty(), Ordering::Release),
            Err(error) => tracing::error!(%error, "the outbox cannot be read"),
        }
    }
}

/// Whether an answer has a place for a word more.
fn has_content(json: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct With {
        result: Content,
    }
    #[derive(Deserialize)]
    struct Content {
        #[serde(rename = "content")]
        _content: Vec<IgnoredAny>,
    }
    serde_json::from_slice::<With>(json).is_ok_and(|With { result: Content { .. } }| true)
}

/// The answer with what is to be told, and whether there may be more; none where there is nothing.
async fn add_letters(outbox: &Outbox, json: &[u8]) -> Result<Option<(Bytes, bool)>, OutboxError> {
    let Ok(mut message) = serde_json::from_slice::<Map<String, Value>>(json) else { return Ok(None) };
    let Some(content) = message.get_mut("result").and_then(|result| result["content"].as_array_mut()) else {
        return Ok(None);
    };
    let letters = outbox.untold(Told::Agent, None, AT_ONCE).await?;
    if letters.is_empty() {
        return Ok(None);
    }
    let mut text =
        "Not part of this result: writes that were stored while the hub was away could not be done."
            .to_owned();
    for letter in &letters {
        let _ = write!(
            text,
            "\n- {} of {} (key {}): {}",
            letter.tool,
            letter.occurred_at,
            letter.key,
            reason(letter)
        );
    }
    text.push_str("\nThe person can see, retry or drop them with `plexus outbox`.");
    content.push(json!({ "type": "text", "text": text }));
    outbox.mark_told(Told::Agent, &letters).await?;
    let more = letters.len() >= usize::try_from(AT_ONCE).unwrap_or(usize::MAX);
    Ok(Some((Value::Object(message).to_string().into(), more)))
}
