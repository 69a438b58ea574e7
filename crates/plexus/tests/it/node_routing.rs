//! Calls routed to nodes by name and label, from the command line and third-party clients, and to a third-party server that a
//! node hosts. All are real processes.

use plexus_testkit::Pinned;
use serde_json::{Value, json};

use crate::nodes::{join, start_node};

/// A command that prints the name of the machine it runs on.
fn whereabouts(node: &str) -> Value {
    json!({ "action": "run", "command": "cat \"$HOME/whereabouts\"", "node": node })
}

#[tokio::test]
async fn third_party_servers_and_commands_run_on_the_named_node() {
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
    let _running = [start_node(&nas, "ws"), start_node(&vps, "poll")];
    for name in ["nas", "vps"] {
        hub.api_until(&format!("/api/v1/nodes/{name}"), |node| node["state"] == "online").await;
    }

    // From the command line, by name and by label.
    for (node, words) in [("nas", "the nas"), ("role=web", "the vps"), ("local", "the hub")] {
        let output = plexus
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
        assert!(output.ok().contains(words), "{node}: {output:?}");
    }

    // By third-party clients of both eras.
    let scopes = ["--scope", "call:*", "--scope", "node:*", "--json"];
    let token = ["token", "create", "--kind", "agent", "--name", "third-party"];
    let token = plexus.run(&[&token[..], &scopes].concat()).await.json(0);
    let token = token["token"].as_str().expect("a token");
    let targets =
        [("nas", "the nas"), ("role=storage", "the nas"), ("vps", "the vps"), ("role=web", "the vps")];
    let mut calls: Vec<Value> =
        targets.iter().map(|(node, _)| json!(["terminal", whereabouts(node)])).collect();
    if npm.is_some() {
        hub.api_until("/api/v1/nodes/nas", |node| node["mcp_servers"][0]["state"] == "ready").await;
        calls.push(json!(["mcp__everything__get-sum", { "a": 2, "b": 40 }]));
    }
    for (client, sdk, script) in crate::third_party::clients().await {
        let job = json!([{ "url": hub.url("/mcp"), "calls": calls }]).to_string();
        let mut running = sdk.script(&script, &[&job], token);
        let report = running.line().await;
        running.end().await;
        let results = report["results"].as_array().expect("results");
        for ((node, words), result) in targets.iter().zip(results) {
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
