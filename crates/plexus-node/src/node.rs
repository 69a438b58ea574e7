//! A node: what it is made of, and how it starts and stops.

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
use crate::conversation::{Conversation, Served};
use crate::hosted::Hosted;
use crate::link::Link;
use crate::{NodeError, NodeOptions, retention};

/// The audit chain of a node's store is that of this machine alone.
const INSTANCE: &str = "node";
/// What was told to stop has so long to do so, and its result to be sent.
const HANDED_BACK: Duration = Duration::from_secs(3);

/// Cheap to clone; all clones are one node.
#[derive(Debug, Clone)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: NodeOptions,
    calls: Arc<Calls>,
    capabilities: Capabilities,
    /// How often a node was started with this store, and links that were begun since.
    start: u64,
    dials: AtomicU64,
    /// Cancelled by the link after the one it is of.
    fence: Mutex<CancellationToken>,
    /// Held by the link that is up.
    serving: tokio::sync::Mutex<()>,
}

impl Node {
    /// Opens the node's store and registers its tools. Calls that ran when the node stopped last are interrupted.
    ///
    /// # Errors
    /// When the folder or the database in it cannot be used; also when another node uses it.
    pub async fn open(options: NodeOptions, supervisor: &Supervisor) -> Result<Self, NodeError> {
        Self::open_with(options, Vec::new(), supervisor).await
    }

    /// The same with tools beside those of the machine.
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
        let policy = Policies::open_also_denying(&options.data_dir, &options.environment, &options.private)
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
        // Tried here, where nobody waits for it, and known from then on.
        let trying = machine.clone();
        let held = tokio::task::spawn_blocking(move || trying.held(&trying.policy.now())).await;
        match held {
            Ok(Ok(held)) => tracing::debug!(sandbox = %held, "commands are held by this"),
            Ok(Err(unavailable)) => tracing::error!("no command is run: {unavailable}"),
            Err(_) => {}
        }
        let own = tools::open(&machine).map_err(NodeError::DataDir)?;
        let registry = Arc::new(Registry::new(own.into_iter().chain(more)));
        let hosted = options.servers.clone().map(|dir| {
            let NodeOptions { environment, clock, .. } = &options;
            Hosted::start(dir, environment, &store, &registry, clock, supervisor)
        });
        let dispatcher = Dispatcher::new(
            registry.clone(),
            store.clone(),
            options.clock.clone(),
            supervisor.clone(),
            DispatcherOptions {
                files_dir: options.data_dir.join("sessions"),
                // A hub decides how many calls each of its callers may have; here there is one bound for all.
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

    /// The folder that commands start in and relative paths begin in, made if it does not exist; else why there is none.
    pub fn work_folder(&self) -> Result<PathBuf, String> {
        self.0.capabilities.machine().work_folder()
    }

    /// Speaks to the hub over this link until it ends. A link that is served before ends when a new one begins.
    pub async fn serve(&self, link: Link) -> Served {
        let inner = &self.0;
        let fence = {
            let mut current = inner.fence.lock().unwrap_or_else(PoisonError::into_inner);
            current.cancel();
            *current = CancellationToken::new();
            current.clone()
        };
        // What the one before has received is dealt with before the hub is told what there is.
        let _turn = inner.serving.lock().await;
        let dial = Dial { start: inner.start, n: inner.dials.fetch_add(1, Ordering::Relaxed) + 1 };
        let conversation = Conversation {
            calls: &inner.calls,
            capabilities: &inner.capabilities,
            dial,
            patience: inner.options.limits.welcome,
            fence,
        };
        conversation.hold(link).await
    }

    /// Takes no new calls, lets those that run end within `patience`, hands the others back as interrupted, says `bye`
    /// and ends the link.
    pub async fn stop(&self, patience: Duration) {
        let inner = &self.0;
        inner.calls.stop_taking();
        if timeout(patience, inner.calls.idle()).await.is_err() {
            inner.calls.hand_back();
            if timeout(HANDED_BACK, inner.calls.idle()).await.is_err() {
                tracing::warn!(
                    "calls did not stop in time; the hub is told that they were interrupted when the node is back"
                );
            }
        }
        if let Some(outbox) = inner.calls.outbox() {
            outbox.bye("the node stops");
        }
        // The link is down when what waited was sent, or when it took too long.
        let ended = timeout(HANDED_BACK, inner.serving.lock()).await;
        if ended.is_err() {
            inner.fence.lock().unwrap_or_else(PoisonError::into_inner).cancel();
        }
    }
}
