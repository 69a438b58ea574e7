//! Transient failures, and tokens that must survive them.

use std::time::Duration;

use plexus_proto::api::UpstreamState;
use serde_json::json;

use super::logged_in;
use crate::upstream::{agent, text};

const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two calls of a retrying caller.
const POLL: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn transient_failures_end_no_login() {
    let (authority, server, hub) = logged_in().await;
    let client = agent(&hub).await;
    for status in [500, 503, 429, 404, 400, 200] {
        authority.fail_refreshes(status);
        authority.expire_access();
        let sent = format!("while it answers {status}");
        let result = client.tool("mcp__docs__echo", json!({ "text": sent })).await;
        assert_eq!(result["_meta"]["plexus/error"]["code"], "unavailable", "{status}: {result}");
        assert_eq!(server.authorized_calls(&sent), 0);
        authority.resume_token_requests();
        // Nobody does anything but call again.
        let recovered = tokio::time::timeout(PATIENCE, async {
            loop {
                let result = client.tool("mcp__docs__echo", json!({ "text": "after it" })).await;
                match result["isError"] == true {
                    true => {
                        assert_eq!(result["_meta"]["plexus/error"]["retryable"], true, "{status}: {result}")
                    }
                    false => return assert_eq!(text(&result), "after it", "{status}: {result}"),
                }
                tokio::time::sleep(POLL).await;
            }
        });
        recovered.await.expect("it is back in time");
    }
    assert_eq!(authority.token_requests("authorization_code").len(), 1, "nobody had to log in again");
    let refreshes = authority.token_requests("refresh_token");
    assert!(refreshes.iter().all(|form| form["resource"] == server.url()), "{refreshes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_new_token_is_renewed_again_later() {
    let (authority, server, hub) = logged_in().await;
    let client = agent(&hub).await;
    authority.issue_stale_tokens(1);
    authority.expire_access();
    let result = client.tool("mcp__docs__echo", json!({ "text": "not yet" })).await;
    assert_eq!(result["_meta"]["plexus/error"]["code"], "unavailable", "{result}");
    assert_eq!((server.authorized_calls("not yet"), authority.token_requests("refresh_token").len()), (0, 1));
    // No intervention is needed.
    let recovered = tokio::time::timeout(PATIENCE, async {
        while client.tool("mcp__docs__echo", json!({ "text": "now" })).await["isError"] == true {
            tokio::time::sleep(POLL).await;
        }
    });
    recovered.await.expect("it is back in time");
    hub.upstream_in("docs", UpstreamState::Ready).await;
    assert_eq!(authority.token_requests("refresh_token").len(), 2);
    assert_eq!(authority.token_requests("authorization_code").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_token_is_stored_after_its_caller_left() {
    let (authority, server, hub) = logged_in().await;
    let client = agent(&hub).await;
    authority.delay_refreshes(true);
    authority.expire_access();
    let call = client.tool("mcp__docs__echo", json!({ "text": "never mind" }));
    tokio::select! {
        result = call => panic!("it is held: {result}"),
        () = authority.refresh_is_delayed() => {}
    }
    // The caller is gone; the old refresh token is invalid by now.
    authority.resume_token_requests();
    let result = client.tool("mcp__docs__echo", json!({ "text": "later" })).await;
    assert_eq!(text(&result), "later", "{result}");
    assert_eq!(authority.token_requests("refresh_token").len(), 1);
    assert!(server.authorized_calls("never mind") <= 1);
    let hub = hub.restart().await;
    hub.upstream_in("docs", UpstreamState::Ready).await;
    assert_eq!(authority.token_requests("refresh_token").len(), 1, "the new one was kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_renewed_before_it_expires() {
    let (authority, _server, hub) = logged_in().await;
    // After 59.5 minutes the token is still valid, but about to expire.
    authority.delay_refreshes(false);
    let hub = hub.restart_later(Duration::from_secs(3600 - 30)).await;
    hub.upstream_in("docs", UpstreamState::Ready).await;
    authority.refresh_is_delayed().await;
    let client = agent(&hub).await;
    let result = client.tool("mcp__docs__echo", json!({ "text": "meanwhile" })).await;
    assert_eq!(text(&result), "meanwhile", "{result}");
    authority.resume_token_requests();
}
