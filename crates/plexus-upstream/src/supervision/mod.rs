//! Keeps every server running on its own, and its tools in the registry.
//!
//! | module | what is in it |
//! |---|---|
//! | `unit` | one server, as everybody else knows it |
//! | `life` | the task that starts it, attends it (`attend`) and starts it again (`backoff`) |
//! | `memory` | what a server listed last, kept over a restart of the hub |
//! | `target`, `reload`, `watching` | from the files to what each unit is to bring about |
//! | `catalog`, `definition`, `inject`, `misses` | from what a server lists to tools of the hub |
//! | `offering` | what it offers beside tools, as it lists it and as callers use it |
//! | `watches` | resources of it that somebody wants to hear of |
//! | `listing`, `approval` | what of it is trusted, and who has said so |
//! | `call`, `request` | a call of a tool, and any other request of a caller; `errand` carries both out |
//! | `reach`, `gate`, `sessions`, `pulse` | where they go, how many at a time, and what they tell of the server |
//! | `asking`, `rounds`, `follow` | what a server asks before it answers, and what goes on as a task of its own |
//! | `login` | access to a server that wants one, given by a person and taken away |
//! | `tools`, `instructions`, `status`, `metrics` | what models, people and programs are told |
//!
//! A unit shares nothing with another but the registry, whose changes are short and wait for nobody: whatever one
//! server does, it does to its own callers only.

mod approval;
mod asking;
mod attend;
mod backoff;
mod call;
mod catalog;
mod definition;
mod errand;
mod follow;
mod gate;
mod hosted;
mod inject;
mod instructions;
mod lacking;
mod life;
mod listing;
mod login;
mod memory;
mod metrics;
mod misses;
mod offering;
mod opened;
mod pulse;
mod reach;
mod reload;
mod request;
mod rounds;
mod sessions;
mod status;
mod target;
mod timing;
mod tools;
mod trial;
mod unit;
mod watches;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_kit::{Clock, Environment, Metrics, Stage, Supervisor};
use plexus_mcp::offers::{CompletionError, Mailbox, OfferProvider, ResourceWatch, VisibleOffers};
use plexus_proto::api::Upstream;
use plexus_store::Store;
use plexus_tools::{Registry, Said, Visible};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::client::ClientSettings;
use crate::config::Folder;
use crate::oauth::{Logins, Vault};
use crate::trust::Pins;
use approval::Oddities;
use memory::Memory;
use metrics::UpstreamMetrics;
use unit::{Shared, Unit};

pub use approval::ApproveError;
pub use hosted::hosted;
pub use timing::{Jitter, Timing};
pub use trial::try_out;

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
            oddities: Oddities::default(),
            registry,
            clock: clock.clone(),
            supervisor: supervisor.clone(),
            environment: environment.clone(),
            client: ClientSettings { connect_timeout: timing.connect, ..client },
            timing,
            memory: Memory::new(memory),
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
        let seen = watching::Snapshot::of(upstreams.folder().dir());
        match upstreams.folder().scan() {
            Ok(entries) => {
                let slugs = entries.iter().filter_map(|entry| entry.slug.as_deref()).collect();
                upstreams.0.shared.memory.retain(&slugs);
                upstreams.apply(entries);
            }
            Err(error) => {
                let dir = upstreams.folder().dir().display();
                tracing::error!(%dir, %error, "the folder of MCP servers cannot be read");
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

impl OfferProvider for Upstreams {
    fn instructions(&self, visible: &Visible) -> Vec<Said> {
        self.instructions(visible)
    }

    fn visible_offers(&self, visible: &Visible) -> VisibleOffers {
        let offers = self.units().into_iter().map(|unit| (unit.slug.clone(), unit.offering.offer()));
        VisibleOffers::new(visible, offers)
    }

    fn offer_version(&self) -> u64 {
        *self.0.shared.offers.borrow()
    }

    fn offer_versions(&self) -> watch::Receiver<u64> {
        self.0.shared.offers.subscribe()
    }

    fn complete<'a>(
        &'a self,
        server: &'a str,
        params: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Option<Bytes>, CompletionError>> {
        Box::pin(async move {
            match self.units().into_iter().find(|unit| unit.slug == server) {
                Some(unit) => offering::complete(&unit, params).await,
                None => Ok(None),
            }
        })
    }

    fn watch_resource(
        &self,
        server: &str,
        uri: &str,
        owner: &str,
        mailbox: &Arc<Mailbox>,
        known_as: &str,
    ) -> Option<ResourceWatch> {
        let unit = self.units().into_iter().find(|unit| unit.slug == server)?;
        let watch = unit.watches.hold(uri, owner, mailbox, known_as)?;
        if unit.client.load().is_none() {
            // A lazy server that sleeps would tell nobody anything.
            unit.called.notify_one();
        }
        Some(ResourceWatch::new(watch))
    }

    fn watches_applied<'a>(&'a self, servers: &'a BTreeSet<String>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let units = self.units();
            let there =
                units.iter().filter(|unit| servers.contains(&unit.slug) && unit.client.load().is_some());
            futures_util::future::join_all(there.map(|unit| unit.watches.heeded())).await;
        })
    }
}
