use plexus_proto::ErrorCode;
use plexus_proto::node::{CallOutcome, CallResult, Failure, Foreign, Frame, Received};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{MAX_MESSAGE_BYTES, from_frame, to_frame};
use crate::{CallError, ForeignOutput, RawJson, ToolOutput};

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Sends a result over a link, as text.
fn sent(result: Result<ToolOutput, CallError>) -> Result<ToolOutput, CallError> {
    let frame = Frame::Result(CallResult { call_id: plexus_proto::CallId::new(), outcome: to_frame(result) });
    match Frame::parse(&frame.text()).unwrap() {
        Received::Frame(Frame::Result(result)) => from_frame(result.outcome),
        other => panic!("{other:?}"),
    }
}

#[test]
fn call_result_survives_the_link_unchanged() {
    let own_output = ToolOutput::new("done", &json!({ "exit_code": 0 }));
    assert_eq!(sent(Ok(own_output.clone())), Ok(own_output));
    let foreign = ToolOutput::Foreign(ForeignOutput {
        content: RawJson::of(&raw(r#"[{"type":"text","text":"x"}]"#)),
        structured: Some(RawJson::of(&raw(r#"{"b":12345678901234567890123,"a":1.0}"#))),
        is_error: true,
        meta: None,
        lacking: None,
    });
    assert_eq!(sent(Ok(foreign.clone())), Ok(foreign));
    let error = CallError::new(ErrorCode::Interrupted, "gone").hint("Look.").details(json!({ "job": 1 }));
    assert_eq!(sent(Err(error.clone())), Err(error));
    let before = CallError::new(ErrorCode::Overloaded, "full");
    let arrived = sent(Err(before)).unwrap_err();
    assert!(arrived.nothing_ran() && arrived.code == ErrorCode::Overloaded);
}

#[test]
fn node_errors_are_bounded_and_cannot_use_hub_codes() {
    for code in [
        ErrorCode::Unauthenticated,
        ErrorCode::UnknownTool,
        ErrorCode::IdempotencyConflict,
        ErrorCode::Internal,
    ] {
        let failure = Failure {
            code,
            message: "é".repeat(MAX_MESSAGE_BYTES),
            hint: None,
            details: Value::Null,
            nothing_ran: false,
        };
        let error = from_frame(CallOutcome::Failed(failure)).unwrap_err();
        assert_eq!(error.code, ErrorCode::ToolFailed);
        assert!(error.message.len() <= MAX_MESSAGE_BYTES && !error.nothing_ran());
    }
    let details = json!({ "much": "x".repeat(100_000) });
    let failure =
        Failure { code: ErrorCode::NotFound, message: String::new(), hint: None, details, nothing_ran: true };
    let error = from_frame(CallOutcome::Failed(failure)).unwrap_err();
    assert_eq!((error.details.clone(), error.nothing_ran()), (Value::Null, true));
    for (content, structured) in [("{}", None), ("[]", Some("[]")), ("1", None)] {
        let foreign =
            Foreign { content: raw(content), structured: structured.map(raw), is_error: false, meta: None };
        assert_eq!(from_frame(CallOutcome::Foreign(foreign)).unwrap_err().code, ErrorCode::ToolFailed);
    }
}
