//! Questions that a server asks during a request, and the caller that each one concerns.
//!
//! On the stream of one request a message belongs to that request. On a shared channel a message does not
//! name its request: it goes to the caller of all of them if there is only one, and is refused otherwise. The
//! caller is never guessed, because the answer is what a person typed. A caller that no longer waits may
//! still be concerned.
//!
//! | resource | bound | beyond it |
//! |---|---|---|
//! | open questions of a connection | [`MAX_OPEN_QUESTIONS`] | refused |
//! | bytes of a question | [`MAX_QUESTION`] | refused |
//! | bytes of its id | [`MAX_ID`] | it gets no answer |

mod departed_callers;
mod shared_question;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use plexus_tools::{Answer, Capabilities, Inquiry, Question, RawJson};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub(super) use self::departed_callers::DepartedCallers;
use self::shared_question::SharedQuestion;
use super::message::{self, METHOD_NOT_FOUND, RequestId};
use super::{Answerer, Bridge, SharedListener};

const MAX_OPEN_QUESTIONS: usize = 16;
const MAX_QUESTION: usize = 64 << 10;
const MAX_ID: usize = 256;

const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;

/// The caller that a message of a server concerns.
#[derive(Debug)]
pub(super) enum Owner {
    /// Nobody has a request there.
    Nobody,
    One(Bridge),
    /// Several callers are possible.
    Several,
}

impl Owner {
    /// The caller of a message on a channel that these requests share. Among requests of one caller, the
    /// oldest that can use the message is chosen; the others are notified of a question.
    pub(super) fn among<'a>(
        in_flight: impl Iterator<Item = (RequestId, &'a Bridge)>,
        departed: &DepartedCallers,
        can_use: impl Fn(&Bridge) -> bool,
    ) -> Self {
        let mut owner: Option<(bool, Reverse<RequestId>, &Bridge)> = None;
        let mut answerers: Vec<(RequestId, Arc<dyn Answerer>)> = Vec::new();
        for (id, bridge) in in_flight {
            let candidate = (can_use(bridge), Reverse(id), bridge);
            answerers.extend(bridge.answerer.clone().map(|answerer| (id, answerer)));
            match owner {
                Some((.., other)) if other.caller != bridge.caller => return Self::Several,
                Some((uses, oldest, _)) if (uses, oldest) > (candidate.0, candidate.1) => {}
                _ => owner = Some(candidate),
            }
        }
        match owner {
            None => Self::Nobody,
            Some((.., bridge)) if departed.may_concern_other_than(bridge.caller.as_ref()) => Self::Several,
            Some((.., bridge)) if answerers.len() > 1 => {
                let answerer: Arc<dyn Answerer> = Arc::new(SharedQuestion::of(answerers));
                Self::One(Bridge { answerer: bridge.answerer.as_ref().map(|_| answerer), ..bridge.clone() })
            }
            Some((.., bridge)) => Self::One(bridge.clone()),
        }
    }
}

/// How a request of a server is handled.
pub(super) enum QuestionHandling {
    /// It is answered immediately.
    Now(Vec<u8>),
    /// A person or model is asked; none if the server cancels its question.
    Later(BoxFuture<'static, Option<Reply>>),
    /// It cannot be answered, or is being answered.
    Dropped,
}

/// An answer to be sent; its question stays open until this is dropped.
pub(super) struct Reply {
    pub(super) message: Vec<u8>,
    _open: OpenGuard,
}

/// The open questions of one connection, by the text of their ids.
#[derive(Debug, Default)]
pub(super) struct ServerQuestions {
    open: Mutex<HashMap<String, OpenQuestion>>,
    /// The number of the last question.
    number: AtomicU64,
    /// The listener was notified that questions are refused because callers share the connection.
    reported: AtomicBool,
}

/// An open question.
#[derive(Debug)]
struct OpenQuestion {
    /// Unlike ids, numbers are not reused when a server restarts its ids.
    number: u64,
    cancel: CancellationToken,
}

#[derive(Debug)]
struct OpenGuard {
    questions: Arc<ServerQuestions>,
    id: String,
    number: u64,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let mut open = self.questions.lock();
        if open.get(&self.id).is_some_and(|asking| asking.number == self.number) {
            open.remove(&self.id);
        }
    }
}

impl ServerQuestions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenQuestion>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a request of a server.
    pub(super) fn take(
        self: &Arc<Self>,
        (id, method, params): (&RawValue, &str, Option<&RawValue>),
        owner: impl FnOnce() -> Owner,
        listener: &SharedListener,
    ) -> QuestionHandling {
        if id.get().len() > MAX_ID
            || !id.get().starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        {
            return QuestionHandling::Dropped;
        }
        let now = |answer: Answer| QuestionHandling::Now(message::answer(id, &answer));
        if method == "ping" {
            return now(result("{}"));
        }
        let Some(inquiry) = Inquiry::from_method(method) else {
            return now(refusal(METHOD_NOT_FOUND, "this client did not declare the capability for that"));
        };
        if params.is_some_and(|params| params.get().len() > MAX_QUESTION) {
            let why = format!("a question of more than {MAX_QUESTION} bytes is refused");
            return now(refusal(INVALID_PARAMS, why));
        }
        let answerer = match owner() {
            // The hub itself has no roots.
            Owner::Nobody if inquiry == Inquiry::Roots => return now(result(r#"{"roots":[]}"#)),
            Owner::Nobody => {
                return now(refusal(INVALID_REQUEST, "no call is in flight that could ask"));
            }
            Owner::Several => {
                if !self.reported.swap(true, Ordering::Relaxed) {
                    listener.questions_refused();
                }
                return now(refusal(
                    INTERNAL,
                    "calls of several callers are in flight on this connection, and the question cannot be attributed to one of them",
                ));
            }
            Owner::One(Bridge { answerer: Some(answerer), .. }) => answerer,
            Owner::One(bridge) => {
                let question = Question { key: String::new(), inquiry, params: params.map(RawJson::of) };
                if let Some(lacking) = Capabilities::default().lacks(&question) {
                    listener.on_missing_capability(bridge.number, lacking);
                }
                let why = format!("the client of this call cannot be asked: {method}");
                return now(refusal(METHOD_NOT_FOUND, why));
            }
        };
        let cancel = CancellationToken::new();
        let open = {
            let mut open = self.lock();
            if open.contains_key(id.get()) {
                return QuestionHandling::Dropped;
            }
            if open.len() >= MAX_OPEN_QUESTIONS {
                drop(open);
                let why = format!("{MAX_OPEN_QUESTIONS} questions of this server are already open");
                return now(refusal(INTERNAL, why));
            }
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            open.insert(id.get().to_owned(), OpenQuestion { number, cancel: cancel.clone() });
            OpenGuard { questions: self.clone(), id: id.get().to_owned(), number }
        };
        let (id, asking) = (id.to_owned(), answerer.ask(inquiry, params.map(RawJson::of)));
        QuestionHandling::Later(Box::pin(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                answer = asking => Some(Reply { message: message::answer(&id, &answer), _open: open }),
            }
        }))
    }

    /// Cancels a question at the server's request. Returns false if no such question is open.
    pub(super) fn cancel(&self, id: &RawValue) -> bool {
        let cancel = self.lock().get(id.get()).map(|asking| asking.cancel.clone());
        cancel.map(|cancel| cancel.cancel()).is_some()
    }

    /// Cancels all questions, because the session that asked them is gone and ids may be reused.
    pub(super) fn forget(&self) {
        let open = std::mem::take(&mut *self.lock());
        open.into_values().for_each(|asking| asking.cancel.cancel());
    }
}

fn result(json: &str) -> Answer {
    match serde_json::from_str(json) {
        Ok(raw) => Answer::Result(RawJson::of(raw)),
        Err(_) => unreachable!("it is written here"),
    }
}

fn refusal(code: i64, message: impl Into<String>) -> Answer {
    Answer::Error { code, message: message.into(), data: None }
}

#[cfg(test)]
mod tests;
