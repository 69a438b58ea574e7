//! Trace context: a caller's context reaches the tool, also if the hub exports no traces.

use plexus_testkit::TestHub;
use serde_json::{Value, json};

use crate::tools;

const IN_META: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const IN_HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn call(meta: Value) -> Value {
    json!({ "name": "where_am_i", "arguments": {}, "_meta": meta })
}

#[tokio::test]
async fn call_context_takes_precedence_and_is_passed_on_unchanged() {
    let hub = TestHub::start().await;
    hub.registry().add([tools::trace_context_tool("where_am_i")]);
    let plain = hub.mcp(&hub.token("ann", &["call:*"]).await.token);
    let in_header = plain.header("traceparent", IN_HEADER).header("tracestate", "header=1");
    let meta = json!({ "traceparent": IN_META, "tracestate": "meta=1" });
    let wrong = json!({ "traceparent": IN_META.to_uppercase() });
    let not_text = json!({ "traceparent": 7 });
    for (client, meta, expected) in [
        (&plain, json!({}), "none".to_owned()),
        (&plain, meta.clone(), format!("{IN_META} meta=1")),
        (&in_header, meta, format!("{IN_META} meta=1")),
        (&in_header, json!({}), format!("{IN_HEADER} header=1")),
        // An invalid one is ignored.
        (&in_header, wrong.clone(), format!("{IN_HEADER} header=1")),
        (&plain, wrong, "none".to_owned()),
        (&plain, not_text, "none".to_owned()),
    ] {
        let result = client.modern("tools/call", call(meta.clone())).await.result();
        assert_eq!(result["structuredContent"]["text"], json!(expected), "{meta}");
        assert_eq!(result["_meta"].get("traceparent"), None, "{result}");
    }

    // In a session as well.
    let (session, _) = in_header.initialize("2025-11-25").await;
    for (meta, expected) in [
        (json!({}), format!("{IN_HEADER} header=1")),
        (json!({ "traceparent": IN_META }), IN_META.to_owned()),
    ] {
        let result = session.call("tools/call", call(meta)).await.result();
        assert_eq!(result["structuredContent"]["text"], json!(expected));
    }
}

#[tokio::test]
async fn rest_takes_the_context_from_headers() {
    let hub = TestHub::start().await;
    hub.registry().add([tools::trace_context_tool("where_am_i")]);
    let token = hub.token("ann", &["call:*"]).await.token;
    let request = hub.http().post(hub.url("/api/v1/tools/where_am_i/call")).bearer_auth(token);
    let request = request.header("traceparent", IN_HEADER).json(&json!({ "arguments": {} }));
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["text"], json!(IN_HEADER), "{answer}");
}
