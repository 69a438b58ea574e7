//! Tokens for one URL are never sent to another, and secrets go only to the server that the file names.

use std::time::Duration;

use plexus_proto::api::UpstreamState;
use plexus_testkit::fixture::Eras;
use plexus_testkit::oauth::{Browser, ProtectedServer, ScriptedAuthority};
use plexus_testkit::{TestHub, until};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{begin, finish, logged_in, logged_in_as};
use crate::upstream::{agent, fast_timing};

const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between login attempts while the file has not been read yet.
const POLL: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn client_secret_is_sent_only_to_the_configured_authority() {
    let (honest, evil) = (ScriptedAuthority::start().await, ScriptedAuthority::start().await);
    let server = ProtectedServer::start(&evil.issuer(), evil.token_validation()).await;
    let hub = TestHub::start_timed(fast_timing()).await;
    let mut document = json!({
        "url": server.url(),
        "auth": {
            "type": "oauth", "grant": "client_credentials", "client_id": "robot", "client_secret": "of+the robot",
        },
    });
    hub.write_upstream("robot", &document);
    hub.upstreams().reload().await;
    let why = hub.upstream_in("robot", UpstreamState::Invalid).await.last_error.unwrap().message;
    assert!(why.contains("`auth.authorization_server` is missing"), "{why}");
    // The agreed authorization server is not the one that the server names today.
    document["auth"]["authorization_server"] = json!(honest.issuer());
    hub.write_upstream("robot", &document);
    hub.upstreams().reload().await;
    let why = hub.upstream_in("robot", UpstreamState::Down).await.last_error.unwrap().message;
    assert!(why.contains("does not list the `authorization_server` of the server's file"), "{why}");
    assert_eq!(
        (honest.token_requests("client_credentials").len(), evil.token_requests("client_credentials").len()),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn old_connection_gets_no_token_of_a_new_file() {
    let (authority, old, hub) = logged_in_as(Eras::Sessions).await;
    let new = ProtectedServer::start(&authority.issuer(), authority.token_validation()).await;
    let client = agent(&hub).await;
    // A call holds the old connection while the file changes and somebody logs in to the new server.
    let mut calls = JoinSet::new();
    calls.spawn(async move { client.tool("mcp__docs__slow", json!({})).await });
    until("the call runs", async || hub.upstreams().get("docs").unwrap().in_flight == 1).await;
    hub.write_upstream("docs", &json!({ "url": new.url() }));
    hub.upstreams().reload_within(Duration::ZERO).await;
    let login = login_at(&hub, &new).await;
    let redirect = Browser::new().decide(login["url"].as_str().unwrap()).await;
    let (status, upstream) = finish(&hub, "docs", &login, &redirect).await;
    assert_eq!(status, 200, "{upstream}");
    hub.upstream_in("docs", UpstreamState::Ready).await;
    assert!(
        new.received_tokens().iter().all(|shown| shown == "Bearer access-2"),
        "{:?}",
        new.received_tokens()
    );
    hub.stop().await;
    let shown = old.received_tokens();
    assert!(shown.iter().all(|shown| shown == "Bearer access-1"), "{shown:?}");
}

/// A login at the server, once the hub has read the changed file.
async fn login_at(hub: &TestHub, server: &ProtectedServer) -> Value {
    let login = tokio::time::timeout(PATIENCE, async {
        loop {
            let (status, login) = begin(hub, "docs").await;
            assert_eq!(status, 200, "{login}");
            let url = Url::parse(login["url"].as_str().unwrap()).unwrap();
            if url.query_pairs().any(|(name, value)| name == "resource" && value == server.url()) {
                return login;
            }
            tokio::time::sleep(POLL).await;
        }
    });
    login.await.expect("the file is read in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn login_for_a_changed_file_is_discarded() {
    let (authority, _server, hub) = logged_in().await;
    let stranger = ScriptedAuthority::start().await;
    let other = ProtectedServer::start(&stranger.issuer(), stranger.token_validation()).await;
    let (_, login) = begin(&hub, "docs").await;
    let redirect = Browser::new().decide(login["url"].as_str().unwrap()).await;
    authority.delay_code_exchanges();
    let finishing = finish(&hub, "docs", &login, &redirect);
    let changing = async {
        authority.refresh_is_delayed().await;
        hub.write_upstream("docs", &json!({ "url": other.url() }));
        hub.upstreams().reload().await;
        hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
        authority.resume_token_requests();
    };
    let ((status, refused), ()) = tokio::join!(finishing, changing);
    let message = refused["message"].as_str().unwrap();
    assert!(status == 409 && message.contains("has changed since the login started"), "{status} {message}");
    assert_eq!(authority.revoked(), ["refresh-2", "access-2"], "what came of it was given back");
    hub.upstreams().reload().await;
    hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
    assert_eq!(other.received_tokens(), Vec::<String>::new());
}
