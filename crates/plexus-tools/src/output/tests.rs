use serde_json::json;

use super::*;

fn raw(text: &str) -> RawJson {
    RawJson::of(serde_json::from_str(text).unwrap())
}

#[test]
fn foreign_output_is_stored_verbatim() {
    let output = ToolOutput::Foreign(ForeignOutput {
        content: raw("[ {\"z\":1,\n \"a\":12345678901234567890123, \"e\":1e400, \"d\":2.50} ]"),
        structured: Some(raw("\"text\"")),
        is_error: true,
        meta: Some(raw("{\"b\":1,\"a\":2}")),
        lacking: None,
    });
    let stored = serde_json::to_string(&output).unwrap();
    assert_eq!(serde_json::from_str::<ToolOutput>(&stored).unwrap(), output);
    // Also if the store parses it in between.
    let value: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(serde_json::from_value::<ToolOutput>(value).unwrap(), output);
}

#[test]
fn invalid_json_in_stored_output_is_refused() {
    let broken = json!({ "content": "[", "structured": null, "is_error": false, "meta": null });
    assert!(serde_json::from_value::<ToolOutput>(broken).is_err());
}

#[test]
fn stored_format_of_own_output_is_stable() {
    let stored = r#"{"text":"[ ] 1. milk","structured":{"items":[]}}"#;
    let output = ToolOutput::new("[ ] 1. milk", &json!({ "items": [] }));
    assert_eq!(serde_json::from_str::<ToolOutput>(stored).unwrap(), output);
    assert_eq!(serde_json::from_str::<Value>(stored).unwrap(), serde_json::to_value(&output).unwrap());
}
