//! A machine with its tools and a dispatcher, like a node without a link.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_auth::Principal;
use plexus_kit::{Clock, Durability, Environment, Supervisor};
use plexus_machine::launch::Launcher;
use plexus_machine::policy::Policies;
use plexus_machine::{Machine, tools};
use plexus_store::{Store, StoreOptions};
use plexus_testkit::eventually;
use plexus_tools::{Call, CallError, Dispatcher, DispatcherOptions, Registry, SessionKey, ToolOutput, Via};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const LIMIT: Duration = Duration::from_secs(60);

/// Ends a test that hangs.
pub(crate) async fn with_timeout<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, test).await.expect("the test hangs")
}

/// Polls until a condition holds.
pub(crate) async fn poll_until<T>(mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    eventually("the condition holds", async || condition().await.ok_or("not yet")).await
}

/// The events of a call.
pub(crate) type RecordedEvents = Arc<Mutex<Vec<(String, Map<String, Value>)>>>;

pub(crate) struct Workbench {
    dir: NodeSetup,
    running: Running,
}

struct Running {
    supervisor: Supervisor,
    dispatcher: Dispatcher,
    store: Store,
}

/// The data folder, the home folder and the other settings of the node; nothing that a test started outlives this
/// value.
struct NodeSetup {
    node: tempfile::TempDir,
    home: tempfile::TempDir,
    launcher: Option<PathBuf>,
    path: &'static str,
    /// Additional variables of the node.
    more_variables: Vec<(&'static str, String)>,
    clock: Clock,
    /// Also the tools of a hub.
    native_tools: bool,
}

impl NodeSetup {
    fn new() -> Self {
        Self {
            node: tempfile::tempdir().unwrap(),
            home: tempfile::tempdir().unwrap(),
            launcher: None,
            path: PATH,
            more_variables: Vec::new(),
            clock: Clock::system(),
            native_tools: false,
        }
    }

    /// With a launcher, and outside of the temporary folder, whose sandbox rules differ.
    fn with_launcher() -> Self {
        let folder = || tempfile::tempdir_in("/var/tmp").unwrap();
        let launcher = PathBuf::from(env!("CARGO_BIN_EXE_plexus-launcher"));
        Self::new().with_change(|it| (it.node, it.home, it.launcher) = (folder(), folder(), Some(launcher)))
    }

    fn with_change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn with_policy_file(self, policy: &str) -> Self {
        std::fs::write(self.node.path().join("node.toml"), policy).unwrap();
        self
    }
}

impl Workbench {
    pub(crate) async fn new() -> Self {
        Self::open(NodeSetup::new()).await
    }

    /// With the given policy, the text of a `node.toml`.
    pub(crate) async fn with_policy(policy: &str) -> Self {
        Self::open(NodeSetup::new().with_policy_file(policy)).await
    }

    /// With additional variables of the node.
    pub(crate) async fn with_variables(more_variables: Vec<(&'static str, String)>) -> Self {
        Self::open(NodeSetup::new().with_change(|it| it.more_variables = more_variables)).await
    }

    /// With the tools of a hub, too.
    pub(crate) async fn with_native_tools() -> Self {
        Self::open(NodeSetup::new().with_change(|it| it.native_tools = true)).await
    }

    /// With a clock that can be set.
    pub(crate) async fn with_clock(clock: Clock) -> Self {
        Self::open(NodeSetup::new().with_change(|it| it.clock = clock)).await
    }

    /// With a launcher and a policy.
    pub(crate) async fn with_launcher(policy: &str) -> Self {
        Self::open(NodeSetup::with_launcher().with_policy_file(policy)).await
    }

    /// The same with another `PATH` of the node.
    pub(crate) async fn with_launcher_and_path(policy: &str, path: &'static str) -> Self {
        Self::open(NodeSetup::with_launcher().with_change(|it| it.path = path).with_policy_file(policy)).await
    }

    /// The same in this folder.
    pub(crate) async fn with_launcher_in(node: tempfile::TempDir, policy: &str) -> Self {
        Self::open(NodeSetup::with_launcher().with_change(|it| it.node = node).with_policy_file(policy)).await
    }

    async fn open(dir: NodeSetup) -> Self {
        let supervisor = Supervisor::new();
        let options = StoreOptions {
            data_dir: dir.node.path().to_owned(),
            database_url: None,
            durability: Durability::Process,
            instance_id: "node".to_owned(),
        };
        let store = Store::open(&options, &supervisor).await.unwrap();
        let base_variables = [
            ("PATH", dir.path.to_owned()),
            ("HOME", dir.home.path().display().to_string()),
            ("PLEXUS_NODE_KEY", "a key that nobody else is to have".to_owned()),
        ];
        let environment: Environment = base_variables
            .into_iter()
            .chain(dir.more_variables.clone())
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let machine = Machine {
            data_dir: dir.node.path().to_owned(),
            policy: Policies::open(dir.node.path(), &environment).unwrap(),
            launcher: dir.launcher.clone().map(|program| Launcher::new(program, &environment)),
            environment,
            supervisor: supervisor.clone(),
            clock: dir.clock.clone(),
        };
        let native_tools = if dir.native_tools { plexus_tools::native::tools() } else { Vec::new() };
        let all_tools: Vec<_> = tools::open(&machine).unwrap().into_iter().chain(native_tools).collect();
        let registry = Arc::new(Registry::new(all_tools));
        let options = DispatcherOptions {
            files_dir: dir.node.path().join("sessions"),
            calls_per_principal: 200,
            output_bytes: 1 << 20,
        };
        let dispatcher =
            Dispatcher::new(registry, store.clone(), dir.clock.clone(), supervisor.clone(), options);
        Self { dir, running: Running { supervisor, dispatcher, store } }
    }

    /// Simulates the end of the process and the start of another one on the same folder. Jobs are not stopped.
    pub(crate) async fn restarted(self) -> Self {
        self.restarted_after(async || {}).await
    }

    /// The same, with an action while no process runs.
    pub(crate) async fn restarted_after(self, meanwhile: impl AsyncFnOnce()) -> Self {
        let Self { dir, running } = self;
        let drained = running.supervisor.shutdown(LIMIT).await;
        assert!(drained.aborted.is_empty(), "{drained:?}");
        // This process holds the database until its last handle is dropped.
        drop(running);
        meanwhile().await;
        Self::open(dir).await
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.node.path()
    }

    pub(crate) fn home(&self) -> &Path {
        self.dir.home.path()
    }

    /// The folder of a job.
    pub(crate) fn job_folder(&self, answer: &Value) -> PathBuf {
        self.folder().join("jobs").join(answer["job"].as_str().unwrap())
    }

    /// Calls the terminal; returns the answer as data.
    pub(crate) async fn terminal(&self, arguments: Value) -> Result<Value, CallError> {
        let output = self.call("terminal", arguments, CancellationToken::new(), None).await?;
        Ok(output.structured().unwrap().into_owned())
    }

    /// Calls the file tool; returns the answer as data.
    pub(crate) async fn filesystem(&self, arguments: Value) -> Result<Value, CallError> {
        let output = self.call("filesystem", arguments, CancellationToken::new(), None).await?;
        Ok(output.structured().unwrap().into_owned())
    }

    /// Runs code; returns the answer as data.
    pub(crate) async fn code(&self, arguments: Value) -> Result<Value, CallError> {
        let output = self.call("code_exec", arguments, CancellationToken::new(), None).await?;
        Ok(output.structured().unwrap().into_owned())
    }

    /// Runs a shell line to its end.
    pub(crate) async fn sh(&self, command: &str) -> Value {
        self.terminal(json!({ "action": "run", "command": command })).await.unwrap()
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Value,
        cancel: CancellationToken,
        events: Option<RecordedEvents>,
    ) -> Result<ToolOutput, CallError> {
        self.dispatch(("agent:tester", "test"), tool, arguments, cancel, events).await
    }

    /// Calls a tool in a separate session.
    pub(crate) async fn call_in(
        &self,
        session: &str,
        tool: &str,
        arguments: Value,
        cancel: CancellationToken,
        events: Option<RecordedEvents>,
    ) -> Result<ToolOutput, CallError> {
        self.dispatch(("agent:tester", session), tool, arguments, cancel, events).await
    }

    /// Calls a tool as the caller that a hub names.
    pub(crate) async fn call_as(
        &self,
        subject: &str,
        tool: &str,
        arguments: Value,
        cancel: CancellationToken,
        events: Option<RecordedEvents>,
    ) -> Result<ToolOutput, CallError> {
        self.dispatch((subject, "test"), tool, arguments, cancel, events).await
    }

    async fn dispatch(
        &self,
        (subject, session): (&str, &str),
        tool: &str,
        arguments: Value,
        cancel: CancellationToken,
        events: Option<RecordedEvents>,
    ) -> Result<ToolOutput, CallError> {
        let events = Arc::new(move |kind: &str, payload| {
            if let Some(events) = &events {
                events.lock().unwrap().push((kind.to_owned(), payload));
            }
            true
        });
        let call = Call::new(tool, arguments, SessionKey::new("hub", &[session], None), Via::Link)
            .with_cancel(cancel)
            .with_events(events);
        let principal = Arc::new(Principal::relayed(subject).unwrap());
        with_timeout(self.running.dispatcher.call(principal, call)).await.result
    }

    /// Calls a tool; returns the tool, the arguments and the outcome that the audit log records.
    pub(crate) async fn recorded(&self, tool: &str, arguments: Value) -> Value {
        let call = Call::new(tool, arguments, SessionKey::new("hub", &["test"], None), Via::Link);
        let principal = Arc::new(Principal::relayed("agent:tester").unwrap());
        let reply = with_timeout(self.running.dispatcher.call(principal, call)).await;
        let audited =
            self.running.store.read().await.unwrap().audit_call(reply.call_id).await.unwrap().unwrap();
        json!({ "tool": audited.tool, "arguments": audited.arguments, "outcome": audited.outcome })
    }
}

impl Drop for NodeSetup {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.node.path().join("jobs")).into_iter().flatten().flatten() {
            let born = std::fs::read_to_string(entry.path().join("born")).unwrap_or_default();
            if entry.path().join("exit").exists() {
                continue;
            }
            if let Some(pid) = born.split(' ').next().and_then(|pid| pid.trim().parse::<i32>().ok()) {
                let _ = std::process::Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).status();
            }
        }
    }
}
