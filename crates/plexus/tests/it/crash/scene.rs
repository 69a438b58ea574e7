//! A hub behind a connection that can be cut, and twelve clients.

use std::time::Duration;

use plexus_proto::api::CreatedToken;
use plexus_testkit::faults::{FaultScenario, Schedule, ScheduledFault, Sent, Write, exactly_once};
use plexus_testkit::{CompletedCall, FaultyLink, HubProcess, Plexus, SessionWriter, WriterProtocol};
use rand::RngExt;
use rand::rngs::StdRng;

use super::records::{self, Records};

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The faults of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// One fault; the clients do not retry.
    OneFault,
    /// Several consecutive faults; the clients retry.
    ManyFaults,
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    Kill,
    /// The hub is killed, and killed again while it starts.
    KillTwice(Duration),
    /// `SIGTERM`: a graceful shutdown.
    Terminate,
    /// Every connection is reset; the hub keeps running.
    Cut,
    /// Requests arrive, but their answers are lost.
    LoseAnswers(Duration),
    /// The connection carries nothing for a while and is then reset.
    FreezeThenCut(Duration),
}

pub(super) struct HubScene {
    plexus: Plexus,
    plan: Plan,
    /// `None` only during a restart.
    hub: Option<HubProcess>,
    link: FaultyLink,
    tokens: Vec<CreatedToken>,
    /// The clients of the first round, whose sessions must survive every crash.
    oldest: Vec<SessionWriter>,
    /// The newest audit entry before the round.
    since: i64,
    /// The hub was not restarted in this round, so it may still run a call.
    survived: bool,
    done_unanswered: usize,
}

impl HubScene {
    pub(super) async fn new(plexus: Plexus, plan: Plan) -> Self {
        let hub = plexus.up().await;
        let mut tokens = Vec::new();
        // Four principals; the first has a second token.
        for name in ["ann", "ben", "cid", "dot", "ann"] {
            tokens.push(hub.token(name).await);
        }
        let link = FaultyLink::to(hub.address()).await;
        let (hub, oldest) = (Some(hub), Vec::new());
        Self { plexus, plan, hub, link, tokens, oldest, since: 0, survived: true, done_unanswered: 0 }
    }

    /// Number of writes that were done but not answered.
    pub(super) fn done_unanswered(&self) -> usize {
        self.done_unanswered
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    async fn start(&mut self) {
        let hub = self.plexus.up().await;
        self.link.point_at(hub.address());
        self.hub = Some(hub);
        self.survived = false;
    }

    async fn kill(&mut self) {
        self.hub.take().expect("a hub").kill().await;
    }

    /// Stops the hub gracefully, which ends its calls, and starts it again.
    async fn terminate(&mut self) {
        assert!(self.hub.take().expect("a hub").terminate().await.success());
        self.start().await;
    }

    /// Checks that interrupted writes are complete or absent, and sends them again.
    async fn check_interrupted(&mut self, sent: &mut [Sent<SessionWriter>]) {
        if self.survived {
            self.terminate().await;
        }
        let records = Records::since(self.hub(), self.since).await;
        for sent in sent {
            let before = sent.writer.stored_markers().await.expect("the hub answers");
            exactly_once(sent, &before).unwrap_or_else(|wrong| panic!("{:?}: {wrong}", sent.writer.protocol));
            records.check(self.hub(), sent, &before).await;
            self.done_unanswered += retry(sent, &before).await;
        }
    }
}

impl FaultScenario for HubScene {
    type Writer = SessionWriter;
    type Fault = Fault;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<Fault> {
        let faults = match self.plan {
            Plan::OneFault => 1,
            Plan::ManyFaults => rng.random_range(3..6),
        };
        (0..faults).map(|_| ScheduledFault { after: delay(rng), fault: fault(self.plan, rng) }).collect()
    }

    /// Every principal with every protocol.
    async fn writers(&mut self, round: u64) -> Vec<SessionWriter> {
        self.since = records::newest_entry(self.hub()).await;
        self.survived = true;
        let writer = |index: usize| {
            let protocol = WriterProtocol::nth(index, VERSIONS[index / 3], format!("r{round}-{index}"));
            let token = self.tokens[index % self.tokens.len()].clone();
            let mut writer = SessionWriter::new(format!("http://{}", self.link.address()), token, protocol);
            // A hub that shuts down answers with a retryable error.
            if self.plan == Plan::ManyFaults {
                writer.expect_outages();
            }
            writer
        };
        (0..12).map(writer).collect()
    }

    async fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => {
                self.kill().await;
                self.start().await;
            }
            Fault::KillTwice(after) => {
                self.kill().await;
                let mut child = self.plexus.spawn(&["up", "--listen", "127.0.0.1:0"]);
                tokio::time::sleep(after).await;
                child.kill().await.expect("it can be killed");
                self.start().await;
            }
            Fault::Terminate => self.terminate().await,
            Fault::Cut => self.link.cut(),
            Fault::LoseAnswers(duration) => {
                self.link.lose_answers();
                tokio::time::sleep(duration).await;
                self.link.heal();
            }
            Fault::FreezeThenCut(duration) => {
                self.link.freeze();
                tokio::time::sleep(duration).await;
                self.link.cut();
                self.link.heal();
            }
        }
    }

    async fn check(&mut self, mut sent: Vec<Sent<SessionWriter>>) {
        if self.plan == Plan::OneFault {
            self.check_interrupted(&mut sent).await;
        }
        for sent in &mut sent {
            let after = sent.writer.stored_markers().await.expect("the hub answers");
            assert_eq!(after.len(), sent.attempts.len(), "after the retries every write is stored once");
            exactly_once(sent, &after).unwrap_or_else(|wrong| panic!("{:?}: {wrong}", sent.writer.protocol));
        }
        let report = self.hub().api("/api/v1/audit/verify").await;
        assert_eq!(report["ok"], true, "{report}");
        if self.oldest.is_empty() {
            self.oldest = sent.into_iter().map(|sent| sent.writer).collect();
        }
        // Sessions from before the first fault still exist.
        for writer in &mut self.oldest {
            writer.stored_markers().await.expect("an old session still answers");
        }
    }
}

/// The time of the fault: mostly under load, sometimes while sessions are opened.
fn delay(rng: &mut StdRng) -> Duration {
    match rng.random_range(0..5) {
        0 => Duration::from_millis(rng.random_range(1..60)),
        _ => Duration::from_micros(rng.random_range(150_000..700_000)),
    }
}

fn fault(plan: Plan, rng: &mut StdRng) -> Fault {
    let duration = Duration::from_millis(rng.random_range(1..120));
    match (rng.random_range(0..12), plan) {
        (0..=1, _) => Fault::KillTwice(duration),
        (2, _) => Fault::Cut,
        (3, _) => Fault::LoseAnswers(duration),
        (4, _) => Fault::FreezeThenCut(duration),
        (5..=6, Plan::ManyFaults) => Fault::Terminate,
        _ => Fault::Kill,
    }
}

/// Repeats the unanswered writes and one answered write, which must not be done twice. Returns how many of the unanswered
/// ones were already done.
async fn retry(sent: &mut Sent<SessionWriter>, before: &[String]) -> usize {
    let mut done_unanswered = 0;
    let unanswered: Vec<Write> = sent.unanswered().cloned().collect();
    for write in unanswered {
        let (tool, arguments) = SessionWriter::arguments(&write);
        let again = sent.writer.call(tool, arguments, Some(&write.key)).await.expect("the hub answers");
        let was_done = before.contains(&write.marker);
        assert_eq!(again.replayed, was_done, "{write:?}");
        done_unanswered += usize::from(was_done);
    }
    let last = sent.acknowledged().last().map(|(write, done)| (write.clone(), done.clone()));
    if let Some((write, done)) = last {
        let (tool, arguments) = SessionWriter::arguments(&write);
        let again = sent.writer.call(tool, arguments, Some(&write.key)).await.expect("the hub answers");
        assert_eq!(
            CompletedCall { call_id: done.call_id.clone(), ..again.clone() },
            CompletedCall { replayed: true, ..done }
        );
    }
    done_unanswered
}
