//! A fast MCP server of both eras, over HTTP and stdio.
//!
//! It is stateless: any session id is accepted. So it neither grows nor slows down under load.

use std::io::{self, BufRead as _, Write as _};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde_json::{Value, json};

/// The server's answers as prepared text, so that a long list does not slow it down.
#[derive(Debug)]
pub(super) struct Echo {
    tools: String,
    /// Whether it supports only revisions with sessions.
    sessions: bool,
}

/// Members of every result of 2026-07-28.
const COMPLETE: &str = r#","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo","version":"1"}}"#;

impl Echo {
    pub(super) fn new(idle: usize, sessions: bool) -> Self {
        let text = json!({ "type": "string", "description": "What to say" });
        let schema = json!({ "type": "object", "properties": { "text": text }, "required": ["text"] });
        let tool = |name: &str| {
            json!({
                "name": name,
                "title": "Echo",
                "description": "Says what it is told, as it was told, and does nothing else.",
                "inputSchema": schema,
            })
        };
        let idle = (0..idle).map(|number| tool(&format!("idle_{number:04}")));
        let tools: Vec<Value> = [tool("echo")].into_iter().chain(idle).collect();
        Self { tools: json!(tools).to_string(), sessions }
    }

    /// The answer to a message; `None` for a notification.
    pub(super) fn answer(&self, message: &Value) -> Option<String> {
        let id = message.get("id")?;
        let params = &message["params"];
        let stateless = params["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
        Some(match self.result(message["method"].as_str().unwrap_or_default(), params, stateless) {
            Ok(members) => {
                let complete = if stateless { COMPLETE } else { "" };
                // An empty result has no members to separate with a comma.
                let complete = if members.is_empty() { complete.trim_start_matches(',') } else { complete };
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}{complete}}}}}"#)
            }
            Err((code, text)) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }).to_string()
            }
        })
    }

    /// The members of a result, or the code and message of an error.
    fn result(&self, method: &str, params: &Value, stateless: bool) -> Result<String, (i32, &'static str)> {
        Ok(match method {
            "initialize" => format!(
                r#""protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}"#,
                agreed(&params["protocolVersion"])
            ),
            "server/discover" if !self.sessions => {
                r#""supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public""#
                    .to_owned()
            }
            "ping" => String::new(),
            // No time to live: a gateway with a cache must not seem faster than one that asks again.
            "tools/list" if stateless => format!(r#""tools":{},"ttlMs":0,"cacheScope":"public""#, self.tools),
            "tools/list" => format!(r#""tools":{}"#, self.tools),
            "tools/call" => {
                let text = &params["arguments"]["text"];
                if !text.is_string() {
                    return Err((-32602, "the argument text is missing"));
                }
                format!(r#""content":[{{"type":"text","text":{text}}}],"isError":false"#)
            }
            _ => return Err((-32601, "there is no such method")),
        })
    }
}

/// The requested revision, if it has sessions.
fn agreed(wanted: &Value) -> &str {
    let known = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    wanted.as_str().filter(|wanted| known.contains(wanted)).unwrap_or("2025-11-25")
}

pub(super) fn over_http(tools: usize, sessions: bool) -> Router {
    Router::new().fallback(serve).with_state(Arc::new(Echo::new(tools, sessions)))
}

async fn serve(State(echo): State<Arc<Echo>>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    match method {
        Method::POST => post(&echo, &headers, &body),
        // A stream that stays open without events.
        Method::GET => {
            let silence = stream::pending::<Result<Bytes, std::convert::Infallible>>();
            ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(silence)).into_response()
        }
        Method::DELETE => StatusCode::OK.into_response(),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn post(echo: &Echo, headers: &HeaderMap, body: &[u8]) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(answer) = echo.answer(&message) else { return StatusCode::ACCEPTED.into_response() };
    let opened = message["method"] == "initialize" && !headers.contains_key("mcp-session-id");
    let json = [(header::CONTENT_TYPE, "application/json")];
    match opened {
        true => (json, [("mcp-session-id", "echo")], answer).into_response(),
        false => (json, answer).into_response(),
    }
}

/// Reads one message per line until the end of input. Blocking is fine, as nothing else runs in this process.
pub(super) fn over_stdio(tools: usize) -> Result<()> {
    let echo = Echo::new(tools, false);
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line.context("the next message")?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(answer) = echo.answer(&message) {
            writeln!(stdout, "{answer}").and_then(|()| stdout.flush()).context("the answer")?;
        }
    }
    Ok(())
}
