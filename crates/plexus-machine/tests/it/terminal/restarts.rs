//! Jobs survive the process that started them, and the next process picks them up.

use serde_json::json;

use super::ends::{is_process_alive, read_pid};
use crate::workbench::{Workbench, poll_until};

#[tokio::test]
async fn job_survives_its_node_and_is_found_again() {
    let bench = Workbench::new().await;
    let go = bench.folder().join("go");
    let command = format!(
        "echo begun; while [ ! -e {} ]; do sleep 0.02; done; read -r line; echo \"got $line\"; exit 6",
        go.display()
    );
    let job = bench.terminal(json!({ "action": "start", "command": command })).await.unwrap();
    poll_until(async || bench.job_folder(&job).join("born").exists().then_some(())).await;
    let bench = bench.restarted().await;
    let list = bench.terminal(json!({ "action": "list" })).await.unwrap();
    assert_eq!(list["jobs"][0]["job"], job["job"]);
    assert_eq!((&list["jobs"][0]["running"], &list["jobs"][0]["by"]), (&json!(true), &json!("agent:tester")));
    std::fs::write(&go, "").unwrap();
    // Its standard input is still open, held only by its keeper.
    bench.terminal(json!({ "action": "write", "job": job["job"], "text": "me\n" })).await.unwrap();
    let answer = bench.terminal(json!({ "action": "wait", "job": job["job"] })).await.unwrap();
    assert_eq!((&answer["exit_code"], &answer["stdout"]["text"]), (&json!(6), &json!("begun\ngot me\n")));
    let bench = bench.restarted().await;
    let answer = bench.terminal(json!({ "action": "wait", "job": job["job"] })).await.unwrap();
    assert_eq!((&answer["exit_code"], &answer["stdout"]["text"]), (&json!(6), &json!("begun\ngot me\n")));
}

#[tokio::test]
async fn exit_status_is_known_after_ending_without_a_node() {
    let bench = Workbench::new().await;
    let go = bench.folder().join("go");
    let command = format!("while [ ! -e {} ]; do sleep 0.02; done; echo late; exit 9", go.display());
    let job = bench.terminal(json!({ "action": "start", "command": command })).await.unwrap();
    let folder = bench.job_folder(&job);
    poll_until(async || folder.join("born").exists().then_some(())).await;
    let bench = bench
        .restarted_after(async || {
            std::fs::write(&go, "").unwrap();
            poll_until(async || folder.join("exit").exists().then_some(())).await;
        })
        .await;
    let answer = bench.terminal(json!({ "action": "wait", "job": job["job"] })).await.unwrap();
    assert_eq!((&answer["exit_code"], &answer["stdout"]["text"]), (&json!(9), &json!("late\n")));
}

#[tokio::test]
async fn killing_a_found_job_kills_all_its_processes() {
    let bench = Workbench::new().await;
    let file = bench.folder().join("child");
    let command =
        format!("sh -c 'trap \"\" TERM; echo $$ >{}; while :; do sleep 1; done'; true", file.display());
    let job = bench.terminal(json!({ "action": "start", "command": command })).await.unwrap();
    let child = read_pid(&file).await;
    let bench = bench.restarted().await;
    let answer = bench.terminal(json!({ "action": "kill", "job": job["job"] })).await.unwrap();
    assert_eq!((&answer["running"], &answer["signal"]), (&json!(false), &json!("TERM")));
    poll_until(async || (!is_process_alive(child)).then_some(())).await;
}

/// A process that reused the pid of an ended job is not signalled.
#[tokio::test]
async fn process_with_a_reused_pid_is_not_signalled() {
    let bench = Workbench::new().await;
    let job = bench.sh("true").await;
    let folder = bench.job_folder(&job);
    let mut other = std::process::Command::new("sleep");
    std::os::unix::process::CommandExt::process_group(&mut other, 0);
    let mut other = other.arg("1000").spawn().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
    let (start, rest) = stat.rsplit_once(") ").unwrap();
    let mut fields: Vec<String> = rest.split(' ').map(str::to_owned).collect();
    fields[19] = (fields[19].parse::<u64>().unwrap() - 1).to_string();
    let bench = bench
        .restarted_after(async || {
            std::fs::remove_file(folder.join("exit")).unwrap();
            std::fs::write(folder.join("born"), format!("{start}) {}", fields.join(" "))).unwrap();
        })
        .await;
    let answer = bench.terminal(json!({ "action": "kill", "job": job["job"] })).await.unwrap();
    assert_eq!((&answer["running"], &answer["exit_code"]), (&json!(false), &json!(null)));
    assert!(answer["note"].as_str().unwrap().contains("its exit status is unknown"), "{answer}");
    bench.terminal(json!({ "action": "kill", "job": job["job"], "signal": "KILL" })).await.unwrap();
    assert!(other.try_wait().unwrap().is_none(), "it was killed");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn links_and_foreign_files_in_the_jobs_folder_are_ignored() {
    let bench = Workbench::new().await;
    let job = bench.sh("echo here").await;
    let real = bench.job_folder(&job);
    let jobs = real.parent().unwrap().to_owned();
    let bench = bench
        .restarted_after(async || {
            std::os::unix::fs::symlink(&real, jobs.join("abcdefgh")).unwrap();
            std::fs::create_dir(jobs.join("zzzzzzzz")).unwrap();
            std::fs::write(jobs.join("zzzzzzzz/job.json"), "no JSON").unwrap();
            std::fs::write(jobs.join("file"), "").unwrap();
        })
        .await;
    let list = bench.terminal(json!({ "action": "list" })).await.unwrap();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 1);
    for id in ["abcdefgh", "zzzzzzzz", "../x", "../../etc", "/etc", "file", ""] {
        let refused = bench.terminal(json!({ "action": "read", "job": id })).await.unwrap_err();
        assert_eq!(refused.code, plexus_proto::ErrorCode::NotFound, "{id}");
    }
}
