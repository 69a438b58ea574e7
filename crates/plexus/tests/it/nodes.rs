//! Nodes for other tests: other machines, each with its own home and process.

use std::process::Stdio;

use plexus_testkit::{Plexus, eventually};
use tokio::process::Child;

/// Starts the node of a machine that has joined a hub; its log goes to `node.log` in its home.
pub(crate) fn start_node(machine: &Plexus, transport: &str) -> Child {
    let log = machine.home().join("node.log");
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
    let args = ["node", "run", "--transport", transport];
    let mut command = machine.command(env!("CARGO_BIN_EXE_plexus"), &args);
    command.stdout(Stdio::null()).stderr(log).spawn().expect("the program starts")
}

/// Invites a machine and makes it a node of the hub at this URL.
pub(crate) async fn join(plexus: &Plexus, machine: &Plexus, hub: &str, name: &str, more: &[&str]) {
    let invite = plexus.run(&[&["node", "invite", name, "--json"], more].concat()).await.json(0);
    let code = invite["code"].as_str().expect("a code");
    machine.run(&["node", "join", hub, code]).await.ok();
}

/// Waits until `plexus node list` shows a node in this state.
pub(crate) async fn wait_for_state(plexus: &Plexus, name: &str, state: &str) {
    eventually(&format!("{name} is {state}"), async || {
        let nodes = plexus.run(&["node", "list", "--json"]).await.json(0);
        let listed = nodes["items"].as_array().expect("a list");
        let reached = listed.iter().any(|node| node["name"] == name && node["state"] == state);
        if reached { Ok(()) } else { Err(nodes) }
    })
    .await;
}
