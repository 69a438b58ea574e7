//! Servers behind the hub that require a login.

mod certificates;
mod late_tokens;
mod oidc;
mod refused;
mod secrecy;
mod token_binding;
mod transient_failures;

use std::time::Duration;

use plexus_proto::api::{Upstream, UpstreamState};
use plexus_testkit::TestHub;
use plexus_testkit::fixture::Eras;
use plexus_testkit::oauth::{Browser, ProtectedServer, ScriptedAuthority};
use plexus_upstream::Timing;
use reqwest::Url;
use serde_json::{Value, json};

/// The redirect URI. Nobody listens there: the answer is intercepted before.
const REDIRECT_URI: &str = "http://127.0.0.1:9/callback";

/// A request of an admin; returns the status and the body.
async fn post(hub: &TestHub, path: &str, body: &Value) -> (u16, Value) {
    let request =
        hub.http().post(hub.url(&format!("/api/v1/upstreams/{path}"))).bearer_auth(hub.admin_token());
    let answer = request.json(body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn begin(hub: &TestHub, name: &str) -> (u16, Value) {
    post(hub, &format!("{name}/login"), &json!({ "redirect_uri": REDIRECT_URI })).await
}

/// Submits a browser's answer.
async fn finish(hub: &TestHub, name: &str, login: &Value, redirect: &Url) -> (u16, Value) {
    let answer: serde_json::Map<String, Value> =
        redirect.query_pairs().map(|(name, value)| (name.into_owned(), json!(value))).collect();
    let id = login["id"].as_str().unwrap();
    post(hub, &format!("{name}/login/{id}"), &Value::Object(answer)).await
}

/// Logs in successfully.
async fn log_in(hub: &TestHub, name: &str) -> Upstream {
    let (status, login) = begin(hub, name).await;
    assert_eq!(status, 200, "{login}");
    let redirect = Browser::new().decide(login["url"].as_str().unwrap()).await;
    let (status, upstream) = finish(hub, name, &login, &redirect).await;
    assert_eq!(status, 200, "{upstream}");
    hub.upstream_in(name, UpstreamState::Ready).await
}

/// A server that requires a login, behind a hub without one.
async fn add_protected_server(hub: &TestHub, name: &str, document: &Value) -> Upstream {
    hub.write_upstream(name, document);
    hub.upstreams().reload().await;
    let upstream = hub.upstream_in(name, UpstreamState::NeedsLogin).await;
    let why = &upstream.last_error.as_ref().unwrap().message;
    assert!(why.contains(&format!("`plexus upstream login {name}`")), "{why}");
    upstream
}

/// A scripted authorization server, a server that it protects, and a hub that is logged in there as `docs`.
async fn logged_in() -> (ScriptedAuthority, ProtectedServer, TestHub) {
    logged_in_as(Eras::Both).await
}

/// The same for a server of these eras only.
async fn logged_in_as(eras: Eras) -> (ScriptedAuthority, ProtectedServer, TestHub) {
    let authority = ScriptedAuthority::start().await;
    let server =
        ProtectedServer::start_as(&authority.issuer(), authority.token_validation(), None, eras).await;
    let timing = Timing { renew_again: Duration::from_millis(100), ..crate::upstream::fast_timing() };
    let hub = TestHub::start_timed(timing).await;
    add_protected_server(&hub, "docs", &json!({ "url": server.url() })).await;
    log_in(&hub, "docs").await;
    (authority, server, hub)
}
