use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use serde_json::{Value, json};

use super::read_error;
use crate::server::call::TargetKind;
use crate::version::Dialect;
use crate::version::Version;

const SESSION: Dialect = Dialect::Session(Version::LATEST);

fn code(code: i64, data: Option<Value>, dialect: Dialect) -> i32 {
    let error = CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(code, "why", data);
    read_error(error, &TargetKind::Resource { uri: "a://1".to_owned() }, dialect).code
}

#[test]
fn missing_resource_has_the_code_of_the_revision() {
    for (server_code, data) in [(-32002, None), (-32602, Some(json!({ "uri": "a://1" })))] {
        assert_eq!(code(server_code, data.clone(), SESSION), -32002);
        assert_eq!(code(server_code, data, Dialect::Modern), -32602);
    }
    assert_eq!(code(-32602, None, SESSION), -32602, "an error about something else");
}

#[test]
fn misleading_codes_are_replaced() {
    for misleading in [-32020, -32022, 1, -1, i64::MIN] {
        assert_eq!(code(misleading, None, Dialect::Modern), -32603, "{misleading}");
    }
    assert_eq!((code(-32601, None, SESSION), code(-32601, None, Dialect::Modern)), (-32601, -32603));
    assert_eq!(code(-32050, None, Dialect::Modern), -32050);
}

#[test]
fn oversized_error_data_is_left_out() {
    let error = |data: Value| {
        let error = CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(-32050, "why", Some(data));
        read_error(error, &TargetKind::Prompt, SESSION).data
    };
    assert_eq!(error(json!({ "a": 1 })), Some(json!({ "a": 1 })));
    assert_eq!(error(json!("x".repeat(9_000))), None);
}
