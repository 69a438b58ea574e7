//! Decides about a write by the answer it got.
//!
//! Avoids two mistakes: making a dead letter of a write that another attempt could deliver, and retrying
//! forever one that can never be delivered, which blocks everything behind it.
//!
//! | answer | verdict |
//! | --- | --- |
//! | a result that is not an error, or the feature is off | settled |
//! | none, or a status that says "later" (408, 425, 429, 5xx) | retry |
//! | 401 or 403, `unauthenticated` or `forbidden` | renew the credential and retry; then 401 is retried, 403 is final |
//! | another 4xx of the hub, a JSON-RPC error, or a failed tool, unless marked as retryable | dead letter |
//! | 413 from anyone | dead letter |
//! | any other status of an intermediary, such as the 404 of a reverse proxy without its backend | retry |
//!
//! A write also becomes a dead letter by its age, see `expire` in `queue`.

use std::time::Duration;

use plexus_proto::Timestamp;
use serde_json::Value;

use super::LONGEST_PAUSE;

/// Maximum length of a third-party message in a reason.
const LONGEST_REASON: usize = 500;

/// The JSON-RPC code for an internal error, which may be transient.
const INTERNAL: i64 = -32603;

/// The answer to a write.
#[derive(Debug, Clone, Copy)]
pub enum WriteAnswer<'a> {
    /// No usable answer: unreachable, timeout, broken connection, or not JSON-RPC.
    None,
    /// A status other than 200, with its `Retry-After` and message, if any. `is_from_hub` tells whether the body is an error
    /// in a format of the hub; otherwise an intermediary may have answered.
    Status { status: u16, is_from_hub: bool, retry_after: Option<&'a str>, message: &'a str },
    /// The error of a JSON-RPC answer.
    Error { code: i64, message: &'a str, data: Option<&'a Value> },
    /// The result of the call.
    Result(&'a Value),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered now or earlier, or no longer needed.
    Settled,
    /// Retry, after this time if the hub requested one, otherwise after [`pause`](super::pause).
    Retry(Option<Duration>),
    /// Retry with a new credential.
    RenewThenRetry,
    /// The write becomes a dead letter, with this reason.
    DeadLetter(String),
}

/// Judges an answer. `renewed` tells whether the credential was already renewed for this write.
#[must_use]
pub fn judge(answer: WriteAnswer<'_>, renewed: bool, now: Timestamp) -> Verdict {
    match answer {
        WriteAnswer::None => Verdict::Retry(None),
        WriteAnswer::Status { status, is_from_hub, retry_after: after, message } => {
            let retry = || Verdict::Retry(after.and_then(|after| retry_after(after, now)));
            match status {
                401 | 403 if !renewed => Verdict::RenewThenRetry,
                // Says nothing about the write: the credential must be fixed, automatically or by a person.
                401 => retry(),
                408 | 425 | 429 => retry(),
                // Too large is final, whoever limits the size.
                413 => Verdict::DeadLetter(reason("it is too large (HTTP 413)", message)),
                400..=499 if is_from_hub => {
                    Verdict::DeadLetter(reason(&format!("the hub rejected it (HTTP {status})"), message))
                }
                _ => retry(),
            }
        }
        WriteAnswer::Error { code, message, data } => {
            let details = ErrorDetails::of(data);
            match () {
                () if details.is_feature_off() => Verdict::Settled,
                () if details.code == Some("unauthenticated") && !renewed => Verdict::RenewThenRetry,
                () if details.code == Some("unauthenticated") => Verdict::Retry(None),
                () if details.code == Some("forbidden") && !renewed => Verdict::RenewThenRetry,
                () if details.retryable.unwrap_or(code == INTERNAL) => Verdict::Retry(None),
                () => Verdict::DeadLetter(reason(&format!("the hub rejected it (error {code})"), message)),
            }
        }
        WriteAnswer::Result(result) => result_verdict(result),
    }
}

fn result_verdict(result: &Value) -> Verdict {
    let Some(object) = result.as_object() else { return Verdict::Retry(None) };
    if object.get("resultType").and_then(Value::as_str) == Some("input_required") {
        return Verdict::DeadLetter(
            "the tool asked a question, which nobody can answer when a write is replayed".to_owned(),
        );
    }
    if object.get("isError").and_then(Value::as_bool) != Some(true) {
        return Verdict::Settled;
    }
    let details = ErrorDetails::of(object.get("_meta"));
    if details.is_feature_off() {
        return Verdict::Settled;
    }
    if details.retryable == Some(true) {
        return Verdict::Retry(None);
    }
    let texts = object.get("content").and_then(Value::as_array).into_iter().flatten();
    let text: Vec<&str> = texts.filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    let summary = match details.code {
        Some(code) => format!("the tool failed ({code})"),
        None => "the tool failed".to_owned(),
    };
    Verdict::DeadLetter(reason(&summary, &text.join("\n")))
}

/// Machine-readable details of an error: `{"plexus/error": {"code", "retryable"}}`, or both as separate
/// members.
#[derive(Debug, Default)]
struct ErrorDetails<'a> {
    code: Option<&'a str>,
    retryable: Option<bool>,
}

impl<'a> ErrorDetails<'a> {
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

    /// The feature is disabled on the hub, so the write can have no effect.
    fn is_feature_off(&self) -> bool {
        self.code == Some("feature_off")
    }
}

fn reason(summary: &str, message: &str) -> String {
    let message = message.trim();
    let end = message.char_indices().nth(LONGEST_REASON).map_or(message.len(), |(at, _)| at);
    let (message, more) = (&message[..end], if end < message.len() { "…" } else { "" });
    if message.is_empty() { summary.to_owned() } else { format!("{summary}: {message}{more}") }
}

/// Parses a `Retry-After` in seconds or as a date, limited to [`LONGEST_PAUSE`]; `None` if it is invalid.
#[must_use]
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is a long time, too.
        return Some(text.parse().map_or(LONGEST_PAUSE, Duration::from_secs).min(LONGEST_PAUSE));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let millis = date.as_millisecond().saturating_sub(now.as_millisecond());
    Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests;
