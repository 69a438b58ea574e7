//! What the hub asks the client of a session, and what it answers.
//!
//! A question is a request on the stream of the call that asks, so only who made the call ever reads it. Its answer comes
//! as a message of its own, in the same session.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use plexus_tools::{Answer, Inquiry, Question, RawJson, Unasked};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::McpSession;
use super::stream::StreamLog;
use crate::server::running_call::Round;
use crate::version::Version;

/// The questions that a session has open. Held for a look or a change, never while anything is waited for.
pub(super) struct Questions {
    /// In every id. A session outlives the memory it is in, and counting begins anew: without it, an answer to what was
    /// asked before would be taken for one to what is asked now.
    tag: String,
    open: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    last: AtomicU64,
}

impl Questions {
    pub(super) fn new(tag: &str) -> Self {
        Self { tag: tag.to_owned(), open: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Takes an answer. One to what was never asked, or is asked no more, is none of our business.
    pub(super) fn answered(&self, id: &RawValue, outcome: Result<&RawValue, &RawValue>) {
        let Ok(id) = serde_json::from_str::<String>(id.get()) else { return };
        let Some(waiting) = self.open().remove(&id) else { return };
        let _ = waiting.send(answer(outcome));
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Answer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With an id that no question of the session had before.
    fn ask(&self) -> (String, oneshot::Receiver<Answer>) {
        let id = format!("plexus-{}-{}", self.tag, self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (waiting, answered) = oneshot::channel();
        self.open().insert(id.clone(), waiting);
        (id, answered)
    }

    /// Whether it was still open.
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
        Ok(_) => unusable("the client's answer is no object"),
        Err(error) => match serde_json::from_str(error.get()) {
            Ok(Failure { code, message, data }) => Answer::Error { code, message, data },
            Err(_) => unusable("the client's answer is an error that says nothing"),
        },
    }
}

fn unusable(why: &str) -> Answer {
    Answer::Error { code: -32603, message: why.to_owned(), data: None }
}

/// How asking ended.
pub(super) enum AskOutcome {
    /// With answers, or with nobody there who waits for them.
    Over,
    /// The hub stops: nobody will answer.
    Stopping,
}

/// Where a call asks, and how long it waits.
pub(super) struct Client {
    pub(super) session: Arc<McpSession>,
    /// The stream of the call.
    pub(super) log: Arc<StreamLog>,
    pub(super) patience: Duration,
    pub(super) stopping: CancellationToken,
    /// Pages that a person was sent to, by the ids that the client knows.
    pub(super) pages: Mutex<Vec<String>>,
}

impl Client {
    /// Asks all questions of a round at once, and gives the answers to whoever asked.
    pub(super) async fn ask(self: Arc<Self>, round: Round) -> AskOutcome {
        let Round { questions, mut answer } = round;
        let open = self.session.questions();
        let posed: Vec<_> = questions.iter().map(|_| open.ask()).collect();
        let withdrawn = Withdraw { client: &self, ids: posed.iter().map(|(id, _)| id.clone()).collect() };
        for (question, (id, _)) in questions.iter().zip(&posed) {
            let page = question.is_url().then(|| self.new_page());
            self.log.push(request(question, id, page, self.session.version()));
        }
        let answers = join_all(posed.into_iter().map(|(_, answered)| answered));
        let answers = tokio::select! {
            biased;
            answers = answers => answers.into_iter().collect::<Result<Vec<_>, _>>().map_err(|_| Unasked::Gone),
            () = answer.closed() => return AskOutcome::Over,
            () = self.session.ended().cancelled() => Err(Unasked::Gone),
            () = self.stopping.cancelled() => {
                let _ = answer.send(Err(Unasked::Gone));
                return AskOutcome::Stopping;
            }
            () = tokio::time::sleep(self.patience) => Err(Unasked::Expired),
        };
        drop(withdrawn);
        let keys = questions.into_iter().map(|question| question.key);
        let _ = answer.send(answers.map(|answers| keys.zip(answers).collect()));
        AskOutcome::Over
    }

    /// A name for what happens on a page: the revision wants one, and the server behind may have none.
    fn new_page(&self) -> String {
        let page = uuid::Uuid::new_v4().to_string();
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).push(page.clone());
        page
    }

    /// The call is over, and so is what its pages were for.
    pub(super) fn finish_pages(&self) {
        for page in self.pages.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let params = json!({ "elicitationId": page });
            self.log.push(notification("notifications/elicitation/complete", &params));
        }
    }
}

/// Tells the client, when dropped, that what it has not answered is asked no more.
struct Withdraw<'c> {
    client: &'c Client,
    ids: Vec<String>,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        for id in self.ids.iter().filter(|id| self.client.session.questions().withdraw(id)) {
            self.client.log.push(notification("notifications/cancelled", &json!({ "requestId": id })));
        }
    }
}

/// A question as the client's revision has it.
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
mod tests {
    use plexus_tools::{Inquiry, Question, RawJson};
    use serde_json::{Value, json};

    use super::{Version, request};

    fn asked(params: &Value, version: Version) -> Value {
        let params = serde_json::value::to_raw_value(params).unwrap();
        let question =
            Question { key: "k".to_owned(), inquiry: Inquiry::Elicit, params: Some(RawJson::of(&params)) };
        let page = question.is_url().then(|| "page-1".to_owned());
        serde_json::from_str(&request(&question, "plexus-1", page, version)).unwrap()
    }

    #[test]
    fn a_form_is_asked_for_as_the_revision_knows_it() {
        let form = json!({ "mode": "form", "message": "Who?", "requestedSchema": { "type": "object" } });
        let new = asked(&form, Version::V2025_11_25);
        assert_eq!(new["params"], form);
        assert_eq!((&new["id"], &new["method"]), (&json!("plexus-1"), &json!("elicitation/create")));
        let old = asked(&form, Version::V2025_06_18);
        assert_eq!(old["params"], json!({ "message": "Who?", "requestedSchema": { "type": "object" } }));
    }

    #[test]
    fn a_page_is_given_the_id_that_the_revision_wants() {
        let page = asked(
            &json!({ "mode": "url", "message": "Go", "url": "https://example.com" }),
            Version::V2025_11_25,
        );
        assert_eq!(page["params"]["elicitationId"], "page-1");
        assert_eq!(page["params"]["mode"], "url");
    }
}
