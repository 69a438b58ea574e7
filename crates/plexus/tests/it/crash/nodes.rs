//! Commands on a node while the connection, the hub and the node fail: each ends once, with its result or as interrupted, and
//! runs at most once.
//!
//! A command appends its marker to a file on the node's disk. This ledger shows what ran, independently of the answers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_proto::Timestamp;
use plexus_proto::api::CreatedToken;
use plexus_testkit::faults::{
    FaultScenario, Load, Schedule, ScheduledFault, Sent, UnansweredPolicy, Write, Writer, rounds,
};
use plexus_testkit::{FaultyLink, HubProcess, Plexus, WallClock, send};
use rand::RngExt;
use rand::rngs::StdRng;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::nodes::{join, start_node};

/// Heartbeats are frequent, so that a dead connection is detected within a round.
const HEARTBEAT: (&str, &str) = ("PLEXUS_NODES_HEARTBEAT_SECONDS", "1");
const CALLERS: usize = 6;
/// Time limit for an answer, which may have to wait for the node to reconnect.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub(super) enum Fault {
    KillHub,
    KillNode,
    KillBoth,
    /// `SIGTERM`: the node disconnects in order.
    StopNode,
    /// Every connection is reset.
    Cut,
    /// The connection carries nothing for a while and is then reset.
    FreezeThenCut(Duration),
    /// The connection carries nothing for longer than the heartbeat timeout, without an error.
    HalfOpen(Duration),
    /// The node is suspended for a while, as on a machine that sleeps.
    Sleep(Duration),
    /// The node's wall clock is set this many hours from the correct time.
    ClockJump(i64),
}

/// The end of a command as reported to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Interrupted,
}

/// An agent that runs commands on the node.
pub(super) struct CommandCaller {
    http: reqwest::Client,
    /// The URL of the hub, which changes with a restart.
    hub: Arc<Mutex<String>>,
    token: CreatedToken,
    ledger: PathBuf,
    /// How long each command runs after it has written its marker.
    duration_ms: u64,
}

impl Writer for CommandCaller {
    type Ack = Outcome;

    async fn write(&mut self, write: &Write) -> Option<Outcome> {
        let url = self.hub.lock().expect("not poisoned").clone();
        let ledger = self.ledger.display();
        let (marker, duration_ms) = (&write.marker, self.duration_ms);
        let command = format!("echo '{marker}' >> '{ledger}'; sleep {duration_ms}e-3; echo 'ran {marker}'");
        let arguments = json!({ "action": "run", "command": command, "node": "nas", "timeout_seconds": 15 });
        let request = self
            .http
            .post(format!("{url}/api/v1/tools/terminal/call"))
            .bearer_auth(&self.token.token)
            .header("idempotency-key", &write.key)
            .json(&json!({ "arguments": arguments }));
        let response = request.send().await.ok()?;
        let (status, body) = (response.status(), response.text().await.ok()?);
        let body: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{status} {body:?}: {e}"));
        if status.is_success() {
            assert_eq!(body["success"], true, "{body}");
            let text = body["text"].as_str().expect("a text");
            assert!(
                text.contains(&format!("ran {marker}")),
                "the result of another command for {marker}: {body}"
            );
            return Some(Outcome::Done);
        }
        match body["code"].as_str().expect("a code") {
            "interrupted" => Some(Outcome::Interrupted),
            // Nothing ran, or the result is not known yet: retry with the same key.
            "unavailable" | "conflict" | "overloaded" => None,
            other => panic!("{other}: {body}"),
        }
    }
}

pub(super) struct NodeScene {
    /// The home of the hub.
    plexus: Plexus,
    node_home: Plexus,
    /// The node's clock; `None` if this machine cannot fake it.
    clock: Option<WallClock>,
    jumps: usize,
    transport: &'static str,
    hub: Option<HubProcess>,
    address: Arc<Mutex<String>>,
    link: FaultyLink,
    node: Option<Child>,
    token: CreatedToken,
    ledger: PathBuf,
    interrupted: AtomicUsize,
    executed: AtomicUsize,
}

impl NodeScene {
    async fn new(plexus: Plexus, node_home: Plexus, transport: &'static str) -> Self {
        let plexus = plexus.with(HEARTBEAT.0, HEARTBEAT.1.to_owned());
        let clock = WallClock::new().await;
        let node_home = match &clock {
            Some(clock) => clock.of(node_home),
            None => node_home,
        };
        let hub = plexus.up().await;
        let link = FaultyLink::to(hub.address()).await;
        join(&plexus, &node_home, &format!("http://{}", link.address()), "nas", &[]).await;
        let scopes = ["--scope", "call:terminal", "--scope", "node:nas"];
        let token = ["token", "create", "--kind", "agent", "--name", "ann", "--json"];
        let token = plexus.run(&[&token[..], &scopes].concat()).await.json(0);
        let token = serde_json::from_value(token).expect("a token");
        let ledger = node_home.home().join("plexus-work/ledger");
        let address = Arc::new(Mutex::new(hub.url("")));
        let mut scene = Self {
            plexus,
            node_home,
            clock,
            jumps: 0,
            transport,
            hub: Some(hub),
            address,
            link,
            node: None,
            token,
            ledger,
            interrupted: AtomicUsize::new(0),
            executed: AtomicUsize::new(0),
        };
        scene.start_node();
        scene.check_clock().await;
        scene
    }

    /// Checks that a shifted clock changes the start times that the node reports. Otherwise the clock jumps would test
    /// nothing.
    async fn check_clock(&self) {
        let Some(clock) = &self.clock else { return };
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("an HTTP client");
        let call = async |arguments: Value| -> Value {
            let url = self.hub().url("/api/v1/tools/terminal/call");
            let request =
                http.post(url).bearer_auth(&self.token.token).json(&json!({ "arguments": arguments }));
            request.send().await.expect("an answer").json().await.expect("JSON")
        };
        for hours in [720, -720, 0] {
            clock.set(hours * 3600);
            // Queued, because the node may not be linked yet.
            call(json!({ "action": "run", "command": "true", "node": "nas", "queue": true })).await;
            let list = call(json!({ "action": "list", "node": "nas" })).await;
            let jobs = list["structured"]["jobs"].as_array().unwrap_or_else(|| panic!("no jobs: {list}"));
            let is_shifted = |job: &Value| {
                let at: Timestamp = job["started_at"].as_str().expect("a time").parse().expect("a time");
                let shift = (at.as_second() - Timestamp::now().as_second()) / 3600;
                (shift - hours).abs() <= 1
            };
            assert!(jobs.iter().any(is_shifted), "the clock of the node is not {hours} hours off: {list}");
        }
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    async fn start_hub(&mut self) {
        let hub = self.plexus.up().await;
        self.link.point_at(hub.address());
        *self.address.lock().expect("not poisoned") = hub.url("");
        self.hub = Some(hub);
    }

    fn start_node(&mut self) {
        self.node = Some(start_node(&self.node_home, self.transport));
    }

    async fn kill_hub(&mut self) {
        self.hub.take().expect("a hub").kill().await;
    }

    async fn kill_node(&mut self) {
        self.node.take().expect("a node").kill().await.expect("it can be killed");
    }
}

impl FaultScenario for NodeScene {
    type Writer = CommandCaller;
    type Fault = Fault;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<Fault> {
        let inject = |rng: &mut StdRng| ScheduledFault {
            after: Duration::from_millis(rng.random_range(20..300)),
            fault: fault(rng),
        };
        let faults = (0..rng.random_range(1..4)).map(|_| inject(rng));
        // Clock jumps are drawn in any case, so that the other faults do not depend on the support for them.
        faults.filter(|it| self.clock.is_some() || !matches!(it.fault, Fault::ClockJump(_))).collect()
    }

    async fn writers(&mut self, round: u64) -> Vec<CommandCaller> {
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("an HTTP client");
        (0..CALLERS)
            .map(|index| CommandCaller {
                http: http.clone(),
                hub: self.address.clone(),
                token: self.token.clone(),
                ledger: self.ledger.clone(),
                duration_ms: (round + index as u64 * 37) % 180,
            })
            .collect()
    }

    async fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::KillHub => {
                self.kill_hub().await;
                self.start_hub().await;
            }
            Fault::KillNode => {
                self.kill_node().await;
                self.start_node();
            }
            Fault::KillBoth => {
                self.kill_hub().await;
                self.kill_node().await;
                self.start_node();
                self.start_hub().await;
            }
            Fault::StopNode => {
                let mut node = self.node.take().expect("a node");
                send(&node, Signal::TERM);
                let ended = tokio::time::timeout(TIMEOUT, node.wait()).await;
                assert!(ended.expect("the node stops in time").expect("a status").success());
                self.start_node();
            }
            Fault::Cut => self.link.cut(),
            Fault::FreezeThenCut(duration) => {
                self.link.freeze();
                tokio::time::sleep(duration).await;
                self.link.cut();
                self.link.heal();
            }
            Fault::HalfOpen(duration) => {
                self.link.freeze();
                tokio::time::sleep(duration).await;
                self.link.heal();
            }
            Fault::Sleep(duration) => {
                let node = self.node.as_ref().expect("a node");
                send(node, Signal::STOP);
                tokio::time::sleep(duration).await;
                send(node, Signal::CONT);
            }
            Fault::ClockJump(hours) => {
                self.clock.as_ref().expect("a clock that can be moved").set(hours * 3600);
                self.jumps += 1;
            }
        }
    }

    async fn check(&mut self, sent: Vec<Sent<CommandCaller>>) {
        let ledger = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        let _ = std::fs::remove_file(&self.ledger);
        let count_of = |marker: &str| ledger.lines().filter(|line| *line == marker).count();
        for sent in &sent {
            for (write, end) in sent.acknowledged() {
                let runs = count_of(&write.marker);
                match end {
                    Outcome::Done => assert_eq!(runs, 1, "{write:?} returned a result"),
                    Outcome::Interrupted => {
                        assert!(runs <= 1, "{write:?} ran {runs} times");
                        self.interrupted.fetch_add(1, Ordering::Relaxed);
                    }
                }
                self.executed.fetch_add(runs, Ordering::Relaxed);
            }
        }
        let attempts: usize = sent.iter().map(|sent| sent.attempts.len()).sum();
        assert!(ledger.lines().count() <= attempts, "more commands ran than were sent:\n{ledger}");
        // Repeating a call with its key returns the same outcome.
        for mut sent in sent {
            let last = sent.acknowledged().last().map(|(write, end)| (write.clone(), *end));
            if let Some((write, end)) = last {
                assert_eq!(sent.writer.write(&write).await, Some(end), "{write:?}, repeated");
            }
        }
        assert_eq!(
            std::fs::read_to_string(&self.ledger).unwrap_or_default(),
            "",
            "a repeated call ran again"
        );
        let report = self.hub().api("/api/v1/audit/verify").await;
        assert_eq!(report["ok"], true, "{report}");
    }
}

fn fault(rng: &mut StdRng) -> Fault {
    let duration = Duration::from_millis(rng.random_range(1..300));
    match rng.random_range(0..19) {
        0..=3 => Fault::KillHub,
        4..=6 => Fault::KillNode,
        7 => Fault::KillBoth,
        8 => Fault::StopNode,
        9..=11 => Fault::Cut,
        12..=13 => Fault::FreezeThenCut(duration),
        14 => Fault::Sleep(duration),
        // Up to a month: longer than a node keeps anything by its clock, including jobs.
        15..=17 => Fault::ClockJump(rng.random_range(-720..=720)),
        _ => Fault::HalfOpen(Duration::from_millis(4_500) + duration),
    }
}

/// Plays rounds with one transport, and prints the totals.
pub(super) async fn interrupted(transport: &'static str, count: u64) {
    let mut scene = NodeScene::new(crate::plexus(), crate::plexus(), transport).await;
    let load = Load { most: 40, unanswered_policy: UnansweredPolicy::Retry };
    let tally = rounds(&mut scene, count, load).await;
    let jumps = scene.jumps;
    let (executed, interrupted) = (scene.executed.into_inner(), scene.interrupted.into_inner());
    eprintln!(
        "over {transport}: {executed} commands ran, {interrupted} were interrupted, the node's clock jumped {jumps} times"
    );
    if tally.rounds < count {
        return;
    }
    assert_eq!(tally.unanswered, 0, "{tally:?}");
    assert!(tally.acknowledged > tally.rounds as usize * 5, "hardly any load: {tally:?}");
    assert!(tally.retries > 0 && interrupted > 0, "nothing was ever interrupted: {tally:?}");
}
