//! The fixture server as a child process over standard input and output, line by line.

use std::process::Stdio;
use std::time::Duration;

use plexus_testkit::fixture::{Eras, program};
use plexus_testkit::modern_meta;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const TIMEOUT: Duration = Duration::from_secs(20);

struct Server {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts it with only the environment that the test provides.
    fn start(eras: Eras, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(program());
        command.args(["--stdio", "--eras", eras.name()]).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take().unwrap(), child, lines }
    }

    async fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Option<Value> {
        let line =
            tokio::time::timeout(TIMEOUT, self.lines.next_line()).await.expect("a line in time").unwrap()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")))
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await;
        self.line().await.expect("an answer")
    }

    /// Opens a session of this revision.
    async fn open(&mut self, version: &str) {
        let client = json!({ "name": "testkit", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let opened = self.request("initialize", params).await;
        assert_eq!(opened["result"]["protocolVersion"], version, "{opened}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    /// Makes a call in 2026-07-28.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": modern_meta() }))
            .await
    }

    async fn ended(mut self) -> Option<i32> {
        drop(self.input);
        let ended = tokio::time::timeout(TIMEOUT, self.child.wait()).await;
        ended.expect("an end in time").unwrap().code()
    }
}

#[tokio::test]
async fn child_sees_only_its_own_environment_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(Eras::Both, |command| {
        command.env("ONLY_THIS", "x").current_dir(folder.path());
    });
    let described = server.call("describe_call", json!({})).await["result"]["structuredContent"].clone();
    assert_eq!(described["variables"], json!(["ONLY_THIS"]), "{described}");
    assert_eq!(
        described["folder"],
        folder.path().canonicalize().unwrap().display().to_string(),
        "{described}"
    );
    assert_eq!(described["headers"], Value::Null, "{described}");
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn child_ends_with_its_input_even_while_waiting() {
    let mut server = Server::start(Eras::Both, |_| ());
    let params = json!({ "name": "slow", "_meta": { "progressToken": 1 } });
    server.open("2025-06-18").await;
    let progress = server.request("tools/call", params).await;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn child_of_the_session_era_refuses_discover() {
    let mut server = Server::start(Eras::Sessions, |_| ());
    let discovered = server.request("server/discover", json!({ "_meta": modern_meta() })).await;
    assert_eq!(discovered["error"]["code"], -32601, "{discovered}");
    server.open("2024-11-05").await;
}

#[tokio::test]
async fn child_floods_its_standard_error() {
    let mut server = Server::start(Eras::Both, |command| {
        command.stderr(Stdio::piped());
    });
    let mut stderr = server.child.stderr.take().unwrap();
    // More than any pipe can hold, so it must be read for the call to end.
    let read = async {
        let mut read = vec![0; 1 << 20];
        stderr.read_exact(&mut read).await.unwrap();
        tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await.unwrap();
    };
    let flood = async {
        let flooded = server.call("flood_stderr", json!({ "bytes": 1 << 20 })).await;
        assert!(flooded["result"]["content"][0]["text"].as_str().unwrap().starts_with("wrote "), "{flooded}");
        server.ended().await
    };
    let (ended, ()) = tokio::time::timeout(TIMEOUT, async { tokio::join!(flood, read) }).await.unwrap();
    assert_eq!(ended, Some(0));
}

#[tokio::test]
async fn child_crashes_without_an_answer() {
    let mut server = Server::start(Eras::Both, |_| ());
    let params = json!({ "name": "crash", "_meta": modern_meta() });
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    assert_eq!(server.line().await, None);
    assert_eq!(server.ended().await, Some(70));
}
