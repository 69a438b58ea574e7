//! Signing keys are rotated while clients call, and while the hub is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plexus_testkit::faults::Seed;
use plexus_testkit::{HubProcess, Plexus};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(20);

/// One hub and a way to ask it.
#[derive(Clone)]
struct Asker {
    hub: Arc<HubProcess>,
    http: reqwest::Client,
}

impl Asker {
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

    /// Calls a tool through one of the doors.
    async fn call(&self, door: Door, token: &str) -> u16 {
        let arguments = json!({ "action": "list" });
        match door {
            Door::Rest => {
                let body = json!({ "arguments": arguments });
                self.post(token, "/api/v1/tools/todo/call", body).await.expect("an answer").0
            }
            Door::Stateless => {
                let params = json!({ "name": "todo", "arguments": arguments });
                self.hub.mcp(token).modern("tools/call", params).await.status
            }
            Door::Session => {
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
enum Door {
    Rest,
    Stateless,
    Session,
}

const DOORS: [Door; 3] = [Door::Rest, Door::Stateless, Door::Session];

/// Clients that call without a pause and renew their tokens when they are told to.
struct Load {
    clients: JoinSet<usize>,
    over: Arc<AtomicBool>,
    renewals: watch::Sender<u64>,
    renewed: mpsc::Receiver<()>,
}

impl Load {
    async fn start(asker: &Asker) -> Self {
        let (renewals, wanted) = watch::channel(0);
        let (done, renewed) = mpsc::channel(64);
        let over = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for (place, door) in DOORS.into_iter().chain(DOORS).enumerate() {
            let mut token = asker.hub.token(&format!("client-{place}")).await.token;
            let (asker, over, mut wanted, done) = (asker.clone(), over.clone(), wanted.clone(), done.clone());
            clients.spawn(async move {
                let mut calls = 0;
                while !over.load(Ordering::SeqCst) {
                    if wanted.has_changed().expect("the test goes on") {
                        wanted.mark_unchanged();
                        token = asker.renew(&token).await;
                        done.send(()).await.expect("the test goes on");
                    }
                    assert_eq!(asker.call(door, &token).await, 200, "{door:?} with a valid token");
                    calls += 1;
                }
                calls
            });
        }
        Self { clients, over, renewals, renewed }
    }

    /// Every client has a token of the current key when this returns.
    async fn renew(&mut self) {
        self.renewals.send_modify(|number| *number += 1);
        let all = async {
            for _ in 0..self.clients.len() {
                self.renewed.recv().await.expect("a client that goes on");
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("all clients renew in time");
    }

    async fn stop(self) -> usize {
        self.over.store(true, Ordering::SeqCst);
        tokio::time::timeout(PATIENCE, self.clients.join_all()).await.expect("all clients end").iter().sum()
    }
}

/// Calls with a token whose key ends meanwhile; none that began after `ended` may be let in.
async fn probe(asker: Asker, token: String, mut ended: watch::Receiver<bool>) {
    let (mut accepted, mut refused) = (0, 0);
    for door in DOORS.into_iter().cycle() {
        let over = *ended.borrow();
        match (over, asker.call(door, &token).await) {
            (true, 401) => refused += 1,
            (false, 200) => accepted += 1,
            // It ended while the call was on its way.
            (false, 401) => {
                ended.wait_for(|over| *over).await.expect("the test goes on");
            }
            (_, status) => panic!("{door:?} was answered {status}; the key had ended: {over}"),
        }
        // The hub counts refusals; a few of each door are enough.
        if refused == 6 {
            break;
        }
    }
    assert!(accepted > 0, "the token was never good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_rotated_under_load_fail_no_valid_token_and_let_in_no_retired_one() {
    let plexus = crate::plexus();
    let asker = Asker { hub: Arc::new(plexus.up().await), http: plexus.http().clone() };
    let first = asker.keys().await[0].0.clone();
    let leaked = asker.hub.token("leaked").await.token;
    let mut load = Load::start(&asker).await;

    // Tokens of four keys at the same time: those of the clients are of the first one.
    let mut of_each = Vec::new();
    for _ in 0..3 {
        asker.rotate(3600).await;
        of_each.push(asker.hub.token("of-each").await.token);
    }
    for token in of_each.iter().chain([&leaked]) {
        for door in DOORS {
            assert_eq!(asker.call(door, token).await, 200, "{door:?} during the overlap");
        }
    }
    load.renew().await;

    // The first key has leaked: from the answer on, nobody gets in with it, and streams end.
    let (session, _) = asker.hub.mcp(&leaked).initialize("2025-11-25").await;
    let mut stream = session.get_stream().await;
    let (ended, seen) = watch::channel(false);
    let mut probes = JoinSet::new();
    for _ in 0..2 {
        probes.spawn(probe(asker.clone(), leaked.clone(), seen.clone()));
    }
    for _ in 0..10 {
        assert_eq!(asker.call(Door::Rest, &leaked).await, 200);
    }
    asker.retire(&first).await;
    ended.send_replace(true);
    tokio::time::timeout(PATIENCE, probes.join_all()).await.expect("the probe ends");
    tokio::time::timeout(PATIENCE, async { while stream.next().await.is_some() {} })
        .await
        .expect("a stream of a retired key ends");

    // An overlap ends by itself.
    let short = asker.hub.token("short").await.token;
    let (session, _) = asker.hub.mcp(&short).initialize("2025-11-25").await;
    let mut stream = session.get_stream().await;
    let last = asker.keys().await[0].0.clone();
    asker.rotate(5).await;
    load.renew().await;
    assert_eq!(asker.call(Door::Rest, &short).await, 200, "within the overlap");
    let state = async || asker.keys().await.into_iter().find(|(kid, _)| *kid == last).expect("the key").1;
    let began = Instant::now();
    while state().await != "retired" {
        assert!(began.elapsed() < PATIENCE, "the overlap does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for door in DOORS {
        assert_eq!(asker.call(door, &short).await, 401, "{door:?} after the overlap");
    }
    tokio::time::timeout(PATIENCE, async { while stream.next().await.is_some() {} })
        .await
        .expect("a stream of a key whose overlap is over ends");
    // Those in between are still in theirs, but for the one that ended.
    for token in &of_each[..2] {
        assert_eq!(asker.call(Door::Rest, token).await, 200);
    }
    assert_eq!(asker.call(Door::Rest, &of_each[2]).await, 401);

    let calls = load.stop().await;
    assert!(calls > 50, "hardly any load: {calls} calls");
    eprintln!("{calls} calls with valid tokens, none refused");
    let report = asker.hub.api("/api/v1/audit/verify").await;
    assert_eq!(report["ok"], true, "{report}");
}

#[tokio::test]
async fn keys_are_rotated_and_retired_from_the_command_line_and_on_record() {
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
    // The head is signed by the key that signs everything else, and a restart takes it.
    plexus.run(&["audit", "verify"]).await.ok();
    assert!(hub.terminate().await.success());
    let head = std::fs::read_to_string(plexus.data_dir().join("audit.head")).expect("a head");
    assert!(head.contains(&new), "{head}");
    let hub = plexus.up().await;
    assert_eq!(hub.api("/api/v1/status").await["audit"]["intact_at_start"], true);
    plexus.run(&["audit", "verify"]).await.ok();
}

#[tokio::test]
async fn a_running_hub_replaces_an_admin_token_that_is_good_no_more() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let file = plexus.data_dir().join("admin-token");
    let old = std::fs::read(&file).expect("the admin token");
    plexus.run(&["keys", "rotate", "--overlap", "0"]).await.ok();
    // As if the database had been lost after the key was changed, and before the token was.
    std::fs::write(&file, &old).expect("it can be written");
    let began = Instant::now();
    while std::fs::read(&file).expect("the admin token") == old {
        assert!(began.elapsed() < PATIENCE, "nobody looks after the admin token");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    plexus.run(&["keys", "list"]).await.ok();
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn a_head_signed_by_a_key_that_was_retired_is_still_read() {
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
    // As if the hub had died before it could sign a head with the new key.
    std::fs::write(folder.join("audit.head"), before).expect("it can be written");
    let hub = plexus.up().await;
    let status = hub.api("/api/v1/status").await;
    assert_eq!(status["audit"]["intact_at_start"], true, "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_keys_rotate_leave_one_key_and_every_token_good() {
    crash_rounds(8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_while_keys_rotate_leave_one_key_and_every_token_good() {
    crash_rounds(200).await;
}

/// Keys that were answered, and tokens that were.
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
        let moment = Duration::from_micros(seed.round(round).random_range(1_000..250_000));
        crash_while_rotating(&plexus, hub, moment, &mut all).await;
        let asker = Asker { hub: Arc::new(plexus.up().await), http: plexus.http().clone() };
        let keys = asker.keys().await;
        assert_eq!(keys.iter().filter(|(_, state)| state == "current").count(), 1, "{keys:?}");
        assert!(all.keys.iter().all(|kid| keys.iter().any(|(known, _)| known == kid)), "a key is lost");
        for token in all.tokens.iter().rev().take(100) {
            assert_eq!(asker.call(Door::Rest, token).await, 200, "round {round}: a token is lost");
        }
        plexus.run(&["audit", "verify"]).await.ok();
        plexus.run(&["token", "list"]).await.ok();
        hub = Arc::into_inner(asker.hub).expect("nobody else has it");
    }
    eprintln!("{} keys and {} tokens were acknowledged", all.keys.len(), all.tokens.len());
    assert!(all.keys.len() as u64 >= rounds && all.tokens.len() as u64 >= rounds, "hardly any load");
}

/// Rotates keys and makes tokens until the hub is killed; what was answered must hold.
async fn crash_while_rotating(plexus: &Plexus, hub: HubProcess, moment: Duration, all: &mut Acknowledged) {
    let (http, url, folder) = (plexus.http().clone(), hub.url(""), plexus.data_dir());
    let ask = move |path: &'static str, body: Value| {
        let (http, url, folder) = (http.clone(), url.clone(), folder.clone());
        async move {
            loop {
                let admin = std::fs::read_to_string(folder.join("admin-token")).expect("the admin token");
                let request = http.post(format!("{url}{path}")).bearer_auth(admin.trim()).json(&body);
                let response = request.send().await.ok()?;
                let status = response.status();
                let answer: Value = response.json().await.ok()?;
                // A rotation was faster than this request; the file has the token that makes others.
                if status == 403 && answer.to_string().contains("has been replaced") {
                    continue;
                }
                assert!(status.is_success(), "{path}: {status} {answer}");
                return Some(answer);
            }
        }
    };
    let mut running = JoinSet::new();
    let (rotate, mint) = (ask.clone(), ask);
    // The crash is to come amid the work, however slow the machine is.
    let (counted, mut count) = watch::channel((0, 0));
    let (keys_counted, tokens_counted) = (counted.clone(), counted);
    running.spawn(async move {
        let mut done = Acknowledged::default();
        while let Some(key) = rotate("/api/v1/keys/rotate", json!({ "overlap_seconds": 3600 })).await {
            done.keys.push(key["kid"].as_str().expect("a key").to_owned());
            keys_counted.send_modify(|(keys, _)| *keys += 1);
        }
        done
    });
    running.spawn(async move {
        let mut done = Acknowledged::default();
        while let Some(made) = mint("/api/v1/tokens", json!({ "kind": "agent", "name": "codex" })).await {
            done.tokens.push(made["token"].as_str().expect("a token").to_owned());
            tokens_counted.send_modify(|(_, tokens)| *tokens += 1);
        }
        done
    });
    let begun = count.wait_for(|(keys, tokens)| *keys > 0 && *tokens > 0);
    tokio::time::timeout(PATIENCE, begun).await.expect("both are served").expect("both go on");
    tokio::time::sleep(moment).await;
    hub.kill().await;
    let ended = tokio::time::timeout(PATIENCE, running.join_all()).await.expect("both notice");
    for done in ended {
        all.keys.extend(done.keys);
        all.tokens.extend(done.tokens);
    }
}
