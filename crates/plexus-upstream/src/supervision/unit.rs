//! One server, as the rest of the hub sees it.
//!
//! A unit exists as long as its file. Its [lifecycle](super::lifecycle) runs in its own task, and everything
//! else only reads: a call finds the connection without a lock, and waits only for state changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use plexus_kit::metrics::Counter;
use plexus_kit::{Clock, Environment, Supervisor};
use plexus_proto::api::{Upstream, UpstreamFailure, UpstreamState};
use plexus_tools::{Capabilities, Registry};
use tokio::sync::{Notify, watch};

use super::metrics::UpstreamMetrics;
use super::status::Status;
use super::timing::Timing;
use crate::client::{
    Chatter, Client, ClientSettings, Connect, Listener, Mark, Peer, ServerChange, StderrRing,
};
use crate::config::ServerConfig;
use crate::oauth::{Account, AccountContext, Logins, Vault};
use crate::supervision::call::concurrency::Gate;
use crate::supervision::call::questions::MissingCapabilities;
use crate::supervision::catalog::Catalog;
use crate::supervision::catalog::cache::CatalogCache;
use crate::supervision::catalog::resources::Offering;
use crate::supervision::lifecycle::activity::Activity;
use crate::supervision::lifecycle::reload::{DesiredState, Target};
use crate::supervision::sessions::resource_watches::Watches;
use crate::supervision::sessions::{CloseContext, SessionClients};
use crate::supervision::trust::approval::ReviewCache;
use crate::supervision::trust::publish::Listing;
use crate::trust::{Judgement, Pins, QuarantinedDefinition};

/// Lines of standard error that are included in a failure.
const MAX_STDERR_LINES: usize = 20;
/// The warning for a server that asks questions over a connection that callers share.
const SHARED_QUESTIONS: &str = "it asked a question while calls of several callers were in flight; the question was refused, because \
    it cannot be attributed to one of them. Set `per_session` in its file to give each session its own connection";
/// Minimum time to wait for a desired state, because applying it is not instantaneous.
const MIN_SETTLE: Duration = Duration::from_millis(250);

/// Data shared by all units.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) registry: Arc<Registry>,
    pub(super) clock: Clock,
    pub(super) supervisor: Supervisor,
    pub(super) environment: Environment,
    pub(super) client: ClientSettings,
    pub(super) timing: Timing,
    pub(super) catalog_cache: CatalogCache,
    pub(super) pins: Pins,
    pub(super) review_cache: ReviewCache,
    pub(super) vault: Option<Vault>,
    pub(super) logins: Logins,
    pub(super) metrics: UpstreamMetrics,
    /// Increases with every change of a unit.
    pub(super) changes: watch::Sender<u64>,
    /// Increases with every change of an offer besides tools.
    pub(super) offers: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    pub(super) fn offered(&self) {
        self.offers.send_modify(|number| *number += 1);
        self.changed();
    }

    /// The account of a server. A server that is only tested has no vault.
    pub(super) fn account(&self, server: &str, vault: Option<Vault>) -> Arc<Account> {
        let (clock, supervisor) = (self.clock.clone(), self.supervisor.clone());
        let (settings, timing) = (self.client.clone(), self.timing.clone());
        Account::new(server, AccountContext { clock, supervisor, settings, timing, vault })
    }
}

pub(super) struct Unit {
    pub(super) name: String,
    /// Empty if the file name contains no character that is valid in a tool name.
    pub(super) slug: String,
    pub(super) shared: Arc<Shared>,
    pub(super) desired: watch::Sender<DesiredState>,
    pub(super) status: watch::Sender<Status>,
    /// The shared connection, while there is one.
    pub(super) client: ArcSwapOption<Client>,
    /// Connections of single sessions.
    pub(super) sessions: SessionClients,
    /// The tools as last listed; the registry holds the published part.
    pub(super) catalog: ArcSwap<Catalog>,
    pub(super) gate: ArcSwap<Gate>,
    pub(super) activity: Activity,
    /// The hub's access to the server.
    pub(super) account: Arc<Account>,
    /// Notified when the server reports a changed list, or a call could not reach it.
    pub(super) list_changed: Notify,
    /// Notified when a call needs a server that is stopped.
    pub(super) called: Notify,
    pub(super) stderr: Arc<StderrRing>,
    chatter: Arc<Chatter>,
    restarts: Counter,
    /// The judgement of the server's definitions.
    pub(super) judgement: ArcSwap<Judgement>,
    pub(super) listing: Listing,
    /// The server asked a question while several callers had calls there.
    questions_refused: AtomicBool,
    /// Capabilities that callers lacked for questions of the server.
    pub(super) missing_capabilities: MissingCapabilities,
    pub(super) offering: Offering,
    /// Notified when the server reports a change besides tools.
    pub(super) offers_changed: Notify,
    pub(super) watches: Arc<Watches>,
}

impl Unit {
    pub(super) fn new(name: String, slug: String, target: Target, shared: Arc<Shared>) -> Arc<Self> {
        let gate = Gate::new(target.config().and_then(|config| config.max_concurrency));
        let (in_flight, restarts) = shared.metrics.of(&name);
        Arc::new(Self {
            desired: watch::Sender::new(DesiredState { turn: 1, restarts: 0, target }),
            status: watch::Sender::new(Status::new(shared.clock.now())),
            client: ArcSwapOption::empty(),
            sessions: SessionClients::new(CloseContext {
                server: name.clone(),
                supervisor: shared.supervisor.clone(),
                patience: shared.timing.close,
            }),
            catalog: ArcSwap::default(),
            gate: ArcSwap::from_pointee(gate),
            activity: Activity::new(in_flight),
            account: shared.account(&name, shared.vault.clone()),
            list_changed: Notify::new(),
            called: Notify::new(),
            stderr: Arc::default(),
            chatter: Arc::default(),
            restarts,
            judgement: ArcSwap::default(),
            listing: Listing::default(),
            questions_refused: AtomicBool::new(false),
            missing_capabilities: MissingCapabilities::default(),
            offering: Offering::default(),
            offers_changed: Notify::new(),
            watches: Arc::default(),
            name,
            slug,
            shared,
        })
    }

    /// Sets the desired target; returns the turn to wait for, or none if nothing changes.
    pub(super) fn set_target(&self, target: Target) -> Option<u64> {
        let mut turn = None;
        self.desired.send_if_modified(|desired| {
            if desired.target.is_equivalent(&target) {
                return false;
            }
            desired.turn += 1;
            desired.target = target;
            turn = Some(desired.turn);
            true
        });
        turn
    }

    /// The turn of a desired state that is not applied yet.
    pub(super) fn pending(&self) -> Option<u64> {
        let turn = self.desired.borrow().turn;
        (self.status.borrow().turn < turn).then_some(turn)
    }

    /// Requests a restart, with this target if given; returns the turn to wait for.
    pub(super) fn request_restart(&self, target: Option<Target>) -> u64 {
        let mut turn = 0;
        self.desired.send_modify(|desired| {
            desired.turn += 1;
            desired.restarts += 1;
            if let Some(target) = target {
                desired.target = target;
            }
            turn = desired.turn;
        });
        turn
    }

    /// Waits until the first desired state is applied; cached lists are published by then.
    pub(super) async fn first_state_applied(&self) {
        // The sender belongs to `self`, so it cannot be dropped.
        let _ = self.status.subscribe().wait_for(|status| status.turn > 0).await;
    }

    /// The status after a turn has settled, or after a timeout.
    pub(super) async fn settled(&self, turn: u64, patience: Duration) -> Status {
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| status.has_settled(turn));
        let patience = patience.max(MIN_SETTLE).min(self.shared.timing.settle);
        // The sender belongs to `self`, so it cannot be dropped.
        let _ = tokio::time::timeout(patience, settled).await;
        self.status.borrow().clone()
    }

    /// The configuration, if the server should run.
    pub(super) fn to_run(&self) -> Option<Arc<ServerConfig>> {
        match &self.desired.borrow().target {
            Target::Run(config) => Some(config.clone()),
            Target::Off(_) | Target::Wrong { .. } | Target::Gone => None,
        }
    }

    pub(super) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.desired.borrow().target.config().cloned()
    }

    fn file(&self) -> PathBuf {
        match &self.desired.borrow().target {
            Target::Run(config) | Target::Off(config) => config.file.clone(),
            Target::Wrong { file, .. } => file.clone(),
            Target::Gone => PathBuf::new(),
        }
    }

    /// Changes the state, and updates metrics, logs and subscribers.
    pub(super) fn set_state(&self, state: UpstreamState, change: impl FnOnce(&mut Status)) {
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
        if state == UpstreamState::Idle && !self.watches.is_empty() {
            // A resource was watched while the server was stopping.
            self.called.notify_one();
        }
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

    /// A failure with the latest output of the process since its start.
    pub(super) fn failure(&self, message: String, stderr_start: Mark) -> UpstreamFailure {
        let mut stderr = self.stderr.lines_since(stderr_start);
        stderr.drain(..stderr.len().saturating_sub(MAX_STDERR_LINES));
        UpstreamFailure { at: self.shared.clock.now(), message, stderr }
    }

    /// Retires the unit of a removed file: nothing of it stays listed or counted, so that another server of
    /// the same name can start even if this one takes long to end.
    pub(super) fn retire(&self) {
        self.set_target(Target::Gone);
        self.withdraw();
        self.shared.catalog_cache.forget(&self.slug);
        self.shared.metrics.forget(&self.name, self.status.borrow().state);
    }

    /// The parameters of a connection to this server.
    pub(super) fn connect(
        self: &Arc<Self>,
        config: Arc<ServerConfig>,
        stderr: Arc<StderrRing>,
        can: Capabilities,
    ) -> Connect {
        let known_era = self.status.borrow().era;
        let capabilities = if config.questions { can } else { Capabilities::default() };
        Connect {
            capabilities,
            config,
            environment: self.shared.environment.clone(),
            known_era,
            listener: Arc::new(UnitListener(Arc::downgrade(self))),
            supervisor: self.shared.supervisor.clone(),
            stderr,
            chatter: self.chatter.clone(),
            settings: self.shared.client.clone(),
            account: Some(self.account.clone()),
        }
    }

    /// A remark about a server that sends something other than MCP messages.
    pub(super) fn remark(&self, state: UpstreamState) -> Option<String> {
        let last = (state == UpstreamState::Starting).then(|| self.chatter.last()).flatten()?;
        Some(format!("its output is not an MCP message; the last line: {last}"))
    }

    /// The status for people and programs; `tools` are the names under which its tools are listed.
    pub(super) fn describe(&self, tools: Vec<String>) -> Upstream {
        let mut status = self.status.borrow().clone();
        // The file's state applies before the unit's task has started.
        match &self.desired.borrow().target {
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
        if self.questions_refused.load(Ordering::Relaxed) {
            warnings.push(SHARED_QUESTIONS.to_owned());
        }
        warnings.extend(self.offering.offer().warnings.iter().cloned());
        let judgement = self.judgement.load();
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
            in_flight: self.activity.in_flight(),
            last_error: status.failure,
            remark: self.remark(status.state),
            warnings,
            quarantined: judgement.quarantined.iter().map(QuarantinedDefinition::summary).collect(),
            flagged: self.flagged(),
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

/// Name and version that the server reports.
pub(super) fn name_of(peer: &Peer) -> String {
    format!("{} {}", peer.name, peer.version).trim().to_owned()
}

/// Handles notifications of a server, at whatever rate.
struct UnitListener(std::sync::Weak<Unit>);

impl Listener for UnitListener {
    fn on_change(&self, change: ServerChange) {
        let Some(unit) = self.0.upgrade() else { return };
        unit.activity.record_message();
        match change {
            ServerChange::Tools => unit.list_changed.notify_one(),
            ServerChange::Resources | ServerChange::Prompts => unit.offers_changed.notify_one(),
            ServerChange::Updated(uri) => unit.watches.notify(&uri),
        }
    }

    fn on_missing_capability(&self, request: u64, lacking: Capabilities) {
        if let Some(unit) = self.0.upgrade() {
            unit.missing_capabilities.note(request, lacking);
        }
    }

    fn questions_refused(&self) {
        if let Some(unit) = self.0.upgrade() {
            unit.questions_refused.store(true, Ordering::Relaxed);
            unit.shared.changed();
        }
    }

    fn on_chatter(&self) {
        if let Some(unit) = self.0.upgrade() {
            unit.shared.changed();
        }
    }
}
