//! Calls that change nothing leave only records, which are acknowledged once they are in the journal. After a crash between
//! journal and database, also with a torn record at the end, the hub has each record once and in order.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use plexus_testkit::faults::Seed;
use plexus_testkit::{Plexus, SessionWriter, WriterProtocol};
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::records::{calls, contiguous};

const CLIENTS: usize = 6;

/// Logged by a hub that starts on a journal with records that are not in the database.
const REPLAY_LOGGED: &str = "replaying the journal";
const TORN_RECORD_LOGGED: &str = "dropped an incompletely written record";

pub(super) async fn interrupted(plexus: Plexus, rounds: u64) {
    let seed = Seed::choose();
    eprintln!("{seed}");
    let mut hub = plexus.up().await;
    let token = hub.token("ann").await;
    let mut answered = 0;
    for round in 0..rounds {
        let mut rng = seed.round(round);
        let mut clients = JoinSet::new();
        for index in 0..CLIENTS {
            let protocol = WriterProtocol::nth(index, "2025-11-25", format!("r{round}-{index}"));
            let mut writer = SessionWriter::new(hub.url(""), token.clone(), protocol);
            clients.spawn(async move {
                let mut acknowledged = Vec::new();
                while let Ok(done) = writer.call("todo", json!({ "action": "list" }), None).await {
                    acknowledged.push(done.call_id);
                }
                acknowledged
            });
        }
        tokio::time::sleep(Duration::from_micros(rng.random_range(50_000..300_000))).await;
        let log = plexus.home().join("hub.log");
        hub.kill().await;
        if round % 2 == 1 {
            append_torn_record(&plexus.data_dir().join("plexus.journal"), rng.random_range(1..200));
        }
        hub = plexus.up().await;
        for acknowledged in clients.join_all().await {
            answered += acknowledged.len();
            let Some(first) = acknowledged.first() else { continue };
            let call = hub.api(&format!("/api/v1/audit/{first}")).await;
            let events = hub.events(call["session_id"].as_str().expect("a session")).await;
            contiguous(&events);
            let counts = calls(&events, "agent:ann");
            let ended: Vec<&str> =
                events.iter().filter(|event| event["kind"] == "tool_call").map(call_id).collect();
            // The answer to one more call may have been lost.
            assert!(
                ended.starts_with(&acknowledged.iter().map(String::as_str).collect::<Vec<_>>()),
                "{seed}, round {round}"
            );
            assert!(ended.len() <= acknowledged.len() + 1, "{seed}, round {round}");
            for id in &acknowledged {
                assert_eq!(counts[id], (1, 1), "{seed}, round {round}: {id}");
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
        let log_text = std::fs::read_to_string(log).expect("its log");
        if round + 1 == rounds {
            assert!(
                log_text.contains(REPLAY_LOGGED) && log_text.contains(TORN_RECORD_LOGGED),
                "no crash between journal and database: {seed}"
            );
        }
    }
    assert!(answered > rounds as usize * CLIENTS, "hardly any load: {answered}");
}

fn call_id(event: &Value) -> &str {
    event["payload"]["call_id"].as_str().expect("a call")
}

/// Appends the beginning of a record, as a crash during a write would leave it.
fn append_torn_record(journal: &Path, bytes: usize) {
    let entries = std::fs::read_dir(journal).expect("a journal").map(|entry| entry.expect("a file").path());
    let last = entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).max();
    let mut segment = OpenOptions::new().append(true).open(last.expect("a segment")).expect("a segment");
    let record: Vec<u8> = 5_000_u32.to_le_bytes().into_iter().chain([7; 200]).take(bytes).collect();
    segment.write_all(&record).expect("written");
}
