//! An MCP client that sends exactly what a test specifies, valid or not.

use std::fmt;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::SseStream;

const TIMEOUT: Duration = Duration::from_secs(10);

/// An answer, read completely.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|e| panic!("not JSON ({e}): {} {:?}", self.status, self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The result of a request that must have one.
    pub fn result(&self) -> Value {
        let json = self.json();
        assert!(json.get("result").is_some(), "no result: {} {json}", self.status);
        json["result"].clone()
    }

    /// HTTP status and JSON-RPC code of a request that must have failed.
    pub fn error(&self) -> (u16, i64) {
        let json = self.json();
        let code = json["error"]["code"].as_i64();
        (self.status, code.unwrap_or_else(|| panic!("no error: {} {json}", self.status)))
    }
}

/// Sends the headers of a well-behaved client unless a test changes them.
#[derive(Clone)]
pub struct McpClient {
    http: reqwest::Client,
    url: String,
    headers: HeaderMap,
}

impl McpClient {
    pub fn new(http: reqwest::Client, url: String, token: &str) -> Self {
        let client = Self { http, url, headers: HeaderMap::new() };
        client
            .header("authorization", &format!("Bearer {token}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
    }

    /// The same client with another value of a header.
    pub fn header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
        client.headers.insert(HeaderName::from_bytes(name.as_bytes()).expect("a header name"), value);
        client
    }

    /// The same client with an additional value of a header.
    pub fn another_header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        client.headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
        client
    }

    pub fn without(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.remove(name);
        client
    }

    /// The session of the client.
    pub fn session_id(&self) -> Option<&str> {
        self.headers.get("mcp-session-id").and_then(|value| value.to_str().ok())
    }

    /// The same client for another URL.
    pub fn at(&self, url: String) -> Self {
        Self { url, ..self.clone() }
    }

    fn request(&self, method: reqwest::Method) -> reqwest::RequestBuilder {
        self.http.request(method, &self.url).headers(self.headers.clone())
    }

    async fn finish(&self, request: reqwest::RequestBuilder) -> Answer {
        tokio::time::timeout(TIMEOUT, async {
            let response = request.send().await.expect("an answer");
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Answer { status, headers, body: response.text().await.expect("a body") }
        })
        .await
        .expect("an answer in time")
    }

    /// Posts a body; the answer may be one object or a stream.
    pub(crate) async fn send(&self, body: String) -> reqwest::Response {
        let response = self.request(reqwest::Method::POST).body(body).send();
        tokio::time::timeout(TIMEOUT, response).await.expect("an answer in time").expect("an answer")
    }

    /// Posts a body and reads the whole answer.
    pub async fn post(&self, body: impl Into<String>) -> Answer {
        self.finish(self.request(reqwest::Method::POST).body(body.into())).await
    }

    pub async fn post_json(&self, body: &Value) -> Answer {
        self.post(body.to_string()).await
    }

    pub async fn delete(&self) -> Answer {
        self.finish(self.request(reqwest::Method::DELETE)).await
    }

    pub async fn head(&self) -> Answer {
        self.finish(self.request(reqwest::Method::HEAD)).await
    }

    /// `GET`, reading the whole answer: for answers that are not streams.
    pub async fn get(&self) -> Answer {
        self.finish(self.request(reqwest::Method::GET)).await
    }

    /// `GET`, as a stream.
    pub async fn get_stream(&self) -> SseStream {
        stream(self.request(reqwest::Method::GET)).await
    }

    /// Posts a body that is answered by a stream.
    pub async fn post_stream(&self, body: &Value) -> SseStream {
        stream(self.request(reqwest::Method::POST).body(body.to_string())).await
    }

    /// Opens a session of this revision; the returned client uses it.
    pub async fn initialize(&self, version: &str) -> (Self, Value) {
        self.initialize_with(version, &json!({})).await
    }

    /// The same with client capabilities.
    pub async fn initialize_with(&self, version: &str, capabilities: &Value) -> (Self, Value) {
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "testkit", "version": "1" },
        });
        let answer = self.post_json(&request(0, "initialize", params)).await;
        let id =
            answer.header("mcp-session-id").unwrap_or_else(|| panic!("no session: {answer:?}")).to_owned();
        let client = self.header("mcp-session-id", &id);
        let done =
            client.post_json(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        assert_eq!(done.status, 202, "{done:?}");
        (client, answer.result())
    }

    /// Makes a request of the session era.
    pub async fn call(&self, method: &str, params: Value) -> Answer {
        self.post_json(&request(1, method, params)).await
    }

    /// Makes a request of 2026-07-28 with everything that the revision requires.
    pub async fn modern(&self, method: &str, params: Value) -> Answer {
        let (client, body) = self.modern_request(1, method, params);
        client.post_json(&body).await
    }

    /// Client and body of such a request.
    pub fn modern_request(&self, id: impl Into<Value>, method: &str, mut params: Value) -> (Self, Value) {
        let mut meta = modern_meta();
        if let (Some(meta), Some(more)) = (meta.as_object_mut(), params["_meta"].as_object()) {
            meta.extend(more.clone());
        }
        params["_meta"] = meta;
        let mut client = self.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        let named = match method {
            "tools/call" | "prompts/get" => &params["name"],
            "resources/read" => &params["uri"],
            "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
            _ => &Value::Null,
        };
        if let Some(name) = named.as_str() {
            client = client.header("mcp-name", name);
        }
        (client, request(id, method, params))
    }

    /// Calls a tool in the latest revision; the result may be an error of the tool.
    pub async fn tool(&self, name: &str, arguments: Value) -> Value {
        self.modern("tools/call", json!({ "name": name, "arguments": arguments })).await.result()
    }
}

/// Omits the headers, because one of them is the token.
impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("url", &self.url).finish_non_exhaustive()
    }
}

async fn stream(request: reqwest::RequestBuilder) -> SseStream {
    let response = tokio::time::timeout(TIMEOUT, request.send()).await.expect("an answer in time");
    SseStream::new(response.expect("an answer"))
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// The `_meta` of every request of 2026-07-28.
pub fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "testkit", "version": "1" },
    })
}
