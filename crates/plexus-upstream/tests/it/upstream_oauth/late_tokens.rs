//! Tokens that arrive after a change of the file or a logout.

use plexus_proto::api::UpstreamState;
use plexus_testkit::oauth::{Browser, ProtectedServer, ScriptedAuthority};
use plexus_testkit::until;
use serde_json::json;

use super::{begin, finish, logged_in, post};
use crate::upstream::{agent, text};

#[tokio::test(flavor = "multi_thread")]
async fn late_token_is_kept_for_a_file_that_changes_back() {
    let (authority, server, hub) = logged_in().await;
    let stranger = ScriptedAuthority::start().await;
    let other = ProtectedServer::start(&stranger.issuer(), stranger.token_validation()).await;
    let client = agent(&hub).await;
    authority.delay_refreshes(true);
    authority.expire_access();
    let call = client.tool("mcp__docs__echo", json!({ "text": "never mind" }));
    tokio::select! {
        result = call => panic!("it is held: {result}"),
        () = authority.refresh_is_delayed() => {}
    }
    hub.write_upstream("docs", &json!({ "url": other.url() }));
    hub.upstreams().reload().await;
    hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
    // The old token is rejected, and the new one is not for the current URL.
    authority.resume_token_requests();
    hub.write_upstream("docs", &json!({ "url": server.url() }));
    hub.upstreams().reload().await;
    hub.upstream_in("docs", UpstreamState::Ready).await;
    let result = client.tool("mcp__docs__echo", json!({ "text": "back" })).await;
    assert_eq!(text(&result), "back", "{result}");
    assert_eq!((other.received_tokens(), authority.token_requests("refresh_token").len()), (vec![], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn token_arriving_after_logout_is_revoked() {
    let (authority, _server, hub) = logged_in().await;
    let client = agent(&hub).await;
    authority.delay_refreshes(true);
    authority.expire_access();
    let call = client.tool("mcp__docs__echo", json!({ "text": "never mind" }));
    tokio::select! {
        result = call => panic!("it is held: {result}"),
        () = authority.refresh_is_delayed() => {}
    }
    let (status, logout) = post(&hub, "docs/logout", &json!({})).await;
    assert_eq!((status, &logout["forgotten"]), (200, &json!(true)), "{logout}");
    authority.resume_token_requests();
    until("the token is revoked", async || authority.revoked().iter().any(|token| token == "access-2")).await;
    assert!(authority.revoked().contains(&"refresh-2".to_owned()), "{:?}", authority.revoked());
    hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn login_completed_after_logout_is_refused() {
    let (authority, _server, hub) = logged_in().await;
    let (_, login) = begin(&hub, "docs").await;
    let redirect = Browser::new().decide(login["url"].as_str().unwrap()).await;
    authority.delay_code_exchanges();
    let finishing = finish(&hub, "docs", &login, &redirect);
    let leaving = async {
        authority.refresh_is_delayed().await;
        let (status, logout) = post(&hub, "docs/logout", &json!({})).await;
        assert_eq!((status, &logout["revoked"]), (200, &json!(true)), "{logout}");
        authority.resume_token_requests();
    };
    let ((status, refused), ()) = tokio::join!(finishing, leaving);
    let message = refused["message"].as_str().unwrap();
    assert!(status == 409 && message.contains("logged out"), "{status} {message}");
    assert_eq!(authority.revoked(), ["refresh-1", "access-1", "refresh-2", "access-2"]);
    let hub = hub.restart().await;
    hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logout_revokes_tokens_of_an_earlier_file() {
    let (authority, _server, hub) = logged_in().await;
    let stranger = ScriptedAuthority::start().await;
    let other = ProtectedServer::start(&stranger.issuer(), stranger.token_validation()).await;
    hub.write_upstream("docs", &json!({ "url": other.url() }));
    hub.upstreams().reload().await;
    hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
    let (status, logout) = post(&hub, "docs/logout", &json!({})).await;
    let ended = (status, &logout["forgotten"], &logout["revoked"]);
    assert_eq!(ended, (200, &json!(true), &json!(true)), "{logout}");
    assert_eq!(authority.revoked(), ["refresh-1", "access-1"]);
    let (_, again) = post(&hub, "docs/logout", &json!({})).await;
    assert_eq!((&again["forgotten"], &again["revoked"]), (&json!(false), &json!(false)), "{again}");
}
