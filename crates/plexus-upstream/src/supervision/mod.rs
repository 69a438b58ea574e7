//! Keeps every server running independently, and its tools in the registry.
//!
//! | module | content |
//! | --- | --- |
//! | `unit` | the state of one server, as the rest of the hub sees it |
//! | `lifecycle/` | the task that starts, monitors and restarts a server; reload of the files; trial runs |
//! | `catalog/` | tools, resources and prompts of a server, as the hub lists them; the cache of lists |
//! | `trust/` | which tools are published, approval of changed ones, logins |
//! | `call/` | one tool call or other request of a caller, from the dispatcher to the server and back |
//! | `sessions/` | connections of single sessions, and resources that sessions watch |
//! | `provider` | resources, prompts and completions for the MCP endpoint |
//! | `tools`, `instructions`, `status`, `metrics` | information for models, people and programs |
//!
//! Units share only the registry, whose changes are short and never wait. A misbehaving server affects only
//! its own callers.

mod call;
mod catalog;
mod instructions;
mod lifecycle;
mod metrics;
mod provider;
mod sessions;
mod status;
mod timing;
mod tools;
mod trust;
mod unit;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::cache::CatalogCache;
use lifecycle::folder_watcher;
use metrics::UpstreamMetrics;
use plexus_kit::{Clock, Environment, Metrics, Stage, Supervisor};
use plexus_proto::api::Upstream;
use plexus_store::Store;
use plexus_tools::{InstructionPart, Registry, Visible};
use tokio::sync::watch;
use trust::approval::ReviewCache;
use unit::{Shared, Unit};

use crate::client::ClientSettings;
use crate::config::Folder;
use crate::oauth::{Logins, Vault};
use crate::trust::Pins;

pub use catalog::hosted::hosted;
pub use lifecycle::trial::try_out;
pub use timing::{Jitter, Timing};
pub use trust::approval::ApproveError;

/// Time limit for listing cached tools during startup.
const RECALL_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct UpstreamOptions {
    /// The folder with one file per server.
    pub dir: PathBuf,
    /// Resolves `${env:…}`; processes get a small part of it.
    pub environment: Environment,
    /// Limits of every connection; the connect timeout is in `timing`.
    pub client: ClientSettings,
    pub timing: Timing,
    /// Folder of the catalog cache; none disables it.
    pub memory: Option<PathBuf>,
    /// Stores which definitions are approved.
    pub store: Store,
    /// Stores the logins; none keeps them in memory only.
    pub vault: Option<Vault>,
}

impl UpstreamOptions {
    #[must_use]
    pub fn new(dir: PathBuf, environment: Environment, store: Store) -> Self {
        let (client, timing) = (ClientSettings::default(), Timing::default());
        Self { dir, environment, client, timing, memory: None, store, vault: None }
    }
}

/// Cheap to clone; clones share their state.
#[derive(Debug, Clone)]
pub struct Upstreams(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: Folder,
    shared: Arc<Shared>,
    /// By name. Locked briefly, never across an await.
    units: Mutex<BTreeMap<String, Arc<Unit>>>,
    /// Held while the files are read and applied to the units.
    reloading: tokio::sync::Mutex<()>,
}

impl Upstreams {
    /// Reads the files and starts the servers. Nothing is waited for: a server that starts slowly or never
    /// delays only its own callers.
    #[must_use]
    pub fn start(
        options: UpstreamOptions,
        registry: Arc<Registry>,
        clock: Clock,
        supervisor: &Supervisor,
    ) -> Self {
        let UpstreamOptions { dir, environment, client, timing, memory, store, vault } = options;
        let shared = Arc::new(Shared {
            pins: Pins::new(store, registry.clone(), clock.clone()),
            review_cache: ReviewCache::default(),
            registry,
            clock: clock.clone(),
            supervisor: supervisor.clone(),
            environment: environment.clone(),
            client: ClientSettings { connect_timeout: timing.connect, ..client },
            timing,
            catalog_cache: CatalogCache::new(memory),
            vault,
            logins: Logins::default(),
            metrics: UpstreamMetrics::default(),
            changes: watch::Sender::new(0),
            offers: watch::Sender::new(0),
        });
        let upstreams = Self(Arc::new(Inner {
            folder: Folder::new(dir, environment).with_clock(clock),
            shared,
            units: Mutex::default(),
            reloading: tokio::sync::Mutex::new(()),
        }));
        // Taken before the first read, so that later changes are noticed.
        let applied_files = folder_watcher::Snapshot::of(upstreams.folder().dir());
        match upstreams.folder().scan() {
            Ok(entries) => {
                let slugs = entries.iter().filter_map(|entry| entry.slug.as_deref()).collect();
                upstreams.0.shared.catalog_cache.retain(&slugs);
                upstreams.apply(entries);
            }
            Err(error) => {
                let dir = upstreams.folder().dir().display();
                tracing::error!(%dir, %error, "cannot read the MCP server folder");
            }
        }
        upstreams.0.shared.registry.add(tools::tools(&upstreams));
        let watched = upstreams.clone();
        supervisor.spawn(Stage::Work, "upstream files", async move { watched.watch(applied_files).await });
        upstreams
    }

    /// Waits until the cached lists are published, so that a client that connects right after a restart finds
    /// its tools. A slow database delays this only briefly.
    pub async fn recalled(&self) {
        let units = self.units();
        let first_states =
            futures_util::future::join_all(units.iter().map(|unit| unit.first_state_applied()));
        if tokio::time::timeout(RECALL_TIMEOUT, first_states).await.is_err() {
            tracing::warn!("cached tools are not listed yet although the hub is ready");
        }
    }

    /// The folder with the files.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.0.folder
    }

    /// Every server that has a file, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Upstream> {
        let mut tools = self.0.shared.registry.listed_by_server();
        let tools_of = |unit: &Arc<Unit>| tools.remove(&unit.slug).unwrap_or_default();
        let units = self.units();
        let tools: Vec<_> = units.iter().map(tools_of).collect();
        units.iter().zip(tools).map(|(unit, tools)| unit.describe(tools)).collect()
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<Upstream> {
        self.unit(name).map(|unit| self.describe(&unit))
    }

    /// Subscribes to changes; a new number means that a server may have changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.shared.changes.subscribe()
    }

    /// Restarts a server with its current file and references, also one that was given up, and returns its
    /// state once it has settled or after a timeout. None if the server does not exist.
    pub async fn restart(&self, name: &str) -> Option<Upstream> {
        self.restart_within(name, self.0.shared.timing.settle).await
    }

    /// Like [`Self::restart`], waiting at most `patience`.
    pub async fn restart_within(&self, name: &str, patience: Duration) -> Option<Upstream> {
        let unit = self.unit(name)?;
        unit.settled(self.restart_from_file(&unit).await, patience).await;
        Some(self.describe(&unit))
    }

    /// The newest lines that a server's process wrote to its standard error, oldest first.
    #[must_use]
    pub fn logs(&self, name: &str) -> Option<Vec<String>> {
        self.unit(name).map(|unit| unit.stderr.lines())
    }

    /// The instructions for a model that sees these tools: the hub's own and those of the servers. The whole
    /// text is the concatenation of the parts.
    #[must_use]
    pub fn instructions(&self, visible: &Visible) -> Vec<InstructionPart> {
        instructions::of(&self.units(), visible)
    }

    /// Registers the metrics of the servers.
    pub fn register(&self, metrics: &Metrics) {
        self.0.shared.metrics.register(metrics);
    }

    fn describe(&self, unit: &Unit) -> Upstream {
        unit.describe(self.0.shared.registry.listed_of(&unit.slug))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Unit>>> {
        self.0.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn units(&self) -> Vec<Arc<Unit>> {
        self.lock().values().cloned().collect()
    }

    fn unit(&self, name: &str) -> Option<Arc<Unit>> {
        self.lock().get(name).cloned()
    }
}
