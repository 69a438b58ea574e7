//! Crashes while the access token of a server is refreshed: no call runs twice, and the resulting state is reported.

use std::time::Duration;

use plexus_testkit::faults::Seed;
use plexus_testkit::oauth::{Browser, ProtectedServer, ScriptedAuthority};
use plexus_testkit::{HubProcess, Plexus, until};
use rand::RngExt as _;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;

/// Logs in to the server `docs`.
async fn log_in(plexus: &Plexus, hub: &HubProcess) {
    let post = async |path: &str, body: Value| -> Value {
        let request = plexus.http().post(hub.url(&format!("/api/v1/upstreams/docs/{path}")));
        let answer = request.bearer_auth(hub.admin_token()).json(&body).send().await.unwrap();
        let (status, body) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let begun = post("login", json!({ "redirect_uri": "http://127.0.0.1:9/callback" })).await;
    let callback = Browser::new().decide(begun["url"].as_str().unwrap()).await;
    let params: serde_json::Map<String, Value> =
        callback.query_pairs().map(|(name, value)| (name.into_owned(), json!(value))).collect();
    post(&format!("login/{}", begun["id"].as_str().unwrap()), Value::Object(params)).await;
    assert_eq!(ready_or_needs_login(hub).await["state"], "ready");
}

/// The server once its state is `ready` or `needs_login`.
async fn ready_or_needs_login(hub: &HubProcess) -> Value {
    let settled = |server: &Value| ["ready", "needs_login"].iter().any(|state| server["state"] == *state);
    hub.api_until("/api/v1/upstreams/docs", settled).await
}

/// When the crash happens.
#[derive(Debug, Clone, Copy)]
enum CrashPoint {
    /// The refresh request was sent; the authorization server has not processed it.
    RequestSent,
    /// The old refresh token is invalid; the response with the new one has not been sent.
    TokenRotated,
    /// The response was sent; the crash follows at a random moment.
    ResponseSent,
}

/// A hub that is logged in to a server as `docs`.
async fn logged_in(plexus: &Plexus, server: &ProtectedServer) -> HubProcess {
    let hub = plexus.up().await;
    let folder = hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("docs.json"), json!({ "url": server.url() }).to_string()).unwrap();
    plexus.run(&["upstream", "reload"]).await;
    assert_eq!(ready_or_needs_login(&hub).await["state"], "needs_login");
    log_in(plexus, &hub).await;
    hub
}

pub(super) async fn interrupted(plexus: Plexus, rounds: u64) {
    let seed = Seed::choose();
    let authority = ScriptedAuthority::start().await;
    let server = ProtectedServer::start(&authority.issuer(), authority.token_validation()).await;
    let mut hub = logged_in(&plexus, &server).await;
    for round in 0..rounds {
        let point = match round % 4 {
            0 => CrashPoint::RequestSent,
            1 => CrashPoint::TokenRotated,
            _ => CrashPoint::ResponseSent,
        };
        let delay = Duration::from_micros(seed.round(round).random_range(0..8_000));
        authority.delay_refreshes(!matches!(point, CrashPoint::RequestSent));
        authority.expire_access();
        let marker = format!("round {round}");
        let token = hub.admin_token();
        let client = hub.mcp(&token);
        let call = json!({ "name": "mcp__docs__echo", "arguments": { "text": marker } });
        tokio::select! {
            answer = client.modern("tools/call", call) => panic!("the refresh is held: {answer:?}"),
            () = authority.refresh_is_delayed() => {}
        }
        if matches!(point, CrashPoint::ResponseSent) {
            authority.resume_token_requests();
            // The processing of the response takes some milliseconds; the crash happens anywhere in it.
            tokio::time::sleep(delay).await;
        }
        hub.kill().await;
        authority.resume_token_requests();
        hub = plexus.up().await;
        let upstream = ready_or_needs_login(&hub).await;
        assert!(server.authorized_calls(&marker) <= 1, "{marker} at {point:?} ran twice ({seed})");
        if upstream["state"] == "needs_login" {
            let why = upstream["last_error"]["message"].as_str().unwrap();
            assert!(why.contains("`plexus upstream login docs`"), "{point:?} ({seed}): {why}");
            log_in(&plexus, &hub).await;
        }
        if matches!(point, CrashPoint::TokenRotated) {
            assert_eq!(upstream["state"], "needs_login", "its refresh token was used: {upstream}");
        }
        let before = server.authorized_calls(&marker);
        let text = format!("text={marker}");
        let called = plexus.run(&["tools", "call", "mcp__docs__echo", "--arg", &text]).await;
        assert_eq!(called.ok(), format!("{marker}\n"));
        assert_eq!(server.authorized_calls(&marker), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refreshed_token_is_stored_before_use_and_requested_once() {
    let authority = ScriptedAuthority::start().await;
    let server = ProtectedServer::start(&authority.issuer(), authority.token_validation()).await;
    let plexus = crate::plexus();
    let hub = logged_in(&plexus, &server).await;
    let database = SqliteConnectOptions::new().filename(hub.data_dir().join("plexus.db"));
    let mut database = database.connect().await.unwrap();
    sqlx::query("ALTER TABLE upstream_credentials RENAME TO elsewhere").execute(&mut database).await.unwrap();
    authority.expire_access();
    let call = ["tools", "call", "mcp__docs__echo", "--arg", "text=once"];
    let refused = plexus.run(&call).await;
    assert!(refused.failed(1).contains("cannot be stored now"), "{refused:?}");
    assert_eq!((authority.token_requests("refresh_token").len(), server.authorized_calls("once")), (1, 0));
    sqlx::query("ALTER TABLE elsewhere RENAME TO upstream_credentials").execute(&mut database).await.unwrap();
    until("the call succeeds", async || plexus.run(&call).await.code == Some(0)).await;
    assert_eq!((authority.token_requests("refresh_token").len(), server.authorized_calls("once")), (1, 1));
    hub.kill().await;
    let hub = plexus.up().await;
    assert_eq!(ready_or_needs_login(&hub).await["state"], "ready", "the stored token survives a crash");
}
