use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use plexus_kit::TraceContext;
use plexus_proto::api::UpstreamEra;
use plexus_tools::{Answer, Capabilities, LogLevel, LogSink, RawJson};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Incoming, Messages, RequestId};
use crate::client::message::RequestMeta;
use crate::client::{Bridge, ClientError, Inputs, Offers, Outgoing, message};

fn sent(bytes: &[u8]) -> Value {
    assert!(!bytes.iter().any(|byte| b"\n\r".contains(byte)), "a message is one line");
    serde_json::from_slice(bytes).unwrap()
}

fn received(json: &[u8]) -> Incoming<'_> {
    match Incoming::all(json) {
        Some(Messages::One(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn call(with_extras: bool) -> Outgoing {
    let headers = |name: &str| match name {
        "traceparent" => Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        "tracestate" => Some("a=1"),
        _ => None,
    };
    Outgoing {
        tool: "echo".to_owned(),
        arguments: Arc::new(json!({ "text": "two\nlines" })),
        progress: with_extras.then(|| -> plexus_tools::ProgressSink { Arc::new(|_| ()) }),
        cancel: CancellationToken::new(),
        trace: with_extras.then(|| TraceContext::extract(headers).unwrap()),
        bridge: Bridge::default(),
        inputs: Inputs::default(),
        as_task: false,
    }
}

fn call_message(id: RequestId, era: UpstreamEra, call: &Outgoing) -> Value {
    let request = RequestMeta { trace: call.trace.as_ref(), ..RequestMeta::of(era, &call.bridge, false) };
    sent(&message::call(id, call, request))
}

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "plexus", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn session_starts_with_the_newest_revision() {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "plexus", "version": env!("CARGO_PKG_VERSION") },
    });
    let expected = json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params });
    assert_eq!(sent(&message::initialize(7, Capabilities::default())), expected);
    let expected = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(sent(&message::initialized()), expected);
}

#[test]
fn stateless_request_identifies_the_client() {
    assert_eq!(sent(&message::discover(1))["params"], json!({ "_meta": meta("2026-07-28") }));
    let listed = sent(&message::list(2, UpstreamEra::Stateless, "tools/list", Some("next")));
    assert_eq!(listed["params"], json!({ "cursor": "next", "_meta": meta("2026-07-28") }));
    let listen =
        sent(&message::listen(3, &Offers { tools_change: true, ..Offers::default() }, &BTreeSet::new()));
    let filter = json!({ "toolsListChanged": true });
    assert_eq!(listen["params"], json!({ "notifications": filter, "_meta": meta("2026-07-28") }));
}

#[test]
fn session_request_has_no_client_metadata() {
    let listed = sent(&message::list(2, UpstreamEra::Session, "tools/list", None));
    assert_eq!(listed["params"], json!({}));
    let called = call_message(3, UpstreamEra::Session, &call(false));
    assert_eq!(called["params"], json!({ "name": "echo", "arguments": { "text": "two\nlines" } }));
}

#[test]
fn call_carries_progress_token_and_trace() {
    for era in [UpstreamEra::Session, UpstreamEra::Stateless] {
        let called = call_message(9, era, &call(true));
        let meta = &called["params"]["_meta"];
        assert_eq!(meta["progressToken"], 9, "{called}");
        assert_eq!(meta["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(meta["tracestate"], "a=1");
    }
}

#[test]
fn question_of_a_server_is_answered() {
    let ping = br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
    let Incoming::Request { id, method, params: None } = received(ping) else { panic!("a request") };
    assert_eq!(method, "ping");
    let given = serde_json::value::to_raw_value(&json!({ "roots": [] })).unwrap();
    let answered = sent(&message::answer(id, &Answer::Result(RawJson::of(&given))));
    assert_eq!(answered, json!({ "jsonrpc": "2.0", "id": "a", "result": { "roots": [] } }));
    let refused = Answer::Error { code: -32601, message: "no".to_owned(), data: None };
    let refused = sent(&message::answer(id, &refused));
    assert_eq!(refused, json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": -32601, "message": "no" } }));
}

#[test]
fn only_stateless_requests_declare_capabilities() {
    let can = Capabilities { form: true, sampling: true, roots: true, ..Capabilities::default() };
    let log = LogSink { least: LogLevel::Warning, sink: Arc::new(|_| ()) };
    let mut call = call(false);
    call.bridge = Bridge { capabilities: can, log: Some(log), ..Bridge::default() };
    let request = RequestMeta::of(UpstreamEra::Stateless, &call.bridge, true);
    let meta = sent(&message::call(1, &call, request))["params"]["_meta"].clone();
    let declared = json!({
        "roots": {},
        "sampling": {},
        "elicitation": { "form": {} },
        "extensions": { "io.modelcontextprotocol/tasks": {} },
    });
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], declared);
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "warning");
    assert_eq!(call_message(1, UpstreamEra::Session, &call)["params"].get("_meta"), None);
    let capabilities = sent(&message::initialize(1, can))["params"]["capabilities"].clone();
    assert_eq!(capabilities, json!({ "roots": {}, "sampling": {}, "elicitation": { "form": {} } }));
}

#[test]
fn repeated_call_carries_answers_and_state() {
    let mut call = call(false);
    let responses = serde_json::value::to_raw_value(&json!({ "a": { "action": "cancel" } })).unwrap();
    call.inputs = Inputs { responses: Some(RawJson::of(&responses)), state: Some("s".to_owned()) };
    let params = call_message(1, UpstreamEra::Stateless, &call)["params"].clone();
    assert_eq!(params["inputResponses"], json!({ "a": { "action": "cancel" } }), "{params}");
    assert_eq!(params["requestState"], "s");
    assert_eq!(params["arguments"], json!({ "text": "two\nlines" }));
}

#[test]
fn incoming_messages_are_classified() {
    assert!(matches!(
        received(br#"{"id":3,"result":{}}"#),
        Incoming::Response { id: Some(3), outcome: Ok(_) }
    ));
    let failed = received(br#"{"id":3,"error":{"code":-32601,"message":"no"}}"#);
    assert!(matches!(failed, Incoming::Response { id: Some(3), outcome: Err(_) }));
    for foreign in [r#""3""#, "null", "-3", "3.5", "99999999999999999999", "{}"] {
        let json = format!(r#"{{"id":{foreign},"result":{{}}}}"#);
        assert!(matches!(received(json.as_bytes()), Incoming::Response { id: None, .. }), "{foreign}");
    }
    for garbage in ["", "hello", "{}", "[]", "[1]", "3", r#"{"level":"info"}"#, r#"{"id":3}"#, r#"{"id":3,"#]
    {
        assert!(Incoming::all(garbage.as_bytes()).is_none(), "{garbage}");
    }
    assert!(Incoming::all(b"{\"id\":3,\"result\":\"\xff\"}").is_none(), "not UTF-8");
}

#[test]
fn error_text_and_data_are_bounded() {
    let of = |error: Value| {
        let message = json!({ "id": 3, "error": error }).to_string();
        match received(message.as_bytes()) {
            Incoming::Response { outcome: Err(ClientError::Rpc { message, data, .. }), .. } => {
                (message, data)
            }
            other => panic!("{other:?}"),
        }
    };
    let data = json!({ "a": ["b"] });
    let error = of(json!({ "code": 1, "message": "a \"quoted\" word", "data": data }));
    assert_eq!(error, ("a \"quoted\" word".to_owned(), Some(data)));
    assert_eq!(of(json!({ "code": 1, "data": null })), (String::new(), None));
    let (message, data) = of(json!({ "code": 1, "message": "x".repeat(1 << 20), "data": "x".repeat(9_000) }));
    assert!(message.len() < 3_000 && message.ends_with('…'), "{}", message.len());
    assert_eq!(data, None);
}

#[test]
fn batch_is_split_into_messages() {
    let batch = br#" [{"id":1,"result":{}}, {"method":"notifications/tools/list_changed"}]"#;
    let mut kinds = Vec::new();
    Incoming::all(batch).unwrap().for_each(|message| {
        kinds.push(match message {
            Incoming::Response { id, .. } => format!("{id:?}"),
            Incoming::Request { method, .. } | Incoming::Notification { method, .. } => method.into_owned(),
        });
    });
    assert_eq!(kinds, ["Some(1)", "notifications/tools/list_changed"]);
}

#[test]
fn progress_and_cancellation_name_a_request() {
    let of = |json: &str| {
        let raw = Bytes::from(json.to_owned());
        let raw: &serde_json::value::RawValue = serde_json::from_slice(&raw).unwrap();
        (message::progress(Some(raw)), message::hub_request_id(message::cancelled_request(Some(raw))))
    };
    let (progress, _) = of(r#"{"progressToken":4,"progress":0.5,"total":2,"message":"half"}"#);
    let (id, progress): (RequestId, _) = progress.unwrap();
    assert_eq!(
        (id, progress.done, progress.total, progress.message.as_deref()),
        (4, 0.5, Some(2.0), Some("half"))
    );
    assert_eq!(of(r#"{"progressToken":"x","progress":1}"#).0, None);
    assert_eq!(of(r#"{"requestId":4,"reason":"done"}"#).1, Some(4));
}

/// Otherwise text with line breaks from a client would become several messages to a server that reads lines.
#[test]
fn client_text_is_sent_as_one_line() {
    let smuggled = "{\"a\":\r\n{\"jsonrpc\":\"2.0\",\"id\":57,\"method\":\"tools/call\"}\n}";
    let raw = RawJson::of(serde_json::from_str(smuggled).unwrap());
    let answer = message::answer(serde_json::from_str("1").unwrap(), &Answer::Result(raw.clone()));
    assert_eq!(sent(&answer)["result"]["a"]["id"], 57);
    let mut outgoing = call(false);
    outgoing.inputs.responses = Some(raw);
    let request = call_message(1, UpstreamEra::Stateless, &outgoing);
    assert_eq!(request["params"]["inputResponses"]["a"]["id"], 57);
}
