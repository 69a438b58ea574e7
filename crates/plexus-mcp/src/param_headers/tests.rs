use serde_json::json;

use super::*;

#[test]
fn marks_on_properties_are_found() {
    let schema = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
        "flag": { "type": "boolean", "x-mcp-header": "Flag" },
        "other": { "type": "string" },
    } });
    let arguments = json!({ "region": "Köln", "deep": { "n": 42 }, "flag": null, "other": "x" });
    let marks = param_headers(&schema).unwrap();
    let mut texts: Vec<_> = marks.iter().map(|mark| (mark.header.as_str(), mark.text(&arguments))).collect();
    texts.sort();
    let region = Some("Köln".to_owned());
    assert_eq!(
        texts,
        [("mcp-param-flag", None), ("mcp-param-n", Some("42".to_owned())), ("mcp-param-region", region)]
    );
}

#[test]
fn invalid_mark_is_an_error() {
    let of = |property: Value| json!({ "type": "object", "properties": { "a": property } });
    for schema in [
        of(json!({ "type": "number", "x-mcp-header": "A" })),
        of(json!({ "type": "string", "x-mcp-header": "" })),
        of(json!({ "type": "string", "x-mcp-header": "no token" })),
        of(json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "A" } })),
        json!({ "type": "object", "properties": {
            "a": { "type": "string", "x-mcp-header": "Same" },
            "b": { "type": "string", "x-mcp-header": "same" },
        } }),
    ] {
        assert_eq!(param_headers(&schema), Err(InvalidMark), "{schema}");
    }
    // A property may have the name of the mark.
    let named = json!({ "type": "object", "properties": { "x-mcp-header": { "type": "string" } } });
    assert_eq!(param_headers(&named), Ok(vec![]));
}

#[test]
fn header_text_is_plain_or_base64() {
    for plain in ["echo", "a b", "mcp.tool-1_x", "=?base64?open", "", "~!"] {
        assert_eq!(header_text(plain), plain);
    }
    for (text, sent) in [
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        (" padded", "=?base64?IHBhZGRlZA==?="),
        ("line\nbreak", "=?base64?bGluZQpicmVhaw==?="),
    ] {
        assert_eq!(header_text(text), sent);
    }
}
