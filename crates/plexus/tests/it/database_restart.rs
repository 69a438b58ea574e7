//! PostgreSQL goes away and comes back while agents write: the hub stays, callers are told to try
//! again and recover, and nothing that was acknowledged is lost or doubled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plexus_testkit::crash::{Seed, Write};
use plexus_testkit::postgres::PostgresServer;
use plexus_testkit::{Door, Lane, Signal};
use rand::RngExt;
use tokio::task::JoinSet;

/// For a caller to recover after the database came back.
const PATIENCE: Duration = Duration::from_secs(30);
const BACKOFF: Duration = Duration::from_millis(50);
/// A to-do list holds 300, and every other write goes there.
const WRITES: usize = 550;

/// What a client sent, each once acknowledged, and how often it had to try again.
struct Written {
    lane: Lane,
    markers: Vec<String>,
}

async fn write_until(
    mut lane: Lane,
    place: usize,
    over: Arc<AtomicBool>,
    retries: Arc<AtomicUsize>,
) -> Written {
    let mut markers = Vec::new();
    while !over.load(Ordering::Relaxed) && markers.len() < WRITES {
        let number = markers.len();
        let marker = format!("w0.{place}.{number};");
        let write = Write { number, key: format!("key-{marker}"), marker };
        let (tool, arguments) = Lane::arguments(&write);
        let until = Instant::now() + PATIENCE;
        while lane.call(tool, arguments.clone(), Some(&write.key)).await.is_err() {
            assert!(Instant::now() < until, "{write:?} did not get through");
            retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(BACKOFF).await;
        }
        markers.push(write.marker);
    }
    Written { lane, markers }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_postgres_crash_or_not_loses_nothing_and_callers_recover() {
    let Some(mut server) = PostgresServer::start().await else { return };
    let seed = Seed::choose();
    eprintln!("repeat this run with {seed}");
    let mut rng = seed.round(0);
    let plexus = crate::plexus().with("PLEXUS_DATABASE_URL", server.url());
    let hub = plexus.up().await;
    let (over, retries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for place in 0..6 {
        let door = match place % 3 {
            0 => Door::Session { version: "2025-06-18", id: None },
            1 => Door::Stateless { thread: format!("thread-{place}") },
            _ => Door::Rest { session: format!("session-{place}") },
        };
        let mut lane = Lane::new(hub.url(""), hub.token(&format!("agent-{place}")).await, door);
        lane.expect_outages();
        clients.spawn(write_until(lane, place, over.clone(), retries.clone()));
    }
    for round in 0..6 {
        tokio::time::sleep(Duration::from_millis(rng.random_range(100..600))).await;
        server.stop(if round % 2 == 0 { Signal::QUIT } else { Signal::INT }).await;
        // Sometimes longer than the hub waits for a server that does not answer.
        let away = if round == 3 { 4_000 } else { rng.random_range(1..800) };
        tokio::time::sleep(Duration::from_millis(away)).await;
        server.start_again().await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    over.store(true, Ordering::Relaxed);
    let written = tokio::time::timeout(PATIENCE, clients.join_all()).await.expect("all clients recover");
    let mut total = 0;
    for mut client in written {
        let mut found = client.lane.found().await.expect("the hub answers");
        let (mut sent, count) = (client.markers, found.len());
        sent.sort();
        found.sort();
        assert_eq!(sent, found, "{:?}", client.lane.door);
        total += count;
    }
    let report = hub.api("/api/v1/audit/verify").await;
    assert_eq!(report["ok"], true, "{report}");
    let retries = retries.load(Ordering::Relaxed);
    eprintln!("{total} writes acknowledged once, {retries} retries over 6 restarts");
    assert!(retries > 0, "no caller ever noticed a restart");
    assert!(hub.terminate().await.success());
}
