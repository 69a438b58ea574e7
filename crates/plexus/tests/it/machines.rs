//! A hub and two other machines, all of them real processes: commands run there, by whoever asks and however the machine
//! is named, and so does a server of others that one of them hosts.

use std::process::Stdio;
use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Pinned, Plexus};
use serde_json::{Value, json};
use tokio::process::Child;

/// For a machine to be linked.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the node of a machine that has joined; what it logs goes to `node.log` in its home.
pub(crate) fn run_node(machine: &Plexus, transport: &str) -> Child {
    let log = machine.home().join("node.log");
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
    let args = ["node", "run", "--transport", transport];
    let mut command = machine.command(env!("CARGO_BIN_EXE_plexus"), &args);
    command.stdout(Stdio::null()).stderr(log).spawn().expect("the program starts")
}

/// Makes a machine a node of the hub at this address.
pub(crate) async fn join(plexus: &Plexus, machine: &Plexus, hub: &str, name: &str, more: &[&str]) {
    let invite = plexus.run(&[&["node", "invite", name, "--json"], more].concat()).await.json(0);
    let code = invite["code"].as_str().expect("a code");
    machine.run(&["node", "join", hub, code]).await.ok();
}

async fn until(hub: &HubProcess, path: &str, holds: impl Fn(&Value) -> bool) {
    let begun = Instant::now();
    loop {
        let found = hub.api(path).await;
        if holds(&found) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "not in time: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A command that tells on which machine it runs.
fn whereabouts(node: &str) -> Value {
    json!({ "action": "run", "command": "cat \"$HOME/whereabouts\"", "node": node })
}

#[tokio::test]
async fn servers_of_others_and_commands_run_on_the_machine_that_is_named() {
    let (plexus, nas, vps) = (crate::plexus(), crate::plexus(), crate::plexus());
    let hub = plexus.up().await;
    join(&plexus, &nas, &hub.url(""), "nas", &["--label", "role=storage"]).await;
    join(&plexus, &vps, &hub.url(""), "vps", &["--label", "role=web"]).await;
    for (machine, words) in [(&plexus, "the hub"), (&nas, "the nas"), (&vps, "the vps")] {
        std::fs::write(machine.home().join("whereabouts"), words).expect("a file");
    }
    let npm = Pinned::npm("servers").await;
    if let Some(npm) = &npm {
        let program = npm.path("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        let file = json!({ "command": npm.path("bin/node"), "args": [program, "stdio"] });
        let folder = nas.home().join(".local/share/plexus-node/mcp_servers.d");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("everything.json"), file.to_string()).expect("a file");
    }
    let _running = [run_node(&nas, "ws"), run_node(&vps, "poll")];
    for name in ["nas", "vps"] {
        until(&hub, &format!("/api/v1/nodes/{name}"), |node| node["state"] == "online").await;
    }

    // From the command line, by name, by label, and where nothing is said.
    for (node, words) in [("nas", "the nas"), ("role=web", "the vps"), ("local", "the hub")] {
        let said = plexus
            .run(&[
                "tools",
                "call",
                "terminal",
                "--node",
                node,
                "--json-args",
                &whereabouts(node).to_string(),
            ])
            .await;
        assert!(said.ok().contains(words), "{node}: {said:?}");
    }

    // By clients of others, of both eras.
    let may = ["--scope", "call:*", "--scope", "node:*", "--json"];
    let token = ["token", "create", "--kind", "agent", "--name", "others"];
    let token = plexus.run(&[&token[..], &may].concat()).await.json(0);
    let token = token["token"].as_str().expect("a token");
    let asked =
        [("nas", "the nas"), ("role=storage", "the nas"), ("vps", "the vps"), ("role=web", "the vps")];
    let mut calls: Vec<Value> =
        asked.iter().map(|(node, _)| json!(["terminal", whereabouts(node)])).collect();
    if npm.is_some() {
        until(&hub, "/api/v1/nodes/nas", |node| node["mcp_servers"][0]["state"] == "ready").await;
        calls.push(json!(["mcp__everything__get-sum", { "a": 2, "b": 40 }]));
    }
    for (client, sdk, script) in crate::others::clients().await {
        let job = json!([{ "url": hub.url("/mcp"), "calls": calls }]).to_string();
        let mut running = sdk.script(&script, &[&job], token);
        let said = running.line().await;
        running.end().await;
        let results = said["results"].as_array().expect("results");
        for ((node, words), result) in asked.iter().zip(results) {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.contains(words), "{client}, {node}: {result}");
        }
        if npm.is_some() {
            let sum = results.last().expect("a result");
            assert!(sum["content"][0]["text"].as_str().unwrap_or_default().contains("42"), "{client}: {sum}");
        }
    }
    assert!(hub.terminate().await.success());
}
