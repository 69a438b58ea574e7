//! Logins at a third-party authorization server.

use std::time::Duration;

use futures_util::future::join_all;
use plexus_proto::api::UpstreamState;
use plexus_testkit::fixture::Eras;
use plexus_testkit::oauth::{Authority, ProtectedServer, TokenValidation};
use plexus_testkit::{FaultyLink, McpClient, TestHub};
use serde_json::{Value, json};

use super::{add_protected_server, begin, log_in, post};
use crate::upstream::{agent, fast_timing, text};

async fn echo(client: &McpClient, text: &str) -> Value {
    client.tool("mcp__docs__echo", json!({ "text": text })).await
}

async fn assert_echo(client: &McpClient, sent: &str) {
    let result = echo(client, sent).await;
    assert_eq!(text(&result), sent, "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_share_one_login_and_renewal() {
    let Some(authority) = Authority::start().await else { return };
    let server =
        ProtectedServer::start(authority.issuer(), TokenValidation::Introspection(authority.check_url()))
            .await;
    let hub = TestHub::start_timed(fast_timing()).await;
    // Its file does not mention OAuth; the server requires it.
    let upstream = add_protected_server(&hub, "docs", &json!({ "url": server.url() })).await;
    assert_eq!((upstream.tools.len(), upstream.retry_at), (0, None));
    let client = agent(&hub).await;

    log_in(&hub, "docs").await;
    assert_echo(&client, "logged in").await;
    assert_eq!(authority.count("registered").await, 1);
    assert_eq!(authority.count("refresh_token").await, 0);

    // The server has forgotten the token, and fifty calls notice it at the same time.
    authority.expire_access().await;
    let texts: Vec<String> = (0..50).map(|n| format!("call {n}")).collect();
    let results = join_all(texts.iter().map(|text| echo(&client, text))).await;
    for (sent, result) in texts.iter().zip(&results) {
        assert_eq!(text(result), sent, "{result}");
        assert_eq!(server.authorized_calls(sent), 1, "{sent} ran once");
    }
    assert_eq!(authority.count("refresh_token").await, 1);

    // The stored login is used by the next hub, and renewed before use when it has expired.
    let turned_away = server.unauthorized_requests();
    let hub = hub.restart_later(Duration::from_secs(2 * 3600)).await;
    hub.upstream_in("docs", UpstreamState::Ready).await;
    assert_eq!(authority.count("refresh_token").await, 2);
    assert_eq!(server.unauthorized_requests(), turned_away, "nothing was sent that had ended");
    let client = agent(&hub).await;
    assert_echo(&client, "after a restart").await;

    // Only this ends the login.
    authority.revoke_refresh().await;
    authority.expire_access().await;
    let ended = echo(&client, "too late").await;
    assert_eq!(ended["_meta"]["plexus/error"]["code"], "unavailable", "{ended}");
    assert!(text(&ended).contains("plexus upstream login docs"), "{ended}");
    assert_eq!(server.authorized_calls("too late"), 0);
    hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
    let refused = authority.count("refused").await;
    let again = echo(&client, "still too late").await;
    assert!(text(&again).contains("Nothing was run"), "{again}");
    assert_eq!(authority.count("refused").await, refused, "nobody asks again for what has ended");

    log_in(&hub, "docs").await;
    assert_echo(&client, "logged in again").await;
    let (status, logout) = post(&hub, "docs/logout", &json!({})).await;
    assert_eq!(
        (status, &logout["forgotten"], &logout["revoked"]),
        (200, &json!(true), &json!(true)),
        "{logout}"
    );
    let upstream = hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
    assert!(upstream.last_error.unwrap().message.contains("logged out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_client_identities_are_accepted() {
    let Some(authority) = Authority::start().await else { return };
    let door = TokenValidation::Introspection(authority.check_url());
    let server = ProtectedServer::start(authority.issuer(), door.clone()).await;
    let older = ProtectedServer::start_as(authority.issuer(), door, None, Eras::Sessions).await;
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    for (name, url, auth) in [
        ("known", server.url(), json!({ "client_id": "registered", "client_secret": "known-to-both" })),
        ("described", older.url(), json!({ "client_metadata_url": "https://hub.example/plexus.json" })),
    ] {
        let mut auth = auth;
        auth["type"] = json!("oauth");
        auth["authorization_server"] = json!(authority.issuer());
        add_protected_server(&hub, name, &json!({ "url": url, "auth": auth })).await;
        let (_, login) = begin(&hub, name).await;
        let url = login["url"].as_str().unwrap();
        assert!(
            url.contains("client_id=registered") || url.contains("client_id=https%3A%2F%2Fhub.example"),
            "{url}"
        );
        log_in(&hub, name).await;
        let result = client.tool(&format!("mcp__{name}__echo"), json!({ "text": name })).await;
        assert_eq!(text(&result), name, "{result}");
    }
    assert_eq!(authority.count("registered").await, 0);

    let robot = json!({
        "url": server.url(),
        "auth": {
            "type": "oauth", "grant": "client_credentials", "scopes": ["tools"],
            "client_id": "robot", "client_secret": "of+the robot",
            "authorization_server": authority.issuer(),
        },
    });
    hub.add_upstream("robot", &robot).await;
    let result = client.tool("mcp__robot__echo", json!({ "text": "by itself" })).await;
    assert_eq!(text(&result), "by itself", "{result}");
    assert_eq!(authority.count("client_credentials").await, 1);
    let (status, refused) = begin(&hub, "robot").await;
    assert_eq!((status, &refused["code"]), (409, &json!("conflict")), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_authorization_server_ends_no_login() {
    let link = FaultyLink::to("127.0.0.1:9".parse().unwrap()).await;
    let issuer = link.url("");
    let Some(authority) = Authority::start_with(Some(&issuer), 3600).await else { return };
    link.point_at(authority.address());
    let server = ProtectedServer::start(&issuer, TokenValidation::Introspection(authority.check_url())).await;
    let hub = TestHub::start_timed(fast_timing()).await;
    add_protected_server(&hub, "docs", &json!({ "url": server.url() })).await;
    log_in(&hub, "docs").await;
    let client = agent(&hub).await;
    assert_echo(&client, "well").await;

    for (is_reachable, sent) in [(true, "while it says 503"), (false, "while nobody is there")] {
        if is_reachable {
            authority.go_down().await;
        } else {
            link.point_at("127.0.0.1:9".parse().unwrap());
            link.cut();
        }
        authority.expire_access().await;
        let result = echo(&client, sent).await;
        assert_eq!(result["_meta"]["plexus/error"]["code"], "unavailable", "{result}");
        assert!(text(&result).contains("Nothing was run"), "{result}");
        let down = hub.upstream_in("docs", UpstreamState::Down).await;
        let why = down.last_error.unwrap().message;
        assert!(why.contains("cannot be renewed now") && !why.contains("login"), "{why}");
        authority.come_up().await;
        link.point_at(authority.address());
        hub.upstream_in("docs", UpstreamState::Ready).await;
        assert_echo(&client, &format!("after {sent}")).await;
        assert_eq!(server.authorized_calls(sent), 0);
    }
    assert_eq!(authority.count("authorization_code").await, 1, "one login was enough");
}
