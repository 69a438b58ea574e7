//! What becomes of a write by the answer that it got.
//!
//! Two mistakes are possible, and neither is made: to give up what another attempt could deliver, and to try for ever what can
//! never be delivered, with everything behind it waiting. Something that does not come from the hub at all, such as the page of
//! a hotel's network, says nothing about the write.

use std::time::Duration;

use plexus_proto::Timestamp;
use serde_json::Value;

use super::LONGEST_PAUSE;

/// Of what others said, in a reason.
const LONGEST_REASON: usize = 500;

/// The code of JSON-RPC for a fault of the server, which may have passed the next time.
const INTERNAL: i64 = -32603;

/// What came back for a write.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// Nothing that can be read: not reached, too late, broken off, or not JSON-RPC.
    None,
    /// A status other than 200, with its `Retry-After` and what was said with it, if anything was.
    Status { status: u16, retry_after: Option<&'a str>, message: &'a str },
    /// The error of a JSON-RPC answer.
    Error { code: i64, message: &'a str, data: Option<&'a Value> },
    /// The result of the call.
    Result(&'a Value),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered, now or before, or nobody wants it.
    Settled,
    /// Another attempt, after this time where the hub has asked for it, else after [`pause`](super::pause).
    Retry(Option<Duration>),
    /// Another attempt with a new credential.
    RenewThenRetry,
    /// A dead letter, with the reason.
    Bury(String),
}

/// Judges an answer. `renewed`: the credential was renewed for this write already.
#[must_use]
pub fn judge(answer: Answer<'_>, renewed: bool, now: Timestamp) -> Verdict {
    match answer {
        Answer::None => Verdict::Retry(None),
        Answer::Status { status, retry_after: after, message } => {
            status_verdict(status, after, message, renewed, now)
        }
        Answer::Error { code, message, data } => {
            let said = Said::of(data);
            match () {
                () if said.is_feature_off() => Verdict::Settled,
                () if said.code == Some("unauthenticated") && !renewed => Verdict::RenewThenRetry,
                () if said.code == Some("unauthenticated") => Verdict::Retry(None),
                () if said.code == Some("forbidden") && !renewed => Verdict::RenewThenRetry,
                () if said.retryable.unwrap_or(code == INTERNAL) => Verdict::Retry(None),
                () => Verdict::Bury(reason(&format!("the hub refused it (error {code})"), message)),
            }
        }
        Answer::Result(result) => result_verdict(result),
    }
}

fn status_verdict(status: u16, after: Option<&str>, message: &str, renewed: bool, now: Timestamp) -> Verdict {
    match status {
        401 | 403 if !renewed => Verdict::RenewThenRetry,
        // Says nothing about the write: the credential is put right, or a person does it.
        401 => Verdict::Retry(after.and_then(|after| retry_after(after, now))),
        408 | 425 | 429 | 500..=599 => Verdict::Retry(after.and_then(|after| retry_after(after, now))),
        400..=499 => Verdict::Bury(reason(&format!("the hub refused it (HTTP {status})"), message)),
        // Not what a hub answers: somebody is in between.
        _ => Verdict::Retry(None),
    }
}

fn result_verdict(result: &Value) -> Verdict {
    let Some(object) = result.as_object() else { return Verdict::Retry(None) };
    if object.get("resultType").and_then(Value::as_str) == Some("input_required") {
        return Verdict::Bury(
            "the tool asks a question, which nobody is there to answer when a write is replayed".to_owned(),
        );
    }
    if object.get("isError").and_then(Value::as_bool) != Some(true) {
        return Verdict::Settled;
    }
    let said = Said::of(object.get("_meta"));
    if said.is_feature_off() {
        return Verdict::Settled;
    }
    if said.retryable == Some(true) {
        return Verdict::Retry(None);
    }
    let texts = object.get("content").and_then(Value::as_array).into_iter().flatten();
    let text: Vec<&str> = texts.filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    let what = match said.code {
        Some(code) => format!("the tool failed ({code})"),
        None => "the tool failed".to_owned(),
    };
    Verdict::Bury(reason(&what, &text.join("\n")))
}

/// What the hub says of an error for programs: `{"plexus/error": {"code", "retryable"}}`, or both as members beside each other.
#[derive(Debug, Default)]
struct Said<'a> {
    code: Option<&'a str>,
    retryable: Option<bool>,
}

impl<'a> Said<'a> {
    fn of(holder: Option<&'a Value>) -> Self {
        let Some(holder) = holder else { return Self::default() };
        match &holder["plexus/error"] {
            Value::Object(error) => Self {
                code: error.get("code").and_then(Value::as_str),
                retryable: error.get("retryable").and_then(Value::as_bool),
            },
            error => Self { code: error.as_str(), retryable: holder["plexus/retryable"].as_bool() },
        }
    }

    /// The hub does not do such things here: there is nothing that the write could still do.
    fn is_feature_off(&self) -> bool {
        self.code == Some("feature_off")
    }
}

fn reason(what: &str, said: &str) -> String {
    let said = said.trim();
    let end = said.char_indices().nth(LONGEST_REASON).map_or(said.len(), |(at, _)| at);
    let (said, more) = (&said[..end], if end < said.len() { "…" } else { "" });
    if said.is_empty() { what.to_owned() } else { format!("{what}: {said}{more}") }
}

/// A `Retry-After` in seconds or as a date, no longer than [`LONGEST_PAUSE`]; none where it cannot be read.
#[must_use]
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits for a number are a long time too.
        return Some(text.parse().map_or(LONGEST_PAUSE, Duration::from_secs).min(LONGEST_PAUSE));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let millis = date.as_millisecond().saturating_sub(now.as_millisecond());
    Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests;
