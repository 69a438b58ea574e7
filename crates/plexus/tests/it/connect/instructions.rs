//! The hub's workspace in the instruction files of agents: on the hub's machine, on a node, and on other machines.

use std::path::Path;
use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, Signal, eventually, send};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{home, read, write};
use crate::nodes::{join, start_node, wait_for_state};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until the content of a file satisfies the condition; returns the content.
async fn wait_for_file(path: &Path, condition: impl Fn(&str) -> bool) -> String {
    eventually(&path.display().to_string(), async || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if condition(&text) { Ok(text) } else { Err(text) }
    })
    .await
}

fn agent<'a>(list: &'a Value, id: &str) -> &'a Value {
    let items = list["items"].as_array().expect("a list");
    items.iter().find(|agent| agent["id"] == id).unwrap_or_else(|| panic!("{id}: {list}"))
}

/// Makes a REST request as admin; returns the status and the answer.
async fn call_api(plexus: &Plexus, hub: &HubProcess, method: &str, path: &str, body: Value) -> (u16, Value) {
    let method = method.parse().expect("a method");
    let request = plexus.http().request(method, hub.url(path)).bearer_auth(hub.admin_token()).json(&body);
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

#[tokio::test]
async fn hub_updates_instructions_on_its_own_machine() {
    let plexus = home();
    let hub = plexus.up().await;
    let codex_file = write(&plexus, ".codex/AGENTS.md", "# Mine\n");
    plexus.run(&["connect", "--yes", "codex", "claude-code"]).await.ok();
    assert_eq!(read(&codex_file), "# Mine\n");
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("USER.md"), "Ann likes teapots.").expect("a file");
    let text = wait_for_file(&codex_file, |text| text.contains("Ann likes teapots.")).await;
    assert!(text.starts_with("# Mine\n\n<!-- plexus:begin"), "{text}");
    let claude_file = plexus.home().join(".claude/CLAUDE.md");
    wait_for_file(&claude_file, |text| text.contains("Ann likes teapots.")).await;

    // A paused agent is not changed by the hub, unless it is named.
    let (code, answer) =
        call_api(&plexus, &hub, "PATCH", "/api/v1/external-agents/local:codex", json!({ "paused": true }))
            .await;
    assert_eq!((code, &answer["state"]), (200, &json!("paused")), "{answer}");
    std::fs::write(workspace.join("USER.md"), "Ann likes kettles.").expect("a file");
    wait_for_file(&claude_file, |text| text.contains("kettles")).await;
    assert!(read(&codex_file).contains("teapots"));
    let (code, answer) =
        call_api(&plexus, &hub, "POST", "/api/v1/external-agents/sync", json!({ "id": "local:codex" })).await;
    assert_eq!((code, &answer["written"]), (200, &json!([codex_file.display().to_string()])), "{answer}");
    assert!(read(&codex_file).contains("kettles"));
    std::fs::write(workspace.join("USER.md"), "Ann likes saucers.").expect("a file");
    wait_for_file(&claude_file, |text| text.contains("saucers")).await;
    plexus.run(&["sync", "resume", "codex"]).await.ok();
    assert!(read(&codex_file).contains("saucers"));
    // Unchanged files are not written.
    let (_, answer) = call_api(&plexus, &hub, "POST", "/api/v1/external-agents/sync", json!({})).await;
    assert_eq!((&answer["agents"], &answer["written"]), (&json!(2), &json!([])), "{answer}");

    // A block that the user changed is kept.
    let mine = read(&codex_file).replace("saucers", "coffee");
    std::fs::write(&codex_file, &mine).expect("a file");
    std::fs::write(workspace.join("USER.md"), "Ann likes cups.").expect("a file");
    wait_for_file(&claude_file, |text| text.contains("cups")).await;
    assert_eq!(read(&codex_file), mine);
    let list = plexus.run(&["sync", "list", "--json"]).await.json(0);
    assert_eq!(agent(&list, "local:codex")["state"], "attention", "{list}");

    // With an empty workspace the block is removed.
    std::fs::remove_file(workspace.join("USER.md")).expect("a file");
    wait_for_file(&claude_file, |text| !text.contains("plexus:begin")).await;
    let (code, answer) =
        call_api(&plexus, &hub, "DELETE", "/api/v1/external-agents/local:claude-code", json!({})).await;
    assert_eq!((code, &answer["gone"]), (200, &json!(true)), "{answer}");
    assert!(!plexus.home().join(".claude.json").exists());
    for (method, body) in [("PATCH", json!({ "paused": true })), ("DELETE", json!({}))] {
        let (code, answer) = call_api(&plexus, &hub, method, "/api/v1/external-agents/local:zed", body).await;
        assert_eq!(code, 404, "{answer}");
    }
    let audit = hub.list("/api/v1/audit", |_| false).await;
    for operation in ["external_agent.change", "external_agent.sync", "external_agent.remove"] {
        assert!(
            audit.iter().any(|entry| entry["tool"] == operation && entry["outcome"] == "ok"),
            "{operation}: {audit:#?}"
        );
    }
    // Only an admin may change agents.
    let token = hub.token("someone").await.token;
    let request = plexus.http().delete(hub.url("/api/v1/external-agents/local:codex")).bearer_auth(token);
    assert_eq!(request.send().await.expect("an answer").status(), 403);
}

#[tokio::test]
async fn hub_updates_agents_connected_on_a_node() {
    let (plexus, nas) = (crate::plexus(), home());
    let hub = plexus.up().await;
    join(&plexus, &nas, &hub.url(""), "nas", &[]).await;
    let user = plexus.run(&["token", "create", "--kind", "user", "--name", "ann"]).await;
    let variables = [("PLEXUS_HUB", hub.url("")), ("PLEXUS_TOKEN", user.ok().trim().to_owned())];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let output = nas.run_with(&["connect", "--yes", "codex"], &variables).await;
    assert!(output.ok().contains("Codex is connected."), "{output:?}");
    // Its token is derived from Ann's and works without hers.
    let tokens = hub.list("/api/v1/tokens", |_| false).await;
    let token = tokens.iter().find(|token| token["name"] == "ann/codex").expect("a token of the agent");
    assert_eq!((&token["kind"], &token["scopes"]), (&json!("agent"), &json!(["call:*"])), "{token}");

    let _node = start_node(&nas, "ws");
    wait_for_state(&plexus, "nas", "online").await;
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("MEMORY.md"), "The backup runs at night.").expect("a file");
    let codex_file = nas.home().join(".codex/AGENTS.md");
    wait_for_file(&codex_file, |text| text.contains("The backup runs at night.")).await;
    let list = plexus.run(&["sync", "list", "--json"]).await.json(0);
    let codex = agent(&list, "nas:codex");
    assert_eq!((&codex["state"], &codex["version"]), (&json!("connected"), &json!("0.166.0")), "{list}");
    assert_eq!(codex["files"].as_array().map(Vec::len), Some(2), "{list}");
    let output = plexus.run(&["sync", "pause", "nas:codex"]).await;
    assert!(output.ok().contains("is paused"), "{output:?}");
    std::fs::write(workspace.join("MEMORY.md"), "The backup runs at noon.").expect("a file");
    plexus.run(&["sync", "now"]).await.ok();
    assert!(read(&codex_file).contains("at night"));
    plexus.run(&["sync", "now", "nas:codex"]).await.ok();
    assert!(read(&codex_file).contains("at noon"));

    let output = plexus.run(&["sync", "remove", "nas:codex"]).await;
    assert!(output.ok().contains("nas:codex is disconnected."), "{output:?}");
    assert!(!codex_file.exists() && !nas.home().join(".codex/config.toml").exists());
    let tokens = hub.list("/api/v1/tokens", |_| false).await;
    let token = tokens.iter().find(|token| token["name"] == "ann/codex").expect("a token of the agent");
    assert!(token["revoked_at"].is_string(), "{token}");
}

#[tokio::test]
async fn machine_without_a_node_syncs_on_command() {
    let (plexus, laptop) = (crate::plexus(), home());
    let hub = plexus.up().await;
    let user = plexus.run(&["token", "create", "--kind", "user", "--name", "ann"]).await;
    let variables = [("PLEXUS_HUB", hub.url("")), ("PLEXUS_TOKEN", user.ok().trim().to_owned())];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    laptop.run_with(&["connect", "--yes", "codex"], &variables).await.ok();
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("USER.md"), "Ann travels.").expect("a file");
    let output = laptop.run_with(&["sync", "--once"], &variables).await;
    assert!(output.ok().contains("1 agent checked, 1 file written."), "{output:?}");
    assert!(read(&laptop.home().join(".codex/AGENTS.md")).contains("Ann travels."));
    let output = laptop.run_with(&["sync", "--once"], &variables).await;
    assert!(output.ok().contains("1 agent checked, 0 files written."), "{output:?}");
    // The agent needs neither variable: its proxy has the stored token.
    let doctor = laptop.run(&["doctor", "--json"]).await;
    assert!(doctor.stdout.contains("Codex: ") && doctor.stdout.contains("session_info"), "{doctor:?}");
}

#[tokio::test]
async fn doctor_reports_cached_tools_of_an_agent_while_the_hub_is_down() {
    let plexus = home();
    let hub = plexus.up().await;
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    let row = async |code| {
        let output = plexus.run(&["doctor"]).await;
        assert_eq!(output.code, Some(code), "{output:?}");
        output
            .stdout
            .lines()
            .find(|line| line.contains("Codex: "))
            .map(str::to_owned)
            .expect("a line of the agent")
    };
    let live = row(0).await;
    assert!(live.starts_with("ok") && !live.contains("cached"), "{live}");
    // A killed hub leaves its address file, by which the proxy finds the cached list of that hub.
    hub.kill().await;
    let down = row(1).await;
    assert!(down.starts_with("warning") && down.contains("cached list"), "{down}");
    assert!(down.contains("is not reachable"), "{down}");
    // A hub that the variable names does not make the agent's own hub reachable.
    let other = crate::plexus();
    let other_hub = other.up().await;
    let variables = [("PLEXUS_HUB", other_hub.url("")), ("PLEXUS_TOKEN", other_hub.admin_token())];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let output = plexus.run_with(&["doctor"], &variables).await;
    let named = output.stdout.lines().find(|line| line.contains("Codex: ")).unwrap_or_default();
    assert!(named.starts_with("warning") && named.contains("is not reachable"), "{output:?}");
}

#[tokio::test]
async fn sync_prints_its_hub_and_each_file_it_writes() {
    let (plexus, laptop) = (crate::plexus(), home());
    let hub = plexus.up().await;
    let user = plexus.run(&["token", "create", "--kind", "user", "--name", "ann"]).await;
    let variables = [("PLEXUS_HUB", hub.url("")), ("PLEXUS_TOKEN", user.ok().trim().to_owned())];
    let laptop = variables.into_iter().fold(laptop, |laptop, (name, value)| laptop.with(name, value));
    laptop.run(&["connect", "--yes", "codex"]).await.ok();

    let mut sync = laptop.spawn(&["sync"]);
    let mut notes = BufReader::new(sync.stderr.take().expect("its standard error")).lines();
    let mut printed = BufReader::new(sync.stdout.take().expect("its output")).lines();
    let mut note = async || {
        let line = tokio::time::timeout(TIMEOUT, notes.next_line()).await.expect("a note in time");
        line.expect("a line").expect("a note before its end")
    };
    let (what, how) = (note().await, note().await);
    assert!(what.contains(&hub.url("")) && what.ends_with("for codex."), "{what}");
    assert!(how.contains("Ctrl-C stops this"), "{how}");
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("USER.md"), "Ann travels.").expect("a file");
    let line = tokio::time::timeout(TIMEOUT, printed.next_line()).await.expect("a line in time");
    let codex_file = laptop.home().join(".codex/AGENTS.md");
    assert_eq!(line.expect("a line"), Some(format!("wrote {}", codex_file.display())));
    assert!(read(&codex_file).contains("Ann travels."));
    send(&sync, Signal::INT);
    assert!(sync.wait().await.expect("its end").success());
    assert_eq!(printed.next_line().await.expect("its output"), None);
}
