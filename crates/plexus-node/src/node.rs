//! The parts of a node, its start and its stop.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plexus_kit::{Durability, Supervisor, private_file};
use plexus_machine::launch::Launcher;
use plexus_machine::policy::Policies;
use plexus_machine::{Machine, tools};
use plexus_proto::NodeId;
use plexus_proto::node::Dial;
use plexus_store::{Store, StoreError, StoreOptions};
use plexus_tools::{Dispatcher, DispatcherOptions, Registry, Tool};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::capabilities::Capabilities;
use crate::hosted::HostedServers;
use crate::link::Link;
use crate::link_session::{LinkSession, LinkSummary};
use crate::{NodeError, NodeOptions, retention};

/// Instance id of the node's audit chain, which is separate from the hub's.
const INSTANCE: &str = "node";
/// Time limit for interrupted calls to end, and for their results to be sent.
const INTERRUPT_GRACE: Duration = Duration::from_secs(3);

/// Cheap to clone; all clones are one node.
#[derive(Debug, Clone)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: NodeOptions,
    calls: Arc<Calls>,
    capabilities: Capabilities,
    /// Number of starts of a node with this store, and of links since this start.
    start: u64,
    dials: AtomicU64,
    /// Cancelled when a newer link replaces the current one.
    fence: Mutex<CancellationToken>,
    /// Held while a link is served.
    serving: tokio::sync::Mutex<()>,
}

impl Node {
    /// Opens the node's store and registers its tools. Calls that were running at the last stop become interrupted.
    ///
    /// # Errors
    /// If the folder or its database cannot be used, or another node uses it.
    pub async fn open(options: NodeOptions, supervisor: &Supervisor) -> Result<Self, NodeError> {
        Self::open_with(options, Vec::new(), supervisor).await
    }

    /// The same with additional tools.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_with(
        options: NodeOptions,
        more: Vec<Tool>,
        supervisor: &Supervisor,
    ) -> Result<Self, NodeError> {
        private_file::create_dir(&options.data_dir).map_err(NodeError::DataDir)?;
        let store = Store::open(
            &StoreOptions {
                data_dir: options.data_dir.clone(),
                database_url: None,
                durability: Durability::Process,
                instance_id: INSTANCE.to_owned(),
            },
            supervisor,
        )
        .await
        .map_err(|error| match error {
            StoreError::InUse { holder, .. } => NodeError::InUse { path: options.data_dir.clone(), holder },
            other => other.into(),
        })?;
        let (store_id, start) = store
            .write_through(|conn| {
                Box::pin(async move { Ok((conn.own_store_id().await?, conn.count_start().await?)) })
            })
            .await?;
        let policy = Policies::open_with_denied(&options.data_dir, &options.environment, &options.private)
            .map_err(NodeError::Policy)?;
        policy.watch(supervisor);
        let machine = Machine {
            data_dir: options.data_dir.clone(),
            environment: options.environment.clone(),
            supervisor: supervisor.clone(),
            clock: options.clock.clone(),
            policy,
            launcher: options.launcher.clone().map(|program| Launcher::new(program, &options.environment)),
        };
        // Tests the sandbox now, while no call waits for it; the result is cached.
        let trying = machine.clone();
        let sandbox_level =
            tokio::task::spawn_blocking(move || trying.sandbox_level(&trying.policy.now())).await;
        match sandbox_level {
            Ok(Ok(sandbox_level)) => {
                tracing::debug!(sandbox = %sandbox_level, "commands run in this sandbox")
            }
            Ok(Err(unavailable)) => tracing::error!("no commands are run: {unavailable}"),
            Err(_) => {}
        }
        let own = tools::open(&machine).map_err(NodeError::DataDir)?;
        let registry = Arc::new(Registry::new(own.into_iter().chain(more)));
        let hosted = options.servers.clone().map(|dir| {
            let NodeOptions { environment, clock, .. } = &options;
            HostedServers::start(dir, environment, &store, &registry, clock, supervisor)
        });
        let dispatcher = Dispatcher::new(
            registry.clone(),
            store.clone(),
            options.clock.clone(),
            supervisor.clone(),
            DispatcherOptions {
                files_dir: options.data_dir.join("sessions"),
                // The hub limits the calls per caller; the node has one limit for all.
                calls_per_principal: options.limits.running,
                output_bytes: options.limits.output_bytes,
            },
        );
        let calls = Calls::open(
            &store,
            dispatcher,
            machine.policy.clone(),
            options.clock.clone(),
            supervisor.clone(),
            options.limits,
        )
        .await?;
        retention::start(store.clone(), options.clock.clone(), supervisor);
        let capabilities = Capabilities::new(&options, store_id, registry, hosted, machine);
        Ok(Self(Arc::new(Inner {
            options,
            calls: Arc::new(calls),
            capabilities,
            start,
            dials: AtomicU64::new(0),
            fence: Mutex::default(),
            serving: tokio::sync::Mutex::default(),
        })))
    }

    #[must_use]
    pub fn id(&self) -> NodeId {
        self.0.options.id
    }

    /// The working folder of commands, to which relative paths are relative; created if missing. An error says why
    /// there is none.
    pub fn work_folder(&self) -> Result<PathBuf, String> {
        self.0.capabilities.machine().work_folder()
    }

    /// Serves a link until it ends. A new link ends the one served before.
    pub async fn serve(&self, link: Link) -> LinkSummary {
        let inner = &self.0;
        let fence = {
            let mut current = inner.fence.lock().unwrap_or_else(PoisonError::into_inner);
            current.cancel();
            *current = CancellationToken::new();
            current.clone()
        };
        // Frames received on the previous link are processed before `hello` lists the calls.
        let _turn = inner.serving.lock().await;
        let dial = Dial { start: inner.start, n: inner.dials.fetch_add(1, Ordering::Relaxed) + 1 };
        let session = LinkSession {
            calls: &inner.calls,
            capabilities: &inner.capabilities,
            dial,
            greeting_timeout: inner.options.limits.welcome,
            fence,
        };
        session.run(link).await
    }

    /// Accepts no new calls, gives running ones `time_limit` to end, interrupts the rest, sends `bye` and closes the
    /// link.
    pub async fn stop(&self, time_limit: Duration) {
        let inner = &self.0;
        inner.calls.stop_accepting();
        if timeout(time_limit, inner.calls.idle()).await.is_err() {
            inner.calls.interrupt_all();
            if timeout(INTERRUPT_GRACE, inner.calls.idle()).await.is_err() {
                tracing::warn!(
                    "calls did not stop in time; they are reported as interrupted when the node starts again"
                );
            }
        }
        if let Some(frames) = inner.calls.frames() {
            frames.bye("the node stops");
        }
        // The link ends when the queued frames are sent, or after a timeout.
        let ended = timeout(INTERRUPT_GRACE, inner.serving.lock()).await;
        if ended.is_err() {
            inner.fence.lock().unwrap_or_else(PoisonError::into_inner).cancel();
        }
    }
}
