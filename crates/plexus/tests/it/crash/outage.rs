//! Agents behind `plexus mcp` while the hub is killed, answers are lost on their way, and proxies are killed too: each write
//! that was answered is there once, in the order of the answers, and each answer was true when it was given.
//!
//! The log of a session says what was done, in which order and when; what the tools show says the same of what there is now.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use plexus_proto::Timestamp;
use plexus_proto::api::CreatedToken;
use plexus_testkit::faults::{
    Load, OnSilence, Scene, Schedule, Sent, Strike, Write, Writer, exactly_once, rounds,
};
use plexus_testkit::{HubProcess, Link, Plexus};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::records::{self, Records};
use crate::proxied::{Proxied, Seat, Told, Way};

/// Each with a way of its own; the first and the last give no keys, and leave what was not answered.
const AGENTS: [(&str, &str, Way); 4] = [
    ("ann", "2024-11-05", Way::Stdio),
    ("ben", "2026-07-28", Way::Stdio),
    ("cid", "2025-11-25", Way::Http),
    ("dot", "2026-07-28", Way::Http),
];
/// Every so many writes one goes to the to-do list, which holds 300.
const EVERY: usize = 5;
/// Agents think before they write: at most this long.
const THOUGHT: Duration = Duration::from_millis(100);
/// For the next write of anybody to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// For what was kept to be delivered when the hub stays.
const DRAIN: Duration = Duration::from_secs(60);

/// What one round is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Of all agents together.
    pub(super) writes: usize,
    pub(super) kills: usize,
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// `kill -9`; there is no hub for so long, and the time it takes to start.
    KillHub(Duration),
    /// What is asked is done, and nobody hears of it.
    LoseAnswers(Duration),
    /// The same, but some of the answer is heard.
    TearAnswers(Duration),
    Cut,
    /// `kill -9` of the proxy of this agent, which starts it again.
    KillProxy(usize),
    /// None: all writes have been made.
    End,
}

/// A fault that strikes when so many writes have begun.
#[derive(Debug, Clone)]
pub(super) struct At(usize, Fault);

struct OutageScene {
    plan: Plan,
    plexus: Plexus,
    machine: Arc<Plexus>,
    hub: Option<HubProcess>,
    link: Link,
    tokens: Vec<CreatedToken>,
    seats: Vec<Seat>,
    /// Writes that have begun in this round.
    begun: Arc<AtomicUsize>,
    /// The newest audit entry before the round.
    since: i64,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    done: usize,
    queued: usize,
    unanswered: usize,
    /// Writes that the hub was sent more than once, and did once.
    repeated: usize,
    /// Writes that were never answered, and are there.
    unheard: usize,
    slowest_drain: Duration,
}

/// An agent that writes.
struct AgentAtWork {
    agent: Proxied,
    begun: Arc<AtomicUsize>,
    thoughts: StdRng,
    /// Whether it names its writes, and says them again where it was not answered.
    insists: bool,
}

/// What an agent was told, and when.
#[derive(Debug)]
struct Ack {
    told: Told,
    at: Timestamp,
}

impl OutageScene {
    async fn new(plan: Plan) -> Self {
        let plexus = crate::plexus();
        let hub = plexus.up().await;
        let mut tokens = Vec::new();
        for (name, ..) in AGENTS {
            tokens.push(hub.token(name).await);
        }
        let link = Link::to(hub.address()).await;
        Self {
            plan,
            plexus,
            machine: Arc::new(crate::plexus()),
            hub: Some(hub),
            link,
            tokens,
            seats: vec![],
            begun: Arc::default(),
            since: 0,
            sums: Sums::default(),
        }
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    /// Until so many writes have begun.
    async fn until(&self, writes: usize) {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let begun = self.begun.load(Ordering::Relaxed);
            if begun >= writes {
                return;
            }
            if begun > seen {
                (seen, since) = (begun, Instant::now());
            }
            assert!(since.elapsed() < PATIENCE, "nobody writes any more after {begun} writes");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Until nothing of an agent waits any more.
    async fn drained(&mut self, agent: &Proxied) {
        let (outbox, begun) = (agent.outbox().await, Instant::now());
        loop {
            let counts = outbox.counts().await.expect("an outbox that can be read");
            if counts.pending == 0 {
                assert_eq!(counts.dead, 0, "dead letters: {}", agent.log());
                break;
            }
            assert!(begun.elapsed() < DRAIN, "{counts:?} still wait: {}", agent.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.sums.slowest_drain = self.sums.slowest_drain.max(begun.elapsed());
    }

    /// What the session of an agent did, in order: each write that it ended well, by its marker, and when.
    async fn done(
        &self,
        records: &Records,
        sent: &Sent<AgentAtWork>,
        subject: &str,
    ) -> Vec<(String, Timestamp)> {
        let markers = sent.attempts.iter().map(|attempt| attempt.write.marker.as_str());
        let sessions = records.sessions(markers);
        assert_eq!(sessions.len(), 1, "one conversation, several sessions: {sessions:?}");
        let events = self.hub().events(&sessions[0]).await;
        records::contiguous(&events);
        records::calls(&events, subject);
        let ended = events.iter().filter(|event| event["kind"] == "tool_call");
        let mut done = Vec::new();
        for event in ended {
            let (payload, at) = (&event["payload"], event["at"].as_str().expect("a time"));
            let text = payload["args"]["text"].as_str().or(payload["args"]["content"].as_str());
            for marker in Write::markers(text.unwrap_or_default()) {
                if payload["success"] != true {
                    // Who asked was cut off before it was done; it is sent again.
                    assert_eq!(payload["result"]["code"], "cancelled", "{event}");
                    continue;
                }
                done.push((marker.to_owned(), at.parse().expect("a time")));
            }
        }
        done
    }
}

impl Scene for OutageScene {
    type Writer = AgentAtWork;
    type Fault = At;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<At> {
        let Plan { writes, kills } = self.plan;
        let mut faults = Vec::new();
        for kill in 0..kills {
            let (from, to) = (writes * kill / kills, writes * (kill + 1) / kills);
            let mut add = |fault: Fault, rng: &mut StdRng| faults.push(At(rng.random_range(from..to), fault));
            let during = |rng: &mut StdRng, most: u64| Duration::from_millis(rng.random_range(1..most));
            let down = during(rng, 700);
            add(Fault::KillHub(down), rng);
            let lost = during(rng, 150);
            match rng.random_range(0..3) {
                0 => add(Fault::TearAnswers(lost), rng),
                _ => add(Fault::LoseAnswers(lost), rng),
            }
            match rng.random_range(0..3) {
                0 => add(Fault::Cut, rng),
                _ => add(Fault::KillProxy(rng.random_range(0..AGENTS.len())), rng),
            }
        }
        faults.sort_by_key(|At(writes, _)| *writes);
        faults.push(At(writes, Fault::End));
        let strike = |fault| Strike { after: Duration::from_micros(rng.random_range(0..20_000)), fault };
        faults.into_iter().map(strike).collect()
    }

    async fn writers(&mut self, round: u64) -> Vec<AgentAtWork> {
        self.since = records::head(self.hub()).await;
        self.begun.store(0, Ordering::Relaxed);
        let mut writers = Vec::new();
        for (place, (name, version, way)) in AGENTS.into_iter().enumerate() {
            let url = format!("http://{}", self.link.address());
            let mut agent = Proxied::new(self.machine.clone(), url, &self.tokens[place].token, name)
                .speaking(version, way)
                .in_session(format!("r{round}-{place}"));
            agent.start().await.expect("the proxy starts");
            let tools = agent.tools().await.expect("the proxy answers");
            assert!(tools.iter().any(|tool| tool == "todo"), "{tools:?}");
            writers.push(AgentAtWork {
                agent,
                begun: self.begun.clone(),
                thoughts: StdRng::seed_from_u64(round * 10 + place as u64),
                insists: (1..=2).contains(&place),
            });
        }
        self.seats = writers.iter().map(|writer| writer.agent.seat()).collect();
        writers
    }

    async fn strike(&mut self, At(writes, fault): At) {
        self.until(writes).await;
        match fault {
            Fault::KillHub(down) => {
                self.hub.take().expect("a hub").kill().await;
                tokio::time::sleep(down).await;
                let hub = self.plexus.up().await;
                self.link.point_at(hub.address());
                self.hub = Some(hub);
            }
            Fault::LoseAnswers(during) => {
                self.link.lose_answers();
                tokio::time::sleep(during).await;
                self.link.heal();
            }
            Fault::TearAnswers(during) => {
                self.link.tear_answers();
                tokio::time::sleep(during).await;
                self.link.heal();
            }
            Fault::Cut => self.link.cut(),
            Fault::KillProxy(place) => {
                let mut seat = self.seats[place].lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(proxy) = seat.as_mut() {
                    proxy.start_kill().expect("it can be killed");
                }
            }
            Fault::End => {}
        }
    }

    async fn check(&mut self, mut sent: Vec<Sent<AgentAtWork>>) {
        for sent in &mut sent {
            sent.writer.here().await;
            self.drained(&sent.writer.agent).await;
        }
        let records = Records::since(self.hub(), self.since).await;
        for (sent, (name, ..)) in sent.iter_mut().zip(AGENTS) {
            let wrong = |what: String| panic!("{name}: {what}\n{}", sent_by(sent));
            let done = self.done(&records, sent, &format!("agent:{name}")).await;
            let markers: Vec<String> = done.iter().map(|(marker, _)| marker.clone()).collect();
            exactly_once(sent, &markers).unwrap_or_else(wrong);
            let times: HashMap<&str, Timestamp> = done.iter().map(|(marker, at)| (&**marker, *at)).collect();
            let answered: Vec<&str> = sent.acknowledged().map(|(write, _)| &*write.marker).collect();
            let in_order: Vec<&str> =
                markers.iter().map(|marker| &**marker).filter(|marker| answered.contains(marker)).collect();
            assert_eq!(in_order, answered, "{name}: not in the order in which it was answered");
            for (write, ack) in sent.acknowledged() {
                match &ack.told {
                    Told::Done { .. } => {
                        let at = times[&*write.marker];
                        assert!(
                            at <= ack.at,
                            "{name}: {write:?} was done at {at}, and said to be at {}",
                            ack.at
                        );
                        self.sums.done += 1;
                    }
                    Told::Queued => self.sums.queued += 1,
                    Told::Refused(_) => unreachable!("not an acknowledgement"),
                }
            }
            self.sums.repeated += markers.iter().filter(|marker| records.times(marker) > 1).count();
            let unanswered: Vec<&str> = sent.unanswered().map(|write| &*write.marker).collect();
            self.sums.unanswered += unanswered.len();
            self.sums.unheard += markers.iter().filter(|marker| unanswered.contains(&&***marker)).count();
            let found = sent.writer.found().await;
            for (kind, found) in ["scratchpad", "todo"].into_iter().zip(found) {
                let of_kind = |marker: &&String| number(marker).is_multiple_of(EVERY) == (kind == "todo");
                let expected: Vec<&String> = markers.iter().filter(of_kind).collect();
                assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{name}: {kind} and session differ");
            }
        }
        let report = self.hub().api("/api/v1/audit/verify").await;
        assert_eq!(report["ok"], true, "{report}");
        for mut sent in sent {
            sent.writer.agent.kill().await;
        }
    }
}

/// What an agent made and was told, for a failure.
fn sent_by(sent: &Sent<AgentAtWork>) -> String {
    let told = |attempt: &plexus_testkit::faults::Attempt<Ack>| {
        format!("{} {:?}\n", attempt.write.marker, attempt.ack)
    };
    sent.attempts.iter().map(told).collect()
}

/// The number of a write, from its marker.
fn number(marker: &str) -> usize {
    let number = marker.trim_end_matches(';').rsplit('.').next();
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no marker: {marker}"))
}

fn arguments(write: &Write) -> (&'static str, Value) {
    let marker = &write.marker;
    match write.number % EVERY {
        0 => ("todo", json!({ "action": "add", "text": marker })),
        _ => {
            ("scratchpad", json!({ "action": "append", "section": "log", "content": format!("{marker}\n") }))
        }
    }
}

impl AgentAtWork {
    /// Starts the proxy again, where it was killed.
    async fn here(&mut self) {
        while self.agent.tools().await.is_err() {
            self.restart().await;
        }
    }

    async fn restart(&mut self) {
        loop {
            self.agent.ended().await;
            if self.agent.start().await.is_ok() {
                return;
            }
        }
    }

    /// The markers in the scratchpad and the to-do list of its session.
    async fn found(&mut self) -> [Vec<String>; 2] {
        let markers = |text: String| Write::markers(&text).map(str::to_owned).collect();
        let pad = self.agent.read("scratchpad", json!({ "action": "read", "section": "log" })).await;
        let list = self.agent.read("todo", json!({ "action": "list" })).await;
        [markers(pad.expect("an answer")), markers(list.expect("an answer"))]
    }
}

impl Writer for AgentAtWork {
    type Ack = Ack;

    async fn write(&mut self, write: &Write) -> Option<Ack> {
        let thought = self.thoughts.random_range(Duration::ZERO..THOUGHT);
        tokio::time::sleep(thought).await;
        self.begun.fetch_add(1, Ordering::Relaxed);
        let key = self.insists.then_some(&*write.key);
        loop {
            let (tool, arguments) = arguments(write);
            match self.agent.write(tool, arguments, key).await {
                Ok(Told::Refused(why)) => panic!("{write:?} was refused: {why}\n{}", self.agent.log()),
                Ok(told) => return Some(Ack { told, at: Timestamp::now() }),
                Err(_) => self.restart().await,
            }
            if !self.insists {
                return None;
            }
        }
    }
}

/// Plays rounds, each with a seed of its own; prints what they came to.
pub(super) async fn rode_out(plan: Plan, count: u64) {
    let mut scene = OutageScene::new(plan).await;
    let load = Load { most: plan.writes / AGENTS.len(), on_silence: OnSilence::GoOn };
    let tally = rounds(&mut scene, count, load).await;
    let sums = &scene.sums;
    eprintln!("{sums:?}");
    assert_eq!(tally.acknowledged + tally.unanswered, plan.writes * tally.rounds as usize, "{tally:?}");
    assert!(sums.done > 0 && sums.queued > 0, "only one kind of answer was given: {sums:?}");
    assert!(
        sums.repeated > 0 || count == 1,
        "no answer was lost after the hub had done what was asked: {sums:?}"
    );
}
