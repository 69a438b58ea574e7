//! Commands on another machine while the wire to it, the hub and the node itself fail: each ends once, with its result or
//! as interrupted, and what it did was done once.
//!
//! A command appends its marker to a ledger on the node's disk. So the ledger says what ran, whatever anybody was told.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_proto::Timestamp;
use plexus_proto::api::CreatedToken;
use plexus_testkit::faults::{Load, OnSilence, Scene, Schedule, Sent, Strike, Write, Writer, rounds};
use plexus_testkit::{HubProcess, Link, Plexus, WallClock, send};
use rand::RngExt;
use rand::rngs::StdRng;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::machines::{join, run_node};

/// What a hub tells a node to do: signs of life so often that a dead wire is found within a round.
const HEARTBEAT: (&str, &str) = ("PLEXUS_NODES_HEARTBEAT_SECONDS", "1");
const CALLERS: usize = 6;
/// For an answer; a command that waits for its node to come back is answered then.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub(super) enum Fault {
    KillHub,
    KillNode,
    KillBoth,
    /// `SIGTERM`: the node says goodbye.
    StopNode,
    /// Every connection is reset.
    Cut,
    /// The wire carries nothing for a while, and breaks then.
    FreezeAndCut(Duration),
    /// It carries nothing for longer than anybody waits for a sign of life, and nobody is told: half open.
    HalfOpen(Duration),
    /// The node does nothing for a while, as on a machine that sleeps.
    Sleep(Duration),
    /// The node's wall clock is set so many hours before or after the right time.
    ClockJump(i64),
}

/// What became of a command, as its caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Interrupted,
}

/// An agent that runs commands on the node.
pub(super) struct Commander {
    http: reqwest::Client,
    /// The hub is where it says so; it may move.
    hub: Arc<Mutex<String>>,
    token: CreatedToken,
    ledger: PathBuf,
    /// Milliseconds that each command takes after it has done its work.
    lasts: u64,
}

impl Writer for Commander {
    type Ack = End;

    async fn write(&mut self, write: &Write) -> Option<End> {
        let url = self.hub.lock().expect("nobody panics with it").clone();
        let ledger = self.ledger.display();
        let (marker, lasts) = (&write.marker, self.lasts);
        let command = format!("echo '{marker}' >> '{ledger}'; sleep {lasts}e-3; echo 'ran {marker}'");
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
            assert!(text.contains(&format!("ran {marker}")), "another's result for {marker}: {body}");
            return Some(End::Done);
        }
        match body["code"].as_str().expect("a code") {
            "interrupted" => Some(End::Interrupted),
            // Nothing was run, or nobody knows yet: the same again, with the same key.
            "unavailable" | "conflict" | "overloaded" => None,
            other => panic!("{other}: {body}"),
        }
    }
}

pub(super) struct NodeScene {
    /// The hub's machine, and the node's.
    plexus: Plexus,
    machine: Plexus,
    /// The node's; none where it cannot be moved.
    clock: Option<WallClock>,
    jumps: usize,
    transport: &'static str,
    hub: Option<HubProcess>,
    address: Arc<Mutex<String>>,
    link: Link,
    node: Option<Child>,
    token: CreatedToken,
    ledger: PathBuf,
    interrupted: AtomicUsize,
    ran: AtomicUsize,
}

impl NodeScene {
    async fn new(plexus: Plexus, machine: Plexus, transport: &'static str) -> Self {
        let plexus = plexus.with(HEARTBEAT.0, HEARTBEAT.1.to_owned());
        let clock = WallClock::new().await;
        let machine = match &clock {
            Some(clock) => clock.of(machine),
            None => machine,
        };
        let hub = plexus.up().await;
        let link = Link::to(hub.address()).await;
        join(&plexus, &machine, &format!("http://{}", link.address()), "nas", &[]).await;
        let may = ["--scope", "call:terminal", "--scope", "node:nas"];
        let token = ["token", "create", "--kind", "agent", "--name", "ann", "--json"];
        let token = plexus.run(&[&token[..], &may].concat()).await.json(0);
        let token = serde_json::from_value(token).expect("a token");
        let ledger = machine.home().join("plexus-work/ledger");
        let address = Arc::new(Mutex::new(hub.url("")));
        let mut scene = Self {
            plexus,
            machine,
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
            ran: AtomicUsize::new(0),
        };
        scene.start_node();
        scene.prove_the_clock().await;
        scene
    }

    /// Moves the node's clock while it runs and looks when it says that it started a command: a library that is preloaded in
    /// vain would have every jump below test nothing.
    async fn prove_the_clock(&self) {
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
            // It may not be linked yet.
            call(json!({ "action": "run", "command": "true", "node": "nas", "queue": true })).await;
            let list = call(json!({ "action": "list", "node": "nas" })).await;
            let jobs = list["structured"]["jobs"].as_array().unwrap_or_else(|| panic!("no jobs: {list}"));
            let is_off = |job: &Value| {
                let at: Timestamp = job["started_at"].as_str().expect("a time").parse().expect("a time");
                let off = (at.as_second() - Timestamp::now().as_second()) / 3600;
                (off - hours).abs() <= 1
            };
            assert!(jobs.iter().any(is_off), "the clock of the node is not {hours} hours off: {list}");
        }
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    async fn start_hub(&mut self) {
        let hub = self.plexus.up().await;
        self.link.point_at(hub.address());
        *self.address.lock().expect("nobody panics with it") = hub.url("");
        self.hub = Some(hub);
    }

    fn start_node(&mut self) {
        self.node = Some(run_node(&self.machine, self.transport));
    }

    async fn kill_hub(&mut self) {
        self.hub.take().expect("a hub").kill().await;
    }

    async fn kill_node(&mut self) {
        self.node.take().expect("a node").kill().await.expect("it can be killed");
    }
}

impl Scene for NodeScene {
    type Writer = Commander;
    type Fault = Fault;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<Fault> {
        let strike = |rng: &mut StdRng| Strike {
            after: Duration::from_millis(rng.random_range(20..300)),
            fault: fault(rng),
        };
        let strikes = (0..rng.random_range(1..4)).map(|_| strike(rng));
        // All are drawn, so that a machine whose clock cannot be moved has the others at the same moments.
        strikes.filter(|it| self.clock.is_some() || !matches!(it.fault, Fault::ClockJump(_))).collect()
    }

    async fn writers(&mut self, round: u64) -> Vec<Commander> {
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("an HTTP client");
        (0..CALLERS)
            .map(|place| Commander {
                http: http.clone(),
                hub: self.address.clone(),
                token: self.token.clone(),
                ledger: self.ledger.clone(),
                lasts: (round + place as u64 * 37) % 180,
            })
            .collect()
    }

    async fn strike(&mut self, fault: Fault) {
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
            Fault::FreezeAndCut(during) => {
                self.link.freeze();
                tokio::time::sleep(during).await;
                self.link.cut();
                self.link.heal();
            }
            Fault::HalfOpen(during) => {
                self.link.freeze();
                tokio::time::sleep(during).await;
                self.link.heal();
            }
            Fault::Sleep(during) => {
                let node = self.node.as_ref().expect("a node");
                send(node, Signal::STOP);
                tokio::time::sleep(during).await;
                send(node, Signal::CONT);
            }
            Fault::ClockJump(hours) => {
                self.clock.as_ref().expect("a clock that can be moved").set(hours * 3600);
                self.jumps += 1;
            }
        }
    }

    async fn check(&mut self, sent: Vec<Sent<Commander>>) {
        let ledger = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        let _ = std::fs::remove_file(&self.ledger);
        let times = |marker: &str| ledger.lines().filter(|line| *line == marker).count();
        for sent in &sent {
            for (write, end) in sent.acknowledged() {
                let times = times(&write.marker);
                match end {
                    End::Done => assert_eq!(times, 1, "{write:?} was done, says its result"),
                    End::Interrupted => {
                        assert!(times <= 1, "{write:?} ran {times} times");
                        self.interrupted.fetch_add(1, Ordering::Relaxed);
                    }
                }
                self.ran.fetch_add(times, Ordering::Relaxed);
            }
        }
        let sent_in_all: usize = sent.iter().map(|sent| sent.attempts.len()).sum();
        assert!(ledger.lines().count() <= sent_in_all, "more ran than was asked for:\n{ledger}");
        // Each key stands for its end, also for who asks again.
        for mut sent in sent {
            let last = sent.acknowledged().last().map(|(write, end)| (write.clone(), *end));
            if let Some((write, end)) = last {
                assert_eq!(sent.writer.write(&write).await, Some(end), "{write:?}, asked for again");
            }
        }
        assert_eq!(
            std::fs::read_to_string(&self.ledger).unwrap_or_default(),
            "",
            "something ran when it was asked for again"
        );
        let report = self.hub().api("/api/v1/audit/verify").await;
        assert_eq!(report["ok"], true, "{report}");
    }
}

fn fault(rng: &mut StdRng) -> Fault {
    let during = Duration::from_millis(rng.random_range(1..300));
    match rng.random_range(0..19) {
        0..=3 => Fault::KillHub,
        4..=6 => Fault::KillNode,
        7 => Fault::KillBoth,
        8 => Fault::StopNode,
        9..=11 => Fault::Cut,
        12..=13 => Fault::FreezeAndCut(during),
        14 => Fault::Sleep(during),
        // Up to a month: further than anything on a node is kept by the clock, and than jobs are.
        15..=17 => Fault::ClockJump(rng.random_range(-720..=720)),
        _ => Fault::HalfOpen(Duration::from_millis(4_500) + during),
    }
}

/// Plays rounds over one transport; prints what they came to.
pub(super) async fn interrupted(transport: &'static str, count: u64) {
    let mut scene = NodeScene::new(crate::plexus(), crate::plexus(), transport).await;
    let load = Load { most: 40, on_silence: OnSilence::Retry };
    let tally = rounds(&mut scene, count, load).await;
    let jumps = scene.jumps;
    let (ran, interrupted) = (scene.ran.into_inner(), scene.interrupted.into_inner());
    eprintln!(
        "over {transport}: {ran} commands ran, {interrupted} were interrupted, the node's clock jumped {jumps} times"
    );
    if tally.rounds < count {
        return;
    }
    assert_eq!(tally.unanswered, 0, "{tally:?}");
    assert!(tally.acknowledged > tally.rounds as usize * 5, "hardly any load: {tally:?}");
    assert!(tally.retries > 0 && interrupted > 0, "nothing was ever interrupted: {tally:?}");
}
