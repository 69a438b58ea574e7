//! Logins that must be refused.

use plexus_proto::api::UpstreamState;
use plexus_testkit::TestHub;
use plexus_testkit::fixture::Eras;
use plexus_testkit::oauth::{AuthorityFault, Browser, ProtectedServer, ScriptedAuthority};
use reqwest::Url;
use serde_json::json;

use super::{add_protected_server, begin, finish, log_in, post};
use crate::upstream::{agent, fast_timing, text};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_authorization_servers_are_refused() {
    let hub = TestHub::start_timed(fast_timing()).await;
    for (wrong, expected_text) in [
        (AuthorityFault::WrongMetadataIssuer, "names the issuer https://honest.example"),
        (AuthorityFault::NoPkce, "PKCE"),
        (AuthorityFault::NoRegistration, "client_id"),
        (AuthorityFault::PlainHttpTokenEndpoint, "unencrypted"),
    ] {
        let authority = ScriptedAuthority::with_fault(wrong).await;
        let server = ProtectedServer::start(&authority.issuer(), authority.token_validation()).await;
        add_protected_server(&hub, "docs", &json!({ "url": server.url() })).await;
        let (status, refused) = begin(&hub, "docs").await;
        let message = refused["message"].as_str().unwrap();
        assert!(status == 409 && message.contains(expected_text), "{wrong:?}: {status} {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_login_answers_are_refused() {
    let hub = TestHub::start_timed(fast_timing()).await;
    for (wrong, expected_text) in [
        (AuthorityFault::WrongResponseIssuer, "from a different authorization server"),
        (AuthorityFault::MissingResponseIssuer, "lacks the `iss` parameter"),
        (AuthorityFault::WrongState, "`state`"),
    ] {
        let authority = ScriptedAuthority::with_fault(wrong).await;
        let server = ProtectedServer::start(&authority.issuer(), authority.token_validation()).await;
        add_protected_server(&hub, "docs", &json!({ "url": server.url() })).await;
        let (_, login) = begin(&hub, "docs").await;
        let redirect = Browser::new().decide(login["url"].as_str().unwrap()).await;
        let (status, refused) = finish(&hub, "docs", &login, &redirect).await;
        let message = refused["message"].as_str().unwrap();
        assert!(status == 409 && message.contains(expected_text), "{wrong:?}: {status} {message}");
        assert_eq!(
            authority.token_requests("authorization_code").len(),
            0,
            "{wrong:?}: the code went nowhere"
        );
        hub.upstream_in("docs", UpstreamState::NeedsLogin).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_sent_only_to_its_own_authorization_server() {
    let (honest, evil) = (ScriptedAuthority::start().await, ScriptedAuthority::start().await);
    let good = ProtectedServer::start(&honest.issuer(), honest.token_validation()).await;
    let bad = ProtectedServer::start(&evil.issuer(), evil.token_validation()).await;
    let hub = TestHub::start_timed(fast_timing()).await;
    add_protected_server(&hub, "good", &json!({ "url": good.url() })).await;
    add_protected_server(&hub, "bad", &json!({ "url": bad.url() })).await;
    // A person who wants to log in to the malicious server is sent to the honest one, and returns with its
    // code.
    let (_, login) = begin(&hub, "bad").await;
    let login_url = Url::parse(login["url"].as_str().unwrap()).unwrap();
    let mut turned = Url::parse(&format!("{}/authorize", honest.issuer())).unwrap();
    turned.set_query(login_url.query());
    let redirect = Browser::new().decide(turned.as_str()).await;
    let (status, refused) = finish(&hub, "bad", &login, &redirect).await;
    assert_eq!((status, &refused["code"]), (409, &json!("conflict")), "{refused}");
    assert_eq!(evil.token_requests("authorization_code").len(), 0);
    // That login has ended: its answer was forged.
    let (status, _) = finish(&hub, "bad", &login, &redirect).await;
    assert_eq!(status, 404);
    // And a login of one server ends no other.
    let (_, login) = begin(&hub, "good").await;
    let redirect = Browser::new().decide(login["url"].as_str().unwrap()).await;
    assert_eq!(finish(&hub, "bad", &login, &redirect).await.0, 404);
    assert_eq!(finish(&hub, "good", &login, &redirect).await.0, 200);
    hub.upstream_in("good", UpstreamState::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_of_a_different_server_is_refused() {
    let authority = ScriptedAuthority::start().await;
    let other = Some("https://bank.example/mcp");
    let server =
        ProtectedServer::start_as(&authority.issuer(), authority.token_validation(), other, Eras::Both).await;
    let hub = TestHub::start_timed(fast_timing()).await;
    add_protected_server(&hub, "docs", &json!({ "url": server.url() })).await;
    let (status, refused) = begin(&hub, "docs").await;
    let message = refused["message"].as_str().unwrap();
    assert!(status == 409 && message.contains("https://bank.example/mcp"), "{status} {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn login_is_for_admins_and_http_servers() {
    let (authority, server, hub) = super::logged_in().await;
    let path = hub.url("/api/v1/upstreams/docs/login");
    let agent_token = hub.token("agent", &["call:*", "read:*"]).await.token;
    let body = json!({ "redirect_uri": super::REDIRECT_URI });
    let answer = hub.http().post(path).bearer_auth(agent_token).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 403);
    let (status, refused) = post(&hub, "nobody/login", &body).await;
    assert_eq!(status, 404, "{refused}");
    let foreign_redirect = json!({ "redirect_uri": "https://evil.example/callback" });
    let (status, refused) = post(&hub, "docs/login", &foreign_redirect).await;
    assert_eq!(status, 409, "{refused}");
    hub.write_upstream("plain", &json!({ "url": server.url(), "headers": { "Authorization": "Bearer x" } }));
    hub.upstreams().reload().await;
    let (status, refused) = begin(&hub, "plain").await;
    assert!(status == 409 && refused["message"].as_str().unwrap().contains("Authorization"), "{refused}");
    // A second login replaces the first.
    log_in(&hub, "docs").await;
    let result = agent(&hub).await.tool("mcp__docs__echo", json!({ "text": "again" })).await;
    assert_eq!(text(&result), "again", "{result}");
    assert_eq!(authority.token_requests("authorization_code").len(), 2);
    for form in authority.token_requests("authorization_code") {
        assert_eq!(form["resource"], server.url(), "{form:?}");
    }
}
