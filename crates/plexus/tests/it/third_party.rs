//! Third-party servers behind the hub, called by third-party clients: the results are the same as when a client calls the
//! server directly.

mod servers;

use std::path::{Path, PathBuf};

use plexus_testkit::{HubProcess, Pinned, Plexus};
use serde_json::{Value, json};

use self::servers::{Server, servers};

/// A tool of a server, and arguments for it.
struct ToolCall {
    canonical: String,
    arguments: Value,
}

/// The clients installed on this machine: name, environment and script.
pub(crate) async fn clients() -> Vec<(&'static str, Pinned, PathBuf)> {
    let clients = [
        ("the TypeScript SDK 1.x, sessions", Pinned::npm("sdk-1").await, "caller_1.mjs"),
        ("the TypeScript SDK 2.x, 2026-07-28", Pinned::npm("sdk-2").await, "caller_2.mjs"),
        ("the Python SDK 1.x, sessions", Pinned::python("mcp", "1.30.0").await, "caller_1.py"),
        ("the Python SDK 2.x, 2026-07-28", Pinned::python("mcp", "2.3.0").await, "caller_2.py"),
    ];
    let installed = clients.into_iter().filter_map(|(name, sdk, file)| Some((name, sdk?, script(file))));
    installed.collect()
}

fn script(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file)
}

/// The parts of a result that all hops and SDKs must preserve.
fn normalize(result: &Value) -> Value {
    json!({
        "content": numbers_as_floats(&result["content"]),
        "structured": numbers_as_floats(&result["structuredContent"]),
        "error": result["isError"] == json!(true),
    })
}

/// Converts all numbers to floats, as the Python SDKs do with some integers.
fn numbers_as_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(numbers_as_floats).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), numbers_as_floats(value))).collect()
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn third_party_servers_answer_through_the_hub_as_they_do_directly() {
    let plexus = crate::plexus();
    let servers = servers(plexus.home()).await;
    let hub = plexus.up().await;
    configure(&plexus, &hub, &servers).await;

    let Some(direct) = call_directly(&servers).await else { return };
    let tool_calls: Vec<ToolCall> = servers.iter().flat_map(Server::tool_calls).collect();
    let calls: Vec<Value> = tool_calls.iter().map(|call| json!([call.canonical, call.arguments])).collect();
    let token = hub.token("third-party").await.token;
    for (client, sdk, script) in clients().await {
        let job = json!([{ "url": hub.url("/mcp"), "calls": calls }]).to_string();
        let mut running = sdk.script(&script, &[&job], &token);
        let report = running.line().await;
        running.end().await;
        for server in &servers {
            let listed = report["tools"].as_array().unwrap().iter().filter_map(Value::as_str);
            let names: Vec<&str> = listed.filter(|name| name.starts_with(&server.prefix())).collect();
            assert!(!names.is_empty(), "{client} sees no tools of {}", server.name);
        }
        let results = report["results"].as_array().unwrap();
        assert_eq!(results.len(), direct.len(), "{client}");
        for ((call, result), direct) in tool_calls.iter().zip(results).zip(&direct) {
            assert_eq!(normalize(result), normalize(direct), "{client}: {}", call.canonical);
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

/// Adds the servers to the hub, and checks what it has detected about each.
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
        // Tools of ordinary servers are not suspicious.
        assert_eq!((&found["quarantined"], &found["flagged"]), (&json!([]), &json!([])), "{found}");
        if let Some(revision) = server.revision {
            assert_eq!(found["revision"], revision, "{found}");
        }
    }
}

/// The results of the same calls made directly to the servers; `None` without npm.
async fn call_directly(servers: &[Server]) -> Option<Vec<Value>> {
    let sdk = Pinned::npm("sdk-1").await?;
    let jobs: Vec<Value> = servers.iter().map(Server::job).collect();
    let mut running = sdk.script(&script("caller_1.mjs"), &[&Value::from(jobs).to_string()], "");
    let mut results = Vec::new();
    for server in servers {
        let report = running.line().await;
        let results_of_server = report["results"].as_array().unwrap().clone();
        assert_eq!(results_of_server.len(), server.calls.len(), "{}: {report}", server.name);
        results.extend(results_of_server);
    }
    running.end().await;
    Some(results)
}
