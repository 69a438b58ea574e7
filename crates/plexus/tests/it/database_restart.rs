//! PostgreSQL stops and restarts while agents write: the hub keeps running, callers get retryable errors and recover, and no
//! acknowledged write is lost or done twice.

use std::time::Duration;

use plexus_testkit::faults::{
    FaultScenario, Load, Schedule, ScheduledFault, Sent, UnansweredPolicy, exactly_once, rounds,
};
use plexus_testkit::postgres::PostgresServer;
use plexus_testkit::{HubProcess, SessionWriter, Signal, WriterProtocol};
use rand::RngExt;
use rand::rngs::StdRng;

/// Every second write goes to a to-do list, which holds 300.
const WRITES: usize = 550;

/// A database server and a hub that uses it.
struct DatabaseScene {
    server: PostgresServer,
    hub: HubProcess,
}

/// The server stops and is restarted after a while.
#[derive(Debug, Clone)]
struct Outage {
    /// Whether it stops immediately, without a checkpoint.
    crash: bool,
    downtime: Duration,
}

impl FaultScenario for DatabaseScene {
    type Writer = SessionWriter;
    type Fault = Outage;

    fn schedule(&self, rng: &mut StdRng) -> Schedule<Outage> {
        let inject = |number: u64| {
            let after = Duration::from_millis(rng.random_range(100..600));
            // Once longer than the hub waits for the server.
            let downtime = if number == 3 { 4_000 } else { rng.random_range(1..800) };
            ScheduledFault {
                after,
                fault: Outage { crash: number.is_multiple_of(2), downtime: Duration::from_millis(downtime) },
            }
        };
        (0..6).map(inject).collect()
    }

    async fn writers(&mut self, round: u64) -> Vec<SessionWriter> {
        let mut writers = Vec::new();
        for index in 0..6 {
            let name = format!("r{round}-{index}");
            let token = self.hub.token(&name).await;
            let mut writer =
                SessionWriter::new(self.hub.url(""), token, WriterProtocol::nth(index, "2025-06-18", name));
            writer.expect_outages();
            writers.push(writer);
        }
        writers
    }

    async fn inject(&mut self, outage: Outage) {
        self.server.stop(if outage.crash { Signal::QUIT } else { Signal::INT }).await;
        tokio::time::sleep(outage.downtime).await;
        self.server.start_again().await;
    }

    async fn check(&mut self, sent: Vec<Sent<SessionWriter>>) {
        for mut sent in sent {
            let found = sent.writer.stored_markers().await.expect("the hub answers");
            assert_eq!(found.len(), sent.attempts.len(), "{:?}", sent.writer.protocol);
            exactly_once(&sent, &found).unwrap_or_else(|wrong| panic!("{:?}: {wrong}", sent.writer.protocol));
        }
        let report = self.hub.api("/api/v1/audit/verify").await;
        assert_eq!(report["ok"], true, "{report}");
    }
}

async fn outages(count: u64) {
    let Some(server) = PostgresServer::start().await else { return };
    let plexus = crate::plexus().with("PLEXUS_DATABASE_URL", server.url());
    let hub = plexus.up().await;
    let mut scene = DatabaseScene { server, hub };
    let tally =
        rounds(&mut scene, count, Load { most: WRITES, unanswered_policy: UnansweredPolicy::Retry }).await;
    assert!(tally.acknowledged > 0, "no load: {tally:?}");
    assert!(tally.retries > 0, "no caller ever had to retry: {tally:?}");
    assert!(scene.hub.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_of_postgres_loses_nothing_and_callers_recover_after_a_crash_or_stop() {
    outages(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn thirty_rounds_of_restarts_of_postgres_lose_nothing() {
    outages(30).await;
}
