//! Crashes while the access to a server is renewed: nothing runs twice, and the state is one that is told.

use std::time::Duration;

use plexus_testkit::faults::Seed;
use plexus_testkit::oauth::{Browser, Protected, ScriptedAuthority};
use plexus_testkit::{HubProcess, Plexus};
use rand::RngExt as _;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;

const PATIENCE: Duration = Duration::from_secs(30);

/// Logs in, which must work.
async fn log_in(plexus: &Plexus, hub: &HubProcess) {
    let post = async |path: &str, body: Value| -> Value {
        let request = plexus.http().post(hub.url(&format!("/api/v1/upstreams/docs/{path}")));
        let answer = request.bearer_auth(hub.admin_token()).json(&body).send().await.unwrap();
        let (status, body) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let begun = post("login", json!({ "redirect_uri": "http://127.0.0.1:9/callback" })).await;
    let back = Browser::new().decide(begun["url"].as_str().unwrap()).await;
    let brought: serde_json::Map<String, Value> =
        back.query_pairs().map(|(name, value)| (name.into_owned(), json!(value))).collect();
    post(&format!("login/{}", begun["id"].as_str().unwrap()), Value::Object(brought)).await;
    assert_eq!(settled(hub).await["state"], "ready");
}

/// The server when it is clear how it stands.
async fn settled(hub: &HubProcess) -> Value {
    let settled = async {
        loop {
            let upstream = hub.api("/api/v1/upstreams/docs").await;
            if ["ready", "needs_login"].iter().any(|state| upstream["state"] == *state) {
                return upstream;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("it says how it stands")
}

/// Where a crash strikes.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The request is on its way, and nothing was done about it.
    Asked,
    /// What the hub has is worth nothing any more, and what takes its place has not arrived.
    Rotated,
    /// The answer is on its way, and so is the crash.
    Answered,
}

/// A hub that is logged in to a server as `docs`.
async fn logged_in(plexus: &Plexus, server: &Protected) -> HubProcess {
    let hub = plexus.up().await;
    let folder = hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("docs.json"), json!({ "url": server.url() }).to_string()).unwrap();
    plexus.run(&["upstream", "reload"]).await;
    assert_eq!(settled(&hub).await["state"], "needs_login");
    log_in(plexus, &hub).await;
    hub
}

pub(super) async fn interrupted(plexus: Plexus, rounds: u64) {
    let seed = Seed::choose();
    let authority = ScriptedAuthority::start().await;
    let server = Protected::start(&authority.issuer(), authority.door()).await;
    let mut hub = logged_in(&plexus, &server).await;
    for round in 0..rounds {
        let at = match round % 4 {
            0 => At::Asked,
            1 => At::Rotated,
            _ => At::Answered,
        };
        let delay = Duration::from_micros(seed.round(round).random_range(0..8_000));
        authority.hold_renewals(!matches!(at, At::Asked));
        authority.expire_access();
        let said = format!("round {round}");
        let token = hub.admin_token();
        let client = hub.mcp(&token);
        let call = json!({ "name": "mcp__docs__echo", "arguments": { "text": said } });
        tokio::select! {
            answer = client.modern("tools/call", call) => panic!("it is held: {answer:?}"),
            () = authority.renewal_is_held() => {}
        }
        if matches!(at, At::Answered) {
            authority.answer_renewals();
            // The crash is to strike anywhere in what follows, which takes some milliseconds.
            tokio::time::sleep(delay).await;
        }
        hub.kill().await;
        authority.answer_renewals();
        hub = plexus.up().await;
        let upstream = settled(&hub).await;
        assert!(server.calls_with(&said) <= 1, "{said} at {at:?} ran twice ({seed})");
        if upstream["state"] == "needs_login" {
            let why = upstream["last_error"]["message"].as_str().unwrap();
            assert!(why.contains("`plexus upstream login docs`"), "{at:?} ({seed}): {why}");
            log_in(&plexus, &hub).await;
        }
        if matches!(at, At::Rotated) {
            assert_eq!(upstream["state"], "needs_login", "what it had was used up: {upstream}");
        }
        let before = server.calls_with(&said);
        let text = format!("text={said}");
        let called = plexus.run(&["tools", "call", "mcp__docs__echo", "--arg", &text]).await;
        assert_eq!(called.ok(), format!("{said}\n"));
        assert_eq!(server.calls_with(&said), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_access_is_not_used_before_it_is_stored_nor_asked_for_again() {
    let authority = ScriptedAuthority::start().await;
    let server = Protected::start(&authority.issuer(), authority.door()).await;
    let plexus = crate::plexus();
    let hub = logged_in(&plexus, &server).await;
    let database = SqliteConnectOptions::new().filename(hub.data_dir().join("plexus.db"));
    let mut database = database.connect().await.unwrap();
    sqlx::query("ALTER TABLE upstream_credentials RENAME TO elsewhere").execute(&mut database).await.unwrap();
    authority.expire_access();
    let call = ["tools", "call", "mcp__docs__echo", "--arg", "text=once"];
    let refused = plexus.run(&call).await;
    assert!(refused.failed(1).contains("cannot be stored now"), "{refused:?}");
    assert_eq!((authority.asked("refresh_token").len(), server.calls_with("once")), (1, 0));
    sqlx::query("ALTER TABLE elsewhere RENAME TO upstream_credentials").execute(&mut database).await.unwrap();
    let back = tokio::time::timeout(PATIENCE, async {
        while plexus.run(&call).await.code != Some(0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    back.await.expect("it is back in time");
    assert_eq!((authority.asked("refresh_token").len(), server.calls_with("once")), (1, 1));
    hub.kill().await;
    let hub = plexus.up().await;
    assert_eq!(settled(&hub).await["state"], "ready", "and it is there after a crash");
}
