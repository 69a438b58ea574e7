use bytes::Bytes;
use plexus_proto::api::UpstreamEra;
use plexus_tools::{ForeignOutput, Inquiry};
use serde_json::json;

use super::{DiscoverFailure, MAX_NAME, TaskState, classify_discover_failure, discovered, initialized};
use crate::client::{CallResponse, ClientError, RequestResponse};

/// The output of a completed call.
fn parsed_output(result: &Bytes) -> Result<ForeignOutput, ClientError> {
    match super::parse_call_result(result)? {
        CallResponse::Output(output) => Ok(output),
        other => panic!("{other:?}"),
    }
}

fn result(json: &str) -> Bytes {
    Bytes::from(json.to_owned())
}

#[test]
fn parts_of_a_result_are_slices_of_the_message() {
    let message = result(
        r#"{"content": [ {"type":"text","text":"a"} ],"structuredContent":{"x":1.50},"isError":true,"_meta":{"k":"v"}}"#,
    );
    let output = parsed_output(&message).unwrap();
    assert_eq!(output.content.as_str(), r#"[ {"type":"text","text":"a"} ]"#);
    assert_eq!(output.structured.unwrap().as_str(), r#"{"x":1.50}"#);
    assert_eq!(output.meta.unwrap().as_str(), r#"{"k":"v"}"#);
    assert!(output.is_error);
    assert!(message.as_ptr_range().contains(&output.content.as_str().as_ptr()), "copied");
}

#[test]
fn partial_result_is_accepted() {
    let output =
        parsed_output(&result(r#"{"content":[],"structuredContent":null,"isError":null,"_meta":null}"#))
            .unwrap();
    assert_eq!((output.structured, output.is_error, output.meta), (None, false, None));
    let output = parsed_output(&result(r#"{"resultType":"complete","structuredContent":[1]}"#)).unwrap();
    assert_eq!(output.content.as_str(), "[]");
}

#[test]
fn unusable_result_is_refused_with_a_reason() {
    let refused = |json: &str| match super::parse_call_result(&result(json)) {
        Err(ClientError::Protocol(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(r#"{"resultType":"later"}"#).contains("`later`"));
    assert!(refused(r#"{"content":{}}"#).contains("not an array"));
    assert!(refused("{}").contains("no `content`"));
    assert!(refused("[]").contains("tools/call"));
    assert!(refused(r#"{"resultType":"task","taskId":""}"#).contains("task"));
    assert!(refused(r#"{"resultType":"input_required"}"#).contains("asks nothing"));
    let asking = |requests: &str| format!(r#"{{"resultType":"input_required","inputRequests":{requests}}}"#);
    assert!(refused(&asking(r#"{"a":{"method":"tools/call"}}"#)).contains("unknown kind"));
    assert!(refused(&asking(r#"{"a":{"method":"roots/list","params":[]}}"#)).contains("not an object"));
    let many: Vec<String> = (0..17).map(|n| format!(r#""{n}":{{"method":"roots/list"}}"#)).collect();
    assert!(refused(&asking(&format!("{{{}}}", many.join(",")))).contains("more than 16"));
    let long = "x".repeat(70_000);
    let long = format!(r#"{{"a":{{"method":"elicitation/create","params":{{"message":"{long}"}}}}}}"#);
    assert!(refused(&asking(&long)).contains("longer"));
}

#[test]
fn results_may_contain_questions_or_a_task() {
    let input_required = result(
        r#"{"resultType":"input_required","inputRequests":{"b":{"method":"roots/list"},"a":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"s"}"#,
    );
    let Ok(CallResponse::Ask { questions, state }) = super::parse_call_result(&input_required) else {
        panic!("questions")
    };
    assert_eq!(state.as_deref(), Some("s"));
    let keys: Vec<_> = questions.iter().map(|question| (&*question.key, question.inquiry)).collect();
    assert_eq!(keys, [("a", Inquiry::Elicit), ("b", Inquiry::Roots)]);
    assert_eq!(questions[0].params.as_ref().unwrap().as_str(), r#"{"message":"?"}"#);
    assert!(matches!(super::parse_response(input_required, "prompts/get"), Ok(RequestResponse::Ask { .. })));
    let task = super::parse_call_result(&result(r#"{"resultType":"task","taskId":"t","pollIntervalMs":1}"#));
    let Ok(CallResponse::Task { id, poll }) = task else { panic!("{task:?}") };
    assert_eq!((&*id, poll.as_millis()), ("t", 200), "the interval has a lower bound");
}

#[test]
fn task_state_is_parsed() {
    let of = |json: &str| super::task_state(&result(json));
    assert!(matches!(of(r#"{"status":"working","pollIntervalMs":1e30}"#), Ok(TaskState::Working(_))));
    let Ok(TaskState::Completed(ended)) = of(r#"{"status":"completed","result":{"content":[]}}"#) else {
        panic!("completed")
    };
    assert_eq!(parsed_output(&ended).unwrap().content.as_str(), "[]");
    let failed = of(r#"{"status":"failed","error":{"code":-32603,"message":"no"}}"#);
    assert!(matches!(failed, Ok(TaskState::Failed(ClientError::Rpc { code: -32603, .. }))), "{failed:?}");
    let asks = of(r#"{"status":"input_required","inputRequests":{"q":{"method":"roots/list"}}}"#);
    assert!(matches!(asks, Ok(TaskState::Asks { ref questions, .. }) if questions.len() == 1), "{asks:?}");
    for wrong in [r#"{"status":"completed"}"#, r#"{"status":"failed"}"#, r#"{"status":"odd"}"#, "{}"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn server_description_is_truncated() {
    let long = "ü".repeat(100_000);
    let answer = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": { "listChanged": true }, "experimental": { "x": long } },
        "serverInfo": { "name": long, "version": long },
        "instructions": long,
    });
    let peer = initialized(&result(&answer.to_string())).unwrap();
    assert_eq!((peer.offers.tools, peer.offers.tools_change), (true, true));
    assert!(peer.name.starts_with("üü") && peer.name.len() <= MAX_NAME + '…'.len_utf8());
    assert!(peer.version.len() < 200 && peer.instructions.is_some_and(|answer| answer.len() < 17 << 10));
    let answer = json!({ "supportedVersions": vec!["2031-01-01"; 10_000] });
    assert!(discovered(&result(&answer.to_string())).unwrap_err().to_string().len() < 1000);
    let why = parsed_output(&result(&json!({ "content": [], "isError": long }).to_string())).unwrap_err();
    assert!(why.to_string().len() < 1000);
}

#[test]
fn malformed_capabilities_are_tolerated() {
    for (capabilities, expected) in [
        (json!({}), (false, false)),
        (json!({ "tools": null }), (false, false)),
        (json!({ "tools": {} }), (true, false)),
        (json!({ "tools": { "listChanged": "yes" }, "logging": 7 }), (true, false)),
        (json!({ "tools": { "listChanged": true } }), (true, true)),
    ] {
        let answer = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
        let peer = initialized(&result(&answer.to_string())).unwrap();
        assert_eq!((peer.offers.tools, peer.offers.tools_change), expected, "{answer}");
    }
}

#[test]
fn server_description_is_parsed_in_both_eras() {
    let peer = initialized(&result(
        r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"},"instructions":"hi"}"#,
    ))
    .unwrap();
    assert_eq!(
        (peer.era, &*peer.revision, &*peer.name, &*peer.version),
        (UpstreamEra::Session, "2024-11-05", "old", "1")
    );
    assert_eq!(peer.instructions.as_deref(), Some("hi"));
    let peer = discovered(&result(
        r#"{"resultType":"complete","supportedVersions":["2027-01-01","2026-07-28"],"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}"#,
    ))
    .unwrap();
    assert_eq!((peer.era, &*peer.revision, &*peer.name), (UpstreamEra::Stateless, "2026-07-28", "new"));
}

#[test]
fn unknown_revision_is_named_in_the_error() {
    let why = initialized(&result(r#"{"protocolVersion":"2031-01-01"}"#)).unwrap_err().to_string();
    assert!(why.contains("2031-01-01") && why.contains("2025-11-25"), "{why}");
    let why = discovered(&result(r#"{"supportedVersions":["2031-01-01"]}"#)).unwrap_err().to_string();
    assert!(why.contains("2031-01-01"), "{why}");
}

#[test]
fn only_stateless_errors_prevent_initialize() {
    let rpc = |code, data| ClientError::Rpc { code, message: String::new(), data };
    for error in
        [rpc(-32601, None), rpc(-32602, None), rpc(-32000, None), ClientError::Protocol(String::new())]
    {
        assert_eq!(classify_discover_failure(error), DiscoverFailure::TryInitialize);
    }
    let supported = |revision: &str| Some(json!({ "supported": [revision], "requested": "2026-07-28" }));
    assert_eq!(
        classify_discover_failure(rpc(-32022, supported("2025-06-18"))),
        DiscoverFailure::TryInitialize
    );
    for error in [rpc(-32022, supported("2031-01-01")), rpc(-32022, None), rpc(-32021, None)] {
        assert!(matches!(classify_discover_failure(error), DiscoverFailure::Refused(_)));
    }
}
