//! Killed runners, hubs that are down, and commands that fail.

use plexus_testkit::until;
use serde_json::json;

use super::{RunnerHome, end, is_alive};

#[tokio::test]
async fn killed_run_is_cleaned_up() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", "echo $$ > up\nexec sleep 1000");
    let mut run = home.start(&["run", "claude"]);
    let pid = home.file("up").await;
    until("the session exists", async || {
        home.live_tokens().await.len() == 1 && home.sessions("claude:").await.len() == 1
    })
    .await;
    run.kill().await.unwrap();
    assert_eq!(home.folders().len(), 1, "the folder of the killed run exists");
    assert_eq!(home.ps().await.len(), 0);
    assert!(!is_alive(&pid), "the agent was ended with its runner");
    home.assert_cleaned_up().await;
    assert_eq!(home.states().await, ["started", "crashed"]);
}

#[tokio::test]
async fn process_that_reuses_the_id_of_an_agent_is_not_ended() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", "echo $$ > up\nexec sleep 1000");
    let mut run = home.start(&["run", "claude"]);
    let pid = home.file("up").await;
    until("the run is listed", async || home.ps().await.iter().any(|run| run["state"] == "running")).await;
    run.kill().await.unwrap();
    // As after the process id was reused.
    let mut other_process =
        tokio::process::Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
    let record = home.folders()[0].join("run.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace(pid.trim(), &other_process.id().unwrap().to_string())).unwrap();
    assert_eq!(home.ps().await.len(), 0);
    assert!(other_process.try_wait().unwrap().is_none(), "the process of another program was ended");
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn agent_runs_without_a_hub_which_is_notified_later() {
    let mut home = RunnerHome::new().await;
    home.add_agent("claude", "echo $$ > up\nuntil [[ -e go ]]; do sleep 0.02; done");
    let run = home.start(&["run", "claude"]);
    home.file("up").await;
    until("the session exists", async || home.sessions("claude:").await.len() == 1).await;
    let hub = home.hub.take().unwrap();
    let (address, url) = (hub.address().to_string(), hub.url(""));
    hub.kill().await;
    std::fs::write(home.path("go"), "").unwrap();
    let output = end(run).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains("the hub does not answer"), "{output:?}");
    assert_eq!(home.ps().await[0]["state"], "ended");

    // A hub that is down from the start gets no notifications.
    let output = home.run(&["run", "--hub", &url, "claude"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains("does not answer: its tools are available once it does"), "{output:?}");
    let mut direct = home.command(&["run", "--hub", &url, "claude"]);
    let output = end(direct.env("PLEXUS_PROXY", "off").spawn().unwrap()).await;
    assert!(output.stderr.contains("does not answer: the agent runs without its tools"), "{output:?}");
    assert_eq!(home.folders().len(), 1, "only the folder of the first run");
    let refused = home.run(&["run", "--hub", &url, "claude", "--profile", "developer"]).await;
    assert!(refused.failed(4).contains("cannot read the profile"), "{refused:?}");

    home.hub = Some(home.plexus.up_with(&["--listen", &address]).await);
    assert_eq!(home.live_tokens().await.len(), 1);
    assert_eq!(home.ps().await.len(), 0);
    home.assert_cleaned_up().await;
    assert_eq!(home.states().await, ["started", "exited"]);
}

#[tokio::test]
async fn failures_are_explained_and_leave_nothing() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", "touch was-run");
    home.add_agent("codex", "touch was-run");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["run", "cluade"], 2, "did you mean claude?"),
        (&["run", "opencode"], 1, "npm install -g opencode-ai"),
        (&["run", "--generic", "no-such-agent"], 1, "no such program is on PATH"),
        (&["run", "claude", "--profile", "no-such"], 1, "no-such"),
        (&["run", "claude", "--name", "not-a-uuid"], 2, "is not a UUID"),
        (&["run", "codex", "--name", "mine"], 2, "codex names its threads itself"),
        (&["run", "claude", "--require-proxy"], 1, "the proxy cannot start"),
    ];
    for (args, code, expected) in cases {
        let output = home.command(args).env("PLEXUS_PROXY", "off").spawn().unwrap();
        let output = end(output).await;
        assert!(output.failed(code).contains(expected), "{args:?}: {output:?}");
    }
    // A token that may not create others.
    let agent = home.hub().token("agent").await.token;
    let output = end(home.command(&["run", "claude"]).env("PLEXUS_TOKEN", &agent).spawn().unwrap()).await;
    assert!(output.failed(5).contains("token:create"), "{output:?}");
    let output = home.run(&["run", "claude", "--hub", "http://192.0.2.1:1"]).await;
    assert!(output.failed(5).contains("PLEXUS_TOKEN"), "{output:?}");
    assert!(!home.path("was-run").exists());
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn run_token_has_at_most_the_rights_of_its_creator() {
    let home = RunnerHome::new().await;
    home.add_agent("claude", "printenv | grep '_KEY=' > key\nuntil [[ -e go ]]; do sleep 0.02; done");
    let created = home
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
    let token = created["token"].as_str().unwrap();
    let too_much =
        home.command(&["run", "claude", "--node", "nas"]).env("PLEXUS_TOKEN", token).spawn().unwrap();
    let too_much = end(too_much).await;
    assert!(too_much.failed(5).contains("node:nas"), "{too_much:?}");
    let mut command = home.command(&["run", "claude"]);
    let run = command.env("PLEXUS_TOKEN", token).env("PLEXUS_PROXY", "off").spawn().unwrap();
    let key = home.file("key").await;
    let run_token = home.hub().api_as(key.trim().split_once('=').unwrap().1, "/api/v1/tokens/self").await;
    assert_eq!(
        (&run_token["name"], &run_token["scopes"]),
        (&json!("ann/claude"), &json!(["call:todo"])),
        "{run_token}"
    );
    std::fs::write(home.path("go"), "").unwrap();
    let output = end(run).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    home.assert_cleaned_up().await;
    assert_eq!(home.states().await, ["started", "exited"]);
}
