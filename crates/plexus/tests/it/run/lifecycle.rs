//! Exit codes, signals, restarts, `plexus ps` and `plexus stop`.

use plexus_testkit::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{RunnerHome, end, is_alive};

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).expect("it is there");
}

#[tokio::test]
async fn streams_and_exit_code_of_the_agent_are_passed_through() {
    let home = RunnerHome::new().await;
    home.add_agent("echoes", "cat; echo beside >&2; exit 7");
    let mut command = home.command(&["run", "--quiet", "--generic", "echoes"]);
    let mut run = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = run.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"piped in").await.unwrap();
    drop(stdin);
    let output = end(run).await;
    assert_eq!(
        (output.code, output.stdout.as_str(), output.stderr.as_str()),
        (Some(7), "piped in", "beside\n")
    );

    home.add_agent("falls", "kill -SEGV $$");
    let output = home.run(&["run", "--generic", "falls"]).await;
    assert_eq!((output.code, output.stdout.as_str()), (Some(139), ""), "{output:?}");
    assert!(output.stderr.contains("falls crashed: signal 11"), "{output:?}");
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn outcome_of_a_run_is_in_its_session() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", "exit 3");
    let session = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";
    let output = home.run(&["run", "claude", "--name", session]).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    let (key, notifications) = home.notifications().await;
    assert_eq!(key, format!("claude:{session}"));
    let [started, exited] = notifications.as_slice() else { panic!("{notifications:#?}") };
    assert_eq!((&started["state"], &started["agent"]), (&json!("started"), &json!("claude")));
    assert_eq!((&exited["state"], &exited["exit_code"]), (&json!("exited"), &json!(3)));
    assert!(started["run"].is_string() && started["run"] == exited["run"], "{notifications:#?}");

    // Resuming the conversation uses the same session.
    let output = home.run(&["run", "claude", "--", "--resume", session]).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    assert_eq!(home.states().await, ["started", "exited", "started", "exited"]);

    // An agent that never calls gets a session for the run.
    home.add_agent("silent", "true");
    home.run(&["run", "--generic", "silent"]).await.ok();
    let sessions = home.sessions("external:run:").await;
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
}

#[tokio::test]
async fn signals_are_passed_to_the_agent() {
    let home = RunnerHome::new().await;
    home.add_agent(
        "claude",
        "trap 'echo told; exit 5' TERM HUP INT\necho $$ > up\nwhile :; do sleep 0.02; done",
    );
    for signal_sent in [Signal::TERM, Signal::HUP, Signal::INT] {
        let _ = std::fs::remove_file(home.path("up"));
        let run = home.start(&["run", "claude", "--name", "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11"]);
        home.file("up").await;
        signal(run.id().unwrap(), signal_sent);
        let output = end(run).await;
        assert_eq!((output.code, output.stdout.as_str()), (Some(5), "told\n"), "{signal_sent:?}: {output:?}");
    }
    let states = home.states().await;
    assert_eq!(states, ["started", "stopped"].repeat(3));
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn crashed_agent_is_restarted_in_its_session() {
    let home = RunnerHome::new().await;
    let session = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";
    home.add_agent(
        "claude",
        &format!(
            "echo \"$@\" >> attempts\nmkdir -p .claude/projects/here\necho {{}} > .claude/projects/here/{session}.jsonl\n\
             [[ $(wc -l < attempts) == 3 ]] || kill -KILL $$"
        ),
    );
    let output = home.run(&["run", "claude", "--restart", "2", "--name", session]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    let attempts = std::fs::read_to_string(home.path("attempts")).unwrap();
    let attempts: Vec<&str> = attempts.lines().collect();
    assert!(attempts[0].contains(&format!("--session-id={session}")), "{attempts:?}");
    assert!(attempts[1..].iter().all(|args| args.contains(&format!("--resume={session}"))), "{attempts:?}");
    let expected = ["started", "crashed", "restarted", "crashed", "restarted", "exited"];
    assert_eq!(home.states().await, expected);

    // At most as often as requested, and never without the option.
    home.add_agent("claude", "kill -KILL $$");
    assert_eq!(home.run(&["run", "claude"]).await.code, Some(137));
    assert_eq!(home.run(&["run", "claude", "--restart", "1"]).await.code, Some(137));
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn runs_are_listed_and_stopped_by_id() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", "echo $$ > normal\nexec sleep 1000");
    home.add_agent("stubborn", "trap '' TERM\necho $$ > stubborn\nwhile :; do sleep 0.05; done");
    let normal = home.start(&["run", "claude"]);
    let stubborn = home.start(&["run", "--generic", "stubborn"]);
    let (pid, _) = (home.file("normal").await, home.file("stubborn").await);
    until("both are listed as running", async || {
        home.ps().await.iter().filter(|run| run["state"] == "running").count() == 2
    })
    .await;
    let listed = home.ps().await;
    let of = |agent: &str| listed.iter().find(|run| run["agent"] == agent).expect("it is listed");
    let run = of("claude");
    assert_eq!(run["pid"].to_string(), pid.trim());
    assert_eq!((&run["via"], &run["hub"]), (&json!("proxy"), &json!(home.hub().url(""))));
    assert!(run["session"].as_str().unwrap().starts_with("claude:"), "{run}");
    let lines = home.run(&["ps"]).await;
    assert_eq!(lines.ok().lines().count(), 2, "{lines:?}");

    assert_eq!(home.run(&["stop", "zz"]).await.failed(1).lines().count(), 2);
    home.run(&["stop", run["id"].as_str().unwrap()]).await.ok();
    assert_eq!(end(normal).await.code, Some(143));
    assert!(!is_alive(&pid));
    let left = home.ps().await;
    assert_eq!((left.len(), &left[0]["agent"]), (1, &json!("generic")), "{left:#?}");
    // An agent that ignores SIGTERM is killed after the grace period.
    home.run(&["stop", "--all", "--grace", "1s"]).await.ok();
    assert_eq!(end(stubborn).await.code, Some(137));
    assert_eq!(home.ps().await.len(), 0);
    home.assert_cleaned_up().await;
    let sessions = home.sessions("claude:").await;
    let events = home.hub().events(sessions[0]["id"].as_str().unwrap()).await;
    assert_eq!(events.last().unwrap()["payload"]["state"], "stopped", "{events:#?}");
}
