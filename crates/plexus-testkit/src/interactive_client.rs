//! A client of either era that can be asked: it answers questions as scripted by a test, and records all messages
//! it receives.
//!
//! Tests of a server behind the hub read the same for both eras: in a session, questions arrive as requests on the
//! stream of a call and are answered with another request; since 2026-07-28, a result contains the questions and
//! the request is repeated.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::{McpClient, SseStream, TestHub};

/// Maximum number of rounds of one request; a server that needs more is broken.
const MAX_ROUNDS: usize = 20;
/// Time limit for a whole request, with all its questions.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The protocol revision of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRevision {
    /// A revision with sessions.
    Session(&'static str),
    /// Revision 2026-07-28.
    Stateless,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionReply {
    Result(Value),
    /// A JSON-RPC error; clients of 2026-07-28 cannot send one.
    Error(i64, &'static str),
}

/// A request's error response.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestError {
    pub status: u16,
    pub code: i64,
    pub message: String,
    pub data: Value,
}

/// A revision of the session era with forms.
pub const REVISION_2025_06: ClientRevision = ClientRevision::Session("2025-06-18");
/// The newest revision of the session era.
pub const REVISION_2025_11: ClientRevision = ClientRevision::Session("2025-11-25");

type AnswerFunction = Arc<dyn Fn(&str, &Value) -> QuestionReply + Send + Sync>;

pub struct InteractiveClient {
    client: McpClient,
    revision: ClientRevision,
    capabilities: Value,
    /// Members of `_meta` sent with every request.
    meta: Map<String, Value>,
    answer_function: AnswerFunction,
    /// Number of questions to wait for before the first one is answered.
    min_open_questions: usize,
    received: Mutex<Vec<Value>>,
    next_id: AtomicU64,
}

impl InteractiveClient {
    /// Connects to a hub, with its own session if the revision has sessions.
    pub async fn connect(hub: &TestHub, token: &str, revision: ClientRevision, capabilities: Value) -> Self {
        Self::with(&hub.mcp(token), revision, capabilities).await
    }

    /// The same with an existing client.
    pub async fn with(client: &McpClient, revision: ClientRevision, capabilities: Value) -> Self {
        let client = match revision {
            ClientRevision::Session(version) => client.initialize_with(version, &capabilities).await.0,
            ClientRevision::Stateless => client.clone(),
        };
        Self {
            client,
            revision,
            capabilities,
            meta: Map::new(),
            answer_function: Arc::new(|method, params| panic!("unexpected question {method}: {params}")),
            min_open_questions: 1,
            received: Mutex::default(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Sets the function that answers questions, given their method and parameters.
    #[must_use]
    pub fn answer_with(self, answer: impl Fn(&str, &Value) -> QuestionReply + Send + Sync + 'static) -> Self {
        Self { answer_function: Arc::new(answer), ..self }
    }

    /// Makes the client answer only once this many questions are open.
    #[must_use]
    pub fn answer_after_questions(self, questions: usize) -> Self {
        Self { min_open_questions: questions, ..self }
    }

    /// Makes the client request progress notifications for its calls.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.meta.insert("progressToken".to_owned(), json!("progress"));
        self
    }

    /// Makes the client read the log from this level on.
    pub async fn with_log_level(mut self, level: &str) -> Self {
        match self.revision {
            ClientRevision::Session(_) => {
                self.request("logging/setLevel", json!({ "level": level })).await.expect("a level");
            }
            ClientRevision::Stateless => {
                self.meta.insert("io.modelcontextprotocol/logLevel".to_owned(), json!(level));
            }
        }
        self
    }

    /// All unsolicited messages in order: questions and notifications.
    pub fn received(&self) -> Vec<Value> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Methods of these messages, in order.
    pub fn methods(&self) -> Vec<String> {
        self.received().iter().filter_map(|message| message["method"].as_str().map(str::to_owned)).collect()
    }

    fn record_message(&self, message: Value) {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// Calls a tool; the result may be an error of the tool.
    pub async fn tool(&self, name: &str, arguments: Value) -> Result<Value, RequestError> {
        self.request("tools/call", json!({ "name": name, "arguments": arguments })).await
    }

    /// The text of the result of a tool that must not fail.
    pub async fn tool_text(&self, name: &str, arguments: Value) -> String {
        let result = self.tool(name, arguments).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_ne!(result["isError"], true, "{name} failed: {result}");
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}")).to_owned()
    }

    /// Makes a request, and answers all questions asked on the way.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, RequestError> {
        let answer = async {
            match self.revision {
                ClientRevision::Session(_) => self.request_in_session(method, params).await,
                ClientRevision::Stateless => self.request_in_rounds(method, params).await,
            }
        };
        tokio::time::timeout(TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| panic!("{method} is not answered in time"))
    }

    async fn request_in_session(&self, method: &str, mut params: Value) -> Result<Value, RequestError> {
        if !self.meta.is_empty() {
            params["_meta"] = json!(self.meta);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut messages = ResponseMessages::of(self.client.send(body.to_string()).await).await;
        let mut open = Vec::new();
        while let Some(message) = messages.next().await {
            if message["method"].is_null() {
                return outcome(messages.status, &message);
            }
            self.record_message(message.clone());
            if !message["id"].is_null() {
                open.push(message);
            }
            if open.len() >= self.min_open_questions {
                for question in open.drain(..) {
                    self.answer_in_session(&question).await;
                }
            }
        }
        panic!("the stream of {method} ended without an answer; heard: {:?}", self.received());
    }

    async fn answer_in_session(&self, question: &Value) {
        let method = question["method"].as_str().unwrap_or_default();
        let mut answer = json!({ "jsonrpc": "2.0", "id": question["id"] });
        match (self.answer_function)(method, &question["params"]) {
            QuestionReply::Result(result) => answer["result"] = result,
            QuestionReply::Error(code, message) => {
                answer["error"] = json!({ "code": code, "message": message })
            }
        }
        let response = self.client.post_json(&answer).await;
        assert_eq!(response.status, 202, "an answer is not accepted: {response:?}");
    }

    async fn request_in_rounds(&self, method: &str, mut params: Value) -> Result<Value, RequestError> {
        for _ in 0..MAX_ROUNDS {
            let mut meta = self.meta.clone();
            let capabilities = "io.modelcontextprotocol/clientCapabilities".to_owned();
            meta.insert(capabilities, self.capabilities.clone());
            params["_meta"] = Value::Object(meta);
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let (client, body) = self.client.modern_request(id, method, params.clone());
            let mut messages = ResponseMessages::of(client.send(body.to_string()).await).await;
            let result = loop {
                let message = messages.next().await.unwrap_or_else(|| panic!("{method} has no answer"));
                if message["method"].is_null() {
                    break outcome(messages.status, &message)?;
                }
                self.record_message(message);
            };
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            params["inputResponses"] = self.answers(&result["inputRequests"]);
            match result.get("requestState") {
                Some(state) => params["requestState"] = state.clone(),
                None => drop(params.as_object_mut().map(|params| params.remove("requestState"))),
            }
        }
        panic!("{method} does not stop asking; heard: {:?}", self.received());
    }

    /// Answers to the questions of a result, by their keys.
    fn answers(&self, questions: &Value) -> Value {
        let questions = questions.as_object().unwrap_or_else(|| panic!("no questions: {questions}"));
        let mut answers = Map::new();
        for (key, question) in questions {
            let method = question["method"].as_str().unwrap_or_default();
            self.record_message(json!({ "key": key, "method": method, "params": question["params"] }));
            match (self.answer_function)(method, &question["params"]) {
                QuestionReply::Result(result) => drop(answers.insert(key.clone(), result)),
                QuestionReply::Error(..) => {
                    panic!("a client of 2026-07-28 cannot answer {method} with an error")
                }
            }
        }
        Value::Object(answers)
    }

    /// Begins a call, and cancels it as the revision specifies once it is known to run.
    pub async fn start_and_cancel(&self, name: &str, arguments: Value) {
        self.during_call(name, arguments, async {}).await;
    }

    /// Does some work during a call that runs until it is cancelled, and then cancels it.
    pub async fn during_call<T>(
        &self,
        name: &str,
        arguments: Value,
        meanwhile: impl Future<Output = T>,
    ) -> T {
        let mut params = json!({ "name": name, "arguments": arguments, "_meta": self.meta });
        params["_meta"]["progressToken"] = json!("running");
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (client, body) = match self.revision {
            ClientRevision::Session(_) => {
                let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                (self.client.clone(), body)
            }
            ClientRevision::Stateless => self.client.modern_request(id, "tools/call", params),
        };
        let mut stream = client.post_stream(&body).await;
        self.record_message(stream.message().await.expect("progress"));
        let done = meanwhile.await;
        if let ClientRevision::Session(_) = self.revision {
            let params = json!({ "requestId": id });
            let cancelled =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            assert_eq!(self.client.post_json(&cancelled).await.status, 202);
        }
        done
    }

    /// Subscribes to changes of these lists (`tools`, `prompts`, `resources`) and of resources by their URIs.
    pub async fn listen(&self, lists: &[&str], uris: &[&str]) -> NotificationStream {
        match self.revision {
            ClientRevision::Session(_) => {
                for uri in uris {
                    self.request("resources/subscribe", json!({ "uri": uri })).await.expect("a subscription");
                }
                NotificationStream { stream: self.client.get_stream().await, acknowledged: Value::Null }
            }
            ClientRevision::Stateless => {
                let mut requested: Map<String, Value> =
                    lists.iter().map(|list| (format!("{list}ListChanged"), json!(true))).collect();
                if !uris.is_empty() {
                    requested.insert("resourceSubscriptions".to_owned(), json!(uris));
                }
                let params = json!({ "notifications": requested });
                let (client, body) = self.client.modern_request("news", "subscriptions/listen", params);
                let mut stream = client.post_stream(&body).await;
                let acknowledged = stream.message().await.expect("an acknowledgement");
                NotificationStream { stream, acknowledged: acknowledged["params"]["notifications"].clone() }
            }
        }
    }
}

/// The notifications of a subscribed client.
#[derive(Debug)]
pub struct NotificationStream {
    stream: SseStream,
    /// The subscriptions acknowledged by the hub; null in a session.
    pub acknowledged: Value,
}

impl NotificationStream {
    /// The next notification with this method; skips others.
    pub async fn next_of(&mut self, method: &str) -> Value {
        let next = async {
            loop {
                let message = self.stream.message().await.expect("an open stream");
                if message["method"] == method {
                    return message["params"].clone();
                }
            }
        };
        tokio::time::timeout(TIMEOUT, next).await.unwrap_or_else(|_| panic!("no {method} in time"))
    }

    /// All pending notifications.
    pub async fn until_quiet(&mut self) -> Vec<Value> {
        self.stream.until_quiet().await
    }
}

/// The messages of a response, which is one object or a stream.
struct ResponseMessages {
    status: u16,
    body: Option<Value>,
    stream: Option<SseStream>,
}

impl ResponseMessages {
    async fn of(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Self { status, body: None, stream: Some(SseStream::new(response)) };
        }
        let text = response.text().await.expect("a body");
        let body =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("not JSON ({e}): {status} {text:?}"));
        Self { status, body: Some(body), stream: None }
    }

    async fn next(&mut self) -> Option<Value> {
        match &mut self.stream {
            Some(stream) => stream.message().await,
            None => self.body.take(),
        }
    }
}

fn outcome(status: u16, message: &Value) -> Result<Value, RequestError> {
    if let Some(result) = message.get("result") {
        return Ok(result.clone());
    }
    let error = &message["error"];
    Err(RequestError {
        status,
        code: error["code"].as_i64().unwrap_or_else(|| panic!("neither result nor error: {message}")),
        message: error["message"].as_str().unwrap_or_default().to_owned(),
        data: error["data"].clone(),
    })
}

impl fmt::Debug for InteractiveClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InteractiveClient").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// The answer of a person who fills in a form.
pub fn accepted_form(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

/// All client capabilities for questions.
pub fn all_capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

/// A client that can be asked everything and agrees to everything.
pub async fn consenting_client(hub: &TestHub, token: &str, revision: ClientRevision) -> InteractiveClient {
    InteractiveClient::connect(hub, token, revision, all_capabilities()).await.answer_with(|method, params| {
        QuestionReply::Result(match method {
            "elicitation/create" if params["mode"] == "url" => json!({ "action": "accept" }),
            "elicitation/create" => accepted_form("Ann"),
            "roots/list" => json!({ "roots": [{ "uri": "file:///work" }] }),
            "sampling/createMessage" => {
                json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" })
            }
            other => panic!("asked {other}"),
        })
    })
}
