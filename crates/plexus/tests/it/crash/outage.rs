//! Agents behind `plexus mcp` while hub and proxies are killed and answers are lost: each answered write is stored once,
//! in the order of the answers, and each answer was true when it was given.
//!
//! The events of a session show what was done, in which order and when. The tools must show the same contents.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use plexus_proto::Timestamp;
use plexus_proto::api::CreatedToken;
use plexus_testkit::faults::{
    FaultScenario, Load, Schedule, ScheduledFault, Sent, UnansweredPolicy, Write, Writer, exactly_once,
    rounds,
};
use plexus_testkit::{FaultyLink, HubProcess, Plexus};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::records::{self, Records};
use crate::proxy_client::{ProxyClient, SharedProcess, Transport, WriteOutcome};

/// Name, revision and transport. The first and the last send no idempotency keys and do not retry.
const AGENTS: [(&str, &str, Transport); 4] = [
    ("ann", "2024-11-05", Transport::Stdio),
    ("ben", "2026-07-28", Transport::Stdio),
    ("cid", "2025-11-25", Transport::Http),
    ("dot", "2026-07-28", Transport::Http),
];
/// Every n-th write goes to the to-do list, which holds 300.
const TODO_EVERY: usize = 5;
/// The longest random pause of an agent before a write.
const THINK_TIME: Duration = Duration::from_millis(100);
/// Time limit for the next write of any agent to begin.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the delivery of queued writes once the hub is up.
const DRAIN: Duration = Duration::from_secs(60);

/// The size of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// By all agents together.
    pub(super) writes: usize,
    pub(super) kills: usize,
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// `kill -9`; the hub is down for this long and the time it takes to start.
    KillHub(Duration),
    /// Requests arrive, but their answers are lost.
    LoseAnswers(Duration),
    /// Requests arrive, but their answers are cut off.
    TearAnswers(Duration),
    Cut,
    /// `kill -9` of the proxy of this agent, which restarts it.
    KillProxy(usize),
    /// No fault: waits for the end of the writes.
    End,
}

/// A fault, and the number of begun writes at which it occurs.
#[derive(Debug, Clone)]
pub(super) struct TimedFault(usize, Fault);

struct OutageScene {
    plan: Plan,
    plexus: Plexus,
    machine: Arc<Plexus>,
    hub: Option<HubProcess>,
    link: FaultyLink,
    tokens: Vec<CreatedToken>,
    proxies: Vec<SharedProcess>,
    /// Writes that have begun in this round.
    begun: Arc<AtomicUsize>,
    /// The newest audit entry before the round.
    since: i64,
    totals: Totals,
}

#[derive(Debug, Default)]
struct Totals {
    done: usize,
    queued: usize,
    unanswered: usize,
    /// Writes that the hub received more than once and did once.
    repeated: usize,
    /// Writes that were done but never answered.
    done_unanswered: usize,
    slowest_drain: Duration,
}

/// An agent that writes.
struct WritingAgent {
    agent: ProxyClient,
    begun: Arc<AtomicUsize>,
    delays: StdRng,
    /// Whether it sends idempotency keys and retries unanswered writes.
    retries: bool,
}

/// The answer to a write, and when it arrived.
#[derive(Debug)]
struct Ack {
    outcome: WriteOutcome,
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
        let link = FaultyLink::to(hub.address()).await;
        Self {
            plan,
            plexus,
            machine: Arc::new(crate::plexus()),
            hub: Some(hub),
            link,
            tokens,
            proxies: vec![],
            begun: Arc::default(),
            since: 0,
            totals: Totals::default(),
        }
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    /// Waits until this many writes have begun; fails if none begins for a while.
    async fn wait_for_writes(&self, writes: usize) {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let begun = self.begun.load(Ordering::Relaxed);
            if begun >= writes {
                return;
            }
            if begun > seen {
                (seen, since) = (begun, Instant::now());
            }
            assert!(since.elapsed() < TIMEOUT, "no further write after {begun}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until an agent's outbox is empty.
    async fn wait_until_drained(&mut self, agent: &ProxyClient) {
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
        self.totals.slowest_drain = self.totals.slowest_drain.max(begun.elapsed());
    }

    /// The successful writes in an agent's session, in order: marker and time.
    async fn done(
        &self,
        records: &Records,
        sent: &Sent<WritingAgent>,
        subject: &str,
    ) -> Vec<(String, Timestamp)> {
        let markers = sent.attempts.iter().map(|attempt| attempt.write.marker.as_str());
        let sessions = records.sessions(markers);
        assert_eq!(sessions.len(), 1, "not one session for one conversation: {sessions:?}");
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
                    // The connection was cut before the write was done; it is sent again.
                    assert_eq!(payload["result"]["code"], "cancelled", "{event}");
                    continue;
                }
                done.push((marker.to_owned(), at.parse().expect("a time")));
            }
        }
        done
    }
}

impl FaultScenario for OutageScene {
    type Writer = WritingAgent;
    type Fault = TimedFault;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<TimedFault> {
        let Plan { writes, kills } = self.plan;
        let mut faults = Vec::new();
        for kill in 0..kills {
            let (from, to) = (writes * kill / kills, writes * (kill + 1) / kills);
            let mut add =
                |fault: Fault, rng: &mut StdRng| faults.push(TimedFault(rng.random_range(from..to), fault));
            let duration = |rng: &mut StdRng, most: u64| Duration::from_millis(rng.random_range(1..most));
            let down = duration(rng, 700);
            add(Fault::KillHub(down), rng);
            let lost = duration(rng, 150);
            match rng.random_range(0..3) {
                0 => add(Fault::TearAnswers(lost), rng),
                _ => add(Fault::LoseAnswers(lost), rng),
            }
            match rng.random_range(0..3) {
                0 => add(Fault::Cut, rng),
                _ => add(Fault::KillProxy(rng.random_range(0..AGENTS.len())), rng),
            }
        }
        faults.sort_by_key(|TimedFault(writes, _)| *writes);
        faults.push(TimedFault(writes, Fault::End));
        let inject =
            |fault| ScheduledFault { after: Duration::from_micros(rng.random_range(0..20_000)), fault };
        faults.into_iter().map(inject).collect()
    }

    async fn writers(&mut self, round: u64) -> Vec<WritingAgent> {
        self.since = records::newest_entry(self.hub()).await;
        self.begun.store(0, Ordering::Relaxed);
        let mut writers = Vec::new();
        for (index, (name, version, transport)) in AGENTS.into_iter().enumerate() {
            let url = format!("http://{}", self.link.address());
            let mut agent = ProxyClient::new(self.machine.clone(), url, &self.tokens[index].token, name)
                .with_protocol(version, transport)
                .with_session(format!("r{round}-{index}"));
            agent.start().await.expect("the proxy starts");
            let tools = agent.tools().await.expect("the proxy answers");
            assert!(tools.iter().any(|tool| tool == "todo"), "{tools:?}");
            writers.push(WritingAgent {
                agent,
                begun: self.begun.clone(),
                delays: StdRng::seed_from_u64(round * 10 + index as u64),
                retries: (1..=2).contains(&index),
            });
        }
        self.proxies = writers.iter().map(|writer| writer.agent.process()).collect();
        writers
    }

    async fn inject(&mut self, TimedFault(writes, fault): TimedFault) {
        self.wait_for_writes(writes).await;
        match fault {
            Fault::KillHub(down) => {
                self.hub.take().expect("a hub").kill().await;
                tokio::time::sleep(down).await;
                let hub = self.plexus.up().await;
                self.link.point_at(hub.address());
                self.hub = Some(hub);
            }
            Fault::LoseAnswers(duration) => {
                self.link.lose_answers();
                tokio::time::sleep(duration).await;
                self.link.heal();
            }
            Fault::TearAnswers(duration) => {
                self.link.tear_answers();
                tokio::time::sleep(duration).await;
                self.link.heal();
            }
            Fault::Cut => self.link.cut(),
            Fault::KillProxy(index) => {
                let mut proxy = self.proxies[index].lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(proxy) = proxy.as_mut() {
                    proxy.start_kill().expect("it can be killed");
                }
            }
            Fault::End => {}
        }
    }

    async fn check(&mut self, mut sent: Vec<Sent<WritingAgent>>) {
        for sent in &mut sent {
            sent.writer.ensure_started().await;
            self.wait_until_drained(&sent.writer.agent).await;
        }
        let records = Records::since(self.hub(), self.since).await;
        for (sent, (name, ..)) in sent.iter_mut().zip(AGENTS) {
            let wrong = |what: String| panic!("{name}: {what}\n{}", summary(sent));
            let done = self.done(&records, sent, &format!("agent:{name}")).await;
            let markers: Vec<String> = done.iter().map(|(marker, _)| marker.clone()).collect();
            exactly_once(sent, &markers).unwrap_or_else(wrong);
            let times: HashMap<&str, Timestamp> = done.iter().map(|(marker, at)| (&**marker, *at)).collect();
            let answered: Vec<&str> = sent.acknowledged().map(|(write, _)| &*write.marker).collect();
            let in_order: Vec<&str> =
                markers.iter().map(|marker| &**marker).filter(|marker| answered.contains(marker)).collect();
            assert_eq!(in_order, answered, "{name}: not in the order of the answers");
            for (write, ack) in sent.acknowledged() {
                match &ack.outcome {
                    WriteOutcome::Done { .. } => {
                        let at = times[&*write.marker];
                        assert!(
                            at <= ack.at,
                            "{name}: {write:?} was done at {at}, but reported at {}",
                            ack.at
                        );
                        self.totals.done += 1;
                    }
                    WriteOutcome::Queued => self.totals.queued += 1,
                    WriteOutcome::Refused(_) => unreachable!("not an acknowledgement"),
                }
            }
            self.totals.repeated += markers.iter().filter(|marker| records.times(marker) > 1).count();
            let unanswered: Vec<&str> = sent.unanswered().map(|write| &*write.marker).collect();
            self.totals.unanswered += unanswered.len();
            self.totals.done_unanswered +=
                markers.iter().filter(|marker| unanswered.contains(&&***marker)).count();
            let found = sent.writer.found().await;
            for (kind, found) in ["scratchpad", "todo"].into_iter().zip(found) {
                let of_kind =
                    |marker: &&String| number_of(marker).is_multiple_of(TODO_EVERY) == (kind == "todo");
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

/// The writes of an agent and their answers, for a failure message.
fn summary(sent: &Sent<WritingAgent>) -> String {
    let line = |attempt: &plexus_testkit::faults::Attempt<Ack>| {
        format!("{} {:?}\n", attempt.write.marker, attempt.ack)
    };
    sent.attempts.iter().map(line).collect()
}

/// The number in the marker of a write.
fn number_of(marker: &str) -> usize {
    let number = marker.trim_end_matches(';').rsplit('.').next();
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no marker: {marker}"))
}

fn arguments(write: &Write) -> (&'static str, Value) {
    let marker = &write.marker;
    match write.number % TODO_EVERY {
        0 => ("todo", json!({ "action": "add", "text": marker })),
        _ => {
            ("scratchpad", json!({ "action": "append", "section": "log", "content": format!("{marker}\n") }))
        }
    }
}

impl WritingAgent {
    /// Restarts the proxy if it was killed.
    async fn ensure_started(&mut self) {
        while self.agent.tools().await.is_err() {
            self.restart().await;
        }
    }

    async fn restart(&mut self) {
        loop {
            self.agent.wait().await;
            if self.agent.start().await.is_ok() {
                return;
            }
        }
    }

    /// The markers in the scratchpad and in the to-do list of its session.
    async fn found(&mut self) -> [Vec<String>; 2] {
        let markers = |text: String| Write::markers(&text).map(str::to_owned).collect();
        let pad = self.agent.read("scratchpad", json!({ "action": "read", "section": "log" })).await;
        let list = self.agent.read("todo", json!({ "action": "list" })).await;
        [markers(pad.expect("an answer")), markers(list.expect("an answer"))]
    }
}

impl Writer for WritingAgent {
    type Ack = Ack;

    async fn write(&mut self, write: &Write) -> Option<Ack> {
        let delay = self.delays.random_range(Duration::ZERO..THINK_TIME);
        tokio::time::sleep(delay).await;
        self.begun.fetch_add(1, Ordering::Relaxed);
        let key = self.retries.then_some(&*write.key);
        loop {
            let (tool, arguments) = arguments(write);
            match self.agent.write(tool, arguments, key).await {
                Ok(WriteOutcome::Refused(why)) => {
                    panic!("{write:?} was refused: {why}\n{}", self.agent.log())
                }
                Ok(outcome) => return Some(Ack { outcome, at: Timestamp::now() }),
                Err(_) => self.restart().await,
            }
            if !self.retries {
                return None;
            }
        }
    }
}

/// Plays rounds and prints the totals.
pub(super) async fn run(plan: Plan, count: u64) {
    let mut scene = OutageScene::new(plan).await;
    let load = Load { most: plan.writes / AGENTS.len(), unanswered_policy: UnansweredPolicy::GoOn };
    let tally = rounds(&mut scene, count, load).await;
    let totals = &scene.totals;
    eprintln!("{totals:?}");
    assert_eq!(tally.acknowledged + tally.unanswered, plan.writes * tally.rounds as usize, "{tally:?}");
    assert!(totals.done > 0 && totals.queued > 0, "only one kind of answer: {totals:?}");
    assert!(totals.repeated > 0 || count == 1, "no answer was lost after the write was done: {totals:?}");
}
