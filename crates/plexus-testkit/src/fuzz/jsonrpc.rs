//! The MCP endpoint: arbitrary bodies from an authorized client with matching headers.
//!
//! The first line of an input selects the client's revision, the rest is the body. Every answer must be JSON-RPC,
//! have the request's id, and not be an internal error.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Target;
use super::wire::{Reply, Wire};

/// Number of inputs before the hub is replaced by a new one, so that stored data does not fill the disk.
const RENEW: u32 = 20_000;
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

pub struct JsonRpcTarget {
    wire: Wire,
    /// All lines of the head except those that depend on the revision.
    head: String,
    sessions: Vec<(&'static str, String)>,
    left: u32,
}

impl Target for JsonRpcTarget {
    const NAME: &'static str = "jsonrpc";

    fn start() -> Self {
        let wire = Wire::start();
        let hub = wire.hub();
        let (token, sessions) = wire.wait(async {
            let token = hub.token("fuzz", &["call:*"]).await.token;
            let mut sessions = Vec::new();
            for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
                let (client, _) = hub.mcp(&token).initialize(version).await;
                sessions.push((version, client.session_id().expect("a session").to_owned()));
            }
            (token, sessions)
        });
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        );
        Self { wire, head, sessions, left: RENEW }
    }

    fn run(&mut self, input: &[u8]) {
        if self.left == 0 {
            *self = Self::start();
        }
        self.left -= 1;
        let split = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
        let (revision, body) = input.split_at(split);
        let body = body.strip_prefix(b"\n").unwrap_or(body);
        let mut head = self.head.clone();
        let session = self.sessions.iter().find(|(version, _)| version.as_bytes() == revision);
        match (session, revision) {
            (Some((version, id)), _) => {
                head.push_str(&format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: {version}\r\n"));
            }
            (None, b"") => {}
            (None, _) => head.push_str(&stateless_headers(body)),
        }
        let reply = self.wire.ask(head.as_bytes(), body);
        check(body, &reply);
    }
}

impl std::fmt::Debug for JsonRpcTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonRpcTarget").field("left", &self.left).finish_non_exhaustive()
    }
}

/// The headers required by 2026-07-28, as far as the body has the values.
fn stateless_headers(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let params = &body["params"];
    let version = params["_meta"][META_VERSION].as_str().unwrap_or("2026-07-28");
    let mut headers = String::new();
    for (name, value) in [
        ("MCP-Protocol-Version", Some(version)),
        ("Mcp-Method", body["method"].as_str()),
        ("Mcp-Name", params["name"].as_str().or(params["uri"].as_str())),
    ] {
        let Some(value) = value else { continue };
        let plain = value.bytes().all(|byte| byte.is_ascii_graphic());
        let carried = if plain { value.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(value)) };
        headers.push_str(&format!("{name}: {carried}\r\n"));
    }
    headers
}

fn check(body: &[u8], reply: &Reply) {
    let context = || format!("{reply:?} to {:?}", String::from_utf8_lossy(body));
    match reply.status {
        202 => assert!(reply.body.is_empty(), "a body for a message that has no answer: {}", context()),
        200 if reply.is_stream() => {
            reply.events().iter().for_each(|event| check_message(event, true, &context));
        }
        200 => match reply.json() {
            Value::Array(messages) => {
                assert!(!messages.is_empty(), "an empty batch: {}", context());
                messages.iter().for_each(|message| check_message(message, false, &context));
            }
            message => {
                check_message(&message, false, &context);
                assert_eq!(id(body), Some(message["id"].clone()), "{}", context());
            }
        },
        400 | 404 | 429 => check_message(&reply.json(), false, &context),
        _ => panic!("a status that the endpoint does not have: {}", context()),
    }
    if serde_json::from_slice::<&RawValue>(body).is_err() {
        let code = reply.json()["error"]["code"].as_i64();
        assert!(
            matches!((reply.status, code), (400, Some(-32700 | -32600 | -32020))),
            "taken: {}",
            context()
        );
    }
}

/// The id in a body, even if other members are not valid text for every parser.
fn id(body: &[u8]) -> Option<Value> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    serde_json::from_str(members.get("id")?.get()).ok()
}

/// Accepts a notification, or an answer with either a result or an error.
fn check_message(message: &Value, may_notify: bool, context: &impl Fn() -> String) {
    assert_eq!(message["jsonrpc"], "2.0", "{}", context());
    let (result, error) = (message.get("result"), message.get("error"));
    match (result, error) {
        (Some(_), None) => {
            assert!(message["id"].is_string() || message["id"].is_number(), "no id: {}", context())
        }
        (None, Some(error)) => {
            assert!(error["code"].is_i64() && error["message"].is_string(), "no error: {}", context());
        }
        (None, None) => assert!(may_notify && message["method"].is_string(), "no message: {}", context()),
        (Some(_), Some(_)) => panic!("a result and an error: {}", context()),
    }
}
