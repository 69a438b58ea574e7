//! Everything behind the routes, opened in order.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use plexus_auth::profiles::{self, LiveProfiles, ProfilesChange};
use plexus_auth::{AuditAnchor, Authenticator, FailedAttempts, KeyRing, SealingKey};
use plexus_kit::config::{FILE_NAME, TOOLS_FOLDER, UPSTREAMS_FOLDER, WORKSPACE_FOLDER};
use plexus_kit::metrics::Counter;
use plexus_kit::{Clock, Config, Environment, LiveConfig, Metrics, Quota, Stage, Supervisor, private_file};
use plexus_mcp::server::McpServer;
use plexus_mcp::upstream::client::ClientSettings;
use plexus_mcp::upstream::config::{self as upstream_config, Folder, LEGACY_FILE};
use plexus_mcp::upstream::oauth::Vault;
use plexus_mcp::upstream::{UpstreamOptions, Upstreams};
use plexus_proto::Timestamp;
use plexus_store::{NewAudit, Records, Store, StoreOptions};
use plexus_tools::custom::{CustomOptions, CustomTools, STATE_FILE};
use plexus_tools::{Dispatcher, DispatcherOptions, Registry, TokenCounter, native};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::events::Events;
use crate::external_agents::Connected;
use crate::http::ApiError;
use crate::nodes::{self, Gateway, LocalNode};
use crate::{HubError, HubOptions};

/// A single hub; several on one database will each have a name of their own.
pub const INSTANCE: &str = "main";

/// Requests of one subject that wait for its context to change; one more is refused as retryable.
const CONTEXT_WAITS: usize = 64;

/// Requests that count what happened in sessions at the same time; others wait.
const COUNTING: usize = 2;

/// Servers that are tried out at the same time; one more is refused as retryable.
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
    /// Whether the audit matched its signed head when the hub started.
    pub(crate) audit_intact_at_start: bool,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) tokens: TokenCounter,
    pub(crate) custom: CustomTools,
    pub(crate) mcp: McpServer,
    pub(crate) upstreams: Upstreams,
    /// Held while a server is tried out, which starts a process or dials.
    pub(crate) upstream_trials: Semaphore,
    pub(crate) events: Events,
    /// Held while events of sessions are counted.
    pub(crate) counting: Semaphore,
    /// Taken while a request waits for its context to change, by subject.
    pub(crate) context_waits: Quota,
    /// Writes that proxies could not deliver, as they told.
    pub(crate) dead_letters: Counter,
    /// The machines that tools run on.
    pub(crate) nodes: Gateway,
    /// Agents of others.
    pub(crate) connected: Connected,
    /// The hub's own machine, until it is started.
    local: Mutex<Option<LocalNode>>,
    /// Held while the audit is verified, which reads all of it: one at a time is enough.
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
        let store = Store::open(
            &StoreOptions {
                data_dir: config.data_dir.clone(),
                database_url: config.database_url.clone(),
                durability: config.durability,
                instance_id: INSTANCE.to_owned(),
            },
            supervisor,
        )
        .await?;
        // After the store, whose lock says that nobody else is making these files.
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
        let connected = Connected::new(&config, live.clone(), &environment, clock.clone(), nodes.clone());
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
        nodes::tools::offer(&nodes, &dispatcher, &upstreams, &store, &clock, supervisor);
        let custom_options = CustomOptions {
            dir: config.tools.dir.clone(),
            state: config.data_dir.join(STATE_FILE),
            environment,
            configured: config.tools.enabled.clone(),
        };
        // After all tools of the hub itself, whose names are taken.
        let custom = CustomTools::open(custom_options, registry.clone());
        custom.offer_tests(&dispatcher);
        let mcp = McpServer::new(
            dispatcher.clone(),
            upstreams.clone(),
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

    /// Reads the files of the profiles again, where any has changed.
    pub(crate) fn reload_profiles(&self) -> ProfilesChange {
        let change = self.dispatcher.registry().reload_profiles();
        if !change.is_empty() {
            let ProfilesChange { added, removed, changed } = &change;
            tracing::info!(?added, ?removed, ?changed, "profiles reloaded");
        }
        change
    }

    /// Does something to its end, whether or not whoever asked for it stays to hear of it.
    pub(crate) async fn see_through<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (done, outcome) = oneshot::channel();
        self.supervisor.spawn(Stage::Work, name, async move {
            // Nobody listens where the caller has left.
            let _ = done.send(work.await);
        });
        outcome.await.map_err(|error| ApiError::internal(name, &error))
    }

    /// Starts what nobody has to wait for who waits for the hub.
    pub(crate) fn start_local_node(&self) {
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(local) = local {
            local.start(self.nodes.clone(), &self.supervisor);
        }
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Lets the metrics be read of what is measured behind the routes.
    pub(crate) fn register(&self, metrics: &Metrics) {
        self.store.register(metrics);
        self.dispatcher.register(metrics);
        self.mcp.register(metrics);
        self.upstreams.register(metrics);
        self.events.register(metrics);
        self.nodes.register(metrics);
        let about = "Writes that proxies of agents could not deliver, as they told";
        metrics.add("plexus_outbox_dead_letters", about, self.dead_letters.clone());
    }

    /// Writes down where commands on this machine find the hub, and by which certificate they know it.
    pub(crate) fn announce(&self, url: &str, certificate: Option<String>) -> Result<(), HubError> {
        let mut where_it_is = serde_json::json!({ "url": url, "pid": std::process::id() });
        if let Some(certificate) = certificate {
            where_it_is["certificate_sha256"] = certificate.into();
        }
        private_file::write(&self.address_file, format!("{where_it_is}\n").as_bytes())
            .map_err(HubError::DataDir)
    }

    /// Nobody is at the address any more.
    pub(crate) fn forget_address(&self) {
        if let Err(error) = fs_err::remove_file(&self.address_file) {
            tracing::debug!(%error, "no address file to remove");
        }
    }
}

/// Makes the data folder, or takes one that is empty or ours. The mode of another's is not ours to
/// change, nor is another's the place for keys.
pub fn prepare_data_dir(path: &Path) -> Result<(), HubError> {
    if path.is_dir() && data_dir_state(path).map_err(HubError::DataDir)? == DataDirState::Foreign {
        return Err(HubError::ForeignDataDir(path.to_owned()));
    }
    private_file::create_dir(path).map_err(HubError::DataDir)
}

/// Whose a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataDirState {
    /// A hub was started on it.
    Ours,
    /// There is nothing in it, or only the configuration: who configures a hub before its first start
    /// has put the files there.
    Empty,
    Foreign,
}

/// Log of a hub in the background, in its data folder. It is opened before the hub is started.
pub const LOG_FILE: &str = "hub.log";

/// What may be in a data folder before its first start: what a person has put there, and what proxies and runs of agents keep,
/// which need no hub to begin.
const PUT_THERE: [&str; 10] = [
    LOG_FILE,
    FILE_NAME,
    UPSTREAMS_FOLDER,
    TOOLS_FOLDER,
    LEGACY_FILE,
    profiles::FOLDER,
    WORKSPACE_FOLDER,
    plexus_bridge::FOLDER,
    plexus_node::proxy::FOLDER,
    plexus_node::runner::FOLDER,
];

/// Looks into a folder that is there.
pub fn data_dir_state(path: &Path) -> std::io::Result<DataDirState> {
    if ["plexus.db", "plexus.lock", "signing-key"].iter().any(|name| path.join(name).exists()) {
        return Ok(DataDirState::Ours);
    }
    let mut entries = fs_err::read_dir(path)?;
    let put_there = |name: &OsStr| PUT_THERE.iter().any(|known| name == *known);
    let foreign = entries.any(|entry| entry.is_ok_and(|entry| !put_there(&entry.file_name())));
    Ok(if foreign { DataDirState::Foreign } else { DataDirState::Empty })
}

/// Gives the servers of an old `mcp_servers.json` files of their own. One that cannot be used keeps nothing from starting.
fn migrate_servers(config: &Config, environment: &Environment, clock: &Clock) {
    let folder = Folder::new(config.upstreams.dir.clone(), environment.clone()).with_clock(clock.clone());
    match upstream_config::migrate(&config.data_dir, &folder) {
        Ok(Some(migration)) => migration.log(),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!("{LEGACY_FILE} is not migrated and none of its servers is started: {error}")
        }
    }
}

/// Compares the table with the signed head before the first new entry hides a difference.
///
/// A broken chain does not keep the hub from working; it is said aloud, kept as a notice in the
/// chain, and the head that proves it is set aside.
async fn check_audit(store: &Store, anchor: &AuditAnchor, clock: &Clock) -> Result<bool, HubError> {
    let has_entries = store.audit_heads().borrow().is_some();
    let (signed, message) = match anchor.read() {
        Ok(None) if !has_entries => {
            // From now on, entries without a head are entries whose head was taken away.
            anchor.write(&store.audit_genesis()).map_err(HubError::DataDir)?;
            return Ok(true);
        }
        Ok(None) => (None, "there are entries but no signed head".to_owned()),
        Err(why) => (None, why),
        Ok(Some(signed)) => match store.read().await?.audit_break(&signed).await? {
            // A break that was found earlier is not healed by a restart.
            None => return Ok(!store.read().await?.audit_was_broken(INSTANCE, anchor).await?),
            Some(message) => (Some(signed), message),
        },
    };
    let now = clock.now();
    let kept = anchor.set_aside(&format!("broken-{}", now.as_second())).map_err(HubError::DataDir)?;
    tracing::error!(%message, ?kept, "the audit does not match its signed head; run `plexus audit verify`");
    let notice = NewAudit::chain_break(now, signed.as_ref(), &message);
    store.append(Records { audit: vec![notice], events: vec![] }).await?;
    store.settle().await?;
    // Signed at once, so that whoever verifies now finds the break and not a missing head.
    let head = store.audit_heads().borrow().clone();
    if let Some(head) = head {
        anchor.write(&head).map_err(HubError::DataDir)?;
    }
    Ok(false)
}
