use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use serde_json::json;

use super::{Dialect, TargetKind, Version, result_text};

const OLD: Dialect = Dialect::Session(Version::V2025_06_18);
const NEW: Dialect = Dialect::Session(Version::V2025_11_25);

fn from_server(code: i64) -> CallError {
    CallError::new(ErrorCode::ToolFailed, "github answered with an error: no").from_rpc(
        code,
        "no",
        Some(json!({ "elicitations": [] })),
    )
}

#[test]
fn error_of_another_server_is_a_result_unless_the_revision_has_a_code() {
    let of = |code, dialect| result_text(from_server(code), &TargetKind::Tool, dialect).map_err(|e| e.code);
    for code in [-32000, -32002, -32020, -32022, -32601, -32603, 7] {
        for dialect in [OLD, NEW, Dialect::Modern] {
            assert!(of(code, dialect).is_ok(), "{code} {dialect:?}");
        }
    }
    assert_eq!(of(-32021, Dialect::Modern), Err(-32021));
    assert!(of(-32021, NEW).is_ok());
    assert_eq!(of(-32042, NEW), Err(-32042));
    assert!(of(-32042, OLD).is_ok() && of(-32042, Dialect::Modern).is_ok());
}

#[test]
fn hub_error_carries_code_and_retryable() {
    let unknown = CallError::new(ErrorCode::UnknownTool, "no such tool").hint("look");
    let refused = result_text(unknown, &TargetKind::Tool, Dialect::Modern).unwrap_err();
    let data = json!({ "code": "unknown_tool", "retryable": false, "hint": "look" });
    assert_eq!(refused.data, Some(data));
    let busy = CallError::new(ErrorCode::Overloaded, "busy");
    let refused = result_text(busy, &TargetKind::Prompt, OLD).unwrap_err();
    assert_eq!(refused.data, Some(json!({ "code": "overloaded", "retryable": true })));
    let passed_on = result_text(from_server(-32042), &TargetKind::Tool, NEW).unwrap_err();
    assert_eq!(passed_on.data, Some(json!({ "elicitations": [] })), "a server's data is unchanged");
}

#[test]
fn read_that_has_to_ask_is_refused_with_the_code_of_the_revision() {
    let of = |code, dialect| result_text(from_server(code), &TargetKind::Prompt, dialect).unwrap_err();
    assert_eq!((of(-32021, OLD).code, of(-32021, Dialect::Modern).code), (-32600, -32021));
    assert_eq!(of(-32021, Dialect::Modern).status, 400);
    assert_eq!(of(-32042, NEW).code, -32042);
}
