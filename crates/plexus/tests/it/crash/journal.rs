//! Calls that change nothing leave only records, and those are acknowledged by the journal: killed between
//! the journal and the database, with a record cut short at the end, the hub has each of them once and in
//! order when it is back.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use plexus_testkit::faults::Seed;
use plexus_testkit::{Door, Lane, Plexus};
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::records::{calls, contiguous};

const CLIENTS: usize = 6;

/// What a hub says when it starts on a journal that was not stored.
const REPLAYED: &str = "replaying the journal";
const CUT_OFF: &str = "dropped an incompletely written record";

pub(super) async fn interrupted(plexus: Plexus, rounds: u64) {
    let seed = Seed::choose();
    eprintln!("{seed}");
    let mut hub = plexus.up().await;
    let token = hub.token("ann").await;
    let mut answered = 0;
    for round in 0..rounds {
        let mut random = seed.round(round);
        let mut clients = JoinSet::new();
        for place in 0..CLIENTS {
            let door = Door::nth(place, "2025-11-25", format!("r{round}-{place}"));
            let mut lane = Lane::new(hub.url(""), token.clone(), door);
            clients.spawn(async move {
                let mut acknowledged = Vec::new();
                while let Ok(done) = lane.call("todo", json!({ "action": "list" }), None).await {
                    acknowledged.push(done.call_id);
                }
                acknowledged
            });
        }
        tokio::time::sleep(Duration::from_micros(random.random_range(50_000..300_000))).await;
        let log = plexus.home().join("hub.log");
        hub.kill().await;
        if round % 2 == 1 {
            tear(&plexus.data_dir().join("plexus.journal"), random.random_range(1..200));
        }
        hub = plexus.up().await;
        for acknowledged in clients.join_all().await {
            answered += acknowledged.len();
            let Some(first) = acknowledged.first() else { continue };
            let call = hub.api(&format!("/api/v1/audit/{first}")).await;
            let events = hub.events(call["session_id"].as_str().expect("a session")).await;
            contiguous(&events);
            let of_log = calls(&events, "agent:ann");
            let ended: Vec<&str> =
                events.iter().filter(|event| event["kind"] == "tool_call").map(call_id).collect();
            // One more may have ended whose answer was lost.
            assert!(
                ended.starts_with(&acknowledged.iter().map(String::as_str).collect::<Vec<_>>()),
                "{seed}, round {round}"
            );
            assert!(ended.len() <= acknowledged.len() + 1, "{seed}, round {round}");
            for id in &acknowledged {
                assert_eq!(of_log[id], (1, 1), "{seed}, round {round}: {id}");
            }
            let last = acknowledged.last().expect("at least one");
            let call = hub.api(&format!("/api/v1/audit/{last}")).await;
            assert_eq!(
                (&call["outcome"], call["entries"].as_array().map(Vec::len)),
                (&json!("ok"), Some(2)),
                "{call}"
            );
        }
        let report = hub.api("/api/v1/audit/verify").await;
        assert_eq!(report["ok"], true, "{report}");
        let said = std::fs::read_to_string(log).expect("its log");
        if round + 1 == rounds {
            assert!(said.contains(REPLAYED) && said.contains(CUT_OFF), "no crash came between: {seed}");
        }
    }
    assert!(answered > rounds as usize * CLIENTS, "hardly any load: {answered}");
}

fn call_id(event: &Value) -> &str {
    event["payload"]["call_id"].as_str().expect("a call")
}

/// Leaves the beginning of one more record, as a crash in the middle of a write does.
fn tear(journal: &Path, bytes: usize) {
    let entries = std::fs::read_dir(journal).expect("a journal").map(|entry| entry.expect("a file").path());
    let last = entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).max();
    let mut segment = OpenOptions::new().append(true).open(last.expect("a segment")).expect("a segment");
    let torn: Vec<u8> = 5_000_u32.to_le_bytes().into_iter().chain([7; 200]).take(bytes).collect();
    segment.write_all(&torn).expect("written");
}
