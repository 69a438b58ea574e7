//! A machine with its tools and a dispatcher in front of them, as a node has, without a link.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_auth::Principal;
use plexus_kit::trace::Incoming;
use plexus_kit::{Clock, Durability, Environment, Supervisor};
use plexus_node::{Machine, tools};
use plexus_store::{Store, StoreOptions};
use plexus_tools::{
    Call, CallError, CallKind, Dispatcher, DispatcherOptions, Registry, SessionKey, ToolOutput, Via,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(60);

/// Ends a test that hangs.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, test).await.expect("the test hangs")
}

/// Asks again and again until something holds.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    bounded(async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// What a call told while it ran.
pub(crate) type Told = Arc<Mutex<Vec<(String, Map<String, Value>)>>>;

pub(crate) struct Workbench {
    dir: Folder,
    running: Running,
}

struct Running {
    supervisor: Supervisor,
    dispatcher: Dispatcher,
}

/// What the jobs are in; nothing that a test has started outlives it.
struct Folder(tempfile::TempDir);

impl Workbench {
    pub(crate) async fn new() -> Self {
        Self::timed(Clock::system()).await
    }

    /// With a clock that can be set.
    pub(crate) async fn timed(clock: Clock) -> Self {
        Self::open(Folder(tempfile::tempdir().unwrap()), clock).await
    }

    async fn open(dir: Folder, clock: Clock) -> Self {
        let supervisor = Supervisor::new();
        let options = StoreOptions {
            data_dir: dir.0.path().to_owned(),
            database_url: None,
            durability: Durability::Process,
            instance_id: "node".to_owned(),
        };
        let store = Store::open(&options, &supervisor).await.unwrap();
        let home = dir.0.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let given = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", home.display().to_string()),
            ("PLEXUS_NODE_KEY", "a key that nobody else is to have".to_owned()),
        ];
        let machine = Machine {
            data_dir: dir.0.path().to_owned(),
            environment: given
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Environment>(),
            supervisor: supervisor.clone(),
            clock: clock.clone(),
        };
        let registry = Arc::new(Registry::new(tools::open(&machine).unwrap()));
        let options = DispatcherOptions {
            files_dir: dir.0.path().join("sessions"),
            calls_per_principal: 200,
            output_bytes: 1 << 20,
        };
        let dispatcher = Dispatcher::new(registry, store, clock, supervisor.clone(), options);
        Self { dir, running: Running { supervisor, dispatcher } }
    }

    /// The process ends and another one begins, on the same folder. Jobs are not asked.
    pub(crate) async fn restarted(self) -> Self {
        self.restarted_after(async || {}).await
    }

    /// The same, with something that happens while there is none.
    pub(crate) async fn restarted_after(self, meanwhile: impl AsyncFnOnce()) -> Self {
        let Self { dir, running } = self;
        let drained = running.supervisor.shutdown(LIMIT).await;
        assert!(drained.aborted.is_empty(), "{drained:?}");
        // The database is this process's until the last handle is gone.
        drop(running);
        meanwhile().await;
        Self::open(dir, Clock::system()).await
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.0.path()
    }

    /// Folder of a job.
    pub(crate) fn job_folder(&self, answer: &Value) -> std::path::PathBuf {
        self.folder().join("jobs").join(answer["job"].as_str().unwrap())
    }

    /// Calls the terminal; the answer as data.
    pub(crate) async fn terminal(&self, arguments: Value) -> Result<Value, CallError> {
        let output = self.call("terminal", arguments, CancellationToken::new(), None).await?;
        Ok(output.structured().unwrap().into_owned())
    }

    /// Runs a line of the shell to its end.
    pub(crate) async fn sh(&self, command: &str) -> Value {
        self.terminal(json!({ "action": "run", "command": command })).await.unwrap()
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Value,
        cancel: CancellationToken,
        told: Option<Told>,
    ) -> Result<ToolOutput, CallError> {
        let call = Call {
            call_id: None,
            kind: CallKind::Tool,
            tool: tool.to_owned(),
            arguments,
            session: SessionKey::new("hub", &["test"], None),
            idempotency_key: None,
            via: Via::Link,
            cancel,
            progress: None,
            events: Some(Arc::new(move |kind: &str, payload| {
                if let Some(told) = &told {
                    told.lock().unwrap().push((kind.to_owned(), payload));
                }
                true
            })),
            deadline: None,
            asker: None,
            log: None,
            inputs: None,
            trace: Incoming::default(),
            until_end: None,
        };
        let principal = Arc::new(Principal::relayed("agent:tester").unwrap());
        bounded(self.running.dispatcher.call(principal, call)).await.result
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.0.path().join("jobs")).into_iter().flatten().flatten() {
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
