use plexus_tools::RawJson;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{TargetKind, completion_json, members};
use crate::version::Dialect;

fn raw(json: &Value) -> RawJson {
    RawJson::of(&RawValue::from_string(json.to_string()).expect("JSON"))
}

fn read(result: &Value, requested: &str, dialect: Dialect) -> Value {
    let kind = TargetKind::Resource { uri: requested.to_owned() };
    let members = members(&raw(result), &kind, dialect).expect("members");
    serde_json::from_str(&format!("{{{members}}}")).expect("JSON")
}

#[test]
fn cache_members_of_servers_are_limited_and_private() {
    let result = json!({
        "resultType": "complete", "ttlMs": 99_999_999, "cacheScope": "public", "_meta": {}, "odd": 1,
        "contents": [{ "uri": "a://1", "text": "x" }],
    });
    let modern = read(&result, "a://1", Dialect::Modern);
    let contents = json!([{ "uri": "a://1", "text": "x" }]);
    assert_eq!(modern, json!({ "contents": contents, "odd": 1, "ttlMs": 30_000, "cacheScope": "private" }));
    let session = Dialect::Session(crate::version::Version::LATEST);
    assert_eq!(read(&result, "a://1", session), json!({ "contents": contents, "odd": 1 }));
    let old = json!({ "contents": [] });
    assert_eq!(read(&old, "a://1", Dialect::Modern)["ttlMs"], 0, "session-era results have no ttl");
}

#[test]
fn contents_have_the_requested_uri() {
    let result = json!({ "contents": [{ "uri": "a://1", "text": "x" }, { "uri": "a://2", "text": "y" }] });
    let read = read(&result, "plexus+mcp://wiki/a://1", Dialect::Modern);
    assert_eq!(read["contents"][0]["uri"], "plexus+mcp://wiki/a://1");
    assert_eq!(read["contents"][1]["uri"], "a://2");
}

#[test]
fn completion_values_are_limited() {
    let values: Vec<String> = (0..130).map(|n| n.to_string()).collect();
    let result = json!({ "completion": { "values": values, "total": 130 } }).to_string();
    let completion = completion_json(Some(result.as_bytes()));
    assert_eq!(completion["values"].as_array().map(Vec::len), Some(100));
    assert_eq!((&completion["hasMore"], &completion["total"]), (&json!(true), &json!(130)));
    assert_eq!(completion_json(None), json!({ "values": [] }));
    assert_eq!(completion_json(Some(b"{\"completion\":7}")), json!({ "values": [] }));
}
