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
const ROUNDS: usize = 20;
/// Time limit for a whole request, with all its questions.
const PATIENCE: Duration = Duration::from_secs(30);

/// The protocol revision of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// A revision with sessions.
    Session(&'static str),
    /// Revision 2026-07-28.
    Stateless,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
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
pub const OLD: Speaks = Speaks::Session("2025-06-18");
/// The newest revision of the session era.
pub const NEW: Speaks = Speaks::Session("2025-11-25");

type Answering = Arc<dyn Fn(&str, &Value) -> Reply + Send + Sync>;

pub struct AskedClient {
    client: McpClient,
    speaks: Speaks,
    capabilities: Value,
    /// Members of `_meta` sent with every request.
    meta: Map<String, Value>,
    answering: Answering,
    /// Number of questions to wait for before the first one is answered.
    at_once: usize,
    heard: Mutex<Vec<Value>>,
    next_id: AtomicU64,
}

impl AskedClient {
    /// Connects to a hub, with its own session if the revision has sessions.
    pub async fn connect(hub: &TestHub, token: &str, speaks: Speaks, capabilities: Value) -> Self {
        Self::with(&hub.mcp(token), speaks, capabilities).await
    }

    /// The same with an existing client.
    pub async fn with(client: &McpClient, speaks: Speaks, capabilities: Value) -> Self {
        let client = match speaks {
            Speaks::Session(version) => client.initialize_with(version, &capabilities).await.0,
            Speaks::Stateless => client.clone(),
        };
        Self {
            client,
            speaks,
            capabilities,
            meta: Map::new(),
            answering: Arc::new(|method, params| panic!("unexpected question {method}: {params}")),
            at_once: 1,
            heard: Mutex::default(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Sets the function that answers questions, given their method and parameters.
    #[must_use]
    pub fn answering(self, answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self { answering: Arc::new(answer), ..self }
    }

    /// Makes the client answer only once this many questions are open.
    #[must_use]
    pub fn answering_at_once(self, questions: usize) -> Self {
        Self { at_once: questions, ..self }
    }

    /// Makes the client request progress notifications for its calls.
    #[must_use]
    pub fn following(mut self) -> Self {
        self.meta.insert("progressToken".to_owned(), json!("progress"));
        self
    }

    /// Makes the client read the log from this level on.
    pub async fn reading_log(mut self, level: &str) -> Self {
        match self.speaks {
            Speaks::Session(_) => {
                self.request("logging/setLevel", json!({ "level": level })).await.expect("a level");
            }
            Speaks::Stateless => {
                self.meta.insert("io.modelcontextprotocol/logLevel".to_owned(), json!(level));
            }
        }
        self
    }

    /// All unsolicited messages in order: questions and notifications.
    pub fn heard(&self) -> Vec<Value> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Methods of these messages, in order.
    pub fn methods(&self) -> Vec<String> {
        self.heard().iter().filter_map(|message| message["method"].as_str().map(str::to_owned)).collect()
    }

    fn hear(&self, message: Value) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(message);
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
            match self.speaks {
                Speaks::Session(_) => self.in_session(method, params).await,
                Speaks::Stateless => self.in_rounds(method, params).await,
            }
        };
        tokio::time::timeout(PATIENCE, answer)
            .await
            .unwrap_or_else(|_| panic!("{method} is not answered in time"))
    }

    async fn in_session(&self, method: &str, mut params: Value) -> Result<Value, RequestError> {
        if !self.meta.is_empty() {
            params["_meta"] = json!(self.meta);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut reading = Reading::of(self.client.send(body.to_string()).await).await;
        let mut open = Vec::new();
        while let Some(message) = reading.next().await {
            if message["method"].is_null() {
                return outcome(reading.status, &message);
            }
            self.hear(message.clone());
            if !message["id"].is_null() {
                open.push(message);
            }
            if open.len() >= self.at_once {
                for question in open.drain(..) {
                    self.answer_in_session(&question).await;
                }
            }
        }
        panic!("the stream of {method} ended without an answer; heard: {:?}", self.heard());
    }

    async fn answer_in_session(&self, question: &Value) {
        let method = question["method"].as_str().unwrap_or_default();
        let mut answer = json!({ "jsonrpc": "2.0", "id": question["id"] });
        match (self.answering)(method, &question["params"]) {
            Reply::Result(result) => answer["result"] = result,
            Reply::Error(code, message) => answer["error"] = json!({ "code": code, "message": message }),
        }
        let taken = self.client.post_json(&answer).await;
        assert_eq!(taken.status, 202, "an answer is not accepted: {taken:?}");
    }

    async fn in_rounds(&self, method: &str, mut params: Value) -> Result<Value, RequestError> {
        for _ in 0..ROUNDS {
            let mut meta = self.meta.clone();
            let capabilities = "io.modelcontextprotocol/clientCapabilities".to_owned();
            meta.insert(capabilities, self.capabilities.clone());
            params["_meta"] = Value::Object(meta);
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let (client, body) = self.client.modern_request(id, method, params.clone());
            let mut reading = Reading::of(client.send(body.to_string()).await).await;
            let result = loop {
                let message = reading.next().await.unwrap_or_else(|| panic!("{method} has no answer"));
                if message["method"].is_null() {
                    break outcome(reading.status, &message)?;
                }
                self.hear(message);
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
        panic!("{method} does not stop asking; heard: {:?}", self.heard());
    }

    /// Answers to the questions of a result, by their keys.
    fn answers(&self, questions: &Value) -> Value {
        let questions = questions.as_object().unwrap_or_else(|| panic!("no questions: {questions}"));
        let mut answers = Map::new();
        for (key, question) in questions {
            let method = question["method"].as_str().unwrap_or_default();
            self.hear(json!({ "key": key, "method": method, "params": question["params"] }));
            match (self.answering)(method, &question["params"]) {
                Reply::Result(result) => drop(answers.insert(key.clone(), result)),
                Reply::Error(..) => panic!("a client of 2026-07-28 cannot answer {method} with an error"),
            }
        }
        Value::Object(answers)
    }

    /// Begins a call, and cancels it as the revision specifies once it is known to run.
    pub async fn begin_and_cancel(&self, name: &str, arguments: Value) {
        self.while_it_runs(name, arguments, async {}).await;
    }

    /// Does some work during a call that runs until it is cancelled, and then cancels it.
    pub async fn while_it_runs<T>(
        &self,
        name: &str,
        arguments: Value,
        meanwhile: impl Future<Output = T>,
    ) -> T {
        let mut params = json!({ "name": name, "arguments": arguments, "_meta": self.meta });
        params["_meta"]["progressToken"] = json!("running");
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (client, body) = match self.speaks {
            Speaks::Session(_) => {
                let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                (self.client.clone(), body)
            }
            Speaks::Stateless => self.client.modern_request(id, "tools/call", params),
        };
        let mut stream = client.post_stream(&body).await;
        self.hear(stream.message().await.expect("progress"));
        let done = meanwhile.await;
        if let Speaks::Session(_) = self.speaks {
            let params = json!({ "requestId": id });
            let cancelled =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            assert_eq!(self.client.post_json(&cancelled).await.status, 202);
        }
        done
    }

    /// Subscribes to changes of these lists (`tools`, `prompts`, `resources`) and of resources by their URIs.
    pub async fn listen(&self, lists: &[&str], uris: &[&str]) -> News {
        match self.speaks {
            Speaks::Session(_) => {
                for uri in uris {
                    self.request("resources/subscribe", json!({ "uri": uri })).await.expect("a subscription");
                }
                News { stream: self.client.get_stream().await, acknowledged: Value::Null }
            }
            Speaks::Stateless => {
                let mut wanted: Map<String, Value> =
                    lists.iter().map(|list| (format!("{list}ListChanged"), json!(true))).collect();
                if !uris.is_empty() {
                    wanted.insert("resourceSubscriptions".to_owned(), json!(uris));
                }
                let params = json!({ "notifications": wanted });
                let (client, body) = self.client.modern_request("news", "subscriptions/listen", params);
                let mut stream = client.post_stream(&body).await;
                let acknowledged = stream.message().await.expect("an acknowledgement");
                News { stream, acknowledged: acknowledged["params"]["notifications"].clone() }
            }
        }
    }
}

/// The notifications of a subscribed client.
#[derive(Debug)]
pub struct News {
    stream: SseStream,
    /// The subscriptions acknowledged by the hub; null in a session.
    pub acknowledged: Value,
}

impl News {
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
        tokio::time::timeout(PATIENCE, next).await.unwrap_or_else(|_| panic!("no {method} in time"))
    }

    /// All pending notifications.
    pub async fn until_quiet(&mut self) -> Vec<Value> {
        self.stream.until_quiet().await
    }
}

/// The messages of a response, which is one object or a stream.
struct Reading {
    status: u16,
    whole: Option<Value>,
    stream: Option<SseStream>,
}

impl Reading {
    async fn of(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Self { status, whole: None, stream: Some(SseStream::new(response)) };
        }
        let text = response.text().await.expect("a body");
        let whole =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("not JSON ({e}): {status} {text:?}"));
        Self { status, whole: Some(whole), stream: None }
    }

    async fn next(&mut self) -> Option<Value> {
        match &mut self.stream {
            Some(stream) => stream.message().await,
            None => self.whole.take(),
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

impl fmt::Debug for AskedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskedClient").field("speaks", &self.speaks).finish_non_exhaustive()
    }
}

/// The answer of a person who fills in a form.
pub fn accepted(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

/// All client capabilities for questions.
pub fn all() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

/// A client that can be asked everything and agrees to everything.
pub async fn willing(hub: &TestHub, token: &str, speaks: Speaks) -> AskedClient {
    AskedClient::connect(hub, token, speaks, all()).await.answering(|method, params| {
        Reply::Result(match method {
            "elicitation/create" if params["mode"] == "url" => json!({ "action": "accept" }),
            "elicitation/create" => accepted("Ann"),
            "roots/list" => json!({ "roots": [{ "uri": "file:///work" }] }),
            "sampling/createMessage" => {
                json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" })
            }
            other => panic!("asked {other}"),
        })
    })
}
