//! Someone takes away or changes the signed head of the record, which is a file of its own.

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

use crate::tampering::{CUT, Problem, Table, call, newest, signed, stopped, verify};

/// Something was done to the head while the hub was stopped: said at once and also after new
/// calls, which sign a new head.
async fn found_and_not_forgotten(plexus: &Plexus, words: &str) {
    let hub = plexus.up().await;
    let problems = verify(plexus).await;
    assert!(speaks_of(&problems, words), "at once: {problems:?}");
    let status = hub.api("/api/v1/status").await;
    assert_eq!(status["audit"]["intact_at_start"], false, "{status}");
    add_calls(&hub).await;
    let problems = verify(plexus).await;
    assert!(speaks_of(&problems, words), "after new calls: {problems:?}");
    assert!(hub.terminate().await.success());
    let status = plexus.up().await.api("/api/v1/status").await;
    assert_eq!(status["audit"]["intact_at_start"], false, "a restart heals nothing: {status}");
}

fn speaks_of(problems: &[Problem], words: &str) -> bool {
    problems.iter().any(|problem| problem.message.contains(words))
}

async fn add_calls(hub: &HubProcess) {
    let token = hub.token("codex").await;
    for number in 0..5 {
        call(hub, &token.token, number).await;
    }
}

#[tokio::test]
async fn a_deleted_head_is_found_and_not_forgotten() {
    let plexus = stopped().await;
    std::fs::remove_file(plexus.data_dir().join("audit.head")).expect("a head");
    found_and_not_forgotten(&plexus, "no signed head").await;
}

#[tokio::test]
async fn a_head_deleted_to_hide_a_cut_is_found_and_not_forgotten() {
    let plexus = stopped().await;
    Table::open(&plexus.data_dir()).await.execute(CUT).await;
    std::fs::remove_file(plexus.data_dir().join("audit.head")).expect("a head");
    found_and_not_forgotten(&plexus, "no signed head").await;
}

#[tokio::test]
async fn an_altered_head_is_found_and_not_forgotten() {
    let plexus = stopped().await;
    let path = plexus.data_dir().join("audit.head");
    let mut head: Value = serde_json::from_slice(&std::fs::read(&path).expect("a head")).expect("JSON");
    assert_eq!(head["n"], newest(&plexus).await, "{head}");
    head["n"] = json!(50);
    std::fs::write(&path, head.to_string()).expect("it can be written");
    found_and_not_forgotten(&plexus, "the signature is invalid").await;
}

#[tokio::test]
async fn a_head_of_another_hub_is_found_and_not_forgotten() {
    let (plexus, other) = tokio::join!(stopped(), stopped());
    let path = |plexus: &Plexus| plexus.data_dir().join("audit.head");
    std::fs::copy(path(&other), path(&plexus)).expect("it can be replaced");
    found_and_not_forgotten(&plexus, "signed with another key").await;
}

#[tokio::test]
async fn a_head_that_is_no_head_is_found_and_not_forgotten() {
    let plexus = stopped().await;
    std::fs::write(plexus.data_dir().join("audit.head"), "nothing").expect("it can be written");
    found_and_not_forgotten(&plexus, "is not a signed head").await;
}

#[tokio::test]
async fn a_head_taken_from_a_running_hub_is_missed_until_it_signs_again() {
    let plexus = stopped().await;
    let hub = plexus.up().await;
    std::fs::remove_file(plexus.data_dir().join("audit.head")).expect("a head");
    let problems = verify(&plexus).await;
    assert!(speaks_of(&problems, "no signed head"), "{problems:?}");
    // The hub itself knows the end of its chain, so what it signs next is true.
    add_calls(&hub).await;
    signed(&hub).await;
    assert!(verify(&plexus).await.is_empty());
}
