//! The `plexus` program as its users run it: a child process with its own home.
//!
//! Every started process is killed when its handle is dropped, also by a panic, and none inherits the test's
//! environment.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use plexus_proto::api::{CreateTokenParams, CreatedToken, TokenKind};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::{McpClient, eventually};

/// Time limit for a hub to start or stop, or for a command to finish: far beyond what each should take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The last line that a hub prints when it is ready.
const READY: &str = "Stop with Ctrl-C.";

/// A home folder in which the program is run.
#[derive(Debug)]
pub struct Plexus {
    binary: PathBuf,
    home: TempDir,
    http: reqwest::Client,
    variables: Vec<(&'static str, String)>,
}

/// A command that has ended.
#[derive(Debug)]
pub struct ProgramOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl ProgramOutput {
    /// Standard output of a command that must have succeeded.
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }

    /// JSON on standard output of a command that must have exited with this code.
    pub fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }

    /// Standard error of a command that must have failed with this code and printed nothing to standard output.
    pub fn failed(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        &self.stderr
    }
}

impl Plexus {
    /// `binary` is `env!("CARGO_BIN_EXE_plexus")`, which only tests of that crate can use.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        // An error means that another test in this process has installed it already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
        // Not in /tmp, which sandboxed commands can write to: denied files of the home would then be within a
        // writable folder.
        let home = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        Self { binary: binary.into(), home, http, variables: vec![] }
    }

    /// Adds a variable to the environment of every process.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Self {
        self.variables.push((name, value));
        self
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The program's default data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.home.path().join(".local/share/plexus")
    }

    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// A command in this home, without a terminal.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Command {
        let folder = self.binary.parent().expect("a folder with the program");
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs `plexus` with these arguments to its end.
    pub async fn run(&self, args: &[&str]) -> ProgramOutput {
        self.run_with(args, &[]).await
    }

    /// The same with additional variables.
    pub async fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> ProgramOutput {
        let mut command = self.command(&self.binary, args);
        command.envs(variables.iter().copied());
        finish(command).await
    }

    /// Runs a line in a shell, as a person would type it.
    pub async fn shell(&self, line: &str) -> ProgramOutput {
        finish(self.command("/bin/sh", &["-c", line])).await
    }

    /// Starts the program without waiting.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(&self.binary, args).spawn().expect("the program starts")
    }

    /// Starts a hub on a free port with the default data folder, and waits until it is ready.
    pub async fn up(&self) -> HubProcess {
        self.up_with(&[]).await
    }

    /// The same with more arguments, which may choose the address. Its log goes to `hub.log` in the home folder.
    pub async fn up_with(&self, args: &[&str]) -> HubProcess {
        let log_path = self.home.path().join("hub.log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&log_path).expect("a log file");
        let mut command = self.command(&self.binary, &["up"]);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.args(args).stderr(log).spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let mut welcome = String::new();
        let ready = tokio::time::timeout(TIMEOUT, async {
            while !welcome.contains(READY) {
                if stdout.read_line(&mut welcome).await.expect("its output") == 0 {
                    return false;
                }
            }
            true
        });
        let Ok(true) = ready.await else {
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            panic!("the hub did not become ready; it printed {welcome:?} and logged\n{log}");
        };
        let field_of = |label: &str| {
            let line = welcome.lines().find_map(|line| line.trim_start().strip_prefix(label));
            line.map(|line| line.trim().to_owned())
        };
        let url = field_of("MCP endpoint").and_then(|url| Some(url.strip_suffix("/mcp")?.to_owned()));
        let data_dir = field_of("Data folder").expect("the data folder in what it prints").into();
        let url = url.unwrap_or_else(|| panic!("no address in {welcome:?}"));
        HubProcess { child, stdout, url, data_dir, log_path, welcome, http: self.http.clone() }
    }
}

async fn finish(mut command: Command) -> ProgramOutput {
    let output = tokio::time::timeout(TIMEOUT, command.output());
    let output = output.await.expect("the command ends in time").expect("the program starts");
    ProgramOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// A ready hub.
#[derive(Debug)]
pub struct HubProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
    data_dir: PathBuf,
    log_path: PathBuf,
    welcome: String,
    http: reqwest::Client,
}

impl HubProcess {
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("a running process")
    }

    /// Its output when it was ready.
    pub fn welcome(&self) -> &str {
        &self.welcome
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log_path).expect("its log")
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn admin_token(&self) -> String {
        let token = std::fs::read_to_string(self.data_dir.join("admin-token")).expect("the admin token");
        token.trim().to_owned()
    }

    /// A new agent token that may call every tool.
    pub async fn token(&self, name: &str) -> CreatedToken {
        let params = CreateTokenParams {
            kind: TokenKind::Agent,
            name: name.to_owned(),
            profile: None,
            node: None,
            scopes: vec![],
            ttl_seconds: None,
            renew_seconds: None,
        };
        let request = self.http.post(self.url("/api/v1/tokens")).bearer_auth(self.admin_token());
        let response = request.json(&params).send().await.expect("an answer");
        assert_eq!(response.status(), 201, "token refused: {}", response.text().await.unwrap_or_default());
        response.json().await.expect("a token")
    }

    /// An MCP client with this token.
    pub fn mcp(&self, token: &str) -> McpClient {
        McpClient::new(self.http.clone(), self.url("/mcp"), token)
    }

    /// For tests that use the socket directly.
    pub fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("http://").parse().expect("an address")
    }

    /// Current and peak resident memory of the process, in bytes.
    pub fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
        };
        (kib("VmRSS:"), kib("VmHWM:"))
    }

    /// The REST API's answer to the admin.
    pub async fn api(&self, path: &str) -> Value {
        self.api_as(&self.admin_token(), path).await
    }

    /// The REST API's answer to this token.
    pub async fn api_as(&self, token: &str, path: &str) -> Value {
        let response = self.http.get(self.url(path)).bearer_auth(token).send().await.expect("an answer");
        let (status, body) = (response.status(), response.text().await.expect("a body"));
        assert!(status.is_success(), "{path}: {status} {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Polls [`Self::api`] until the condition holds; returns the answer for which it did.
    pub async fn api_until(&self, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
        eventually(path, async || {
            let answer = self.api(path).await;
            if condition(&answer) { Ok(answer) } else { Err(answer) }
        })
        .await
    }

    /// Polls until the log contains `words` at least `times` times.
    pub async fn logged(&self, words: &str, times: usize) {
        eventually(&format!("{words:?} is in the log {times} times"), async || {
            let log = self.log();
            if log.matches(words).count() >= times { Ok(()) } else { Err(log) }
        })
        .await;
    }

    /// All items of a list, page by page, until `enough` returns true.
    pub async fn list(&self, path: &str, enough: impl Fn(&Value) -> bool) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.api(&format!("{path}?limit=200{cursor}")).await;
            for item in page["items"].as_array().expect("items") {
                if enough(item) {
                    return items;
                }
                items.push(item.clone());
            }
            let Some(next) = page["next"].as_str() else { return items };
            cursor = format!("&cursor={next}");
        }
    }

    /// All events of a session, in order.
    pub async fn events(&self, session: &str) -> Vec<Value> {
        self.list(&format!("/api/v1/sessions/{session}/events"), |_| false).await
    }

    /// `SIGKILL`: no graceful shutdown.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("the hub can be killed");
    }

    /// Sends a signal without waiting.
    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Waits until it exits without a signal from this handle.
    pub async fn ended(mut self) -> ExitStatus {
        let ended = tokio::time::timeout(TIMEOUT, self.child.wait()).await;
        ended.expect("the hub ends in time").expect("its status")
    }

    /// Sends `SIGTERM`; returns the exit status.
    pub async fn terminate(self) -> ExitStatus {
        self.stop(Signal::TERM).await
    }

    /// Sends `SIGINT`; returns the exit status.
    pub async fn interrupt(self) -> ExitStatus {
        self.stop(Signal::INT).await
    }

    async fn stop(mut self, signal: Signal) -> ExitStatus {
        send(&self.child, signal);
        let ended = tokio::time::timeout(TIMEOUT, self.child.wait()).await;
        let status = ended.expect("the hub stops in time").expect("a status");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).await.expect("UTF-8");
        assert_eq!(rest, "", "printed after it was ready");
        status
    }
}

/// Sends a signal to a process started by this test.
pub fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("a running process");
    kill_process(pid, signal).expect("a process of our own");
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log_path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(30).collect();
            let shown: String = lines.into_iter().rev().map(|line| format!("  | {line}\n")).collect();
            // Ignore a closed standard error.
            let _ = write!(std::io::stderr(), "the hub's log, its newest lines:\n{shown}");
        }
    }
}
