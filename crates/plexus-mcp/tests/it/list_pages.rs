//! Pages of `tools/list`, for hubs with very many tools.

use plexus_testkit::{McpClient, TestHub};
use serde_json::{Value, json};

use crate::tools::idle;

const MANY: usize = 1_100;

/// A hub with [`MANY`] tools, and a client that sees exactly these.
async fn hub_with_many_tools() -> (TestHub, McpClient) {
    let hub = TestHub::start().await;
    hub.registry().add((0..MANY).map(|number| idle(format!("bulk_{number:04}"))));
    let client = hub.mcp(&hub.token("browser", &["call:bulk_*"]).await.token);
    (hub, client)
}

fn names(page: &Value) -> Vec<String> {
    page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_contain_every_tool_once_in_order() {
    let (_hub, client) = hub_with_many_tools().await;
    let expected: Vec<String> = (0..MANY).map(|number| format!("bulk_{number:04}")).collect();
    let (session, _) = client.initialize("2025-06-18").await;
    for era in ["session", "modern"] {
        let mut listed = Vec::new();
        let mut sizes = Vec::new();
        let mut params = json!({});
        loop {
            let answer = match era {
                "session" => session.call("tools/list", params).await,
                _ => client.modern("tools/list", params).await,
            };
            let page = answer.result();
            sizes.push(names(&page).len());
            listed.extend(names(&page));
            match page.get("nextCursor") {
                None => break,
                Some(cursor) => params = json!({ "cursor": cursor.as_str().unwrap() }),
            }
        }
        assert_eq!(sizes, [500, 500, 100], "{era}");
        assert_eq!(listed, expected, "{era}");
    }
}

#[tokio::test]
async fn cursor_stays_valid_when_tools_change() {
    let (hub, client) = hub_with_many_tools().await;
    let first = client.modern("tools/list", json!({})).await.result();
    hub.registry().remove(&["bulk_0000", "bulk_0499"]);
    hub.registry().add([idle("bulk_0000_new"), idle("bulk_0600_new")]);
    let second = client.modern("tools/list", json!({ "cursor": first["nextCursor"] })).await.result();
    let second = names(&second);
    assert_eq!(second[0], "bulk_0500", "no entry is repeated or skipped");
    assert!(second.contains(&"bulk_0600_new".to_owned()));
}

#[tokio::test]
async fn foreign_cursor_is_refused() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("browser", &["call:*"]).await.token);
    let (session, _) = client.initialize("2025-06-18").await;
    for cursor in [json!(""), json!("2"), json!("not base64!"), json!("bm90IG91cnM"), json!(7), json!({})] {
        let params = json!({ "cursor": cursor });
        assert_eq!(session.call("tools/list", params.clone()).await.error(), (200, -32602), "{cursor}");
        assert_eq!(client.modern("tools/list", params).await.error(), (200, -32602), "{cursor}");
    }
}

#[tokio::test]
async fn list_is_deterministic() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("browser", &["call:*"]).await.token);
    let first = client.modern("tools/list", json!({})).await.body;
    for _ in 0..3 {
        assert_eq!(client.modern("tools/list", json!({})).await.body, first);
    }
    let page = client.modern("tools/list", json!({ "cursor": null })).await;
    assert_eq!(page.status, 200);
}
