//! A deleted or changed file with the signed head of the audit record.

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

use crate::tampering::{AuditTable, CUT, Problem, call, newest, stopped, verify, wait_until_signed};

/// Checks that a head changed while the hub was stopped is reported at the start, after new calls, which sign a new head, and
/// after a restart.
async fn check_reported_permanently(plexus: &Plexus, words: &str) {
    let hub = plexus.up().await;
    let problems = verify(plexus).await;
    assert!(contains_message(&problems, words), "after the start: {problems:?}");
    let status = hub.api("/api/v1/status").await;
    assert_eq!(status["audit"]["intact_at_start"], false, "{status}");
    add_calls(&hub).await;
    let problems = verify(plexus).await;
    assert!(contains_message(&problems, words), "after new calls: {problems:?}");
    assert!(hub.terminate().await.success());
    let status = plexus.up().await.api("/api/v1/status").await;
    assert_eq!(status["audit"]["intact_at_start"], false, "forgotten after a restart: {status}");
}

fn contains_message(problems: &[Problem], words: &str) -> bool {
    problems.iter().any(|problem| problem.message.contains(words))
}

async fn add_calls(hub: &HubProcess) {
    let token = hub.token("codex").await;
    for number in 0..5 {
        call(hub, &token.token, number).await;
    }
}

#[tokio::test]
async fn deleted_head_is_reported_permanently() {
    let plexus = stopped().await;
    std::fs::remove_file(plexus.data_dir().join("audit.head")).expect("a head");
    check_reported_permanently(&plexus, "no signed head").await;
}

#[tokio::test]
async fn head_deleted_to_hide_a_cut_is_reported_permanently() {
    let plexus = stopped().await;
    AuditTable::open(&plexus.data_dir()).await.execute(CUT).await;
    std::fs::remove_file(plexus.data_dir().join("audit.head")).expect("a head");
    check_reported_permanently(&plexus, "no signed head").await;
}

#[tokio::test]
async fn altered_head_is_reported_permanently() {
    let plexus = stopped().await;
    let path = plexus.data_dir().join("audit.head");
    let mut head: Value = serde_json::from_slice(&std::fs::read(&path).expect("a head")).expect("JSON");
    assert_eq!(head["n"], newest(&plexus).await, "{head}");
    head["n"] = json!(50);
    std::fs::write(&path, head.to_string()).expect("it can be written");
    check_reported_permanently(&plexus, "the signature is invalid").await;
}

#[tokio::test]
async fn head_of_another_hub_is_reported_permanently() {
    let (plexus, other) = tokio::join!(stopped(), stopped());
    let path = |plexus: &Plexus| plexus.data_dir().join("audit.head");
    std::fs::copy(path(&other), path(&plexus)).expect("it can be replaced");
    check_reported_permanently(&plexus, "signed with another key").await;
}

#[tokio::test]
async fn invalid_head_file_is_reported_permanently() {
    let plexus = stopped().await;
    std::fs::write(plexus.data_dir().join("audit.head"), "nothing").expect("it can be written");
    check_reported_permanently(&plexus, "is not a signed head").await;
}

#[tokio::test]
async fn head_deleted_from_a_running_hub_is_missing_until_the_next_signature() {
    let plexus = stopped().await;
    let hub = plexus.up().await;
    std::fs::remove_file(plexus.data_dir().join("audit.head")).expect("a head");
    let problems = verify(&plexus).await;
    assert!(contains_message(&problems, "no signed head"), "{problems:?}");
    // The hub has the end of its chain in memory, so the next signed head is correct.
    add_calls(&hub).await;
    wait_until_signed(&hub).await;
    assert!(verify(&plexus).await.is_empty());
}
