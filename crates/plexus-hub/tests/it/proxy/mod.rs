//! The local proxy between agents and a hub: the agent's view of the hub across outages.

mod calls;
mod endpoint;
mod fake;
mod lists;
mod replay;
mod revisions;
mod sessions;
mod tokens;

use std::net::SocketAddr;
use std::time::Duration;

use plexus_testkit::{FaultyLink, TestHub, TestProxy};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const CHANGED: &str = "notifications/tools/list_changed";
/// All revisions with sessions, oldest first.
const SESSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const STATELESS: &str = "2026-07-28";

async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("{what} did not happen in time"))
}

/// An address without a listener.
async fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// A hub behind a link that can be cut, and a proxy in front of it.
struct Scene {
    hub: TestHub,
    wire: FaultyLink,
    proxy: TestProxy,
    token: String,
}

impl Scene {
    async fn start() -> Self {
        let hub = TestHub::start().await;
        let wire = FaultyLink::to(hub.address()).await;
        let token = hub.token("agent", &["call:*"]).await.token;
        let proxy = TestProxy::start(&wire.url(""), &token).await;
        Self { hub, wire, proxy, token }
    }

    /// A scene whose proxy already has the tool list.
    async fn ready() -> Self {
        let scene = Self::start().await;
        scene.proxy.client().modern("tools/list", json!({})).await.result();
        scene
    }

    /// Makes the hub unreachable; it continues to run.
    async fn disconnect_hub(&self) {
        self.wire.point_at(unused_address().await);
        self.wire.cut();
    }

    fn reconnect_hub(&self) {
        self.wire.point_at(self.hub.address());
        self.wire.cut();
    }

    /// The hub's list for the agent in the newest revision.
    async fn listed_by_hub(&self) -> Value {
        self.hub.mcp(&self.token).modern("tools/list", json!({})).await.result()["tools"].clone()
    }

    /// The to-do list of a conversation at the hub, once it has this many items.
    async fn todos(&self, conversation: &str, count: usize) -> Vec<String> {
        let client = self.hub.mcp(&self.token).header("plexus-session", conversation);
        in_time("the to-do list", async {
            loop {
                let items =
                    client.tool("todo", json!({ "action": "list" })).await["structuredContent"].clone();
                let items: Vec<String> = items["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| item["text"].as_str().unwrap().to_owned())
                    .collect();
                if items.len() >= count {
                    return items;
                }
                tokio::time::sleep(POLL).await;
            }
        })
        .await
    }
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// A write that may be queued.
fn add(text: &str) -> Value {
    json!({ "name": "todo", "arguments": { "action": "add", "text": text } })
}

/// Sets the tools of the profile with this name.
fn enable(hub: &TestHub, profile: &str, tools: &[&str]) {
    let folder = hub.data_dir().join("profiles").join(profile);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), json!({ "enabled_tools": tools }).to_string()).unwrap();
    hub.reload_profiles();
}

/// A token with additional parameters.
async fn create_token(hub: &TestHub, params: Value) -> Value {
    let request = hub.http().post(hub.url("/api/v1/tokens")).bearer_auth(hub.admin_token()).json(&params);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 201);
    answer.json().await.unwrap()
}
