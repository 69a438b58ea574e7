//! The workspace of the hub, in the instructions of agents: on the hub's machine, on a node, and where neither is.

use std::path::Path;
use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Plexus, Signal, send};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{home, read, write};
use crate::machines::{join, run_node};
use crate::node_machines::state;

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a file holds this, or does no longer.
async fn until(path: &Path, holds: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if holds(&text) {
            return text;
        }
        assert!(begun.elapsed() < PATIENCE, "{}: {text}", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn agent<'a>(list: &'a Value, id: &str) -> &'a Value {
    let items = list["items"].as_array().expect("a list");
    items.iter().find(|agent| agent["id"] == id).unwrap_or_else(|| panic!("{id}: {list}"))
}

async fn sent(plexus: &Plexus, hub: &HubProcess, method: &str, path: &str, body: Value) -> (u16, Value) {
    let method = method.parse().expect("a method");
    let request = plexus.http().request(method, hub.url(path)).bearer_auth(hub.admin_token()).json(&body);
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

#[tokio::test]
async fn the_hub_keeps_the_instructions_of_its_own_machine_current() {
    let plexus = home();
    let hub = plexus.up().await;
    let rules = write(&plexus, ".codex/AGENTS.md", "# Mine\n");
    plexus.run(&["connect", "--yes", "codex", "claude-code"]).await.ok();
    assert_eq!(read(&rules), "# Mine\n");
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("USER.md"), "Ann likes teapots.").expect("a file");
    let text = until(&rules, |text| text.contains("Ann likes teapots.")).await;
    assert!(text.starts_with("# Mine\n\n<!-- plexus:begin"), "{text}");
    let claude = plexus.home().join(".claude/CLAUDE.md");
    until(&claude, |text| text.contains("Ann likes teapots.")).await;

    // One that is paused is left alone, by the hub and by the command for all.
    let (code, said) =
        sent(&plexus, &hub, "PATCH", "/api/v1/external-agents/local:codex", json!({ "paused": true })).await;
    assert_eq!((code, &said["state"]), (200, &json!("paused")), "{said}");
    std::fs::write(workspace.join("USER.md"), "Ann likes kettles.").expect("a file");
    until(&claude, |text| text.contains("kettles")).await;
    assert!(read(&rules).contains("teapots"));
    let (code, said) =
        sent(&plexus, &hub, "POST", "/api/v1/external-agents/sync", json!({ "id": "local:codex" })).await;
    assert_eq!((code, &said["written"]), (200, &json!([rules.display().to_string()])), "{said}");
    assert!(read(&rules).contains("kettles"));
    std::fs::write(workspace.join("USER.md"), "Ann likes saucers.").expect("a file");
    until(&claude, |text| text.contains("saucers")).await;
    plexus.run(&["sync", "resume", "codex"]).await.ok();
    assert!(read(&rules).contains("saucers"));
    // Nothing has changed, and so nothing is written.
    let (_, said) = sent(&plexus, &hub, "POST", "/api/v1/external-agents/sync", json!({})).await;
    assert_eq!((&said["agents"], &said["written"]), (&json!(2), &json!([])), "{said}");

    // What a person has changed in the block is theirs.
    let mine = read(&rules).replace("saucers", "coffee");
    std::fs::write(&rules, &mine).expect("a file");
    std::fs::write(workspace.join("USER.md"), "Ann likes cups.").expect("a file");
    until(&claude, |text| text.contains("cups")).await;
    assert_eq!(read(&rules), mine);
    let list = plexus.run(&["sync", "list", "--json"]).await.json(0);
    assert_eq!(agent(&list, "local:codex")["state"], "attention", "{list}");

    // Without a word in the workspace there is no block.
    std::fs::remove_file(workspace.join("USER.md")).expect("a file");
    until(&claude, |text| !text.contains("plexus:begin")).await;
    let (code, said) =
        sent(&plexus, &hub, "DELETE", "/api/v1/external-agents/local:claude-code", json!({})).await;
    assert_eq!((code, &said["gone"]), (200, &json!(true)), "{said}");
    assert!(!plexus.home().join(".claude.json").exists());
    for (method, body) in [("PATCH", json!({ "paused": true })), ("DELETE", json!({}))] {
        let (code, said) = sent(&plexus, &hub, method, "/api/v1/external-agents/local:zed", body).await;
        assert_eq!(code, 404, "{said}");
    }
    let told = hub.list("/api/v1/audit", |_| false).await;
    for what in ["external_agent.change", "external_agent.sync", "external_agent.remove"] {
        assert!(
            told.iter().any(|entry| entry["tool"] == what && entry["outcome"] == "ok"),
            "{what}: {told:#?}"
        );
    }
    // Who is no admin changes nothing.
    let token = hub.token("someone").await.token;
    let request = plexus.http().delete(hub.url("/api/v1/external-agents/local:codex")).bearer_auth(token);
    assert_eq!(request.send().await.expect("an answer").status(), 403);
}

#[tokio::test]
async fn agents_of_a_node_are_connected_there_and_kept_current_by_the_hub() {
    let (plexus, nas) = (crate::plexus(), home());
    let hub = plexus.up().await;
    join(&plexus, &nas, &hub.url(""), "nas", &[]).await;
    let user = plexus.run(&["token", "create", "--kind", "user", "--name", "ann"]).await;
    let there = [("PLEXUS_HUB", hub.url("")), ("PLEXUS_TOKEN", user.ok().trim().to_owned())];
    let there: Vec<(&str, &str)> = there.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let ran = nas.run_with(&["connect", "--yes", "codex"], &there).await;
    assert!(ran.ok().contains("Codex is connected."), "{ran:?}");
    // Its token is a part of Ann's, and works without hers.
    let tokens = hub.list("/api/v1/tokens", |_| false).await;
    let token = tokens.iter().find(|token| token["name"] == "ann/codex").expect("a token of the agent");
    assert_eq!((&token["kind"], &token["scopes"]), (&json!("agent"), &json!(["call:*"])), "{token}");

    let _node = run_node(&nas, "ws");
    state(&plexus, "nas", "online").await;
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("MEMORY.md"), "The backup runs at night.").expect("a file");
    let rules = nas.home().join(".codex/AGENTS.md");
    until(&rules, |text| text.contains("The backup runs at night.")).await;
    let list = plexus.run(&["sync", "list", "--json"]).await.json(0);
    let codex = agent(&list, "nas:codex");
    assert_eq!((&codex["state"], &codex["version"]), (&json!("connected"), &json!("0.166.0")), "{list}");
    assert_eq!(codex["files"].as_array().map(Vec::len), Some(2), "{list}");
    let ran = plexus.run(&["sync", "pause", "nas:codex"]).await;
    assert!(ran.ok().contains("is paused"), "{ran:?}");
    std::fs::write(workspace.join("MEMORY.md"), "The backup runs at noon.").expect("a file");
    plexus.run(&["sync", "now"]).await.ok();
    assert!(read(&rules).contains("at night"));
    plexus.run(&["sync", "now", "nas:codex"]).await.ok();
    assert!(read(&rules).contains("at noon"));

    let ran = plexus.run(&["sync", "remove", "nas:codex"]).await;
    assert!(ran.ok().contains("nas:codex is disconnected."), "{ran:?}");
    assert!(!rules.exists() && !nas.home().join(".codex/config.toml").exists());
    let tokens = hub.list("/api/v1/tokens", |_| false).await;
    let token = tokens.iter().find(|token| token["name"] == "ann/codex").expect("a token of the agent");
    assert!(token["revoked_at"].is_string(), "{token}");
}

#[tokio::test]
async fn a_machine_that_is_no_node_syncs_when_it_is_told_to() {
    let (plexus, laptop) = (crate::plexus(), home());
    let hub = plexus.up().await;
    let user = plexus.run(&["token", "create", "--kind", "user", "--name", "ann"]).await;
    let there = [("PLEXUS_HUB", hub.url("")), ("PLEXUS_TOKEN", user.ok().trim().to_owned())];
    let there: Vec<(&str, &str)> = there.iter().map(|(name, value)| (*name, value.as_str())).collect();
    laptop.run_with(&["connect", "--yes", "codex"], &there).await.ok();
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("USER.md"), "Ann travels.").expect("a file");
    let ran = laptop.run_with(&["sync", "--once"], &there).await;
    assert!(ran.ok().contains("1 agent looked at, 1 file written."), "{ran:?}");
    assert!(read(&laptop.home().join(".codex/AGENTS.md")).contains("Ann travels."));
    let ran = laptop.run_with(&["sync", "--once"], &there).await;
    assert!(ran.ok().contains("1 agent looked at, 0 files written."), "{ran:?}");
    // The agent needs neither variable: what it was given is with its proxy.
    let doctor = laptop.run(&["doctor", "--json"]).await;
    assert!(doctor.stdout.contains("Codex: ") && doctor.stdout.contains("session_info"), "{doctor:?}");
}

#[tokio::test]
async fn doctor_says_that_the_tools_of_an_agent_are_a_cached_list_while_the_hub_is_down() {
    let plexus = home();
    let hub = plexus.up().await;
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    let row = async |code| {
        let ran = plexus.run(&["doctor"]).await;
        assert_eq!(ran.code, Some(code), "{ran:?}");
        ran.stdout
            .lines()
            .find(|line| line.contains("Codex: "))
            .map(str::to_owned)
            .expect("a line of the agent")
    };
    let live = row(0).await;
    assert!(live.starts_with("ok") && !live.contains("cached"), "{live}");
    // It leaves its address behind, by which the proxy knows whose list it keeps.
    hub.kill().await;
    let down = row(1).await;
    assert!(down.starts_with("warning") && down.contains("cached list"), "{down}");
    assert!(down.contains("is not reachable"), "{down}");
}

#[tokio::test]
async fn sync_says_what_it_follows_and_prints_each_file_it_writes() {
    let (plexus, laptop) = (crate::plexus(), home());
    let hub = plexus.up().await;
    let user = plexus.run(&["token", "create", "--kind", "user", "--name", "ann"]).await;
    let there = [("PLEXUS_HUB", hub.url("")), ("PLEXUS_TOKEN", user.ok().trim().to_owned())];
    let laptop = there.into_iter().fold(laptop, |laptop, (name, value)| laptop.with(name, value));
    laptop.run(&["connect", "--yes", "codex"]).await.ok();

    let mut sync = laptop.spawn(&["sync"]);
    let mut said = BufReader::new(sync.stderr.take().expect("its standard error")).lines();
    let mut printed = BufReader::new(sync.stdout.take().expect("its output")).lines();
    let intro = [said.next_line().await, said.next_line().await].map(|line| line.expect("a line"));
    let [Some(what), Some(how)] = intro else { panic!("{intro:?}") };
    assert!(what.contains(&hub.url("")) && what.ends_with("for codex."), "{what}");
    assert!(how.contains("Ctrl-C stops this"), "{how}");
    let workspace = hub.data_dir().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    std::fs::write(workspace.join("USER.md"), "Ann travels.").expect("a file");
    let line = tokio::time::timeout(PATIENCE, printed.next_line()).await.expect("a line in time");
    let rules = laptop.home().join(".codex/AGENTS.md");
    assert_eq!(line.expect("a line"), Some(format!("wrote {}", rules.display())));
    assert!(read(&rules).contains("Ann travels."));
    send(&sync, Signal::INT);
    assert!(sync.wait().await.expect("its end").success());
    assert_eq!(printed.next_line().await.expect("its output"), None);
}
