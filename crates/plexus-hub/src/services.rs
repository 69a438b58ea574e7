//! Everything behind the routes, opened in dependency order.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use plexus_auth::profiles::{self, LiveProfiles, ProfilesChange};
use plexus_auth::{AuditAnchor, Authenticator, FailedAttempts, KeyRing, SealingKey};
use plexus_kit::config::{
    FILE_NAME, PROXY_FOLDER, RUNS_FOLDER, TOOLS_FOLDER, UPSTREAMS_FOLDER, WORKSPACE_FOLDER,
};
use plexus_kit::metrics::Counter;
use plexus_kit::{Clock, Config, Environment, LiveConfig, Metrics, Quota, Stage, Supervisor, private_file};
use plexus_mcp::server::McpServer;
use plexus_proto::Timestamp;
use plexus_store::{DatabaseNote, NewAudit, Records, Store, StoreOptions};
use plexus_tools::custom::{CustomOptions, CustomTools, STATE_FILE};
use plexus_tools::{Dispatcher, DispatcherOptions, Registry, TokenCounter, native};
use plexus_upstream::client::ClientSettings;
use plexus_upstream::config::{self as upstream_config, Folder, LEGACY_FILE};
use plexus_upstream::oauth::Vault;
use plexus_upstream::{UpstreamOptions, Upstreams};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::events::Events;
use crate::external_agents::AgentConnections;
use crate::http::ApiError;
use crate::nodes::{self, Gateway, LocalNode};
use crate::{HubError, HubOptions};

/// Instance name of a single hub. Several hubs on one database would each need their own name.
pub const INSTANCE: &str = "main";

/// Maximum number of requests per subject that wait for a context change; more are refused as retryable.
const CONTEXT_WAITS: usize = 64;

/// Maximum number of concurrent requests that count session events; others wait.
const COUNTING: usize = 2;

/// Maximum number of concurrent server tests; more are refused as retryable.
const UPSTREAM_TRIALS: usize = 4;

#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) config: LiveConfig,
    pub(crate) clock: Clock,
    pub(crate) started_at: Timestamp,
    pub(crate) store: Store,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) failed_attempts: FailedAttempts,
    pub(crate) anchor: Arc<AuditAnchor>,
    /// Whether the audit log matched its signed head when the hub started.
    pub(crate) audit_intact_at_start: bool,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) tokens: TokenCounter,
    pub(crate) custom: CustomTools,
    pub(crate) mcp: McpServer,
    pub(crate) upstreams: Upstreams,
    /// Held during a server test, which starts a process or opens a connection.
    pub(crate) upstream_trials: Semaphore,
    pub(crate) events: Events,
    /// Held while session events are counted.
    pub(crate) counting: Semaphore,
    /// Held by requests that wait for a context change, by subject.
    pub(crate) context_waits: Quota,
    /// Writes reported by proxies as undeliverable.
    pub(crate) dead_letters: Counter,
    /// The machines that tools run on.
    pub(crate) nodes: Gateway,
    /// Third-party agents.
    pub(crate) connected: AgentConnections,
    /// The hub's own machine, until it is started.
    local: Mutex<Option<LocalNode>>,
    /// Held while the audit log is verified. One verification at a time is enough, as it reads the whole log.
    pub(crate) verifying: Semaphore,
    /// Cancelled when the hub is about to stop.
    pub(crate) draining: CancellationToken,
    address_file: PathBuf,
    supervisor: Supervisor,
}

impl Services {
    pub(crate) async fn open(
        options: HubOptions,
        live: LiveConfig,
        supervisor: &Supervisor,
    ) -> Result<Self, HubError> {
        let HubOptions { config, environment, clock, mcp, timing, events, nodes, launcher } = options;
        prepare_data_dir(&config.data_dir)?;
        let store_options = StoreOptions {
            data_dir: config.data_dir.clone(),
            database_url: config.database_url.clone(),
            durability: config.durability,
            instance_id: INSTANCE.to_owned(),
        };
        // Check before a database is created or migrated: it may be that of another hub.
        DatabaseNote::check(&store_options).await?;
        let store = Store::open(&store_options, supervisor).await?;
        DatabaseNote { location: store.location().clone(), store_id: store.id() }
            .write_if_changed(&config.data_dir)?;
        // Open the keys after the store, whose lock guarantees that no other process creates these files.
        let keys = Arc::new(KeyRing::open(&config.data_dir, clock.clone())?);
        let anchor =
            Arc::new(AuditAnchor::new(config.data_dir.join("audit.head"), keys.clone(), config.durability));
        let audit_intact_at_start = check_audit(&store, &anchor, &clock).await?;
        let admin_token = config.data_dir.join("admin-token");
        let authenticator =
            Arc::new(Authenticator::new(keys, store.clone(), clock.clone(), admin_token).await?);
        authenticator.ensure_admin_token().await?;
        let profiles = LiveProfiles::open(config.data_dir.join(profiles::FOLDER));
        authenticator.follow_profiles(profiles.clone());
        let dispatcher = Dispatcher::new(
            Arc::new(Registry::new(native::tools())),
            store.clone(),
            clock.clone(),
            supervisor.clone(),
            DispatcherOptions {
                files_dir: config.data_dir.join("sessions"),
                calls_per_principal: config.limits.calls_per_principal,
                output_bytes: config.limits.output_bytes,
            },
        );
        dispatcher.registry().follow_profiles(profiles);
        let nodes = Gateway::open(store.clone(), clock.clone(), supervisor, nodes).await?;
        dispatcher.set_nodes(Arc::new(nodes.clone()));
        let connected =
            AgentConnections::new(&config, live.clone(), &environment, clock.clone(), nodes.clone());
        let folder = (config.data_dir.clone(), environment.clone(), launcher);
        let local = LocalNode::prepare(&nodes, &store, folder, clock.clone(), config.nodes.local).await?;
        migrate_servers(&config, &environment, &clock);
        let sealing = Arc::new(SealingKey::open(&config.data_dir)?);
        let upstream_options = UpstreamOptions {
            client: ClientSettings {
                allow_private: config.upstreams.private_networks,
                ..ClientSettings::default()
            },
            timing,
            memory: Some(config.data_dir.join("upstream-tools")),
            vault: Some(Vault::new(store.clone(), sealing, clock.clone())),
            ..UpstreamOptions::new(config.upstreams.dir.clone(), environment.clone(), store.clone())
        };
        let registry = dispatcher.registry();
        let upstreams = Upstreams::start(upstream_options, registry.clone(), clock.clone(), supervisor);
        upstreams.recalled().await;
        nodes::tools::register_machine_tools(&nodes, &dispatcher, &upstreams, &store, &clock, supervisor);
        let custom_options = CustomOptions {
            dir: config.tools.dir.clone(),
            state: config.data_dir.join(STATE_FILE),
            environment,
            configured: config.tools.enabled.clone(),
        };
        // Load the user-defined tools after the hub's own tools, whose names take precedence.
        let custom = CustomTools::open(custom_options, registry.clone());
        custom.offer_tests(&dispatcher);
        let mcp = McpServer::new(
            dispatcher.clone(),
            Arc::new(upstreams.clone()),
            authenticator.clone(),
            store.clone(),
            clock.clone(),
            supervisor.clone(),
            mcp,
        );
        mcp.end_lost_tasks().await?;
        let events = Events::new(store.clone(), authenticator.clone(), supervisor.clone(), events);
        let address_file = config.data_dir.join("hub.json");
        Ok(Self {
            started_at: clock.now(),
            verifying: Semaphore::new(1),
            upstream_trials: Semaphore::new(UPSTREAM_TRIALS),
            counting: Semaphore::new(COUNTING),
            context_waits: Quota::new(CONTEXT_WAITS),
            dead_letters: Counter::default(),
            failed_attempts: FailedAttempts::new(config.auth.failed_per_minute, clock.clone()),
            supervisor: supervisor.clone(),
            draining: CancellationToken::new(),
            config: live,
            clock,
            store,
            authenticator,
            anchor,
            audit_intact_at_start,
            dispatcher,
            tokens: TokenCounter::default(),
            custom,
            mcp,
            upstreams,
            events,
            nodes,
            connected,
            local: Mutex::new(local),
            address_file,
        })
    }

    /// Reloads the profile files if any has changed.
    pub(crate) fn reload_profiles(&self) -> ProfilesChange {
        let change = self.dispatcher.registry().reload_profiles();
        if !change.is_empty() {
            let ProfilesChange { added, removed, changed } = &change;
            tracing::info!(?added, ?removed, ?changed, "profiles reloaded");
        }
        change
    }

    /// Runs work to completion, even if the requesting client disconnects.
    pub(crate) async fn run_to_completion<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (done, outcome) = oneshot::channel();
        self.supervisor.spawn(Stage::Work, name, async move {
            // The receiver is gone if the caller left.
            let _ = done.send(work.await);
        });
        outcome.await.map_err(|error| ApiError::internal(name, &error))
    }

    /// Starts the local node, which is not needed for the hub to be ready.
    pub(crate) fn start_local_node(&self) {
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(local) = local {
            local.start(self.nodes.clone(), &self.supervisor);
        }
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Registers the metrics measured behind the routes.
    pub(crate) fn register(&self, metrics: &Metrics) {
        self.store.register(metrics);
        self.dispatcher.register(metrics);
        self.mcp.register(metrics);
        self.upstreams.register(metrics);
        self.events.register(metrics);
        self.nodes.register(metrics);
        let about = "Writes reported by proxies as undeliverable";
        metrics.add("plexus_outbox_dead_letters", about, self.dead_letters.clone());
    }

    /// Records the hub's address and certificate fingerprint for commands on this machine.
    pub(crate) fn announce(&self, url: &str, certificate: Option<String>) -> Result<(), HubError> {
        let mut where_it_is = serde_json::json!({ "url": url, "pid": std::process::id() });
        if let Some(certificate) = certificate {
            where_it_is["certificate_sha256"] = certificate.into();
        }
        private_file::write(&self.address_file, format!("{where_it_is}\n").as_bytes())
            .map_err(HubError::DataDir)
    }

    /// Removes the recorded address.
    pub(crate) fn forget_address(&self) {
        if let Err(error) = fs_err::remove_file(&self.address_file) {
            tracing::debug!(%error, "no address file to remove");
        }
    }
}

/// Creates the data folder, or accepts an empty one or one of Plexus. The permissions of any other folder must not
/// be changed, and it is not a safe place for keys.
pub fn prepare_data_dir(path: &Path) -> Result<(), HubError> {
    if path.is_dir() && data_dir_state(path).map_err(HubError::DataDir)? == DataDirState::Foreign {
        return Err(HubError::ForeignDataDir(path.to_owned()));
    }
    private_file::create_dir(path).map_err(HubError::DataDir)
}

/// The kind of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataDirState {
    /// A hub was started in it.
    Ours,
    /// Empty, or only contains files that may exist before the first start, such as the configuration.
    Empty,
    Foreign,
}

/// Log file of a hub in the background, in its data folder. It is opened before the hub starts.
pub const LOG_FILE: &str = "hub.log";

/// Entries that may exist in a data folder before the first start: files provided by the user, and files of proxies
/// and agent runs, which do not need a hub to start.
const ALLOWED_BEFORE_START: [&str; 10] = [
    LOG_FILE,
    FILE_NAME,
    UPSTREAMS_FOLDER,
    TOOLS_FOLDER,
    LEGACY_FILE,
    profiles::FOLDER,
    WORKSPACE_FOLDER,
    plexus_bridge::FOLDER,
    PROXY_FOLDER,
    RUNS_FOLDER,
];

/// Determines the kind of an existing folder.
pub fn data_dir_state(path: &Path) -> std::io::Result<DataDirState> {
    if ["plexus.db", "plexus.lock", "signing-key"].iter().any(|name| path.join(name).exists()) {
        return Ok(DataDirState::Ours);
    }
    let mut entries = fs_err::read_dir(path)?;
    let is_allowed = |name: &OsStr| ALLOWED_BEFORE_START.iter().any(|known| name == *known);
    let foreign = entries.any(|entry| entry.is_ok_and(|entry| !is_allowed(&entry.file_name())));
    Ok(if foreign { DataDirState::Foreign } else { DataDirState::Empty })
}

/// Moves the servers of an old `mcp_servers.json` into files of their own. Errors do not prevent the hub from
/// starting.
fn migrate_servers(config: &Config, environment: &Environment, clock: &Clock) {
    let folder = Folder::new(config.upstreams.dir.clone(), environment.clone()).with_clock(clock.clone());
    match upstream_config::migrate(&config.data_dir, &folder) {
        Ok(Some(migration)) => migration.log(),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!("cannot migrate {LEGACY_FILE}; none of its servers is started: {error}")
        }
    }
}

/// Compares the audit table with the signed head before the first new entry hides a difference.
///
/// A broken chain does not stop the hub: it is logged and recorded as a notice in the chain, and the head that
/// proves the break is set aside.
async fn check_audit(store: &Store, anchor: &AuditAnchor, clock: &Clock) -> Result<bool, HubError> {
    let has_entries = store.audit_heads().borrow().is_some();
    let (signed, message) = match anchor.read() {
        Ok(None) if !has_entries => {
            // From now on, entries without a head mean that the head was removed.
            anchor.write(&store.audit_genesis()).map_err(HubError::DataDir)?;
            return Ok(true);
        }
        Ok(None) => (None, "there are entries but no signed head".to_owned()),
        Err(why) => (None, why),
        Ok(Some(signed)) => match store.read().await?.audit_break(&signed).await? {
            // A restart does not clear a break that was found earlier.
            None => return Ok(!store.read().await?.audit_was_broken(INSTANCE, anchor).await?),
            Some(message) => (Some(signed), message),
        },
    };
    let now = clock.now();
    let kept = anchor.set_aside(&format!("broken-{}", now.as_second())).map_err(HubError::DataDir)?;
    tracing::error!(%message, ?kept, "the audit log does not match its signed head; run `plexus audit verify`");
    let notice = NewAudit::chain_break(now, signed.as_ref(), &message);
    store.append(Records { audit: vec![notice], events: vec![] }).await?;
    store.settle().await?;
    // Sign now, so that a verification reports the break and not a missing head.
    let head = store.audit_heads().borrow().clone();
    if let Some(head) = head {
        anchor.write(&head).map_err(HubError::DataDir)?;
    }
    Ok(false)
}
