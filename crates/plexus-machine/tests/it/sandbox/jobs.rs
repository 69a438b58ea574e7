//! Jobs in a sandbox start, receive signals, end and survive restarts like other jobs.

use plexus_machine::launch::SandboxLevel;
use serde_json::{Value, json};

use super::{LEVELS, is_available, policy_with_level};
use crate::terminal::ends::is_process_alive;
use crate::workbench::{Workbench, poll_until};

async fn each(test: impl AsyncFn(SandboxLevel, Workbench)) {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let bench = Workbench::with_launcher(&policy_with_level(level)).await;
        std::fs::create_dir(bench.home().join("work")).unwrap();
        test(level, bench).await;
    }
}

async fn output(bench: &Workbench, job: &Value) -> String {
    let read = bench.terminal(json!({ "action": "read", "job": job["job"] })).await.unwrap();
    read["text"].as_str().unwrap_or_default().to_owned()
}

/// Finds a process outside of the sandbox by its arguments, because its pid differs inside.
fn pids_of(marker: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        (words == format!("sleep\0{marker}\0").as_bytes()).then_some(pid)
    })
    .collect()
}

/// A unique sleep duration.
fn marker() -> String {
    format!("1000.{}", uuid::Uuid::now_v7().as_u128() % 1_000_000_000_000)
}

#[tokio::test]
async fn exit_status_is_reported_unchanged() {
    each(async |level, bench| {
        assert_eq!(bench.sh("exit 7").await["exit_code"], 7, "{level}");
        assert_eq!(bench.sh("kill -s KILL $$").await["exit_code"], 137, "{level}");
        assert_eq!(bench.sh("no-such-program").await["exit_code"], 127, "{level}");
        let argv = bench.terminal(json!({ "action": "run", "argv": ["no-such-program"] })).await.unwrap();
        assert_eq!(argv["exit_code"], 127, "{level}: {argv}");
        assert!(argv["stderr"]["text"].as_str().unwrap().contains("no-such-program"), "{level}: {argv}");
    })
    .await;
}

#[tokio::test]
async fn command_can_clean_up_on_sigterm() {
    each(async |level, bench| {
        let line = "trap 'echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
        let job = bench.terminal(json!({ "action": "start", "command": line })).await.unwrap();
        poll_until(async || output(&bench, &job).await.contains("ready").then_some(())).await;
        let killed =
            bench.terminal(json!({ "action": "kill", "job": job["job"], "signal": "TERM" })).await.unwrap();
        let ended = bench.terminal(json!({ "action": "wait", "job": job["job"] })).await.unwrap();
        assert_eq!(ended["exit_code"], 3, "{level}: {killed} {ended}");
        assert_eq!(ended["stdout"]["text"], "ready\ntidied\n", "{level}");
    })
    .await;
}

#[tokio::test]
async fn killing_a_job_kills_all_its_processes() {
    each(async |level, bench| {
        let marker = marker();
        let line = format!("sleep {marker} & sleep {marker} & echo ready; wait");
        let job = bench.terminal(json!({ "action": "start", "command": line })).await.unwrap();
        let pids = poll_until(async || Some(pids_of(&marker)).filter(|pids| pids.len() == 2)).await;
        let killed = bench.terminal(json!({ "action": "kill", "job": job["job"] })).await.unwrap();
        assert_eq!(killed["running"], false, "{level}: {killed}");
        poll_until(async || (!pids.iter().any(|pid| is_process_alive(*pid))).then_some(())).await;
    })
    .await;
}

#[tokio::test]
async fn job_survives_its_node_and_is_controlled_by_the_next() {
    each(async |level, bench| {
        let marker = marker();
        let line = format!("read -r line; echo got $line; sleep {marker}");
        let job = bench.terminal(json!({ "action": "start", "command": line })).await.unwrap();
        poll_until(async || bench.job_folder(&job).join("born").exists().then_some(())).await;
        let bench = bench.restarted().await;
        bench
            .terminal(json!({ "action": "write", "job": job["job"], "text": "it\n" }))
            .await
            .unwrap_or_else(|error| panic!("{level}: {error:?}"));
        poll_until(async || output(&bench, &job).await.contains("got it").then_some(())).await;
        let pids = poll_until(async || Some(pids_of(&marker)).filter(|pids| pids.len() == 1)).await;
        let killed = bench.terminal(json!({ "action": "kill", "job": job["job"] })).await.unwrap();
        assert_eq!(killed["running"], false, "{level}: {killed}");
        poll_until(async || (!is_process_alive(pids[0])).then_some(())).await;
    })
    .await;
}

#[tokio::test]
async fn job_can_end_while_no_node_runs() {
    each(async |level, bench| {
        let go = bench.home().join("work/go");
        let line = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 6", go.display());
        let job = bench.terminal(json!({ "action": "start", "command": line })).await.unwrap();
        poll_until(async || bench.job_folder(&job).join("born").exists().then_some(())).await;
        let exit = bench.job_folder(&job).join("exit");
        let bench = bench
            .restarted_after(async || {
                std::fs::write(&go, "").unwrap();
                poll_until(async || exit.exists().then_some(())).await;
            })
            .await;
        let ended = bench.terminal(json!({ "action": "wait", "job": job["job"] })).await.unwrap();
        assert_eq!(ended["exit_code"], 6, "{level}: {ended}");
    })
    .await;
}

#[tokio::test]
async fn timeout_ends_a_sandboxed_job() {
    each(async |level, bench| {
        let marker = marker();
        let line = format!("trap '' TERM; sleep {marker} & wait; wait");
        let ran =
            bench.terminal(json!({ "action": "run", "command": line, "timeout_seconds": 1 })).await.unwrap();
        assert_eq!(ran["timed_out"], true, "{level}: {ran}");
        poll_until(async || pids_of(&marker).is_empty().then_some(())).await;
    })
    .await;
}
