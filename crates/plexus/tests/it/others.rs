//! Servers of others behind the hub, called by clients of others: what comes back is what the server says to a
//! client that asks it directly.

mod servers;

use std::path::{Path, PathBuf};

use plexus_testkit::{HubProcess, Pinned, Plexus};
use serde_json::{Value, json};

use self::servers::{Server, servers};

/// One tool of one server, and what it is to be called with.
struct Asked {
    canonical: String,
    arguments: Value,
}

/// The clients that this machine can have: what they are, what is installed for them, and their script.
pub(crate) async fn clients() -> Vec<(&'static str, Pinned, PathBuf)> {
    let clients = [
        ("the TypeScript SDK 1.x, sessions", Pinned::npm("sdk-1").await, "caller_1.mjs"),
        ("the TypeScript SDK 2.x, 2026-07-28", Pinned::npm("sdk-2").await, "caller_2.mjs"),
        ("the Python SDK 1.x, sessions", Pinned::python("mcp", "1.30.0").await, "caller_1.py"),
        ("the Python SDK 2.x, 2026-07-28", Pinned::python("mcp", "2.3.0").await, "caller_2.py"),
    ];
    let there = clients.into_iter().filter_map(|(name, sdk, file)| Some((name, sdk?, script(file))));
    there.collect()
}

fn script(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file)
}

/// A result without what every hop and SDK says in its own words.
fn essence(result: &Value) -> Value {
    json!({
        "content": in_floats(&result["content"]),
        "structured": in_floats(&result["structuredContent"]),
        "error": result["isError"] == json!(true),
    })
}

/// The Python SDKs write 1 as 1.0 where a number may have a fraction.
fn in_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(in_floats).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), in_floats(value))).collect()
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn servers_of_others_answer_clients_of_both_eras_as_they_do_directly() {
    let plexus = crate::plexus();
    let servers = servers(plexus.home()).await;
    let hub = plexus.up().await;
    configure(&plexus, &hub, &servers).await;

    let Some(direct) = directly(&servers).await else { return };
    let asked: Vec<Asked> = servers.iter().flat_map(Server::asked).collect();
    let calls: Vec<Value> = asked.iter().map(|asked| json!([asked.canonical, asked.arguments])).collect();
    let token = hub.token("others").await.token;
    for (client, sdk, script) in clients().await {
        let job = json!([{ "url": hub.url("/mcp"), "calls": calls }]).to_string();
        let mut running = sdk.script(&script, &[&job], &token);
        let said = running.line().await;
        running.end().await;
        for server in &servers {
            let listed = said["tools"].as_array().unwrap().iter().filter_map(Value::as_str);
            let names: Vec<&str> = listed.filter(|name| name.starts_with(&server.prefix())).collect();
            assert!(!names.is_empty(), "{client} sees no tools of {}", server.name);
        }
        let results = said["results"].as_array().unwrap();
        assert_eq!(results.len(), direct.len(), "{client}");
        for ((asked, result), direct) in asked.iter().zip(results).zip(&direct) {
            assert_eq!(essence(result), essence(direct), "{client}: {}", asked.canonical);
        }
    }
    let pids: Vec<u64> =
        upstreams(&hub).await.iter().filter_map(|upstream| upstream["pid"].as_u64()).collect();
    assert!(hub.terminate().await.success());
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} outlives its hub");
    }
}

async fn upstreams(hub: &HubProcess) -> Vec<Value> {
    hub.list("/api/v1/upstreams", |_| false).await
}

/// Gives the hub its files, and compares what it found out with what is known of each server.
async fn configure(plexus: &Plexus, hub: &HubProcess, servers: &[Server]) {
    let folder = hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    for server in servers {
        std::fs::write(folder.join(format!("{}.json", server.name)), server.file.to_string()).unwrap();
    }
    crate::chaos::ready(plexus, hub, servers.len()).await;
    let found = upstreams(hub).await;
    for server in servers {
        let found = found.iter().find(|found| found["name"] == server.name).unwrap();
        let [transport, era] = ["transport", "era"].map(|field| found[field].as_str().unwrap_or_default());
        assert_eq!((transport, era), (server.transport, server.era), "{found}");
        // Nothing about ordinary servers is strange.
        assert_eq!((&found["quarantined"], &found["flagged"]), (&json!([]), &json!([])), "{found}");
        if let Some(revision) = server.revision {
            assert_eq!(found["revision"], revision, "{found}");
        }
    }
}

/// What each server answers to the same calls when nothing is in between; none without npm.
async fn directly(servers: &[Server]) -> Option<Vec<Value>> {
    let sdk = Pinned::npm("sdk-1").await?;
    let jobs: Vec<Value> = servers.iter().map(Server::job).collect();
    let mut running = sdk.script(&script("caller_1.mjs"), &[&Value::from(jobs).to_string()], "");
    let mut results = Vec::new();
    for server in servers {
        let said = running.line().await;
        let own = said["results"].as_array().unwrap().clone();
        assert_eq!(own.len(), server.calls.len(), "{}: {said}", server.name);
        results.extend(own);
    }
    running.end().await;
    Some(results)
}
