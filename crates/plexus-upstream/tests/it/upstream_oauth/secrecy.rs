//! The hub's tokens are visible to nobody else.

use plexus_proto::api::UpstreamState;
use plexus_testkit::oauth::{ProtectedServer, ScriptedAuthority};
use serde_json::json;

use super::{logged_in, post};
use crate::upstream::agent;

#[tokio::test(flavor = "multi_thread")]
async fn tokens_appear_in_no_readable_place() {
    let (_authority, server, hub) = logged_in().await;
    let shown = server.received_tokens();
    assert!(shown.iter().any(|shown| shown == "Bearer access-1"), "{shown:?}");
    let mut readable_text = String::new();
    for path in ["upstreams", "upstreams/docs", "audit?limit=200", "status"] {
        readable_text += &hub.api(&format!("/api/v1/{path}")).await.to_string();
    }
    readable_text += &format!("{:?} {:?}", hub.upstreams(), hub);
    assert!(readable_text.contains("upstream_login"), "{readable_text}");
    let folder = hub.stop().await;
    let mut looked_at = 0;
    let mut folders = vec![folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            readable_text += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
            looked_at += 1;
        }
    }
    assert!(looked_at > 5);
    for secret in ["access-1", "refresh-1", "code-"] {
        assert!(!readable_text.contains(secret), "{secret} can be read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_authorization_errors_are_redacted() {
    let (authority, _server, hub) = logged_in().await;
    authority.echo_refreshes();
    authority.expire_access();
    let result = agent(&hub).await.tool("mcp__docs__echo", json!({ "text": "x" })).await;
    let down = hub.upstream_in("docs", UpstreamState::Down).await;
    let readable_text = format!("{result} {:?} {}", down, hub.api("/api/v1/audit?limit=200").await);
    assert!(readable_text.contains("invalid_request (what is wrong with"), "{readable_text}");
    assert!(readable_text.contains("[redacted]") && !readable_text.contains("refresh-1"), "{readable_text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_not_sent_to_a_different_url() {
    let (_authority, server, hub) = logged_in().await;
    let stranger = ScriptedAuthority::start().await;
    let other = ProtectedServer::start(&stranger.issuer(), stranger.token_validation()).await;
    // Tested under the same name,
    let tried = json!({ "server": { "url": other.url() } });
    let (status, report) = post(&hub, "docs/test", &tried).await;
    assert!(status == 200 && report["success"] == false, "{report}");
    // and after the file has changed.
    hub.write_upstream("docs", &json!({ "url": other.url() }));
    hub.upstreams().reload().await;
    let moved = hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
    let why = moved.last_error.unwrap().message;
    assert!(why.contains("its file has changed since its last login"), "{why}");
    assert!(other.unauthorized_requests() > 1);
    assert_eq!(other.received_tokens(), Vec::<String>::new());
    // When the file changes back, the token is still available.
    hub.write_upstream("docs", &json!({ "url": server.url() }));
    hub.upstreams().reload().await;
    hub.upstream_in("docs", UpstreamState::Ready).await;
}
