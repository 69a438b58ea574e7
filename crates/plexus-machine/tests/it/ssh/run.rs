//! Remote commands: their input, output and end.

use std::time::{Duration, Instant};

use base64::Engine as _;
use plexus_proto::ErrorCode;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::site::Site;
use crate::workbench::{RecordedEvents, poll_until};

#[tokio::test]
async fn command_returns_separate_outputs_and_exit_code() {
    let Some(site) = Site::new().await else { return };
    let answer = site.sh("printf out; printf err >&2; exit 3").await;
    assert_eq!((&answer["exit_code"], &answer["signal"]), (&json!(3), &json!(null)), "{answer}");
    assert_eq!((&answer["stdout"]["text"], &answer["stderr"]["text"]), (&json!("out"), &json!("err")));
    assert_eq!((&answer["timed_out"], &answer["host"]), (&json!(false), &json!("127.0.0.1")));
    // A command can also use the exit code that ssh uses for its own failures.
    assert_eq!(site.sh("exit 255").await["exit_code"], 255);
    let answer = site.sh("kill -SEGV $$").await;
    assert_eq!((&answer["signal"], &answer["exit_code"]), (&json!("SEGV"), &json!(139)));
}

#[tokio::test]
async fn folder_input_and_arguments_arrive_unchanged() {
    let Some(site) = Site::new().await else { return };
    let folder = site.host_folder.path().join("a 'folder' $HOME");
    std::fs::create_dir(&folder).unwrap();
    let run = json!({ "action": "run", "command": "pwd; cat", "cwd": folder.to_str().unwrap(), "stdin": "in\nput é" });
    let answer = site.ask(run).await.unwrap();
    assert_eq!(answer["stdout"]["text"], format!("{}\nin\nput é", folder.display()));
    let words = ["a b", "$HOME", "*", "it's", "-n", "\"", "\\", "line\nbreak", "", "%s;id"];
    let argv: Vec<_> = ["printf", "%s|"].into_iter().chain(words).collect();
    let answer = site.ask(json!({ "action": "run", "argv": argv })).await.unwrap();
    assert_eq!(answer["stdout"]["text"], format!("{}|", words.join("|")), "{answer}");
    let answer = site.ask(json!({ "action": "run", "argv": ["exit", "0"] })).await.unwrap();
    assert_eq!(answer["exit_code"], 127, "the program does not exist");
    let marker = site.host_folder.path().join("ran");
    let run =
        json!({ "action": "run", "argv": ["touch", marker.to_str().unwrap()], "cwd": "/no/such/folder" });
    let refused = site.ask(run).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound, "{}", refused.text());
    assert!(refused.text().contains("/no/such/folder") && !marker.exists(), "{}", refused.text());
}

#[tokio::test]
async fn binary_output_is_exact_and_long_output_shows_both_ends() {
    let Some(site) = Site::new().await else { return };
    let answer = site.sh(r"printf 'a\377\000b'").await;
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(answer["stdout"]["base64"].as_str().unwrap());
    assert_eq!(bytes.unwrap(), b"a\xff\0b");
    let answer =
        site.sh("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last; echo e >&2").await;
    let stdout = &answer["stdout"];
    assert_eq!(
        (&stdout["truncated"], &stdout["bytes"]),
        (&json!(true), &json!(3_000_012)),
        "{}",
        stdout["bytes"]
    );
    let text = stdout["text"].as_str().unwrap();
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\n"));
    assert!(text.len() < 60_000 && text.contains("bytes omitted"));
    assert_eq!((&answer["stderr"]["text"], &answer["exit_code"]), (&json!("e\n"), &json!(0)));
}

#[tokio::test]
async fn leftover_processes_do_not_block_the_call() {
    let Some(site) = Site::new().await else { return };
    let file = site.host_folder.path().join("pid");
    let began = Instant::now();
    let answer = site.sh(&format!("(sleep 1000 & echo $! >{}) ; echo done", file.display())).await;
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(
        (&answer["stdout"]["text"], &answer["left_running"]),
        (&json!("done\n"), &json!(true)),
        "{answer}"
    );
    let pid = std::fs::read_to_string(&file).unwrap();
    assert!(is_process_alive(&pid), "it must not be killed");
    site.sh(&format!("kill {pid}")).await;
}

#[tokio::test]
async fn timeout_kills_all_processes_on_the_host() {
    let Some(site) = Site::new().await else { return };
    let file = site.host_folder.path().join("pid");
    let command = format!(
        "trap '' TERM; echo begun; sh -c 'trap \"\" TERM; echo $$ >{0}.new; mv {0}.new {0}; while :; do sleep 1; done'",
        file.display()
    );
    let answer =
        site.ask(json!({ "action": "run", "command": command, "timeout_seconds": 4 })).await.unwrap();
    assert_eq!(answer["timed_out"], true, "{answer}");
    assert_eq!(answer["stdout"]["text"], "begun\n", "its output so far is returned");
    let pid = std::fs::read_to_string(&file).unwrap();
    poll_until(async || (!is_process_alive(&pid)).then_some(())).await;
    assert_eq!(site.sh("echo still").await["stdout"]["text"], "still\n");
    assert_eq!(site.server.logins(), 1, "the connection is still usable");
}

#[tokio::test]
async fn cancelling_a_call_kills_its_remote_command() {
    let Some(site) = Site::new().await else { return };
    let file = site.host_folder.path().join("pid");
    let command = format!("echo $$ >{0}.new; mv {0}.new {0}; while :; do sleep 1; done", file.display());
    let cancel = CancellationToken::new();
    let arguments = site.arguments(json!({ "action": "run", "command": command }));
    let call = site.bench.call("ssh_exec", arguments, cancel.clone(), None);
    let (result, pid) = tokio::join!(call, async {
        let pid = poll_until(async || std::fs::read_to_string(&file).ok()).await;
        cancel.cancel();
        pid
    });
    assert_eq!(result.unwrap_err().code, ErrorCode::Cancelled);
    poll_until(async || (!is_process_alive(&pid)).then_some(())).await;
}

#[tokio::test]
async fn output_is_streamed_while_the_command_runs() {
    let Some(site) = Site::new().await else { return };
    let go = site.host_folder.path().join("go");
    let command = format!("printf 'begun é'; while [ ! -e {} ]; do sleep 0.02; done", go.display());
    let events = RecordedEvents::default();
    let arguments = site.arguments(json!({ "action": "run", "command": command }));
    let call = site.bench.call("ssh_exec", arguments, CancellationToken::new(), Some(events.clone()));
    let reached_listeners = async {
        poll_until(async || {
            let events = events.lock().unwrap();
            let (kind, payload) = events.first()?;
            assert_eq!((kind.as_str(), &payload["text"]), ("terminal_output", &json!("begun é")));
            assert_eq!((&payload["host"], &payload["stream"]), (&json!("127.0.0.1"), &json!("stdout")));
            Some(())
        })
        .await;
        std::fs::write(&go, "").unwrap();
    };
    let (answer, ()) = tokio::join!(call, reached_listeners);
    assert_eq!(answer.unwrap().structured().unwrap()["exit_code"], 0);
}

#[tokio::test]
async fn connection_lost_during_a_command_is_reported() {
    let Some(site) = Site::new().await else { return };
    let wire = super::wire::Wire::to(site.address()).await;
    site.know(wire.port);
    let file = site.host_folder.path().join("pid");
    let command = format!("echo before; echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000", file.display());
    let run = json!({ "action": "run", "host": "127.0.0.1", "port": wire.port, "command": command });
    let events = RecordedEvents::default();
    let call = site.bench.call("ssh_exec", run, CancellationToken::new(), Some(events.clone()));
    let (result, pid) = tokio::join!(call, async {
        let pid = poll_until(async || std::fs::read_to_string(&file).ok()).await;
        poll_until(async || (!events.lock().unwrap().is_empty()).then_some(())).await;
        wire.cut();
        pid
    });
    let lost = result.unwrap_err();
    assert_eq!(lost.code, ErrorCode::Interrupted, "{}", lost.text());
    assert_eq!(lost.details["stdout"]["text"], "before\n");
    site.sh(&format!("kill {pid}")).await;
    let again = json!({ "action": "run", "host": "127.0.0.1", "port": wire.port, "command": "echo again" });
    assert_eq!(site.ask(again).await.unwrap()["stdout"]["text"], "again\n", "a new connection is opened");
}

pub(super) fn is_process_alive(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    state.is_ok_and(|state| !state.contains(") Z "))
}
