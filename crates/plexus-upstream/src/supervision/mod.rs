//! Keeps every server running on its own, and its tools in the registry.
//!
//! | module | what is in it |
//! |---|---|
//! | `unit` | one server, as everybody else knows it |
//! | `lifecycle/` | the task that starts a server, monitors it and restarts it; reload of the files; trial runs |
//! | `catalog/` | tools, resources and prompts of a server, as the hub lists them; the cache of lists over a restart |
//! | `trust/` | which tools are published, approval of changed ones, logins |
//! | `call/` | one call of a tool, or another request of a caller, from the dispatcher to the server and back |
//! | `sessions/` | connections of single sessions, and resources that sessions watch |
//! | `provider` | resources, prompts and completions for the MCP endpoint |
//! | `tools`, `instructions`, `status`, `metrics` | what models, people and programs are told |
//!
//! A unit shares nothing with another but the registry, whose changes are short and wait for nobody: whatever one
//! server does, it does to its own callers only.

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
use plexus_tools::{Registry, Said, Visible};
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

/// What it may take at most to list what is known from earlier.
const RECALLING: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct UpstreamOptions {
    /// The folder with one file per server.
    pub dir: PathBuf,
    /// What `${env:…}` is looked up in, and what a process gets a little of.
    pub environment: Environment,
    /// What every connection is allowed; how long it may take to come about is in `timing`.
    pub client: ClientSettings,
    pub timing: Timing,
    /// Where it is kept what servers listed last; none: nowhere.
    pub memory: Option<PathBuf>,
    /// Has what was approved of each server.
    pub store: Store,
    /// Where access to servers is kept; none: in memory only.
    pub vault: Option<Vault>,
}

impl UpstreamOptions {
    #[must_use]
    pub fn new(dir: PathBuf, environment: Environment, store: Store) -> Self {
        let (client, timing) = (ClientSettings::default(), Timing::default());
        Self { dir, environment, client, timing, memory: None, store, vault: None }
    }
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Upstreams(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: Folder,
    shared: Arc<Shared>,
    /// By name. Held for a look or a change, never while anything is waited for.
    units: Mutex<BTreeMap<String, Arc<Unit>>>,
    /// Held while the files are read and what they say is told to the units.
    reloading: tokio::sync::Mutex<()>,
}

impl Upstreams {
    /// Reads the files and starts what they say. Nothing is waited for: a server that is slow to start, or never does,
    /// keeps nobody waiting but its own callers.
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
        // Before the first read: what changes after it is seen.
        let seen = folder_watcher::Snapshot::of(upstreams.folder().dir());
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
        supervisor.spawn(Stage::Work, "upstream files", async move { watched.watch(seen).await });
        upstreams
    }

    /// Waits until what servers listed under an earlier hub is listed again, so that nobody who comes right after a
    /// restart finds it missing. A database that is slow to say what is approved keeps nobody waiting for long.
    pub async fn recalled(&self) {
        let units = self.units();
        let begun = futures_util::future::join_all(units.iter().map(|unit| unit.begun()));
        if tokio::time::timeout(RECALLING, begun).await.is_err() {
            tracing::warn!("tools that are known from earlier are listed later than the hub is ready");
        }
    }

    /// The folder with the files.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.0.folder
    }

    /// Every server there is a file for, by name.
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

    /// Follows the servers; a new number means that something about one of them may have changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.shared.changes.subscribe()
    }

    /// Starts a server anew by what its file and the references in it say now, also one that was given up, and tells
    /// how it came up, if that does not take too long.
    /// None: there is no such server.
    pub async fn restart(&self, name: &str) -> Option<Upstream> {
        self.restart_within(name, self.0.shared.timing.settle).await
    }

    /// The same for a caller who does not wait longer than this.
    pub async fn restart_within(&self, name: &str, patience: Duration) -> Option<Upstream> {
        let unit = self.unit(name)?;
        unit.settled(self.start_anew(&unit).await, patience).await;
        Some(self.describe(&unit))
    }

    /// The newest lines that a server's process wrote to its standard error, oldest first.
    #[must_use]
    pub fn logs(&self, name: &str) -> Option<Vec<String>> {
        self.unit(name).map(|unit| unit.stderr.lines())
    }

    /// What to say to a model that sees these tools: our own words, and those of the servers that they are of. The whole
    /// is these parts one after the other.
    #[must_use]
    pub fn instructions(&self, visible: &Visible) -> Vec<Said> {
        instructions::of(&self.units(), visible)
    }

    /// Lets others read what is measured here.
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
