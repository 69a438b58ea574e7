//! Members of tools and results in each revision of the session era.

use plexus_testkit::{Answer, TestHub};
use serde_json::{Value, json};

use crate::sdk_scripts::TOOLS;
use crate::tools::controlled_tool;

struct Revision {
    version: &'static str,
    /// `annotations` of tools.
    annotations: bool,
    /// `title` and `outputSchema` of tools, `structuredContent` of results.
    structured: bool,
    /// Arrays of messages in one body.
    batches: bool,
    /// Each stream begins with an event that has an id but no data.
    priming: bool,
}

#[rustfmt::skip]
const REVISIONS: &[Revision] = &[
    Revision { version: "2024-11-05", annotations: false, structured: false, batches: true,  priming: false },
    Revision { version: "2025-03-26", annotations: true,  structured: false, batches: true,  priming: false },
    Revision { version: "2025-06-18", annotations: true,  structured: true,  batches: false, priming: false },
    Revision { version: "2025-11-25", annotations: true,  structured: true,  batches: false, priming: true  },
];

#[tokio::test]
async fn tools_and_results_have_the_members_of_the_revision() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("reader", &["call:*"]).await.token);
    for revision in REVISIONS {
        let (client, _) = client.initialize(revision.version).await;
        let list = client.call("tools/list", json!({})).await;
        assert_eq!(list.status, 200, "{}", revision.version);
        let list = list.result();
        let tools = list["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, TOOLS, "{}", revision.version);
        for tool in tools {
            let label = format!("{} in {}: {tool}", tool["name"], revision.version);
            assert_eq!(tool["inputSchema"]["type"], "object", "{label}");
            assert!(!tool["description"].as_str().unwrap().is_empty(), "{label}");
            assert_eq!(tool["annotations"].is_object(), revision.annotations, "{label}");
            assert_eq!(tool["title"].is_string(), revision.structured, "{label}");
            // The output of `tool_call` depends on the called tool.
            let declares = revision.structured && tool["name"] != "tool_call";
            assert_eq!(tool["outputSchema"].is_object(), declares, "{label}");
            assert_eq!(tool["_meta"], crate::tools::meta_of(tool["name"].as_str().unwrap()), "{label}");
        }
        let added = client
            .call("tools/call", json!({ "name": "todo", "arguments": { "action": "add", "text": "milk" } }))
            .await;
        assert_eq!(added.status, 200, "{}", revision.version);
        let added = added.result();
        assert_eq!(added["content"][0], json!({ "type": "text", "text": "[ ] 1. milk" }));
        assert_eq!(added["isError"], false);
        match revision.structured {
            true => assert_eq!(added["structuredContent"]["items"][0]["text"], "milk"),
            false => assert!(added.get("structuredContent").is_none(), "{}", revision.version),
        }
        for result in [&list, &added] {
            for modern in ["resultType", "ttlMs", "cacheScope"] {
                assert!(result.get(modern).is_none(), "{modern} in {}", revision.version);
            }
        }
    }
}

#[tokio::test]
async fn batches_are_accepted_only_in_revisions_that_have_them() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("reader", &["call:*"]).await.token);
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]);
    for revision in REVISIONS {
        let (client, _) = client.initialize(revision.version).await;
        let answer = client.post_json(&batch).await;
        match revision.batches {
            true => assert_eq!(answer.json(), json!([{ "jsonrpc": "2.0", "id": 1, "result": {} }])),
            false => assert_eq!(answer.error(), (400, -32600), "{}", revision.version),
        }
    }
}

#[tokio::test]
async fn priming_event_is_sent_only_in_the_newest_session_revision() {
    use plexus_testkit::SseEvent;
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("reader", &["call:*"]).await.token);
    for revision in REVISIONS {
        let (client, _) = client.initialize(revision.version).await;
        let mut own = client.get_stream().await;
        let first = own.next().await.unwrap();
        assert_eq!(matches!(first, SseEvent::Priming { .. }), revision.priming, "{first:?}");

        let (tool, mut control) = controlled_tool("step");
        hub.registry().add([tool]);
        let call = json!({ "name": "step", "arguments": {}, "_meta": { "progressToken": "t" } });
        let body = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call });
        let mut stream = client.post_stream(&body).await;
        control.started().await;
        control.finish("done").await;
        let first = stream.next().await.unwrap();
        assert_eq!(matches!(first, SseEvent::Priming { .. }), revision.priming, "{first:?}");
        hub.registry().remove(&["step"]);
    }
}

/// The HTTP status of a failed request is 200, because a 404 would mean that the session is gone.
#[tokio::test]
async fn failed_requests_are_protocol_errors_or_results() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("reader", &["call:*"]).await.token);
    for revision in REVISIONS {
        let (client, _) = client.initialize(revision.version).await;
        let call = async |name: &str, arguments: Value| -> Answer {
            client.call("tools/call", json!({ "name": name, "arguments": arguments })).await
        };
        let at = revision.version;

        assert_eq!(call("no_such_tool", json!({})).await.error(), (200, -32602), "{at}");
        assert_eq!(call("todo", json!([1])).await.error(), (200, -32602), "{at}");
        for method in ["no/such", "server/discovery", "subscriptions/listen"] {
            assert_eq!(client.call(method, json!({})).await.error(), (200, -32601), "{method} in {at}");
        }

        let invalid = call("todo", json!({ "action": "add", "txet": "milk" })).await;
        assert_eq!(invalid.status, 200, "{at}");
        let invalid = invalid.result();
        assert_eq!(invalid["isError"], true, "{at}");
        let text = invalid["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("/txet") && text.contains("did you mean \"text\"?"), "{at}: {text}");
        assert!(invalid.get("structuredContent").is_none(), "{at}");

        let failed = call("todo", json!({ "action": "remove", "id": 99 })).await.result();
        assert_eq!(failed["isError"], true, "{at}");
        let text = failed["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("there is no to-do 99"), "{at}: {text}");
    }
}

#[tokio::test]
async fn ping_returns_an_empty_result_and_the_same_id() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("reader", &["call:*"]).await.token);
    for revision in REVISIONS {
        let (client, _) = client.initialize(revision.version).await;
        for id in
            [json!(0), json!(-7), json!("0"), json!("a \"quoted\" id"), json!(9_007_199_254_740_993_i64)]
        {
            let answer = client.post_json(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
            assert_eq!(answer.json(), json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
        }
    }
}

struct Malformed {
    label: &'static str,
    body: &'static str,
    code: i64,
}

#[rustfmt::skip]
const MALFORMED: &[Malformed] = &[
    Malformed { label: "not JSON",             body: "{",                                                  code: -32700 },
    Malformed { label: "no object",            body: "7",                                                  code: -32600 },
    Malformed { label: "no jsonrpc",           body: r#"{"id":1,"method":"ping"}"#,                        code: -32600 },
    Malformed { label: "jsonrpc 1.0",          body: r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,        code: -32600 },
    Malformed { label: "id null",              body: r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,     code: -32600 },
    Malformed { label: "id an object",         body: r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,       code: -32600 },
    Malformed { label: "id with a fraction",   body: r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,      code: -32600 },
    Malformed { label: "neither method nor result", body: r#"{"jsonrpc":"2.0","id":1}"#,                   code: -32600 },
    Malformed { label: "params an array",      body: r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, code: -32602 },
];

#[tokio::test]
async fn invalid_message_is_a_400() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("reader", &["call:*"]).await.token);
    for revision in REVISIONS {
        let (client, _) = client.initialize(revision.version).await;
        for case in MALFORMED {
            let answer = client.post(case.body).await;
            assert_eq!(answer.error(), (400, case.code), "{} in {}", case.label, revision.version);
        }
    }
}
