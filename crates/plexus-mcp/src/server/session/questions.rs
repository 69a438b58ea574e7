//! Questions to the client of a session, and their answers.
//!
//! A question is a request on the stream of the call that asks, so only that call's client reads it. Its answer
//! arrives as a separate message in the same session.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use plexus_tools::{Answer, AskError, Inquiry, Question, RawJson};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::McpSession;
use super::stream::StreamLog;
use crate::server::running_call::QuestionRound;
use crate::version::Version;

/// The open questions of a session. Locked briefly, never across an await.
pub(super) struct Questions {
    /// Part of every id. A reloaded session counts from one again; without the tag, an answer to an earlier question
    /// could be accepted for a new one.
    tag: String,
    open: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    last: AtomicU64,
}

impl Questions {
    pub(super) fn new(tag: &str) -> Self {
        Self { tag: tag.to_owned(), open: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Accepts an answer. Ignores one to an unknown or withdrawn question.
    pub(super) fn accept_answer(&self, id: &RawValue, outcome: Result<&RawValue, &RawValue>) {
        let Ok(id) = serde_json::from_str::<String>(id.get()) else { return };
        let Some(sender) = self.open().remove(&id) else { return };
        let _ = sender.send(answer(outcome));
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Answer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a question with a new id.
    fn ask(&self) -> (String, oneshot::Receiver<Answer>) {
        let id = format!("plexus-{}-{}", self.tag, self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = oneshot::channel();
        self.open().insert(id.clone(), sender);
        (id, receiver)
    }

    /// Closes a question; returns whether it was still open.
    fn withdraw(&self, id: &str) -> bool {
        self.open().remove(id).is_some()
    }
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").field("open", &self.open().len()).finish_non_exhaustive()
    }
}

fn answer(outcome: Result<&RawValue, &RawValue>) -> Answer {
    #[derive(Deserialize)]
    struct Failure {
        code: i64,
        #[serde(default)]
        message: String,
        data: Option<Value>,
    }
    match outcome {
        Ok(result) if result.get().starts_with('{') => Answer::Result(RawJson::of(result)),
        Ok(_) => invalid("the client's answer is not an object"),
        Err(error) => match serde_json::from_str(error.get()) {
            Ok(Failure { code, message, data }) => Answer::Error { code, message, data },
            Err(_) => invalid("the client's answer is an error without a code"),
        },
    }
}

fn invalid(why: &str) -> Answer {
    Answer::Error { code: -32603, message: why.to_owned(), data: None }
}

/// How a round of questions ended.
pub(super) enum AskOutcome {
    /// Answered, expired or no longer needed.
    Done,
    /// The hub is stopping.
    Stopping,
}

/// Sends the questions of a call to its client and waits for the answers.
pub(super) struct QuestionChannel {
    pub(super) session: Arc<McpSession>,
    /// The stream of the call.
    pub(super) log: Arc<StreamLog>,
    pub(super) timeout: Duration,
    pub(super) stopping: CancellationToken,
    /// The `elicitationId`s of the web pages that the client was asked to open.
    pub(super) pages: Mutex<Vec<String>>,
}

impl QuestionChannel {
    /// Asks all questions of a round at once, and passes the answers to the call.
    pub(super) async fn ask(self: Arc<Self>, round: QuestionRound) -> AskOutcome {
        let QuestionRound { questions, mut answer } = round;
        let open = self.session.questions();
        let opened: Vec<_> = questions.iter().map(|_| open.ask()).collect();
        let withdrawal =
            WithdrawOnDrop { channel: &self, ids: opened.iter().map(|(id, _)| id.clone()).collect() };
        for (question, (id, _)) in questions.iter().zip(&opened) {
            let page = question.is_url().then(|| self.new_page());
            self.log.push(request(question, id, page, self.session.version()));
        }
        let answers = join_all(opened.into_iter().map(|(_, receiver)| receiver));
        let answers = tokio::select! {
        biased;
        answers = answers => answers.into_iter().collect::<Result<Vec<_>, _>>().map_err(|_| AskError::Gone),
        () = answer.closed() => return AskOutcome::Done,
        () = self.session.ended().cancelled() => Err(AskError::Gone),
        () = self.stopping.cancelled() => {
            let _ = answer.send(Err(AskError::Gone));
            return AskOutcome::Stopping;
        }
        () = tokio::time::sleep(self.timeout) => Err(AskError::Expired),
        };
        drop(withdrawal);
        let keys = questions.into_iter().map(|question| question.key);
        let _ = answer.send(answers.map(|answers| keys.zip(answers).collect()));
        AskOutcome::Done
    }

    /// A new `elicitationId`, which the revision requires but the server behind the hub may not provide.
    fn new_page(&self) -> String {
        let page = uuid::Uuid::new_v4().to_string();
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).push(page.clone());
        page
    }

    /// Notifies the client that the elicitations on web pages are complete, because the call has ended.
    pub(super) fn finish_pages(&self) {
        for page in self.pages.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let params = json!({ "elicitationId": page });
            self.log.push(notification("notifications/elicitation/complete", &params));
        }
    }
}

/// Cancels unanswered questions at the client when dropped.
struct WithdrawOnDrop<'c> {
    channel: &'c QuestionChannel,
    ids: Vec<String>,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        for id in self.ids.iter().filter(|id| self.channel.session.questions().withdraw(id)) {
            self.channel.log.push(notification("notifications/cancelled", &json!({ "requestId": id })));
        }
    }
}

/// A question as a request of the client's revision.
fn request(question: &Question, id: &str, page: Option<String>, version: Version) -> String {
    let method = question.inquiry.as_str();
    let params = question.params.as_ref().map(|params| params_for(question.inquiry, params, page, version));
    let params = params.map(|params| format!(",\"params\":{params}")).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\"{params}}}", Value::from(id))
}

fn params_for(inquiry: Inquiry, params: &RawJson, page: Option<String>, version: Version) -> String {
    if inquiry != Inquiry::Elicit {
        return params.as_str().to_owned();
    }
    let Ok(mut members) = params.parsed::<Map<String, Value>>() else { return params.as_str().to_owned() };
    if let Some(page) = page {
        members.insert("elicitationId".to_owned(), page.into());
    } else if version < Version::V2025_11_25 {
        members.remove("mode");
    }
    Value::Object(members).to_string()
}

fn notification(method: &str, params: &Value) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}")
}

#[cfg(test)]
mod tests;
