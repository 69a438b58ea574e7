//! Passes questions of a server to the caller during one call.
//!
//! A question within a session arrives as a request. It is converted to the form of 2026-07-28, which the hub
//! uses internally.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::BoxFuture;
use plexus_tools::{Answer, AskError, Capabilities, Inquiry, Question, RawJson, ToolContext};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::client::{Answerer, Bridge};
use crate::config::ServerConfig;
use crate::supervision::unit::Unit;

/// Questions per call; further ones are refused.
const MAX_QUESTIONS_OF_CALL: u64 = 128;

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;

/// Everything that the hub can relay, for connections that belong to no single caller.
pub(in crate::supervision) const ALL_CAPABILITIES: Capabilities = Capabilities {
    form: true,
    url: true,
    sampling: true,
    sampling_tools: true,
    sampling_context: true,
    roots: true,
    tasks: false,
};

/// The dialog between a caller and a server during one call. Dropping it ends all questions.
pub(super) struct CallerDialog {
    pub(super) bridge: Bridge,
    asking: Option<Arc<QuestionRelay>>,
    /// The server has asked through a result and was answered.
    rounds: AtomicBool,
}

impl CallerDialog {
    pub(in crate::supervision) fn of(unit: &Arc<Unit>, config: &ServerConfig, context: &ToolContext) -> Self {
        let log = context.log_sink();
        // The hub follows tasks itself, so the client's support for them is irrelevant.
        let capabilities = match config.questions {
            true => Capabilities { tasks: false, ..context.capabilities() },
            false => Capabilities::default(),
        };
        let number = unit.missing_capabilities.number();
        let asking = (!capabilities.is_empty()).then(|| Arc::new(QuestionRelay::new(unit, context, number)));
        let caller = (asking.is_some() || log.is_some())
            .then(|| format!("{} {}", context.principal.subject(), context.session_id).into());
        let answerer = asking.clone().map(|asking| asking as Arc<dyn Answerer>);
        let bridge = Bridge { caller, answerer, number, capabilities, log };
        Self { bridge, asking, rounds: AtomicBool::new(false) }
    }

    /// Whether a question was asked. If so, the call can no longer be repeated as if nothing had happened.
    pub(super) fn has_asked(&self) -> bool {
        self.rounds.load(Ordering::Acquire) || self.asking.as_ref().is_some_and(|asking| asking.has_asked())
    }

    pub(super) fn note_round(&self) {
        self.rounds.store(true, Ordering::Release);
    }
}

impl Drop for CallerDialog {
    fn drop(&mut self) {
        if let Some(asking) = &self.asking {
            asking.ended.cancel();
        }
    }
}

/// Answers questions that a server asks within a session.
struct QuestionRelay {
    context: ToolContext,
    unit: Weak<Unit>,
    /// The number of the call.
    call: u64,
    /// The number of the last question.
    number: AtomicU64,
    has_asked: AtomicBool,
    /// Cancelled when the call has ended.
    ended: CancellationToken,
}

impl QuestionRelay {
    fn new(unit: &Arc<Unit>, context: &ToolContext, call: u64) -> Self {
        Self {
            context: context.clone(),
            unit: Arc::downgrade(unit),
            call,
            number: AtomicU64::new(0),
            has_asked: AtomicBool::new(false),
            ended: CancellationToken::new(),
        }
    }

    fn question(&self, inquiry: Inquiry, params: Option<RawJson>) -> Result<Question, Answer> {
        let params = normal_form(inquiry, params)?;
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        if number > MAX_QUESTIONS_OF_CALL {
            return Err(refusal(INTERNAL, "this call has asked too many questions"));
        }
        let question = Question { key: format!("q{number}"), inquiry, params };
        let can = self.context.capabilities();
        match can.lacks(&question) {
            None => Ok(question),
            Some(lacking) => {
                if let Some(unit) = self.unit.upgrade() {
                    unit.missing_capabilities.note(self.call, lacking);
                }
                // The client supports this kind of question, only not this variant.
                let has_base = (lacking.url && can.form) || (lacking.sampling_tools && can.sampling);
                let code = if has_base { INVALID_PARAMS } else { METHOD_NOT_FOUND };
                Err(refusal(code, AskError::Incapable(lacking).to_string()))
            }
        }
    }
}

impl Answerer for QuestionRelay {
    fn note_asked(&self) {
        self.has_asked.store(true, Ordering::Release);
    }

    fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Acquire)
    }

    fn has_ended(&self) -> bool {
        self.ended.is_cancelled() || self.context.cancel.is_cancelled()
    }

    fn ask(&self, inquiry: Inquiry, params: Option<RawJson>) -> BoxFuture<'static, Answer> {
        // A question is a sign of life.
        if let Some(unit) = self.unit.upgrade() {
            unit.activity.record_message();
        }
        let question = match self.question(inquiry, params) {
            Ok(question) => question,
            Err(refusal) => return Box::pin(std::future::ready(refusal)),
        };
        self.has_asked.store(true, Ordering::Release);
        let (context, ended) = (self.context.clone(), self.ended.clone());
        Box::pin(async move {
            let key = question.key.clone();
            let answers = tokio::select! {
                biased;
                () = ended.cancelled() => return refusal(INTERNAL, "the call that asked has ended"),
                answers = context.ask(vec![question]) => answers,
            };
            match answers {
                Ok(mut answers) => {
                    answers.remove(&key).unwrap_or_else(|| refusal(INTERNAL, "the client did not answer"))
                }
                Err(ask_error) => refusal(INTERNAL, ask_error.to_string()),
            }
        })
    }
}

/// Converts the parameters of a question from any revision to the form of 2026-07-28.
pub(super) fn normal_form(inquiry: Inquiry, params: Option<RawJson>) -> Result<Option<RawJson>, Answer> {
    let wrong = |why: &str| refusal(INVALID_PARAMS, format!("{}: {why}", inquiry.as_str()));
    let Some(params) = params else {
        return match inquiry {
            Inquiry::Roots => Ok(None),
            Inquiry::Elicit | Inquiry::Sample => Err(wrong("it has no parameters")),
        };
    };
    let mut params: Map<String, Value> =
        params.parsed().map_err(|_| wrong("its parameters are not an object"))?;
    params.remove("task");
    if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove("progressToken");
        if meta.is_empty() {
            params.remove("_meta");
        }
    }
    if inquiry == Inquiry::Elicit {
        if !params.get("message").is_some_and(Value::is_string) {
            return Err(wrong("it has no `message`"));
        }
        match params.get("mode").map(|mode| mode.as_str().unwrap_or_default()) {
            None | Some("form") => {
                params.insert("mode".to_owned(), Value::from("form"));
                if !params.get("requestedSchema").is_some_and(Value::is_object) {
                    return Err(wrong("it has no `requestedSchema`"));
                }
            }
            Some("url") => {
                params.remove("elicitationId");
                // The URL is opened in a browser and must not start any other program on the user's machine.
                if !params.get("url").and_then(Value::as_str).is_some_and(is_web) {
                    return Err(wrong("it has no `url` that begins with https:// or http://"));
                }
            }
            Some(_) => return Err(wrong("its `mode` is not supported")),
        }
    }
    if params.is_empty() {
        return Ok(None);
    }
    let text = to_raw_value(&params).map_err(|_| wrong("its parameters cannot be written"))?;
    Ok(Some(RawJson::of(&text)))
}

fn is_web(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "https" | "http") && url.has_host())
}

fn refusal(code: i64, message: impl Into<String>) -> Answer {
    Answer::Error { code, message: message.into(), data: None }
}

/// Calls with a note; the oldest note is dropped first.
const MAX_NOTES: usize = 256;

#[derive(Debug, Default)]
pub(in crate::supervision) struct MissingCapabilities {
    last: AtomicU64,
    count: AtomicUsize,
    noted: Mutex<BTreeMap<u64, Capabilities>>,
}

impl MissingCapabilities {
    /// Allocates the number under which a call is noted.
    pub(in crate::supervision) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(in crate::supervision) fn note(&self, call: u64, lacking: Capabilities) {
        let mut noted = self.noted();
        let before = noted.get(&call).copied().unwrap_or_default();
        noted.insert(call, before.and(lacking));
        if noted.len() > MAX_NOTES {
            noted.pop_first();
        }
        self.count.store(noted.len(), Ordering::Release);
    }

    /// Takes the capabilities that the client of a finished call lacked.
    pub(in crate::supervision) fn take(&self, call: u64) -> Option<Capabilities> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut noted = self.noted();
        let lacking = noted.remove(&call);
        self.count.store(noted.len(), Ordering::Release);
        lacking
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<u64, Capabilities>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
