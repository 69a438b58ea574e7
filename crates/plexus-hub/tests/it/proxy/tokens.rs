//! The token behind a proxy: renewed before it expires and shared between proxies, without the agent noticing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_kit::{Clock, Secret};
use plexus_proxy::CredentialSource;
use plexus_testkit::{TestHub, TestProxy};
use serde_json::{Value, json};

use super::fake::{FakeHub, FakeResponse, RecordedRequest};
use super::{POLL, Scene, add, in_time};

fn in_seconds(seconds: u64) -> String {
    Clock::system().now().checked_add(Duration::from_secs(seconds)).unwrap().to_string()
}

/// A hub with tokens that live for four seconds, which accepts the newest one and `older` ones before it.
fn renewing(newest: Arc<AtomicU64>, older: u64) -> impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync {
    move |request| {
        let now = newest.load(Ordering::SeqCst);
        let is_accepted = |number: u64| request.bearer == format!("Bearer token-{number}");
        if !(now.saturating_sub(older)..=now).any(is_accepted) {
            return FakeResponse::json(401, json!({ "code": "unauthenticated", "message": "not this one" }));
        }
        let token = json!({
            "jti": "01890a5d-ac96-774b-bcce-b302099a8057", "kind": "agent", "expires_at": in_seconds(4),
            "renew_until": in_seconds(3600),
        });
        match (&*request.path, request.method()) {
            ("/api/v1/context", _) => FakeResponse::json(
                200,
                json!({ "subject": "agent:a", "token": token, "nodes": [], "tools": "x", "version": "v" }),
            ),
            ("/api/v1/tokens/renew", _) => {
                let next = newest.fetch_add(1, Ordering::SeqCst) + 1;
                let mut made = token;
                made["token"] = json!(format!("token-{next}"));
                made["name"] = json!("a");
                made["scopes"] = json!([]);
                made["profile"] = Value::Null;
                FakeResponse::json(201, made)
            }
            (_, "tools/list") => request.result(json!({ "resultType": "complete", "tools": [] })),
            (_, "tools/call") => request.result(json!({ "content": [], "isError": false })),
            _ => FakeResponse::json(404, json!({})),
        }
    }
}

#[tokio::test]
async fn token_is_renewed_and_reused_by_the_next_proxy() {
    let newest = Arc::new(AtomicU64::new(0));
    let hub = FakeHub::start(renewing(newest.clone(), 0)).await;
    let proxy = TestProxy::start(&hub.url(), "token-0").await;
    let client = proxy.client();
    // The old token is invalid immediately, so every answer proves that the new one is used.
    in_time("two renewals", async {
        while newest.load(Ordering::SeqCst) < 2 {
            let answer = client.modern("tools/call", json!({ "name": "look", "arguments": {} })).await;
            assert_eq!(answer.result()["isError"], false, "{answer:?}");
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    // The hub issues a token before the proxy stores it.
    in_time("the newest token in the file", async {
        let newest_token = || format!("token-{}\"", newest.load(Ordering::SeqCst));
        while !std::fs::read_to_string(proxy.folder().join("credential.json"))
            .unwrap()
            .contains(&newest_token())
        {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(proxy.folder().join("credential.json")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let folder = proxy.stop().await;
    let again = TestProxy::start_in(folder, &hub.url(), "token-0", |_| {}).await;
    let answer = again.client().modern("tools/call", json!({ "name": "look", "arguments": {} })).await;
    assert_eq!(answer.result()["isError"], false, "the initial token has expired: {answer:?}");
}

#[tokio::test]
async fn renewed_token_of_another_proxy_is_adopted() {
    let newest = Arc::new(AtomicU64::new(0));
    let hub = FakeHub::start(renewing(newest.clone(), 1)).await;
    let first = TestProxy::start(&hub.url(), "token-0").await;
    in_time("a renewal", async {
        while newest.load(Ordering::SeqCst) < 1 || !first.folder().join("credential.json").exists() {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    let folder = first.stop().await;
    // Two proxies at once, one of which renews: no call of either fails.
    let one = TestProxy::start_in(folder.clone(), &hub.url(), "token-0", |_| {}).await;
    let two = TestProxy::start_in(folder, &hub.url(), "token-0", |_| {}).await;
    let so_far = newest.load(Ordering::SeqCst);
    in_time("more renewals", async {
        while newest.load(Ordering::SeqCst) < so_far + 2 {
            for proxy in [&one, &two] {
                let answer =
                    proxy.client().modern("tools/call", json!({ "name": "look", "arguments": {} })).await;
                assert_eq!(answer.result()["isError"], false, "{answer:?}");
            }
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
}

#[tokio::test]
async fn agent_on_the_hubs_machine_gets_its_own_token() {
    let hub = TestHub::start().await;
    let admin = hub.admin_token();
    let proxy = TestProxy::start_with(&hub.url(""), "", |options| {
        let admin = admin.clone();
        options.credential = CredentialSource::Admin(Box::new(move || Ok(Secret::from(admin.as_str()))));
        options.agent = "codex".to_owned();
    })
    .await;
    let client = proxy.client();
    client.modern("tools/list", json!({})).await.result();
    client.modern("tools/call", add("milk")).await.result();
    let calls = hub.api("/api/v1/audit?tool=todo").await;
    assert_eq!(calls["items"][0]["actor"], "agent:codex", "{calls}");
    // After a revocation another token is created, because this machine's user may do so.
    let tokens = hub.api("/api/v1/tokens?limit=100").await;
    let made: Vec<&Value> =
        tokens["items"].as_array().unwrap().iter().filter(|token| token["name"] == "codex").collect();
    assert_eq!(made.len(), 1, "{tokens}");
    hub.revoke(made[0]["jti"].as_str().unwrap()).await;
    client.modern("tools/call", add("bread")).await.result();
    assert!(!std::fs::read_to_string(proxy.folder().join("credential.json")).unwrap().contains(&admin));
}

#[tokio::test]
async fn disabled_outbox_passes_everything_and_writes_nothing() {
    let hub = TestHub::start().await;
    let made = hub.token("agent", &["call:*"]).await;
    let proxy = TestProxy::start_with(&hub.url(""), &made.token, |options| options.passthrough = true).await;
    let client = proxy.client();
    let direct = hub.mcp(&made.token).modern("tools/list", json!({})).await.result();
    assert_eq!(client.modern("tools/list", json!({})).await.result(), direct);
    let (session, _) = client.initialize("2025-11-25").await;
    assert_eq!(session.call("tools/call", add("milk")).await.result()["isError"], false);
    let folder = proxy.folder();
    hub.stop().await;
    let write = session.call("tools/call", add("bread")).await;
    assert_eq!(write.error(), (200, -32002), "{write:?}");
    assert_eq!(client.modern("tools/list", json!({})).await.error(), (200, -32010));
    assert_eq!(client.modern("server/discover", json!({})).await.error(), (200, -32010));
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    assert_eq!(client.call("initialize", params).await.error(), (200, -32002));
    assert!(!folder.exists(), "{folder:?}");
}

#[tokio::test]
async fn folder_is_private_and_does_not_contain_the_secret() {
    let scene = Scene::ready().await;
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(scene.proxy.folder()).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
    for file in std::fs::read_dir(scene.proxy.folder()).unwrap() {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(scene.proxy.secret()) && !text.contains(&scene.token));
    }
}
