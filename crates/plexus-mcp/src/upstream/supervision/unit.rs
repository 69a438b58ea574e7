//! One server, as the rest of the hub knows it.
//!
//! The unit is there as long as its file is; its [life](super::life) goes on in a task of its own, and everybody
//! else only reads: a call finds the connection without a lock, and waits on nothing but the state.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use plexus_kit::metrics::Counter;
use plexus_kit::{Clock, Environment, Supervisor};
use plexus_proto::api::{Upstream, UpstreamFailure, UpstreamState};
use plexus_tools::{Registry, Run, Tool};
use tokio::sync::{Notify, watch};

use super::call;
use super::catalog::{self, Catalog};
use super::gate::Gate;
use super::memory::Memory;
use super::metrics::UpstreamMetrics;
use super::pulse::Pulse;
use super::sessions::SessionClients;
use super::status::Status;
use super::target::{Target, Wanted};
use super::timing::Timing;
use crate::upstream::client::{
    Client, ClientSettings, Connect, Definitions, Listener, Mark, Peer, StderrRing,
};
use crate::upstream::config::ServerConfig;
use crate::upstream::oauth::{Account, Logins, Surroundings, Vault};

/// Lines of standard error that go with a failure.
const STDERR_SHOWN: usize = 20;
/// What a wish takes to be acted on at all; before that a server still stands as it did.
const HEEDING: Duration = Duration::from_millis(250);

/// What all units have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) registry: Arc<Registry>,
    pub(super) clock: Clock,
    pub(super) supervisor: Supervisor,
    pub(super) environment: Environment,
    pub(super) client: ClientSettings,
    pub(super) timing: Timing,
    pub(super) memory: Memory,
    pub(super) vault: Option<Vault>,
    pub(super) logins: Logins,
    pub(super) metrics: UpstreamMetrics,
    /// Grows with every change of a unit.
    pub(super) changes: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// The account of a server. One that is only tried out has nothing that could be kept.
    pub(super) fn account(&self, server: &str, vault: Option<Vault>) -> Arc<Account> {
        let (clock, supervisor) = (self.clock.clone(), self.supervisor.clone());
        let (settings, timing) = (self.client.clone(), self.timing.clone());
        Account::new(server, Surroundings { clock, supervisor, settings, timing, vault })
    }
}

pub(super) struct Unit {
    pub(super) name: String,
    /// Empty when the name of the file has nothing in it that a name of a tool may have.
    pub(super) slug: String,
    pub(super) shared: Arc<Shared>,
    pub(super) wanted: watch::Sender<Wanted>,
    pub(super) status: watch::Sender<Status>,
    /// The connection that all share, while there is one.
    pub(super) client: ArcSwapOption<Client>,
    /// Connections of sessions, where each has its own.
    pub(super) sessions: SessionClients,
    /// The tools as they were last listed; what is published is a part of the registry.
    pub(super) catalog: ArcSwap<Catalog>,
    pub(super) gate: ArcSwap<Gate>,
    pub(super) pulse: Pulse,
    /// The access that the hub has to it.
    pub(super) account: Arc<Account>,
    /// The server says that its list has changed, or a call could not reach it; any number of times is once.
    pub(super) list_changed: Notify,
    /// A call wants a server that is not there.
    pub(super) called: Notify,
    pub(super) stderr: Arc<StderrRing>,
    restarts: Counter,
    listed: Mutex<Listed>,
}

/// What the registry has of this server.
#[derive(Default)]
struct Listed {
    published: bool,
    /// What it was made from.
    from: Option<(Arc<ServerConfig>, Arc<Definitions>)>,
    /// One for each name, so that the registry sees that a tool is the one it has.
    runs: HashMap<String, Arc<Run>>,
}

impl Unit {
    pub(super) fn new(name: String, slug: String, target: Target, shared: Arc<Shared>) -> Arc<Self> {
        let gate = Gate::new(target.config().and_then(|config| config.max_concurrency));
        let (in_flight, restarts) = shared.metrics.of(&name);
        Arc::new(Self {
            wanted: watch::Sender::new(Wanted { turn: 1, restarts: 0, target }),
            status: watch::Sender::new(Status::new(shared.clock.now())),
            client: ArcSwapOption::empty(),
            sessions: SessionClients::default(),
            catalog: ArcSwap::default(),
            gate: ArcSwap::from_pointee(gate),
            pulse: Pulse::new(in_flight),
            account: shared.account(&name, shared.vault.clone()),
            list_changed: Notify::new(),
            called: Notify::new(),
            stderr: Arc::default(),
            restarts,
            listed: Mutex::default(),
            name,
            slug,
            shared,
        })
    }

    /// Asks for something else; the number to wait for. Nothing happens when it is as wanted.
    pub(super) fn want(&self, target: Target) -> Option<u64> {
        let mut turn = None;
        self.wanted.send_if_modified(|wanted| {
            if wanted.target.is(&target) {
                return false;
            }
            wanted.turn += 1;
            wanted.target = target;
            turn = Some(wanted.turn);
            true
        });
        turn
    }

    /// Asks for a new start; the number to wait for.
    pub(super) fn want_restart(&self) -> u64 {
        let mut turn = 0;
        self.wanted.send_modify(|wanted| {
            wanted.turn += 1;
            wanted.restarts += 1;
            turn = wanted.turn;
        });
        turn
    }

    /// How it stands once a wish was acted on, or as it stands when that takes too long.
    pub(super) async fn settled(&self, turn: u64, patience: Duration) -> Status {
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| status.has_settled(turn));
        let patience = patience.max(HEEDING).min(self.shared.timing.settle);
        // The sender is our own: it cannot be gone.
        let _ = tokio::time::timeout(patience, settled).await;
        self.status.borrow().clone()
    }

    /// The file of a server that is to run.
    pub(super) fn to_run(&self) -> Option<Arc<ServerConfig>> {
        match &self.wanted.borrow().target {
            Target::Run(config) => Some(config.clone()),
            Target::Off(_) | Target::Wrong { .. } | Target::Gone => None,
        }
    }

    pub(super) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.wanted.borrow().target.config().cloned()
    }

    fn file(&self) -> PathBuf {
        match &self.wanted.borrow().target {
            Target::Run(config) | Target::Off(config) => config.file.clone(),
            Target::Wrong { file, .. } => file.clone(),
            Target::Gone => PathBuf::new(),
        }
    }

    /// Changes the status; what follows from a new state follows.
    pub(super) fn become_state(&self, state: UpstreamState, change: impl FnOnce(&mut Status)) {
        let mut before = state;
        self.status.send_modify(|status| {
            before = status.state;
            status.retry_at = None;
            if state != UpstreamState::Ready {
                status.pid = None;
            }
            if status.state != state {
                status.state = state;
                status.since = self.shared.clock.now();
            }
            if state == UpstreamState::Starting {
                status.attempts += 1;
                if status.attempts > 1 {
                    self.restarts.inc();
                }
            }
            change(status);
        });
        self.shared.metrics.state(&self.name, before, state);
        self.shared.changed();
        if before == state {
            return;
        }
        let (server, status) = (&self.name, self.status.borrow());
        let why = status.failure.as_ref().map_or("", |failure| failure.message.as_str());
        match state {
            UpstreamState::Down
            | UpstreamState::Failed
            | UpstreamState::Invalid
            | UpstreamState::NeedsLogin => {
                let retry_at = status.retry_at.map(tracing::field::display);
                tracing::warn!(%server, state = state.as_str(), why, retry_at, "upstream changed");
            }
            _ => tracing::info!(%server, state = state.as_str(), "upstream changed"),
        }
    }

    /// What went wrong, with what the process last said since it was started.
    pub(super) fn failure(&self, message: String, begun: Mark) -> UpstreamFailure {
        let mut stderr = self.stderr.lines_since(begun);
        stderr.drain(..stderr.len().saturating_sub(STDERR_SHOWN));
        UpstreamFailure { at: self.shared.clock.now(), message, stderr }
    }

    /// Lists these tools. Costs nothing when they are the ones that are listed.
    pub(super) fn publish(self: &Arc<Self>, config: &Arc<ServerConfig>, definitions: Arc<Definitions>) {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(self.wanted.borrow().target, Target::Gone) {
            return;
        }
        if listed.published
            && let Some((of, from)) = &listed.from
            && Arc::ptr_eq(of, config)
            && *from == definitions
        {
            return;
        }
        let (catalog, specs) = catalog::build(config, &definitions);
        for warning in &catalog.warnings {
            tracing::warn!(server = %self.name, "{warning}");
        }
        listed.runs.retain(|name, _| catalog.entries.contains_key(name));
        let tools: Vec<Tool> = specs
            .into_iter()
            .map(|spec| {
                let name = spec.name.to_string();
                let run = listed.runs.entry(name.clone()).or_insert_with(|| call::handler(self, name));
                Tool::upstream(spec, run.clone())
            })
            .collect();
        // First: a call that finds the tool finds how to call it.
        self.catalog.store(Arc::new(catalog));
        self.shared.registry.set_upstream(&self.slug, tools);
        *listed = Listed {
            published: true,
            from: Some((config.clone(), definitions)),
            runs: std::mem::take(&mut listed.runs),
        };
        self.shared.changed();
    }

    /// Goes by a file that asks for no restart.
    pub(super) fn adopt(self: &Arc<Self>, config: &Arc<ServerConfig>) {
        if self.gate.load().limit() != config.max_concurrency {
            self.gate.store(Arc::new(Gate::new(config.max_concurrency)));
        }
        let known = {
            let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            listed.from.as_ref().filter(|_| listed.published).map(|(_, definitions)| definitions.clone())
        };
        if let Some(definitions) = known {
            self.publish(config, definitions);
        }
    }

    /// Lists what the server listed under an earlier hub, until it says itself what it has. False: nothing is known.
    pub(super) async fn recall(self: &Arc<Self>, config: &Arc<ServerConfig>) -> bool {
        if self.listed.lock().unwrap_or_else(PoisonError::into_inner).published {
            return false;
        }
        let Some(known) = self.shared.memory.recall(&self.slug, config.fingerprint).await else {
            return false;
        };
        self.status.send_modify(|status| status.era = Some(known.era));
        self.publish(config, known.definitions);
        true
    }

    /// Keeps for a later hub what the server has listed.
    pub(super) async fn remember(&self) {
        let listed = {
            let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            listed.from.clone().filter(|_| listed.published)
        };
        let era = self.status.borrow().era;
        if let (Some((config, definitions)), Some(era)) = (listed, era) {
            self.shared.memory.keep(&self.slug, config.fingerprint, era, definitions).await;
        }
    }

    /// Takes the tools off the list; what is not on it stays so.
    pub(super) fn withdraw(&self) {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *listed).published {
            self.catalog.store(Arc::default());
            self.shared.registry.set_upstream(&self.slug, []);
            self.shared.changed();
        }
    }

    /// Its file is gone: from here on nothing of it is listed or counted, so that another of the same name may be,
    /// however long this one takes to end.
    pub(super) fn retire(&self) {
        self.want(Target::Gone);
        self.withdraw();
        self.shared.memory.forget(&self.slug);
        self.shared.metrics.forget(&self.name, self.status.borrow().state);
    }

    /// How a connection to this server is made.
    pub(super) fn connect(self: &Arc<Self>, config: Arc<ServerConfig>, stderr: Arc<StderrRing>) -> Connect {
        let known_era = self.status.borrow().era;
        Connect {
            config,
            environment: self.shared.environment.clone(),
            known_era,
            listener: Arc::new(Heard(Arc::downgrade(self))),
            supervisor: self.shared.supervisor.clone(),
            stderr,
            settings: self.shared.client.clone(),
            account: Some(self.account.clone()),
        }
    }

    /// What people and programs are told; `tools` are the names by which its tools are listed.
    pub(super) fn describe(&self, tools: Vec<String>) -> Upstream {
        let mut status = self.status.borrow().clone();
        // What a file says holds before the task of the unit has begun.
        match &self.wanted.borrow().target {
            Target::Off(_) if status.turn == 0 => status.state = UpstreamState::Disabled,
            Target::Wrong { message, .. } if status.turn == 0 => {
                status.state = UpstreamState::Invalid;
                let (at, message) = (status.since, message.to_string());
                status.failure = Some(UpstreamFailure { at, message, stderr: vec![] });
            }
            _ => {}
        }
        let config = self.config();
        let mut warnings = config.as_ref().map(|config| config.warnings.clone()).unwrap_or_default();
        warnings.extend(self.catalog.load().warnings.iter().cloned());
        Upstream {
            name: self.name.clone(),
            slug: self.slug.clone(),
            state: status.state,
            transport: config.map(|config| config.transport.kind()),
            revision: status.peer.as_ref().map(|peer| peer.revision.clone()),
            era: status.peer.as_ref().map(|peer| peer.era),
            server: status.peer.as_ref().map(name_of),
            tools,
            pid: status.pid,
            since: status.since,
            restarts: status.attempts.saturating_sub(1),
            retry_at: status.retry_at,
            in_flight: self.pulse.in_flight(),
            last_error: status.failure,
            warnings,
            file: self.file().display().to_string(),
        }
    }
}

impl std::fmt::Debug for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unit")
            .field("name", &self.name)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

/// Name and version that a server gave itself.
pub(super) fn name_of(peer: &Peer) -> String {
    format!("{} {}", peer.name, peer.version).trim().to_owned()
}

/// Hears what a server says without being asked, at whatever rate.
struct Heard(std::sync::Weak<Unit>);

impl Listener for Heard {
    fn tools_changed(&self) {
        if let Some(unit) = self.0.upgrade() {
            unit.pulse.hear();
            unit.list_changed.notify_one();
        }
    }
}
