//! `kill -9` at random under full load: what was acknowledged is there, once, and on record.
//!
//! The rounds share one data folder, so later ones start from what earlier crashes left behind.

pub(crate) mod records;

use std::time::{Duration, Instant};

use plexus_testkit::crash::{Seed, Sent, exactly_once, under_load};
use plexus_testkit::{Done, Door, HubProcess, Lane, Plexus};
use rand::RngExt;
use rand::rngs::StdRng;

use records::Records;

/// Writes of one client in one round; a to-do list holds 500.
const WRITES: usize = 800;
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_crashes_under_load_lose_nothing() {
    crash_rounds(crate::plexus(), 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_crashes_under_load_lose_nothing_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        crash_rounds(plexus, 20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn three_hundred_crashes_under_load_lose_nothing() {
    crash_rounds(crate::plexus(), 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_under_load_lose_nothing_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        crash_rounds(plexus, 200).await;
    }
}

/// What the rounds came to, for a person who asks whether they tested anything.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: usize,
    unanswered: usize,
    /// Unanswered, and yet done.
    done_unheard: usize,
}

async fn crash_rounds(plexus: Plexus, rounds: u64) {
    let (seed, began) = (Seed::choose(), Instant::now());
    eprintln!("repeat this run with {seed}");
    let mut hub = plexus.up().await;
    let mut tokens = Vec::new();
    // Four principals; the first has a second token.
    for name in ["ann", "ben", "cid", "dot", "ann"] {
        tokens.push(hub.token(name).await);
    }
    let mut first_round: Vec<Lane> = Vec::new();
    let mut tally = Tally::default();
    for round in 0..rounds {
        eprintln!("round {round} after {:?}", began.elapsed());
        let mut rng = seed.round(round);
        let since = records::head(&hub).await;
        let lanes = lanes(&hub, round, &tokens);
        let moment = moment(&mut rng);
        let sent = under_load(lanes, round, WRITES, async {
            tokio::time::sleep(moment).await;
            hub.kill().await;
        })
        .await;
        hub = restart(&plexus, &mut rng).await;
        let sent = check(&hub, sent, since, &mut tally).await;
        if first_round.is_empty() {
            first_round = sent.into_iter().map(|sent| sent.writer).collect();
        }
        // Sessions from before the first crash are still the same sessions.
        for lane in &mut first_round {
            lane.moved_to(hub.url(""));
            lane.found().await.expect("an old session still answers");
        }
    }
    eprintln!("{rounds} rounds in {:?}: {tally:?}", began.elapsed());
    assert!(tally.acknowledged > rounds as usize * 20, "hardly any load: {tally:?}");
    assert!(tally.unanswered > 0, "no write was ever interrupted: {tally:?}");
}

/// Twelve clients: every principal through every door.
fn lanes(hub: &HubProcess, round: u64, tokens: &[plexus_proto::api::CreatedToken]) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for place in 0..12 {
        let name = format!("r{round}-{place}");
        let door = match place % 3 {
            0 => Door::Session { version: VERSIONS[place / 3], id: None },
            1 => Door::Stateless { thread: name },
            _ => Door::Rest { session: name },
        };
        lanes.push(Lane::new(hub.url(""), tokens[place % tokens.len()].clone(), door));
    }
    lanes
}

/// When the fault strikes: mostly amid the load, sometimes while sessions are being opened.
fn moment(rng: &mut StdRng) -> Duration {
    match rng.random_range(0..5) {
        0 => Duration::from_millis(rng.random_range(1..60)),
        _ => Duration::from_micros(rng.random_range(150_000..700_000)),
    }
}

/// Starts the hub again; sometimes it is killed while it starts, too.
async fn restart(plexus: &Plexus, rng: &mut StdRng) -> HubProcess {
    if rng.random_range(0..4) == 0 {
        let mut child = plexus.spawn(&["up", "--listen", "127.0.0.1:0"]);
        tokio::time::sleep(Duration::from_millis(rng.random_range(1..120))).await;
        child.kill().await.expect("it can be killed");
    }
    plexus.up().await
}

async fn check(
    hub: &HubProcess,
    mut sent: Vec<Sent<Lane>>,
    since: i64,
    tally: &mut Tally,
) -> Vec<Sent<Lane>> {
    let records = Records::since(hub, since).await;
    for sent in &mut sent {
        sent.writer.moved_to(hub.url(""));
        let before = sent.writer.found().await.expect("the hub answers");
        exactly_once(sent, &before).unwrap_or_else(|wrong| panic!("{:?}: {wrong}", sent.writer.door));
        records.check(hub, sent, &before).await;
        retry(sent, &before, tally).await;
        let after = sent.writer.found().await.expect("the hub answers");
        assert_eq!(after.len(), sent.attempts.len(), "after the retries every write is there once");
        exactly_once(sent, &after).unwrap_or_else(|wrong| panic!("{:?}: {wrong}", sent.writer.door));
        tally.acknowledged += sent.acknowledged().count();
    }
    let report = hub.api("/api/v1/audit/verify").await;
    assert_eq!(report["ok"], true, "{report}");
    sent
}

/// Sends again what was not answered, and one that was; neither does anything twice.
async fn retry(sent: &mut Sent<Lane>, before: &[String], tally: &mut Tally) {
    let unanswered: Vec<_> = sent.unanswered().cloned().collect();
    for write in unanswered {
        let (tool, arguments) = Lane::arguments(&write);
        let again = sent.writer.call(tool, arguments, Some(&write.key)).await.expect("the hub answers");
        let was_done = before.contains(&write.marker);
        assert_eq!(again.replayed, was_done, "{write:?}");
        tally.unanswered += 1;
        tally.done_unheard += usize::from(was_done);
    }
    let last = sent.acknowledged().last().map(|(write, done)| (write.clone(), done.clone()));
    if let Some((write, done)) = last {
        let (tool, arguments) = Lane::arguments(&write);
        let again = sent.writer.call(tool, arguments, Some(&write.key)).await.expect("the hub answers");
        assert_eq!(Done { call_id: done.call_id.clone(), ..again.clone() }, Done { replayed: true, ..done });
    }
}
