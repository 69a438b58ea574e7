//! The MCP inspector's command line as a client.

use std::time::Duration;

use plexus_testkit::{Pinned, TestHub};
use serde_json::{Value, json};

use crate::sdk_scripts::TOOLS;

const RUN: Duration = Duration::from_secs(60);

/// An installed inspector with its own home folder.
struct Inspector {
    program: Pinned,
    home: tempfile::TempDir,
}

impl Inspector {
    async fn new() -> Option<Self> {
        let program = Pinned::npm("inspector").await?;
        Some(Self { program, home: tempfile::tempdir().unwrap() })
    }

    /// Runs it; returns the exit code, stdout and stderr.
    async fn run(&self, hub: &TestHub, token: &str, args: &[&str]) -> (Option<i32>, String, String) {
        // A file, because arguments are visible to all users of the machine.
        let server = json!({
            "type": "streamable-http",
            "url": hub.url("/mcp"),
            "headers": { "Authorization": format!("Bearer {token}") },
        });
        let config = self.home.path().join("servers.json");
        std::fs::write(&config, json!({ "mcpServers": { "plexus": server } }).to_string()).unwrap();
        let mut command = self.program.command("mcp-inspector", self.home.path());
        command.arg("--cli").arg("--config").arg(config).args(["--server", "plexus"]).args(args);
        // By default it would use the user's keychain.
        command.env("MCP_INSPECTOR_SECRET_STORE", "memory");
        let output =
            tokio::time::timeout(RUN, command.output()).await.expect("the inspector ends in time").unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The result of a request that must succeed.
    async fn result(&self, hub: &TestHub, token: &str, args: &[&str]) -> Value {
        let (code, out, err) = self.run(hub, token, args).await;
        assert_eq!(code, Some(0), "{out}{err}");
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
    }
}

async fn lists_and_calls_tools(era: &str) {
    let Some(inspector) = Inspector::new().await else { return };
    let hub = TestHub::start().await;
    let token = hub.token("inspector", &["call:*"]).await.token;
    let listed = ["--protocol-era", era, "--method", "tools/list"];
    let listed = inspector.result(&hub, &token, &listed).await;
    let names: Vec<&Value> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(json!(names), json!(TOOLS));
    let added = ["--protocol-era", era, "--method", "tools/call", "--tool-name", "todo"];
    let added = [&added[..], &["--tool-arg", "action=add", "--tool-arg", "text=milk"]].concat();
    let added = inspector.result(&hub, &token, &added).await;
    assert_eq!(added["content"][0]["text"], "[ ] 1. milk");
    assert_eq!(added["structuredContent"]["items"][0]["text"], "milk");
    assert_eq!(added["isError"], false);
}

#[tokio::test]
async fn inspector_lists_and_calls_tools_in_the_session_era() {
    lists_and_calls_tools("legacy").await;
}

#[tokio::test]
async fn inspector_lists_and_calls_tools_without_a_session() {
    lists_and_calls_tools("modern").await;
}

#[tokio::test]
async fn inspector_reports_errors() {
    let Some(inspector) = Inspector::new().await else { return };
    let hub = TestHub::start().await;
    let token = hub.token("inspector", &["call:*"]).await.token;
    let call = |arguments: &[&'static str]| [&["--method", "tools/call", "--tool-name"], arguments].concat();
    let remove = call(&["todo", "--tool-arg", "action=remove", "--tool-arg", "id=99"]);
    let (code, out, err) = inspector.run(&hub, &token, &remove).await;
    assert_eq!(code, Some(5), "{out}{err}");
    assert!(out.contains("there is no to-do 99"), "{out}{err}");
    let (code, out, err) = inspector.run(&hub, &token, &call(&["no_such_tool"])).await;
    assert_eq!(code, Some(5), "{out}{err}");
    assert!(err.contains("no_such_tool"), "{out}{err}");
    let (code, out, err) = inspector.run(&hub, "nonsense", &["--method", "tools/list"]).await;
    assert_eq!(code, Some(3), "{out}{err}");
    assert!(err.contains("auth_required"), "{out}{err}");
}
