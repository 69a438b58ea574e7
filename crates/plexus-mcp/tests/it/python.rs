//! The Python SDK as a client, in both eras.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use plexus_testkit::TestHub;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::tools::idle;

/// To make the virtual environment, once on a machine.
const INSTALL: Duration = Duration::from_secs(150);
const RUN: Duration = Duration::from_secs(60);

/// The interpreter with this version of the SDK; none on a machine without Python, except in CI.
#[expect(clippy::print_stdout, reason = "what is left out is said aloud")]
async fn interpreter(version: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/python-env");
    let made = Command::new(script).args(["mcp", version]).kill_on_drop(true).output();
    let made = tokio::time::timeout(INSTALL, made).await.expect("made in time").expect("the script runs");
    if made.status.success() {
        return Some(String::from_utf8(made.stdout).unwrap().trim().into());
    }
    let why = String::from_utf8_lossy(&made.stderr).into_owned();
    // 3: Python itself is not there. Anything else is a fault.
    assert_eq!(made.status.code(), Some(3), "{why}");
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI must not leave this out: {why}");
    println!("left out, the Python SDK {version} as a client: {why}");
    None
}

/// A script that talks in lines of JSON.
struct Script {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Script {
    fn start(python: &Path, name: &str, hub: &TestHub, token: &str, mode: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name);
        let mut child = Command::new(python)
            .arg(script)
            .args([&hub.url("/mcp"), mode])
            // Not an argument: those can be seen by everyone on the machine.
            .env("PLEXUS_TOKEN", token)
            .env("NO_PROXY", "127.0.0.1")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the interpreter runs");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(RUN, self.lines.next_line()).await.expect("a line in time").unwrap();
        let line = line.unwrap_or_else(|| panic!("the script ended early; its own words are above"));
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    async fn end(mut self) {
        let status = tokio::time::timeout(RUN, self.child.wait()).await.expect("an end in time").unwrap();
        assert!(status.success(), "{status}");
    }
}

/// What every script reports, whichever SDK and era it is for.
fn check(report: &Value, version: &str) {
    assert_eq!(report["version"], version, "{report}");
    let tools = ["list_tools", "scratchpad", "session_info", "todo", "tool_call", "tool_search"];
    assert_eq!(report["tools"], json!(tools), "{report}");
    assert_eq!(report["added"]["items"][0]["text"], "milk", "{report}");
    assert_eq!(report["listed"], report["added"], "{report}");
    assert_eq!(report["text"], "[ ] 1. milk", "{report}");
    assert_eq!(report["failed"]["is_error"], true, "{report}");
    assert!(report["failed"]["text"].as_str().unwrap().contains("there is no to-do 99"), "{report}");
    assert_eq!(report["unknown_tool"], -32602, "{report}");
}

/// Runs a script that hears of a tool which is added while it listens.
async fn run(sdk: &str, name: &str, mode: &str, version: &str) {
    let Some(python) = interpreter(sdk).await else { return };
    let hub = TestHub::start().await;
    let token = hub.token("python", &["call:*"]).await.token;
    let mut script = Script::start(&python, name, &hub, &token, mode);
    check(&script.line().await, version);
    assert_eq!(script.line().await, json!({ "listening": true }));
    hub.registry().add([idle("added_later")]);
    let heard = script.line().await;
    assert_eq!(heard["heard"], "tools_list_changed", "{heard}");
    assert!(heard["tools"].as_array().unwrap().contains(&json!("added_later")), "{heard}");
    script.end().await;
    // Sessions are ended by who opened them.
    assert_eq!(hub.api("/api/v1/status").await["mcp_sessions"], 0);
}

#[tokio::test]
async fn python_2_pinned_to_the_stateless_revision() {
    run("2.3.0", "client_v2.py", "2026-07-28", "2026-07-28").await;
}

#[tokio::test]
async fn python_2_finds_the_stateless_revision_by_itself() {
    run("2.3.0", "client_v2.py", "auto", "2026-07-28").await;
}

#[tokio::test]
async fn python_2_in_the_session_era() {
    run("2.3.0", "client_v2.py", "legacy", "2025-11-25").await;
}

#[tokio::test]
async fn python_1_in_the_session_era() {
    run("1.30.0", "client_v1.py", "legacy", "2025-11-25").await;
}

#[tokio::test]
async fn python_is_told_that_its_token_is_no_good() {
    let Some(python) = interpreter("2.3.0").await else { return };
    let hub = TestHub::start().await;
    let mut script = Script::start(&python, "client_v2.py", &hub, "nonsense", "2026-07-28");
    let refused = script.line().await;
    assert!(refused["refused"].as_str().is_some_and(|why| !why.is_empty()), "{refused}");
    script.end().await;
}
