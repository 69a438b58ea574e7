//! The beginning and the end of runs: exit codes, signals, restarts, `ps` and `stop`.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Bench, end, is_alive, until};

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).expect("it is there");
}

#[tokio::test]
async fn the_exit_code_is_that_of_the_agent_and_its_streams_are_ours() {
    let bench = Bench::new().await;
    bench.agent("echoes", "cat; echo beside >&2; exit 7");
    let mut command = bench.command(&["run", "--quiet", "--generic", "echoes"]);
    let mut run = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = run.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"piped in").await.unwrap();
    drop(stdin);
    let ran = end(run).await;
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(7), "piped in", "beside\n"));

    bench.agent("falls", "kill -SEGV $$");
    let ran = bench.run(&["run", "--generic", "falls"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(139), ""), "{ran:?}");
    assert!(ran.stderr.contains("falls crashed: signal 11"), "{ran:?}");
    bench.is_cleared().await;
}

#[tokio::test]
async fn what_became_of_a_run_is_in_its_session() {
    let bench = Bench::new().await;
    bench.agent("claude", "exit 3");
    let session = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";
    let ran = bench.run(&["run", "claude", "--name", session]).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let (key, told) = bench.told().await;
    assert_eq!(key, format!("claude:{session}"));
    let [started, exited] = told.as_slice() else { panic!("{told:#?}") };
    assert_eq!((&started["state"], &started["agent"]), (&json!("started"), &json!("claude")));
    assert_eq!((&exited["state"], &exited["exit_code"]), (&json!("exited"), &json!(3)));
    assert!(started["run"].is_string() && started["run"] == exited["run"], "{told:#?}");

    // The same conversation, gone on with: the same session.
    let ran = bench.run(&["run", "claude", "--", "--resume", session]).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(bench.states().await, ["started", "exited", "started", "exited"]);

    // Nobody knows where an agent belongs that never calls.
    bench.agent("silent", "true");
    bench.run(&["run", "--generic", "silent"]).await.ok();
    let sessions = bench.sessions("external:run:").await;
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
}

#[tokio::test]
async fn a_signal_to_the_runner_reaches_the_agent() {
    let bench = Bench::new().await;
    bench
        .agent("claude", "trap 'echo told; exit 5' TERM HUP INT\necho $$ > up\nwhile :; do sleep 0.02; done");
    for sent in [Signal::TERM, Signal::HUP, Signal::INT] {
        let _ = std::fs::remove_file(bench.at("up"));
        let run = bench.start(&["run", "claude", "--name", "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11"]);
        bench.file("up").await;
        signal(run.id().unwrap(), sent);
        let ran = end(run).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "told\n"), "{sent:?}: {ran:?}");
    }
    let states = bench.states().await;
    assert_eq!(states, ["started", "stopped"].repeat(3));
    bench.is_cleared().await;
}

#[tokio::test]
async fn a_crashed_agent_is_started_again_and_goes_on_with_its_session() {
    let bench = Bench::new().await;
    let session = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";
    bench.agent(
        "claude",
        &format!(
            "echo \"$@\" >> attempts\nmkdir -p .claude/projects/here\necho {{}} > .claude/projects/here/{session}.jsonl\n\
             [[ $(wc -l < attempts) == 3 ]] || kill -KILL $$"
        ),
    );
    let ran = bench.run(&["run", "claude", "--restart", "2", "--name", session]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let attempts = std::fs::read_to_string(bench.at("attempts")).unwrap();
    let attempts: Vec<&str> = attempts.lines().collect();
    assert!(attempts[0].contains(&format!("--session-id={session}")), "{attempts:?}");
    assert!(attempts[1..].iter().all(|args| args.contains(&format!("--resume={session}"))), "{attempts:?}");
    let expected = ["started", "crashed", "restarted", "crashed", "restarted", "exited"];
    assert_eq!(bench.states().await, expected);

    // No more often than it was said, and not at all without a word.
    bench.agent("claude", "kill -KILL $$");
    assert_eq!(bench.run(&["run", "claude"]).await.code, Some(137));
    assert_eq!(bench.run(&["run", "claude", "--restart", "1"]).await.code, Some(137));
    bench.is_cleared().await;
}

#[tokio::test]
async fn runs_are_listed_and_ended_by_their_id() {
    let bench = Bench::new().await;
    bench.agent("claude", "echo $$ > polite\nexec sleep 1000");
    bench.agent("deaf", "trap '' TERM\necho $$ > deaf\nwhile :; do sleep 0.05; done");
    let polite = bench.start(&["run", "claude"]);
    let deaf = bench.start(&["run", "--generic", "deaf"]);
    let (pid, _) = (bench.file("polite").await, bench.file("deaf").await);
    until("both are listed as running", async || {
        bench.ps().await.iter().filter(|run| run["state"] == "running").count() == 2
    })
    .await;
    let listed = bench.ps().await;
    let of = |agent: &str| listed.iter().find(|run| run["agent"] == agent).expect("it is listed");
    let run = of("claude");
    assert_eq!(run["pid"].to_string(), pid.trim());
    assert_eq!((&run["via"], &run["hub"]), (&json!("proxy"), &json!(bench.hub().url(""))));
    assert!(run["session"].as_str().unwrap().starts_with("claude:"), "{run}");
    let lines = bench.run(&["ps"]).await;
    assert_eq!(lines.ok().lines().count(), 2, "{lines:?}");

    assert_eq!(bench.run(&["stop", "zz"]).await.failed(1).lines().count(), 2);
    bench.run(&["stop", run["id"].as_str().unwrap()]).await.ok();
    assert_eq!(end(polite).await.code, Some(143));
    assert!(!is_alive(&pid));
    let left = bench.ps().await;
    assert_eq!((left.len(), &left[0]["agent"]), (1, &json!("generic")), "{left:#?}");
    // One that does not listen is killed after its time.
    bench.run(&["stop", "--all", "--grace", "1s"]).await.ok();
    assert_eq!(end(deaf).await.code, Some(137));
    assert_eq!(bench.ps().await.len(), 0);
    bench.is_cleared().await;
    let sessions = bench.sessions("claude:").await;
    let events = bench.hub().events(sessions[0]["id"].as_str().unwrap()).await;
    assert_eq!(events.last().unwrap()["payload"]["state"], "stopped", "{events:#?}");
}
