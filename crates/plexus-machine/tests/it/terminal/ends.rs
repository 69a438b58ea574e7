//! How commands end, by themselves and by force.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::workbench::{Workbench, poll_until};

/// Whether a process exists and is not a zombie.
pub(crate) fn is_process_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A pid that a command has written to a file.
pub(crate) async fn read_pid(path: &std::path::Path) -> u32 {
    poll_until(async || std::fs::read_to_string(path).ok()?.trim().parse().ok()).await
}

#[tokio::test]
async fn command_returns_exit_code_and_both_outputs() {
    let bench = Workbench::new().await;
    let answer = bench.sh("echo out; echo err >&2; exit 3").await;
    assert_eq!(answer["exit_code"], 3);
    assert_eq!(answer["signal"], json!(null));
    assert_eq!(answer["running"], false);
    assert_eq!(answer["stdout"]["text"], "out\n");
    assert_eq!(answer["stderr"]["text"], "err\n");
    assert_eq!(answer["stdout"]["truncated"], false);
    assert!(answer["duration_ms"].as_u64().unwrap() < 30_000);
    let text = bench
        .call(
            "terminal",
            json!({ "action": "run", "command": "echo out; echo err >&2; exit 3" }),
            CancellationToken::new(),
            None,
        )
        .await
        .unwrap();
    let text = text.text().into_owned();
    assert!(text.starts_with("out\n[stderr]\nerr\n[job ") && text.contains("exit code 3 after"), "{text}");
}

#[tokio::test]
async fn argv_runs_programs_and_not_shell_builtins() {
    let bench = Workbench::new().await;
    let run = |argv: &[&str]| bench.terminal(json!({ "action": "run", "argv": argv }));
    let answer = run(&["printf", "%s|", "a b", "$HOME", "*"]).await.unwrap();
    assert_eq!(answer["stdout"]["text"], "a b|$HOME|*|");
    // A keeper that ran this builtin itself would never report its end.
    for argv in [&["exit", "0"][..], &["no-such-program"], &["exec", "true"]] {
        let answer = run(argv).await.unwrap();
        assert_eq!(answer["exit_code"], 127, "{argv:?}: {answer}");
        assert!(answer["stderr"]["text"].as_str().unwrap().contains("not found"), "{answer}");
    }
}

#[tokio::test]
async fn ending_signal_is_reported() {
    let bench = Workbench::new().await;
    let answer =
        bench.terminal(json!({ "action": "run", "argv": ["sh", "-c", "kill -SEGV $$"] })).await.unwrap();
    assert_eq!((&answer["signal"], &answer["exit_code"]), (&json!("SEGV"), &json!(139)));
}

#[tokio::test]
async fn timeout_kills_all_processes_of_a_command() {
    let bench = Workbench::new().await;
    let file = bench.folder().join("child");
    let command = format!(
        "trap '' TERM; echo begun; (trap '' TERM; echo $$ >/dev/null; sh -c 'trap \"\" TERM; echo $$ >{0}; while :; do sleep 1; done') & wait; while :; do sleep 1; done",
        file.display()
    );
    let began = Instant::now();
    let answer =
        bench.terminal(json!({ "action": "run", "command": command, "timeout_seconds": 3 })).await.unwrap();
    assert_eq!(answer["timed_out"], true);
    assert_eq!(answer["signal"], "KILL");
    assert_eq!(answer["stdout"]["text"], "begun\n", "its output so far is returned");
    assert!(began.elapsed() < Duration::from_secs(20));
    let child = read_pid(&file).await;
    poll_until(async || (!is_process_alive(child)).then_some(())).await;
}

#[tokio::test]
async fn command_that_ends_on_sigterm_is_not_killed() {
    let bench = Workbench::new().await;
    let command = "trap 'echo tidy; exit 7' TERM; while :; do sleep 0.05; done";
    let answer =
        bench.terminal(json!({ "action": "run", "command": command, "timeout_seconds": 3 })).await.unwrap();
    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(7), &json!(true)));
    assert_eq!(answer["stdout"]["text"], "tidy\n");
}

#[tokio::test]
async fn cancelling_a_call_kills_its_command() {
    let bench = Workbench::new().await;
    let file = bench.folder().join("child");
    let command = format!("trap '' TERM; echo $$ >{}; while :; do sleep 1; done", file.display());
    let cancel = CancellationToken::new();
    let call = bench.call("terminal", json!({ "action": "run", "command": command }), cancel.clone(), None);
    let (result, child) = tokio::join!(call, async {
        let child = read_pid(&file).await;
        cancel.cancel();
        child
    });
    assert_eq!(result.unwrap_err().code, plexus_proto::ErrorCode::Cancelled);
    poll_until(async || (!is_process_alive(child)).then_some(())).await;
    let jobs = poll_until(async || {
        let jobs = bench.terminal(json!({ "action": "list" })).await.unwrap();
        (jobs["jobs"][0]["running"] == false).then_some(jobs)
    })
    .await;
    assert!(jobs["jobs"][0]["note"].as_str().unwrap().contains("cancelled"), "{jobs}");
}

/// A daemon that keeps the output open does not block the call; it is reported and can be ended.
#[tokio::test]
async fn leftover_processes_do_not_block_the_call() {
    let bench = Workbench::new().await;
    let file = bench.folder().join("child");
    let command = format!("(sh -c 'echo $$ >{}; exec sleep 1000' &) ; sleep 0.2; echo done", file.display());
    let began = Instant::now();
    let answer = bench.sh(&command).await;
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!((&answer["exit_code"], &answer["stdout"]["text"]), (&json!(0), &json!("done\n")));
    assert_eq!(answer["left_running"], true);
    let child = read_pid(&file).await;
    assert!(is_process_alive(child), "it must not be killed");
    bench.terminal(json!({ "action": "kill", "job": answer["job"] })).await.unwrap();
    poll_until(async || (!is_process_alive(child)).then_some(())).await;
    assert!(bench.sh("true").await.get("left_running").is_none());
}

#[tokio::test]
async fn signals_reach_a_job_and_not_its_keeper() {
    let bench = Workbench::new().await;
    let command =
        "trap 'echo usr1' USR1; trap 'echo int; exit 4' INT; echo ready; while :; do sleep 0.05; done";
    let job = bench.terminal(json!({ "action": "start", "command": command })).await.unwrap();
    let wait_for_text = async |text: &str| {
        poll_until(async || {
            let page = bench.terminal(json!({ "action": "read", "job": job["job"] })).await.unwrap();
            page["text"].as_str().unwrap().contains(text).then_some(())
        })
        .await;
    };
    wait_for_text("ready").await;
    let signal =
        |signal: &str| bench.terminal(json!({ "action": "kill", "job": job["job"], "signal": signal }));
    assert_eq!(signal("USR1").await.unwrap()["running"], true);
    wait_for_text("usr1").await;
    signal("SIGINT").await.unwrap();
    let answer = bench.terminal(json!({ "action": "wait", "job": job["job"] })).await.unwrap();
    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(4), &json!(false)));
}

#[tokio::test]
async fn kill_ends_a_job_that_ignores_sigterm() {
    let bench = Workbench::new().await;
    let command = "trap '' TERM INT HUP; echo ready; while :; do sleep 1; done";
    let job = bench.terminal(json!({ "action": "start", "command": command })).await.unwrap();
    poll_until(async || {
        let page = bench.terminal(json!({ "action": "read", "job": job["job"] })).await.unwrap();
        (page["text"] == "ready\n").then_some(())
    })
    .await;
    let answer = bench.terminal(json!({ "action": "kill", "job": job["job"] })).await.unwrap();
    assert_eq!((&answer["running"], &answer["signal"]), (&json!(false), &json!("KILL")));
    // Repeating it has no further effect.
    let again = bench.terminal(json!({ "action": "kill", "job": job["job"] })).await.unwrap();
    assert_eq!(again["signal"], "KILL");
}

#[tokio::test]
async fn concurrent_commands_do_not_mix() {
    let bench = Workbench::new().await;
    let runs = (0..24).map(|n| {
        let bench = &bench;
        async move {
            let answer =
                bench.sh(&format!("for i in 1 2 3; do echo {n}; echo e{n} >&2; done; exit {n}")).await;
            assert_eq!(answer["exit_code"], n);
            assert_eq!(answer["stdout"]["text"], format!("{n}\n").repeat(3));
            assert_eq!(answer["stderr"]["text"], format!("e{n}\n").repeat(3));
        }
    });
    futures_util::future::join_all(runs).await;
    let jobs = bench.terminal(json!({ "action": "list" })).await.unwrap();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 24);
    for _ in 0..10 {
        bench.sh("true").await;
    }
    let jobs = bench.terminal(json!({ "action": "list" })).await.unwrap();
    assert_eq!((jobs["jobs"].as_array().unwrap().len(), &jobs["not_shown"]), (30, &json!(4)));
}
