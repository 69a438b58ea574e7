//! Runners that are killed, hubs that are away, and commands that cannot be carried out.

use serde_json::json;

use super::{Bench, end, is_alive, until};

#[tokio::test]
async fn what_a_killed_runner_leaves_is_cleared_up() {
    let bench = Bench::new().await;
    bench.agent("claude", "echo $$ > up\nexec sleep 1000");
    let mut run = bench.start(&["run", "claude"]);
    let pid = bench.file("up").await;
    until("the session has heard of it", async || {
        bench.live_tokens().await.len() == 1 && bench.sessions("claude:").await.len() == 1
    })
    .await;
    run.kill().await.unwrap();
    assert_eq!(bench.folders().len(), 1, "nobody has cleared up yet");
    assert_eq!(bench.ps().await.len(), 0);
    assert!(!is_alive(&pid), "the agent is ended with it");
    bench.is_cleared().await;
    assert_eq!(bench.states().await, ["started", "crashed"]);
}

#[tokio::test]
async fn another_process_with_the_number_of_the_agent_is_left_alone() {
    let bench = Bench::new().await;
    bench.agent("claude", "echo $$ > up\nexec sleep 1000");
    let mut run = bench.start(&["run", "claude"]);
    let pid = bench.file("up").await;
    until("it is listed", async || bench.ps().await.iter().any(|run| run["state"] == "running")).await;
    run.kill().await.unwrap();
    // As after the number has gone to somebody else.
    let mut stranger = tokio::process::Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
    let record = bench.folders()[0].join("run.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace(pid.trim(), &stranger.id().unwrap().to_string())).unwrap();
    assert_eq!(bench.ps().await.len(), 0);
    assert!(stranger.try_wait().unwrap().is_none(), "it was none of ours");
    bench.is_cleared().await;
}

#[tokio::test]
async fn an_agent_runs_without_a_hub_and_the_hub_hears_of_it_later() {
    let mut bench = Bench::new().await;
    bench.agent("claude", "echo $$ > up\nuntil [[ -e go ]]; do sleep 0.02; done");
    let run = bench.start(&["run", "claude"]);
    bench.file("up").await;
    until("the session has heard of it", async || bench.sessions("claude:").await.len() == 1).await;
    let hub = bench.hub.take().unwrap();
    let (address, url) = (hub.address().to_string(), hub.url(""));
    hub.kill().await;
    std::fs::write(bench.at("go"), "").unwrap();
    let ran = end(run).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("the hub does not answer"), "{ran:?}");
    assert_eq!(bench.ps().await[0]["state"], "ended");

    // Nothing can be said to a hub that is away from the beginning.
    let ran = bench.run(&["run", "--hub", &url, "claude"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("does not answer: its tools are there when it is"), "{ran:?}");
    let mut direct = bench.command(&["run", "--hub", &url, "claude"]);
    let ran = end(direct.env("PLEXUS_PROXY", "off").spawn().unwrap()).await;
    assert!(ran.stderr.contains("does not answer: the agent runs without it"), "{ran:?}");
    assert_eq!(bench.folders().len(), 1, "the one of before");
    let refused = bench.run(&["run", "--hub", &url, "claude", "--profile", "developer"]).await;
    assert!(refused.failed(4).contains("its profiles cannot be read"), "{refused:?}");

    bench.hub = Some(bench.plexus.up_with(&["--listen", &address]).await);
    assert_eq!(bench.live_tokens().await.len(), 1);
    assert_eq!(bench.ps().await.len(), 0);
    bench.is_cleared().await;
    assert_eq!(bench.states().await, ["started", "exited"]);
}

#[tokio::test]
async fn what_cannot_be_done_is_said_and_leaves_nothing() {
    let bench = Bench::new().await;
    bench.agent("claude", "touch was-run");
    bench.agent("codex", "touch was-run");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["run", "cluade"], 2, "did you mean claude?"),
        (&["run", "opencode"], 1, "npm install -g opencode-ai"),
        (&["run", "--generic", "no-such-agent"], 1, "no such program is on PATH"),
        (&["run", "claude", "--profile", "no-such"], 1, "no-such"),
        (&["run", "claude", "--name", "not-a-uuid"], 2, "is not a UUID"),
        (&["run", "codex", "--name", "mine"], 2, "codex names its threads itself"),
        (&["run", "claude", "--require-proxy"], 1, "the proxy cannot start"),
    ];
    for (args, code, said) in cases {
        let ran = bench.command(args).env("PLEXUS_PROXY", "off").spawn().unwrap();
        let ran = end(ran).await;
        assert!(ran.failed(code).contains(said), "{args:?}: {ran:?}");
    }
    // A token that may make none.
    let agent = bench.hub().token("agent").await.token;
    let ran = end(bench.command(&["run", "claude"]).env("PLEXUS_TOKEN", &agent).spawn().unwrap()).await;
    assert!(ran.failed(5).contains("token:create"), "{ran:?}");
    let ran = bench.run(&["run", "claude", "--hub", "http://192.0.2.1:1"]).await;
    assert!(ran.failed(5).contains("PLEXUS_TOKEN"), "{ran:?}");
    assert!(!bench.at("was-run").exists());
    bench.is_cleared().await;
}

#[tokio::test]
async fn a_token_that_may_do_little_makes_one_that_may_do_no_more() {
    let bench = Bench::new().await;
    bench.agent("claude", "printenv | grep '_KEY=' > key\nuntil [[ -e go ]]; do sleep 0.02; done");
    let made = bench
        .run(&[
            "token",
            "create",
            "--kind",
            "user",
            "--name",
            "ann",
            "--scope",
            "call:todo",
            "--scope",
            "token:create",
            "--ttl",
            "50s",
            "--json",
        ])
        .await
        .json(0);
    let token = made["token"].as_str().unwrap();
    let beyond =
        bench.command(&["run", "claude", "--node", "nas"]).env("PLEXUS_TOKEN", token).spawn().unwrap();
    let beyond = end(beyond).await;
    assert!(beyond.failed(5).contains("node:nas"), "{beyond:?}");
    let mut command = bench.command(&["run", "claude"]);
    let run = command.env("PLEXUS_TOKEN", token).env("PLEXUS_PROXY", "off").spawn().unwrap();
    let key = bench.file("key").await;
    let own = bench.hub().api_as(key.trim().split_once('=').unwrap().1, "/api/v1/tokens/self").await;
    assert_eq!((&own["name"], &own["scopes"]), (&json!("ann/claude"), &json!(["call:todo"])), "{own}");
    std::fs::write(bench.at("go"), "").unwrap();
    let ran = end(run).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    bench.is_cleared().await;
    assert_eq!(bench.states().await, ["started", "exited"]);
}
