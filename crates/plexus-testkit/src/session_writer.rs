//! One client of a hub under faults: a principal, a protocol and a session, used across restarts of the hub.

use std::time::Duration;

use plexus_proto::api::CreatedToken;
use serde_json::{Value, json};

use crate::faults::{Write, Writer};
use crate::modern_meta;

const TIMEOUT: Duration = Duration::from_secs(10);

/// The protocol of a client, and how it names its session.
#[derive(Debug, Clone)]
pub enum WriterProtocol {
    /// A revision with sessions; the id is known once a session was opened.
    Session { version: &'static str, id: Option<String> },
    /// Revision 2026-07-28, in the conversation with this name.
    Stateless { thread: String },
    /// `/api/v1/tools/{name}/call`, in the session with this name.
    Rest { session: String },
}

impl WriterProtocol {
    /// Alternates between the kinds by the number of a client; `name` is that of its session.
    pub fn nth(index: usize, version: &'static str, name: String) -> Self {
        match index % 3 {
            0 => Self::Session { version, id: None },
            1 => Self::Stateless { thread: name },
            _ => Self::Rest { session: name },
        }
    }
}

/// A client that writes to the to-do list and the scratchpad of one session.
#[derive(Debug, Clone)]
pub struct SessionWriter {
    pub token: CreatedToken,
    pub protocol: WriterProtocol,
    http: reqwest::Client,
    url: String,
    /// Whether a retryable error counts as no answer.
    outages_expected: bool,
}

/// The answer to a call that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedCall {
    pub call_id: String,
    /// Whether this is the result of an earlier call with the same key.
    pub replayed: bool,
    pub text: String,
}

/// The connection broke or failed, or, if outages are expected, the hub returned a retryable error.
#[derive(Debug)]
pub struct NoAnswer;

impl From<reqwest::Error> for NoAnswer {
    fn from(_: reqwest::Error) -> Self {
        Self
    }
}

impl SessionWriter {
    /// `url` is the hub's URL.
    pub fn new(url: String, token: CreatedToken, protocol: WriterProtocol) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("an HTTP client");
        Self { token, protocol, http, url, outages_expected: false }
    }

    /// From now on, the hub may report that its database is unavailable.
    pub fn expect_outages(&mut self) {
        self.outages_expected = true;
    }

    /// The client's subject at the hub.
    pub fn subject(&self) -> String {
        format!("{}:{}", self.token.kind, self.token.name)
    }

    pub fn via(&self) -> &'static str {
        if matches!(self.protocol, WriterProtocol::Rest { .. }) { "rest" } else { "mcp" }
    }

    /// Moves the client to the hub's new URL.
    pub fn set_url(&mut self, url: String) {
        self.url = url;
    }

    /// Calls a tool; panics unless the call succeeds or gets no answer.
    pub async fn call(
        &mut self,
        tool: &str,
        arguments: Value,
        key: Option<&str>,
    ) -> Result<CompletedCall, NoAnswer> {
        match self.protocol.clone() {
            WriterProtocol::Rest { session } => {
                let mut request = self
                    .request(&format!("/api/v1/tools/{tool}/call"))
                    .header("plexus-session", session)
                    .json(&json!({ "arguments": arguments }));
                if let Some(key) = key {
                    request = request.header("idempotency-key", key);
                }
                let reply = self.answer(request).await?;
                assert_eq!(reply["success"], true, "{tool} failed: {reply}");
                Ok(CompletedCall {
                    call_id: text(&reply["call_id"]),
                    replayed: reply["replayed"] == true,
                    text: text(&reply["text"]),
                })
            }
            WriterProtocol::Stateless { thread } => {
                let mut meta = modern_meta();
                meta["threadId"] = json!(thread);
                let request = self
                    .request("/mcp")
                    .header("mcp-protocol-version", "2026-07-28")
                    .header("mcp-method", "tools/call")
                    .header("mcp-name", tool);
                self.call_mcp(request, tool, arguments, meta, key).await
            }
            WriterProtocol::Session { version, id } => {
                let id = match id {
                    Some(id) => id,
                    None => self.open_session(version).await?,
                };
                let request =
                    self.request("/mcp").header("mcp-session-id", id).header("mcp-protocol-version", version);
                self.call_mcp(request, tool, arguments, json!({}), key).await
            }
        }
    }

    /// Opens an MCP session.
    async fn open_session(&mut self, version: &'static str) -> Result<String, NoAnswer> {
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": { "name": "testkit", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let response = self.request("/mcp").json(&body).send().await?;
        self.check_outage(response.status())?;
        assert_eq!(response.status(), 200, "initialize was refused");
        let header = response.headers().get("mcp-session-id").expect("a session id");
        let id = header.to_str().expect("text").to_owned();
        response.bytes().await?;
        self.protocol = WriterProtocol::Session { version, id: Some(id.clone()) };
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let request = self.request("/mcp").header("mcp-session-id", &id).json(&body);
        assert_eq!(request.send().await?.status(), 202, "notifications/initialized was refused");
        Ok(id)
    }

    fn request(&self, path: &str) -> reqwest::RequestBuilder {
        self.http
            .post(format!("{}{path}", self.url))
            .bearer_auth(&self.token.token)
            .header("accept", "application/json, text/event-stream")
    }

    async fn call_mcp(
        &self,
        request: reqwest::RequestBuilder,
        tool: &str,
        arguments: Value,
        mut meta: Value,
        key: Option<&str>,
    ) -> Result<CompletedCall, NoAnswer> {
        if let Some(key) = key {
            meta["plexus/idempotency-key"] = json!(key);
        }
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let reply = self.answer(request.json(&body)).await?;
        let result = &reply["result"];
        if self.outages_expected && result["_meta"]["plexus/error"]["retryable"] == true {
            return Err(NoAnswer);
        }
        assert_eq!(result["isError"], false, "{tool} failed: {reply}");
        Ok(CompletedCall {
            call_id: text(&result["_meta"]["plexus/call-id"]),
            replayed: result["_meta"]["plexus/replayed"] == true,
            text: text(&result["content"][0]["text"]),
        })
    }

    /// The JSON of a complete answer with status 200.
    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Value, NoAnswer> {
        let response = request.send().await?;
        self.check_outage(response.status())?;
        let (status, body) = (response.status(), response.text().await?);
        assert_eq!(status, 200, "{body}");
        Ok(serde_json::from_str(&body).unwrap_or_else(|e| panic!("not JSON ({e}): {body}")))
    }

    fn check_outage(&self, status: reqwest::StatusCode) -> Result<(), NoAnswer> {
        if self.outages_expected && status == 503 { Err(NoAnswer) } else { Ok(()) }
    }

    /// The markers in the to-do list and the scratchpad of this client's session.
    pub async fn stored_markers(&mut self) -> Result<Vec<String>, NoAnswer> {
        // Creates the section, so that it can be read even if nothing was written yet.
        let empty = json!({ "action": "append", "section": "log", "content": "" });
        self.call("scratchpad", empty, None).await?;
        let pad = self.call("scratchpad", json!({ "action": "read", "section": "log" }), None).await?;
        let list = self.call("todo", json!({ "action": "list" }), None).await?;
        Ok([pad.text, list.text].iter().flat_map(|text| Write::markers(text)).map(str::to_owned).collect())
    }

    /// Tool and arguments of a write; every second write goes to the scratchpad.
    pub fn arguments(write: &Write) -> (&'static str, Value) {
        let marker = &write.marker;
        match write.number % 2 {
            0 => ("todo", json!({ "action": "add", "text": marker })),
            _ => (
                "scratchpad",
                json!({ "action": "append", "section": "log", "content": format!("{marker}\n") }),
            ),
        }
    }
}

impl Writer for SessionWriter {
    type Ack = CompletedCall;

    async fn write(&mut self, write: &Write) -> Option<CompletedCall> {
        let (tool, arguments) = Self::arguments(write);
        self.call(tool, arguments, Some(&write.key)).await.ok()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}")).to_owned()
}
