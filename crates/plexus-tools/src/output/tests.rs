use serde_json::json;

use super::*;

fn raw(text: &str) -> RawJson {
    RawJson::of(serde_json::from_str(text).unwrap())
}

#[test]
fn what_another_server_sent_is_kept_to_the_last_character() {
    let output = ToolOutput::Foreign(ForeignOutput {
        content: raw("[ {\"z\":1,\n \"a\":12345678901234567890123, \"e\":1e400, \"d\":2.50} ]"),
        structured: Some(raw("\"text\"")),
        is_error: true,
        meta: Some(raw("{\"b\":1,\"a\":2}")),
        lacking: None,
    });
    let stored = serde_json::to_string(&output).unwrap();
    assert_eq!(serde_json::from_str::<ToolOutput>(&stored).unwrap(), output);
    // Also where the store makes a value of it on the way.
    let value: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(serde_json::from_value::<ToolOutput>(value).unwrap(), output);
}

#[test]
fn what_is_no_json_is_not_taken_for_it() {
    let broken = json!({ "content": "[", "structured": null, "is_error": false, "meta": null });
    assert!(serde_json::from_value::<ToolOutput>(broken).is_err());
}

#[test]
fn results_of_our_own_tools_are_read_as_they_always_were() {
    let stored = r#"{"text":"[ ] 1. milk","structured":{"items":[]}}"#;
    let output = ToolOutput::new("[ ] 1. milk", &json!({ "items": [] }));
    assert_eq!(serde_json::from_str::<ToolOutput>(stored).unwrap(), output);
    assert_eq!(serde_json::from_str::<Value>(stored).unwrap(), serde_json::to_value(&output).unwrap());
}
