//! A stdio server for tests. Everything is dead when the test ends, in whatever way.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Environment, Stage, Supervisor};
use plexus_proto::api::UpstreamEra;
use plexus_testkit::fixture::{Eras, program};
use plexus_testkit::until;
use plexus_tools::Capabilities;
use plexus_upstream::client::{
    Bridge, CallResponse, Client, ClientError, ClientSettings, Connect, Inputs, Listener, Outgoing,
    ServerChange, StderrRing,
};
use plexus_upstream::config::{Approve, ServerConfig, StdioConfig, ToolRules, Transport};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Far more time than anything here should take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The beginning of every script: a session server that reads its messages from `line`.
const PRELUDE: &str = r#"
id() { id="${line#*\"id\":}"; id="${id%%,*}"; }
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
next() { read -r line && id; }
initialize() {
    answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}'
    read -r line
}
"#;

/// Tool list changes, and the changed resources.
struct ChangeLog(watch::Sender<(usize, Vec<String>)>);

impl Listener for ChangeLog {
    fn on_change(&self, change: ServerChange) {
        self.0.send_modify(|(changes, updates)| match change {
            ServerChange::Tools => *changes += 1,
            ServerChange::Updated(uri) => updates.push(uri),
            ServerChange::Resources | ServerChange::Prompts => {}
        });
    }
}

/// How to start a server.
pub(super) struct ServerStart {
    pub(super) connect: Connect,
    changes: watch::Receiver<(usize, Vec<String>)>,
}

impl ServerStart {
    fn command(command: StdioConfig) -> Self {
        let config = ServerConfig {
            name: "test".to_owned(),
            slug: "test".to_owned(),
            file: PathBuf::new(),
            enabled: true,
            lazy: false,
            per_session: false,
            questions: true,
            transport: Transport::Stdio(command),
            groups: BTreeMap::new(),
            instructions: None,
            tools: ToolRules::default(),
            timeout: PATIENCE,
            max_concurrency: None,
            bare_names: false,
            approve: Approve::Tofu,
            inject: BTreeMap::new(),
            warnings: vec![],
            fingerprint: 0,
            presentation: 0,
        };
        let (sender, changes) = watch::channel((0, Vec::new()));
        let variables = [("PATH", "/usr/bin:/bin"), ("LC_ALL", "C"), ("AWS_SECRET", "of the hub")];
        let environment: Environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let connect = Connect {
            config: Arc::new(config),
            environment,
            known_era: None,
            listener: Arc::new(ChangeLog(sender)),
            supervisor: Supervisor::new(),
            stderr: Arc::new(StderrRing::new()),
            chatter: Arc::default(),
            settings: ClientSettings { connect_timeout: PATIENCE, ..ClientSettings::default() },
            capabilities: Capabilities::default(),
            account: None,
        };
        Self { connect, changes }
    }

    pub(super) fn program(command: &str, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self::command(StdioConfig { command: command.to_owned(), args, env: BTreeMap::new(), cwd: None })
    }

    pub(super) fn fixture(eras: Eras) -> Self {
        Self::program(program().to_str().unwrap(), &["--stdio", "--eras", eras.name()])
    }

    /// A shell script of the session era, with a known era.
    pub(super) fn script(body: &str) -> Self {
        let mut start = Self::program("/bin/sh", &["-c", &format!("{PRELUDE}{body}")]);
        start.connect.known_era = Some(UpstreamEra::Session);
        start
    }

    pub(super) fn stdio(mut self, change: impl FnOnce(&mut StdioConfig)) -> Self {
        let config = Arc::get_mut(&mut self.connect.config).unwrap();
        let Transport::Stdio(command) = &mut config.transport else { unreachable!() };
        change(command);
        self
    }

    pub(super) async fn try_connect(&self) -> Result<Client, ClientError> {
        let connected = Client::connect(self.connect.clone());
        tokio::time::timeout(PATIENCE, connected).await.expect("connected in time")
    }

    pub(super) async fn connect(self) -> Server {
        let client = self.try_connect().await.unwrap_or_else(|e| panic!("{e}: {:?}", self.stderr()));
        Server { client, start: self }
    }

    pub(super) fn stderr(&self) -> Vec<String> {
        self.connect.stderr.lines()
    }

    /// Waits until nothing of the connection is left in the hub.
    pub(super) async fn wait_for_no_tasks(&self) {
        until("the tasks have ended", async || self.connect.supervisor.count(Stage::Storage) == 0).await;
    }
}

/// A running server.
pub(super) struct Server {
    pub(super) client: Client,
    pub(super) start: ServerStart,
}

impl Server {
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ClientError> {
        self.call_with(outgoing(tool, arguments)).await
    }

    /// The whole result, as a client of the hub would see it.
    pub(super) async fn call_with(&self, call: Outgoing) -> Result<Value, ClientError> {
        let called =
            tokio::time::timeout(PATIENCE, self.client.call(call)).await.expect("an answer in time")?;
        let CallResponse::Output(called) = called else { panic!("no result: {called:?}") };
        Ok(json!({
            "content": called.content.parsed::<Value>().unwrap(),
            "structured": called.structured.map(|data| data.parsed::<Value>().unwrap()),
            "isError": called.is_error,
        }))
    }

    /// The first text of the result.
    pub(super) async fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await.unwrap();
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    pub(super) async fn tools(&self) -> Vec<String> {
        let tools = self.client.list_tools().await.unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether it has reported a tool list change.
    pub(super) fn has_changed(&self) -> bool {
        self.start.changes.borrow().0 > 0
    }

    /// The resources that it has reported as changed.
    pub(super) fn updates(&self) -> Vec<String> {
        self.start.changes.borrow().1.clone()
    }

    pub(super) async fn closed(&self) -> String {
        tokio::time::timeout(PATIENCE, self.client.closed()).await.expect("closed in time")
    }

    pub(super) async fn close(&self) {
        tokio::time::timeout(PATIENCE, self.client.close()).await.expect("closed in time");
    }
}

pub(super) fn outgoing(tool: &str, arguments: Value) -> Outgoing {
    let cancel = CancellationToken::new();
    Outgoing {
        tool: tool.to_owned(),
        arguments: arguments.into(),
        progress: None,
        cancel,
        trace: None,
        bridge: Bridge::default(),
        inputs: Inputs::default(),
        as_task: false,
    }
}

/// Whether such a process exists; zombies do not count.
pub(super) fn is_alive(pid: u32) -> bool {
    let exists = Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid).is_ok());
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    exists && !status.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

pub(super) async fn wait_until_dead(pid: u32) {
    until("the process has ended", async || !is_alive(pid)).await;
}
