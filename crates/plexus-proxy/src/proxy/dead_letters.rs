//! Reports dead letters, the writes that could not be delivered, to the hub, which records them in their session, and
//! to the agent with its next call. A log line alone would not be enough.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::StatusCode;
use plexus_store::outbox::{DeadLetterRecipient, Outbox, OutboxError, Write, WriteState};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Shared;

/// Maximum number of dead letters per report.
const MAX_PER_REPORT: u32 = 20;

/// Reports new dead letters to the hub; retried later if the hub cannot accept them now.
pub(super) async fn report_to_hub(proxy: &Shared, outbox: &Outbox) -> Result<(), OutboxError> {
    loop {
        let dead_letters =
            outbox.unreported_dead_letters(DeadLetterRecipient::Hub, None, MAX_PER_REPORT).await?;
        if dead_letters.is_empty() {
            return Ok(());
        }
        let mut by_session: BTreeMap<(String, String), Vec<Write>> = BTreeMap::new();
        for dead_letter in dead_letters {
            by_session
                .entry((client(&dead_letter), dead_letter.session.clone()))
                .or_default()
                .push(dead_letter);
        }
        for ((client, session), dead_letters) in by_session {
            let reports: Vec<Value> = dead_letters.iter().map(report).collect();
            let body = json!({ "client": client, "session": session, "letters": reports }).to_string();
            let request = async {
                let reply = proxy.hub.post("api/v1/outbox/letters", &Bytes::from(body)).await.ok()?;
                let status = reply.status();
                let _ = reply.bytes().await;
                Some(status)
            };
            let status = tokio::time::timeout(proxy.options.timing.answer, request).await.ok().flatten();
            if !status.is_some_and(is_settled) {
                return Ok(());
            }
            outbox.mark_dead_letters_reported(DeadLetterRecipient::Hub, &dead_letters).await?;
        }
    }
}

/// Whether the report is done. A report that the hub will never accept is not retried forever.
fn is_settled(status: StatusCode) -> bool {
    const LATER: [StatusCode; 3] =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    status.is_success() || status.is_client_error() && !LATER.contains(&status)
}

/// Name of the client.
fn client(dead_letter: &Write) -> String {
    let info: Value = serde_json::from_str(&dead_letter.client).unwrap_or_default();
    info["name"].as_str().unwrap_or("unknown").to_owned()
}

fn report(dead_letter: &Write) -> Value {
    json!({
        "key": dead_letter.key, "tool": dead_letter.tool, "reason": reason(dead_letter),
        "occurred_at": dead_letter.occurred_at, "attempts": dead_letter.attempts,
    })
}

fn reason(dead_letter: &Write) -> &str {
    match &dead_letter.state {
        WriteState::Dead { reason, .. } => reason,
        WriteState::Waiting { .. } | WriteState::Sending { .. } => "",
    }
}

impl Shared {
    /// Adds unreported dead letters of the agent to the answer of a call.
    pub(super) async fn with_dead_letters(&self, json: Bytes) -> Bytes {
        let Some(outbox) = &self.outbox else { return json };
        let can_report = self.has_unreported_dead_letters.load(Ordering::Acquire) && has_content(&json);
        if !can_report || !self.has_unreported_dead_letters.swap(false, Ordering::AcqRel) {
            return json;
        }
        match add_dead_letters(outbox, &json).await {
            Ok(Some((with_report, more))) => {
                self.has_unreported_dead_letters.fetch_or(more, Ordering::AcqRel);
                with_report
            }
            Ok(None) => json,
            Err(error) => {
                tracing::error!(%error, "cannot read the outbox");
                self.has_unreported_dead_letters.store(true, Ordering::Release);
                json
            }
        }
    }

    /// Checks whether there are dead letters that were not reported to the agent.
    pub(super) async fn check_dead_letters(&self) {
        let Some(outbox) = &self.outbox else { return };
        match outbox.unreported_dead_letters(DeadLetterRecipient::Agent, None, 1).await {
            Ok(dead_letters) => {
                self.has_unreported_dead_letters.store(!dead_letters.is_empty(), Ordering::Release)
            }
            Err(error) => tracing::error!(%error, "cannot read the outbox"),
        }
    }
}

/// Whether the answer is a result with content, to which text can be added.
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

/// The answer with the dead letters added, and whether there may be more; none if there are no dead letters.
async fn add_dead_letters(outbox: &Outbox, json: &[u8]) -> Result<Option<(Bytes, bool)>, OutboxError> {
    let Ok(mut message) = serde_json::from_slice::<Map<String, Value>>(json) else { return Ok(None) };
    let Some(content) = message.get_mut("result").and_then(|result| result["content"].as_array_mut()) else {
        return Ok(None);
    };
    let dead_letters =
        outbox.unreported_dead_letters(DeadLetterRecipient::Agent, None, MAX_PER_REPORT).await?;
    if dead_letters.is_empty() {
        return Ok(None);
    }
    let mut text =
        "Not part of this result: writes that were stored while the hub was away could not be executed."
            .to_owned();
    for dead_letter in &dead_letters {
        let _ = write!(
            text,
            "\n- {} of {} (key {}): {}",
            dead_letter.tool,
            dead_letter.occurred_at,
            dead_letter.key,
            reason(dead_letter)
        );
    }
    text.push_str("\nThe user can list, retry or drop these dead letters with `plexus outbox`.");
    content.push(json!({ "type": "text", "text": text }));
    outbox.mark_dead_letters_reported(DeadLetterRecipient::Agent, &dead_letters).await?;
    let more = dead_letters.len() >= usize::try_from(MAX_PER_REPORT).unwrap_or(usize::MAX);
    Ok(Some((Value::Object(message).to_string().into(), more)))
}
