//! Batches: several messages in one body, as in 2025-03-26.

use plexus_testkit::{McpClient, TestHub};
use serde_json::{Value, json};

use crate::sdk_scripts::TOOLS;

async fn in_session(hub: &TestHub) -> McpClient {
    hub.mcp(&hub.token("batcher", &["call:*"]).await.token).initialize("2025-03-26").await.0
}

fn request(id: impl Into<Value>, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method })
}

#[tokio::test]
async fn mixed_batch_gets_one_answer_per_request() {
    let hub = TestHub::start().await;
    let client = in_session(&hub).await;
    let call = |id: &str, name: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
    let batch = json!([
        request(1, "ping"),
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        call("add", "todo", json!({ "action": "add", "text": "milk" })),
        { "jsonrpc": "2.0", "id": 7, "result": {} },
        call("unknown", "no_such_tool", json!({})),
        request(2, "no/such"),
        request(3, "tools/list"),
    ]);
    let answer = client.post_json(&batch).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let answers = answer.json();
    let answers = answers.as_array().unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!("add"), &json!("unknown"), &json!(2), &json!(3)]);
    assert_eq!(answers[0]["result"], json!({}));
    assert_eq!(answers[1]["result"]["content"][0]["text"], "[ ] 1. milk");
    assert_eq!(answers[2]["error"]["code"], -32602);
    assert_eq!(answers[3]["error"]["code"], -32601);
    assert_eq!(answers[4]["result"]["tools"].as_array().unwrap().len(), TOOLS.len());
}

#[tokio::test]
async fn batch_without_requests_is_accepted_without_a_body() {
    let hub = TestHub::start().await;
    let client = in_session(&hub).await;
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    for batch in [json!([notification]), json!([notification, notification]), json!([response, notification])]
    {
        let answer = client.post_json(&batch).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{batch}");
    }
}

#[tokio::test]
async fn invalid_element_gets_its_own_error() {
    let hub = TestHub::start().await;
    let client = in_session(&hub).await;
    let answer =
        client.post_json(&json!([7, request(1, "ping"), {}, [], { "id": 5, "method": "ping" }])).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json();
    let shown: Vec<(&Value, Option<i64>)> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (&answer["id"], answer["error"]["code"].as_i64()))
        .collect();
    let null = &Value::Null;
    let (one, five) = (json!(1), json!(5));
    let bad = Some(-32600);
    assert_eq!(shown, [(null, bad), (&one, None), (null, bad), (null, bad), (&five, bad)]);
    // JSON-RPC requires an explicit null for an id that could not be read.
    assert!(answers[0].as_object().unwrap().contains_key("id"));
}

#[tokio::test]
async fn invalid_batch_is_a_400() {
    let hub = TestHub::start().await;
    let client = in_session(&hub).await;
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {} });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let crowd: Vec<Value> = (0..51).map(|id| request(id, "ping")).collect();
    let cases = [
        ("empty", json!([]), -32600),
        ("initialize alone", json!([initialize]), -32600),
        ("initialize among others", json!([request(2, "ping"), initialize]), -32600),
        ("over fifty", json!(crowd), -32600),
    ];
    for (label, batch, code) in cases {
        let answer = client.post_json(&batch).await;
        assert_eq!(answer.error(), (400, code), "{label}");
        assert!(answer.json().is_object(), "{label}: one error, not a batch of them");
        assert_eq!(answer.header("mcp-session-id"), None, "{label}");
    }
    assert_eq!(client.post("[{").await.error(), (400, -32700));
    assert_eq!(client.without("mcp-session-id").post_json(&json!([initialize])).await.error(), (400, -32600));
    assert_eq!(client.header("mcp-session-id", "gone").post_json(&json!([])).await.error(), (404, -32600));
}

#[tokio::test]
async fn calls_of_a_batch_run_concurrently() {
    let hub = TestHub::start().await;
    let client = in_session(&hub).await;
    let (left, mut left_control) = crate::tools::controlled_tool("left");
    let (right, mut right_control) = crate::tools::controlled_tool("right");
    hub.registry().add([left, right]);
    let call = |id: u32, name: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": {} } });
    let batch = json!([call(1, "left"), call(2, "right")]);
    let control = async {
        left_control.started().await;
        right_control.started().await;
        right_control.finish("r").await;
        left_control.finish("l").await;
    };
    let (answer, ()) = tokio::join!(client.post_json(&batch), control);
    let texts: Vec<Value> =
        answer.json().as_array().unwrap().iter().map(|a| a["result"]["content"][0]["text"].clone()).collect();
    assert_eq!(texts, ["l", "r"]);
}
