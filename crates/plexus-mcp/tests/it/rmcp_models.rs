//! The hub's messages, parsed with the types of an independent implementation of the protocol (rmcp).

use plexus_testkit::TestHub;
use rmcp::model::{
    CacheScope, CallToolResult, DiscoverResult, ErrorCode, InitializeResult, JsonRpcError, ListToolsResult,
    ProtocolVersion, ServerJsonRpcMessage, ServerNotification, SubscriptionsListenResult,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::sdk_scripts::TOOLS;
use crate::tools::{controlled_tool, idle};

/// Parses a `T` and checks that serializing it gives the same value, so that no member is unknown to the type.
fn read<T: DeserializeOwned + Serialize>(value: &Value) -> T {
    let read: T = serde_json::from_value(value.clone())
        .unwrap_or_else(|e| panic!("not a {}: {e}\n{value}", std::any::type_name::<T>()));
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(&written, value, "{} does not know all members", std::any::type_name::<T>());
    read
}

fn notification(message: &Value) -> ServerNotification {
    match serde_json::from_value(message.clone()).unwrap() {
        ServerJsonRpcMessage::Notification(notification) => notification.notification,
        other => panic!("not a notification: {other:?}"),
    }
}

#[tokio::test]
async fn session_era_results_match_the_models() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modeller", &["call:*"]).await.token);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (session, result) = client.initialize(version).await;
        let initialized: InitializeResult = read(&result);
        assert_eq!(initialized.protocol_version.as_str(), version);
        assert_eq!(initialized.server_info.name, "plexus");
        assert_eq!(initialized.capabilities.tools.unwrap().list_changed, Some(true));

        let list: ListToolsResult = read(&session.call("tools/list", json!({})).await.result());
        assert_eq!(list.tools.len(), TOOLS.len());
        let structured = version >= "2025-06-18";
        assert!(list.tools.iter().all(|tool| tool.title.is_some() == structured));

        let call = json!({ "name": "todo", "arguments": { "action": "list" } });
        let called: CallToolResult = read(&session.call("tools/call", call).await.result());
        assert_eq!(called.is_error, Some(false));
        assert_eq!(called.structured_content.is_some(), structured);
        assert_eq!(called.content[0].as_text().unwrap().text, "The list is empty.");
    }
}

#[tokio::test]
async fn stateless_results_match_the_models() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modeller", &["call:*"]).await.token);
    let discovered: DiscoverResult = read(&client.modern("server/discover", json!({})).await.result());
    assert_eq!(discovered.supported_versions[0], ProtocolVersion::V_2026_07_28);
    assert_eq!(discovered.supported_versions.len(), 5);
    assert!(matches!(discovered.cache_scope, CacheScope::Private));

    let list: ListToolsResult = read(&client.modern("tools/list", json!({})).await.result());
    assert_eq!(list.tools.len(), TOOLS.len());
    assert!(list.ttl_ms.is_some() && matches!(list.cache_scope, Some(CacheScope::Private)));

    let called: CallToolResult = read(&client.tool("todo", json!({ "action": "list" })).await);
    assert_eq!((called.is_error, called.structured_content), (Some(false), Some(json!({ "items": [] }))));
    let failed: CallToolResult = read(&client.tool("todo", json!({ "action": "fly" })).await);
    assert_eq!((failed.is_error, failed.structured_content), (Some(true), None));
}

#[tokio::test]
async fn errors_match_the_models() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modeller", &["call:*"]).await.token);
    let mismatch = client.modern_request(1, "tools/list", json!({}));
    let unsupported = {
        let (client, mut body) = client.modern_request(1, "tools/list", json!({}));
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("v999");
        (client.header("mcp-protocol-version", "v999"), body)
    };
    let answers = [
        (client.modern("no/such", json!({})).await, ErrorCode::METHOD_NOT_FOUND),
        (client.modern("tools/call", json!({ "name": "no_such" })).await, ErrorCode::INVALID_PARAMS),
        (mismatch.0.header("mcp-method", "x").post_json(&mismatch.1).await, ErrorCode::HEADER_MISMATCH),
        (unsupported.0.post_json(&unsupported.1).await, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION),
    ];
    for (answer, code) in answers {
        let error: JsonRpcError = read(&answer.json());
        assert_eq!(error.error.code, code, "{answer:?}");
    }
}

#[tokio::test]
async fn notifications_match_the_models() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modeller", &["call:*"]).await.token);
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let (listener, body) = client.modern_request("sub", "subscriptions/listen", params);
    let mut stream = listener.post_stream(&body).await;
    let ServerNotification::SubscriptionsAcknowledgedNotification(acknowledged) =
        notification(&stream.message().await.unwrap())
    else {
        panic!("not an acknowledgement")
    };
    assert_eq!(acknowledged.params.notifications.tools_list_changed, Some(true));

    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool, idle("other")]);
    let changed = notification(&stream.message().await.unwrap());
    assert!(matches!(changed, ServerNotification::ToolListChangedNotification(_)), "{changed:?}");

    let params = json!({ "name": "work", "_meta": { "progressToken": "t" } });
    let (caller, body) = client.modern_request(2, "tools/call", params);
    let mut call = caller.post_stream(&body).await;
    control.started().await;
    control.progress(1.5).await;
    let ServerNotification::ProgressNotification(progress) = notification(&call.message().await.unwrap())
    else {
        panic!("not progress")
    };
    assert_eq!((progress.params.progress, progress.params.total), (1.5, Some(3.0)));
    control.finish("done").await;
    let _: CallToolResult = read(&call.message().await.unwrap()["result"]);

    let (ended, _dir) = tokio::join!(stream.to_end(), hub.stop());
    let _: SubscriptionsListenResult = read(&ended[0]["result"]);
}
