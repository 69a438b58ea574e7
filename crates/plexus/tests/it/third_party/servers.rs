//! Published third-party servers, each with calls whose results do not depend on the time.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use plexus_proto::tool_name;
use plexus_testkit::Pinned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::ToolCall;

const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Server {
    pub(super) name: &'static str,
    /// The content of its file.
    pub(super) file: Value,
    pub(super) transport: &'static str,
    pub(super) era: &'static str,
    /// The revision that must be negotiated, if it matters.
    pub(super) revision: Option<&'static str>,
    pub(super) calls: Vec<(&'static str, Value)>,
    /// The process of a listening server, and the task that reads its output.
    _running: Option<(Child, JoinSet<()>)>,
}

impl Server {
    fn new(name: &'static str, file: Value, era: &'static str, calls: Vec<(&'static str, Value)>) -> Self {
        let transport = match &file {
            file if file.get("command").is_some() => "stdio",
            file if file["transport"] == "sse" => "sse",
            _ => "streamable_http",
        };
        Self { name, file, transport, era, revision: None, calls, _running: None }
    }

    pub(super) fn prefix(&self) -> String {
        tool_name::canonical(&self.slug(), "")
    }

    fn slug(&self) -> String {
        tool_name::slug(self.name).unwrap()
    }

    /// Its calls with the names that its tools have at the hub.
    pub(super) fn tool_calls(&self) -> impl Iterator<Item = ToolCall> + '_ {
        let slug = self.slug();
        self.calls.iter().map(move |(tool, arguments)| ToolCall {
            canonical: tool_name::canonical(&slug, tool),
            arguments: arguments.clone(),
        })
    }

    /// The same calls for a client that connects to the server directly.
    pub(super) fn job(&self) -> Value {
        let address = if self.transport == "sse" { "sse" } else { "url" };
        json!({
            "command": self.file["command"],
            "args": self.file["args"],
            address: self.file["url"],
            "calls": self.calls,
        })
    }
}

/// All servers that are installed on this machine.
pub(super) async fn servers(home: &Path) -> Vec<Server> {
    let mut servers = Vec::new();
    if let Some(npm) = Pinned::npm("servers").await {
        let program = npm.path("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        let program = program.to_str().unwrap();
        let stdio = json!({ "command": npm.path("bin/node"), "args": [program, "stdio"] });
        servers.push(Server::new("everything", stdio, "session", everything_calls()));
        servers.push(listening_everything(&npm, home, "everything-sse", program, "sse", "/sse").await);
        servers.push(
            listening_everything(&npm, home, "everything-http", program, "streamableHttp", "/mcp").await,
        );
        servers.push(filesystem_server(&npm, &home.join("files")));
    }
    if let Some(python) = Pinned::python("mcp-server-time", "2026.10.19").await {
        servers.push(time_server("time", &python, "stateless", "2026-07-28"));
    }
    // Uses the SDK of January 2025, which supports one revision.
    if let Some(python) = Pinned::python("mcp-server-time", "0.6.2").await {
        servers.push(time_server("old.time", &python, "session", "2024-11-05"));
    }
    if let Some(python) = Pinned::python("mcp-server-fetch", "2026.10.19").await {
        let file = json!({ "command": python.path("bin/python"), "args": ["-m", "mcp_server_fetch"] });
        servers.push(Server::new("fetch", file, "stateless", vec![]));
    }
    if let Some(python) = Pinned::python("mcp-server-git", "2026.10.19").await {
        servers.push(git_server(&python, &home.join("repository")).await);
    }
    servers
}

fn everything_calls() -> Vec<(&'static str, Value)> {
    vec![
        ("echo", json!({ "message": "hellö \u{1f44b}\n\"quoted\"" })),
        ("get-sum", json!({ "a": 2, "b": 40 })),
        ("get-structured-content", json!({ "location": "New York" })),
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({ "messageType": "error", "includeImage": true })),
        ("get-resource-links", json!({ "count": 2 })),
    ]
}

/// The everything server with one of its listening transports.
async fn listening_everything(
    npm: &Pinned,
    home: &Path,
    name: &'static str,
    program: &str,
    mode: &str,
    path: &str,
) -> Server {
    // It only takes a port number. The kernel does not reuse a free port soon, so no other program gets this one.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut command = npm.command("node", home);
    command.args([program, mode]).env("PORT", port.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("it listens before it ends");
            if line.contains(&port.to_string()) {
                break;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, ready).await.expect("it listens in time");
    let mut reading = JoinSet::new();
    reading.spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let mut file = json!({ "url": format!("http://127.0.0.1:{port}{path}") });
    if mode == "sse" {
        file["transport"] = json!("sse");
    }
    Server { _running: Some((child, reading)), ..Server::new(name, file, "session", everything_calls()) }
}

fn filesystem_server(npm: &Pinned, folder: &Path) -> Server {
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(folder.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    let program = npm.path("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let file = json!({ "command": npm.path("bin/node"), "args": [program, folder] });
    let calls = vec![
        ("list_directory", json!({ "path": folder })),
        ("read_text_file", json!({ "path": folder.join("a.txt"), "head": 2 })),
        // Errors are results too.
        ("read_text_file", json!({ "path": folder.join("missing.txt") })),
        ("read_text_file", json!({ "path": "/etc/hostname" })),
    ];
    Server::new("filesystem", file, "session", calls)
}

fn time_server(name: &'static str, python: &Pinned, era: &'static str, revision: &'static str) -> Server {
    let args = json!(["-m", "mcp_server_time", "--local-timezone", "UTC"]);
    let file = json!({ "command": python.path("bin/python"), "args": args });
    let arguments = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let unknown_zone =
        json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Mars/Olympus" });
    let calls = vec![("convert_time", arguments), ("convert_time", unknown_zone)];
    Server { revision: Some(revision), ..Server::new(name, file, era, calls) }
}

async fn git_server(python: &Pinned, folder: &Path) -> Server {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("a.txt"), "one\n").unwrap();
    for args in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "a.txt"],
        &["-c", "user.name=ann", "-c", "user.email=ann@example.net", "commit", "--quiet", "--message=First"],
    ] {
        let mut command = Command::new("git");
        command.args(args).current_dir(folder).env("HOME", folder).kill_on_drop(true);
        let ended = tokio::time::timeout(TIMEOUT, command.status()).await.expect("git ends in time");
        assert!(ended.expect("git is installed").success(), "git {args:?}");
    }
    let file = json!({ "command": python.path("bin/python"), "args": ["-m", "mcp_server_git"] });
    let calls = vec![
        ("git_status", json!({ "repo_path": folder })),
        ("git_log", json!({ "repo_path": folder })),
        ("git_show", json!({ "repo_path": folder, "revision": "HEAD" })),
    ];
    Server::new("git", file, "stateless", calls)
}
