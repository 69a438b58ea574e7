use plexus_proto::{CallId, ErrorCode};
use plexus_store::TaskStatus;
use plexus_tools::{CallError, CallReply};
use serde_json::{Value, json};

use super::from_reply;

fn payload(code: i64, data: Value) -> Value {
    let error = CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(code, "why", Some(data));
    let reply = CallReply {
        call_id: CallId::new(),
        session_id: None,
        tool: "mcp__a__b".to_owned(),
        replayed: false,
        result: Err(error),
    };
    let end = from_reply(reply);
    assert_eq!(end.status, TaskStatus::Failed);
    serde_json::from_str(&end.payload.unwrap()).unwrap()
}

#[test]
fn server_error_is_passed_on_unless_its_code_misleads() {
    let passed_on = payload(-32050, json!({ "a": 1 }));
    assert_eq!(passed_on, json!({ "code": -32050, "message": "why", "data": { "a": 1 } }));
    for misleading in [-32601, -32020, -32022, 1, i64::MIN] {
        assert_eq!(payload(misleading, json!(null))["code"], -32603, "{misleading}");
    }
    assert_eq!(payload(-32050, json!("x".repeat(9_000))), json!({ "code": -32050, "message": "why" }));
}
