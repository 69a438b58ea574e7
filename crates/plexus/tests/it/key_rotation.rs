//! Rotation of signing keys under load and during crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_testkit::faults::Seed;
use plexus_testkit::{HubProcess, Plexus, until};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A hub with an HTTP client.
#[derive(Clone)]
struct HubClient {
    hub: Arc<HubProcess>,
    http: reqwest::Client,
}

impl HubClient {
    async fn post(&self, token: &str, path: &str, body: Value) -> Result<(u16, Value), reqwest::Error> {
        let request = self.http.post(self.hub.url(path)).bearer_auth(token).json(&body);
        let response = request.send().await?;
        let status = response.status().as_u16();
        Ok((status, response.json().await?))
    }

    async fn rotate(&self, overlap: u64) -> String {
        let body = json!({ "overlap_seconds": overlap });
        let (status, key) =
            self.post(&self.hub.admin_token(), "/api/v1/keys/rotate", body).await.expect("an answer");
        assert_eq!(status, 200, "{key}");
        key["kid"].as_str().expect("a key").to_owned()
    }

    async fn retire(&self, kid: &str) {
        let path = format!("/api/v1/keys/{kid}/retire");
        let (status, key) = self.post(&self.hub.admin_token(), &path, json!({})).await.expect("an answer");
        assert_eq!((status, &key["state"]), (200, &json!("retired")), "{key}");
    }

    async fn keys(&self) -> Vec<(String, String)> {
        let keys = self.hub.api("/api/v1/keys").await;
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        keys["items"]
            .as_array()
            .expect("keys")
            .iter()
            .map(|key| (text(&key["kid"]), text(&key["state"])))
            .collect()
    }

    async fn renew(&self, token: &str) -> String {
        let (status, made) = self.post(token, "/api/v1/tokens/renew", json!({})).await.expect("an answer");
        assert_eq!(status, 201, "a valid token was not renewed: {made}");
        made["token"].as_str().expect("a token").to_owned()
    }

    /// Calls a tool; returns the status.
    async fn call(&self, protocol: Protocol, token: &str) -> u16 {
        let arguments = json!({ "action": "list" });
        match protocol {
            Protocol::Rest => {
                let body = json!({ "arguments": arguments });
                self.post(token, "/api/v1/tools/todo/call", body).await.expect("an answer").0
            }
            Protocol::Stateless => {
                let params = json!({ "name": "todo", "arguments": arguments });
                self.hub.mcp(token).modern("tools/call", params).await.status
            }
            Protocol::Session => {
                let params = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": { "name": "rotation", "version": "1" },
                });
                let client = self.hub.mcp(token);
                let opened = client.call("initialize", params).await;
                let Some(id) = opened.header("mcp-session-id") else { return opened.status };
                let client = client.header("mcp-session-id", id);
                client.call("tools/call", json!({ "name": "todo", "arguments": arguments })).await.status
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Rest,
    Stateless,
    Session,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Rest, Protocol::Stateless, Protocol::Session];

/// Clients that call continuously and renew their tokens on request.
struct Load {
    clients: JoinSet<usize>,
    over: Arc<AtomicBool>,
    renewals: watch::Sender<u64>,
    renewed: mpsc::Receiver<()>,
}

impl Load {
    async fn start(hub_client: &HubClient) -> Self {
        let (renewals, wanted) = watch::channel(0);
        let (done, renewed) = mpsc::channel(64);
        let over = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for (index, protocol) in PROTOCOLS.into_iter().chain(PROTOCOLS).enumerate() {
            let mut token = hub_client.hub.token(&format!("client-{index}")).await.token;
            let (hub_client, over, mut wanted, done) =
                (hub_client.clone(), over.clone(), wanted.clone(), done.clone());
            clients.spawn(async move {
                let mut calls = 0;
                while !over.load(Ordering::SeqCst) {
                    if wanted.has_changed().expect("the test goes on") {
                        wanted.mark_unchanged();
                        token = hub_client.renew(&token).await;
                        done.send(()).await.expect("the test goes on");
                    }
                    assert_eq!(
                        hub_client.call(protocol, &token).await,
                        200,
                        "{protocol:?} with a valid token"
                    );
                    calls += 1;
                }
                calls
            });
        }
        Self { clients, over, renewals, renewed }
    }

    /// Makes every client renew its token, which is then signed with the current key.
    async fn renew(&mut self) {
        self.renewals.send_modify(|number| *number += 1);
        let all = async {
            for _ in 0..self.clients.len() {
                self.renewed.recv().await.expect("a client that goes on");
            }
        };
        tokio::time::timeout(TIMEOUT, all).await.expect("all clients renew in time");
    }

    async fn stop(self) -> usize {
        self.over.store(true, Ordering::SeqCst);
        tokio::time::timeout(TIMEOUT, self.clients.join_all()).await.expect("all clients end").iter().sum()
    }
}

/// Calls with a token whose key is retired meanwhile; every call after `retired` must be refused.
async fn probe(hub_client: HubClient, token: String, mut retired: watch::Receiver<bool>) {
    let (mut accepted, mut refused) = (0, 0);
    for protocol in PROTOCOLS.into_iter().cycle() {
        let over = *retired.borrow();
        match (over, hub_client.call(protocol, &token).await) {
            (true, 401) => refused += 1,
            (false, 200) => accepted += 1,
            // The key was retired during the call.
            (false, 401) => {
                retired.wait_for(|over| *over).await.expect("the test goes on");
            }
            (_, status) => panic!("{protocol:?} got {status}; key retired: {over}"),
        }
        // Failed authentications are limited; a few per protocol suffice.
        if refused == 6 {
            break;
        }
    }
    assert!(accepted > 0, "the token was never accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_rotated_under_load_accept_all_valid_and_no_retired_tokens() {
    let plexus = crate::plexus();
    let hub_client = HubClient { hub: Arc::new(plexus.up().await), http: plexus.http().clone() };
    let first = hub_client.keys().await[0].0.clone();
    let leaked = hub_client.hub.token("leaked").await.token;
    let mut load = Load::start(&hub_client).await;

    // Tokens of four keys are valid at the same time; those of the clients are of the first key.
    let mut tokens_of_each_key = Vec::new();
    for _ in 0..3 {
        hub_client.rotate(3600).await;
        tokens_of_each_key.push(hub_client.hub.token("of-each").await.token);
    }
    for token in tokens_of_each_key.iter().chain([&leaked]) {
        for protocol in PROTOCOLS {
            assert_eq!(hub_client.call(protocol, token).await, 200, "{protocol:?} during the overlap");
        }
    }
    load.renew().await;

    // The first key is retired because it leaked: its tokens are refused from the answer on, and their streams end.
    let (session, _) = hub_client.hub.mcp(&leaked).initialize("2025-11-25").await;
    let mut stream = session.get_stream().await;
    let (retired, retired_seen) = watch::channel(false);
    let mut probes = JoinSet::new();
    for _ in 0..2 {
        probes.spawn(probe(hub_client.clone(), leaked.clone(), retired_seen.clone()));
    }
    for _ in 0..10 {
        assert_eq!(hub_client.call(Protocol::Rest, &leaked).await, 200);
    }
    hub_client.retire(&first).await;
    retired.send_replace(true);
    tokio::time::timeout(TIMEOUT, probes.join_all()).await.expect("the probe ends");
    tokio::time::timeout(TIMEOUT, async { while stream.next().await.is_some() {} })
        .await
        .expect("a stream of a retired key ends");

    // The overlap ends automatically.
    let short = hub_client.hub.token("short").await.token;
    let (session, _) = hub_client.hub.mcp(&short).initialize("2025-11-25").await;
    let mut stream = session.get_stream().await;
    let last = hub_client.keys().await[0].0.clone();
    hub_client.rotate(5).await;
    load.renew().await;
    assert_eq!(hub_client.call(Protocol::Rest, &short).await, 200, "within the overlap");
    until("the overlap has ended", async || {
        hub_client.keys().await.iter().any(|(kid, state)| *kid == last && state == "retired")
    })
    .await;
    for protocol in PROTOCOLS {
        assert_eq!(hub_client.call(protocol, &short).await, 401, "{protocol:?} after the overlap");
    }
    tokio::time::timeout(TIMEOUT, async { while stream.next().await.is_some() {} })
        .await
        .expect("a stream of a key whose overlap is over ends");
    // The other keys are still in their overlap.
    for token in &tokens_of_each_key[..2] {
        assert_eq!(hub_client.call(Protocol::Rest, token).await, 200);
    }
    assert_eq!(hub_client.call(Protocol::Rest, &tokens_of_each_key[2]).await, 401);

    let calls = load.stop().await;
    assert!(calls > 50, "hardly any load: {calls} calls");
    eprintln!("{calls} calls with valid tokens, none refused");
    let report = hub_client.hub.api("/api/v1/audit/verify").await;
    assert_eq!(report["ok"], true, "{report}");
}

#[tokio::test]
async fn keys_are_rotated_and_retired_by_commands_and_audited() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    let before = plexus.run(&["keys", "list", "--json"]).await.json(0);
    let old = before["items"][0]["kid"].as_str().expect("a key").to_owned();
    let new =
        plexus.run(&["keys", "rotate", "--json"]).await.json(0)["kid"].as_str().expect("a key").to_owned();
    let lines = plexus.run(&["keys", "list"]).await;
    let states: Vec<Vec<&str>> = lines.ok().lines().map(|line| line.split('\t').take(2).collect()).collect();
    assert_eq!(states, [[new.as_str(), "current"], [old.as_str(), "retiring"]]);

    let current = plexus.run(&["keys", "retire", &new]).await;
    assert!(current.failed(1).contains("rotate --overlap 0"), "{current:?}");
    assert!(plexus.run(&["keys", "retire", "nothing"]).await.failed(1).contains("no such key"));
    let as_agent = [("PLEXUS_TOKEN", token.as_str())];
    assert_eq!(plexus.run_with(&["keys", "rotate"], &as_agent).await.code, Some(5));
    assert_eq!(plexus.run_with(&["keys", "list"], &as_agent).await.code, Some(5));
    plexus.run(&["keys", "retire", &old]).await.ok();
    let refused = plexus.run_with(&["tools", "list"], &as_agent).await;
    assert!(refused.failed(5).contains("retired"), "{refused:?}");

    let record = |tool: &'static str| {
        let plexus = &plexus;
        async move {
            let list = plexus.run(&["audit", "list", "--json", "--tool", tool]).await.json(0);
            let calls = list["items"].as_array().expect("calls").clone();
            calls
                .iter()
                .map(|call| call["outcome"].as_str().expect("an outcome").to_owned())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(record("key_rotate").await, ["forbidden", "ok"]);
    assert_eq!(record("key_retire").await, ["ok", "conflict"]);
    // The head is signed with the new key and accepted at the next start.
    plexus.run(&["audit", "verify"]).await.ok();
    assert!(hub.terminate().await.success());
    let head = std::fs::read_to_string(plexus.data_dir().join("audit.head")).expect("a head");
    assert!(head.contains(&new), "{head}");
    let hub = plexus.up().await;
    assert_eq!(hub.api("/api/v1/status").await["audit"]["intact_at_start"], true);
    plexus.run(&["audit", "verify"]).await.ok();
}

#[tokio::test]
async fn running_hub_replaces_an_invalid_admin_token() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let file = plexus.data_dir().join("admin-token");
    let old = std::fs::read(&file).expect("the admin token");
    plexus.run(&["keys", "rotate", "--overlap", "0"]).await.ok();
    // As after a crash between the replacement of the key and that of the token.
    std::fs::write(&file, &old).expect("it can be written");
    until("the admin token is replaced", async || std::fs::read(&file).expect("the admin token") != old)
        .await;
    plexus.run(&["keys", "list"]).await.ok();
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn head_signed_with_a_retired_key_is_accepted() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    hub.token("codex").await;
    let folder = plexus.data_dir();
    let before = loop {
        let head = std::fs::read(folder.join("audit.head")).expect("a head");
        let signed: Value = serde_json::from_slice(&head).expect("JSON");
        let newest = hub.api("/api/v1/status").await["audit"]["head"]["n"].clone();
        if signed["n"] == newest {
            break head;
        }
        tokio::task::yield_now().await;
    };
    plexus.run(&["keys", "rotate", "--overlap", "0"]).await.ok();
    assert!(hub.terminate().await.success());
    // As after a crash before a head was signed with the new key.
    std::fs::write(folder.join("audit.head"), before).expect("it can be written");
    let hub = plexus.up().await;
    let status = hub.api("/api/v1/status").await;
    assert_eq!(status["audit"]["intact_at_start"], true, "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_during_rotation_leave_one_current_key_and_all_tokens_valid() {
    crash_rounds(8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_during_rotation_leave_one_current_key_and_all_tokens_valid() {
    crash_rounds(200).await;
}

/// The acknowledged keys and tokens.
#[derive(Debug, Default)]
struct Acknowledged {
    keys: Vec<String>,
    tokens: Vec<String>,
}

async fn crash_rounds(rounds: u64) {
    let seed = Seed::choose();
    eprintln!("repeat this run with {seed}");
    let plexus = crate::plexus();
    let mut hub = plexus.up().await;
    let mut all = Acknowledged::default();
    for round in 0..rounds {
        let delay = Duration::from_micros(seed.round(round).random_range(1_000..250_000));
        crash_while_rotating(&plexus, hub, delay, &mut all).await;
        let hub_client = HubClient { hub: Arc::new(plexus.up().await), http: plexus.http().clone() };
        let keys = hub_client.keys().await;
        assert_eq!(keys.iter().filter(|(_, state)| state == "current").count(), 1, "{keys:?}");
        assert!(all.keys.iter().all(|kid| keys.iter().any(|(known, _)| known == kid)), "a key is lost");
        for token in all.tokens.iter().rev().take(100) {
            assert_eq!(hub_client.call(Protocol::Rest, token).await, 200, "round {round}: a token is lost");
        }
        plexus.run(&["audit", "verify"]).await.ok();
        plexus.run(&["token", "list"]).await.ok();
        hub = Arc::into_inner(hub_client.hub).expect("the only reference");
    }
    eprintln!("{} keys and {} tokens were acknowledged", all.keys.len(), all.tokens.len());
    assert!(all.keys.len() as u64 >= rounds && all.tokens.len() as u64 >= rounds, "hardly any load");
}

/// Rotates keys and creates tokens until the hub is killed; adds the acknowledged ones to `all`.
async fn crash_while_rotating(plexus: &Plexus, hub: HubProcess, delay: Duration, all: &mut Acknowledged) {
    let (http, url, folder) = (plexus.http().clone(), hub.url(""), plexus.data_dir());
    let post = move |path: &'static str, body: Value| {
        let (http, url, folder) = (http.clone(), url.clone(), folder.clone());
        async move {
            loop {
                let admin = std::fs::read_to_string(folder.join("admin-token")).expect("the admin token");
                let request = http.post(format!("{url}{path}")).bearer_auth(admin.trim()).json(&body);
                let response = request.send().await.ok()?;
                let status = response.status();
                let answer: Value = response.json().await.ok()?;
                // A rotation replaced the admin token meanwhile; the file has the new one.
                if status == 403 && answer.to_string().contains("has been replaced") {
                    continue;
                }
                assert!(status.is_success(), "{path}: {status} {answer}");
                return Some(answer);
            }
        }
    };
    let mut running = JoinSet::new();
    let (rotate, create_token) = (post.clone(), post);
    // The crash follows the first key and token, however slow the machine is.
    let (progress, mut count) = watch::channel((0, 0));
    let (key_progress, token_progress) = (progress.clone(), progress);
    running.spawn(async move {
        let mut done = Acknowledged::default();
        while let Some(key) = rotate("/api/v1/keys/rotate", json!({ "overlap_seconds": 3600 })).await {
            done.keys.push(key["kid"].as_str().expect("a key").to_owned());
            key_progress.send_modify(|(keys, _)| *keys += 1);
        }
        done
    });
    running.spawn(async move {
        let mut done = Acknowledged::default();
        while let Some(made) =
            create_token("/api/v1/tokens", json!({ "kind": "agent", "name": "codex" })).await
        {
            done.tokens.push(made["token"].as_str().expect("a token").to_owned());
            token_progress.send_modify(|(_, tokens)| *tokens += 1);
        }
        done
    });
    let both_acknowledged = count.wait_for(|(keys, tokens)| *keys > 0 && *tokens > 0);
    tokio::time::timeout(TIMEOUT, both_acknowledged)
        .await
        .expect("both requests are answered")
        .expect("both go on");
    tokio::time::sleep(delay).await;
    hub.kill().await;
    let acknowledged = tokio::time::timeout(TIMEOUT, running.join_all()).await.expect("both notice");
    for done in acknowledged {
        all.keys.extend(done.keys);
        all.tokens.extend(done.tokens);
    }
}
