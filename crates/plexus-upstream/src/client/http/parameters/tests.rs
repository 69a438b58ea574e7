use serde_json::json;

use super::*;

#[test]
fn marked_arguments_are_repeated_in_headers() {
    let property = |kind: &str| json!({ "type": "object", "properties": { "a": { "type": kind, "x-mcp-header": "A" } } });
    let tool = |name: &str, schema: Value| match json!({ "name": name, "inputSchema": schema }) {
        Value::Object(tool) => tool,
        _ => unreachable!(),
    };
    let tools = vec![tool("t", property("string")), tool("u", property("number"))];
    let parameters = Parameters::of(&tools);
    let mut headers = HeaderMap::new();
    parameters.add("t", &json!({ "a": "Köln" }), &mut headers);
    assert_eq!(headers["mcp-param-a"], "=?base64?S8O2bG4=?=");
    parameters.add("u", &json!({ "a": 1 }), &mut headers);
    assert_eq!(headers.len(), 1);
}
