//! The hub: an HTTP server around the dispatcher.
//!
//! [`Hub::start`] listens immediately and answers 503 until everything behind it is up, so that an early client is
//! told to wait instead of being refused.

mod background;
mod error;
mod events;
mod external_agents;
mod http;
mod nodes;
mod routes;
mod serve;
mod services;
mod stall;
mod tls;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plexus_auth::profiles::ProfilesChange;
use plexus_kit::config::Reloaded;
use plexus_kit::{Clock, Config, Drained, Environment, LiveConfig, Metrics, Stage, Supervisor};
use plexus_mcp::server::McpOptions;
use plexus_tools::Registry;
use plexus_upstream::{Timing, Upstreams};
use tokio::net::TcpListener;

use crate::http::HttpMetrics;
pub use error::HubError;
pub use events::{EventOptions, EventStats};
pub use nodes::NodeOptions;
use services::Services;
pub use services::{DataDirState, INSTANCE, LOG_FILE, data_dir_state, prepare_data_dir};
use tls::Tls;
pub use tls::TlsError;

/// Time limit of each stage of a shutdown.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct HubOptions {
    pub config: Config,
    /// The environment that the configuration of upstream servers may refer to.
    pub environment: Environment,
    pub clock: Clock,
    pub mcp: McpOptions,
    /// Time limits for upstream servers.
    pub timing: Timing,
    pub events: EventOptions,
    /// Limits and time-outs of nodes.
    pub nodes: NodeOptions,
    /// The program that starts commands on the hub's own machine in their sandbox; `None` disables the sandbox.
    pub launcher: Option<PathBuf>,
}

impl HubOptions {
    /// The default options; tests override some of them.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mcp = McpOptions {
            json_depth: config.limits.json_depth,
            sessions: config.limits.mcp_sessions,
            task_after: Duration::from_secs(config.limits.task_after_seconds),
            ..McpOptions::default()
        };
        let environment = Environment::default();
        let (clock, timing) = (Clock::system(), Timing::default());
        let nodes = NodeOptions::new(&config.nodes);
        Self {
            config,
            environment,
            clock,
            mcp,
            timing,
            events: EventOptions::default(),
            nodes,
            launcher: None,
        }
    }
}

/// A running hub.
#[derive(Debug)]
pub struct Hub {
    address: SocketAddr,
    supervisor: Supervisor,
    services: Arc<Services>,
    tls: Option<Arc<Tls>>,
}

/// State shared by all requests; the services are added when they are ready.
#[derive(Debug, Clone)]
pub(crate) struct App {
    config: LiveConfig,
    /// Address for clients on this machine.
    address: SocketAddr,
    scheme: &'static str,
    ready: Arc<OnceLock<Arc<Services>>>,
    metrics: Metrics,
    http: Arc<HttpMetrics>,
}

impl App {
    /// URL for clients of the hub, as far as the hub knows it.
    pub(crate) fn public_url(&self) -> String {
        self.config.load().public_url.clone().unwrap_or_else(|| self.local_url())
    }

    /// Where clients on this machine reach it.
    pub(crate) fn local_url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }
}

/// The OpenAPI 3.1 document of the REST API, generated from its routes.
pub fn openapi() -> Result<String, serde_json::Error> {
    routes::document()
}

impl Hub {
    /// Starts a hub and returns when it is ready.
    pub async fn start(options: HubOptions) -> Result<Self, HubError> {
        let tls = Tls::open(&options.config.tls, options.clock.clone())?;
        let listen = options.config.listen;
        let listener =
            TcpListener::bind(listen).await.map_err(|source| HubError::Listen { address: listen, source })?;
        let address = listener.local_addr().map_err(|source| HubError::Listen { address: listen, source })?;
        let supervisor = Supervisor::new();
        let config = LiveConfig::new(options.config.clone());
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let app = App {
            config: config.clone(),
            address: reachable(address),
            scheme: scheme(&tls),
            ready: Arc::default(),
            http: Arc::new(HttpMetrics::new(&metrics)),
            metrics,
        };
        let router = routes::router(app.clone());
        serve::start(listener, router, tls.clone(), options.events.stalled(), &app.http, &supervisor);
        let opened = async {
            let services = Arc::new(Services::open(options, config, &supervisor).await?);
            services.register(&app.metrics);
            background::start(&services, &supervisor);
            let _ = app.ready.set(services.clone());
            // Announce the address last: a client that finds it may rely on an answer.
            announce(&services, address, &tls)?;
            Ok(services)
        };
        match opened.await {
            Ok(services) => {
                services.start_local_node();
                tracing::info!(
                    listen = %address,
                    version = env!("CARGO_PKG_VERSION"),
                    database = services.store.database(),
                    "ready"
                );
                Ok(Self { address, supervisor, services, tls })
            }
            Err(error) => {
                supervisor.shutdown(GRACE).await;
                Err(error)
            }
        }
    }

    /// The listening address, which may stand for every interface.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL for clients on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", scheme(&self.tls), reachable(self.address))
    }

    /// The tools that this hub offers. Tools may be added and removed while it runs.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        self.services.dispatcher.registry()
    }

    /// The hub's upstream MCP servers.
    #[must_use]
    pub fn upstreams(&self) -> &Upstreams {
        &self.services.upstreams
    }

    /// Statistics of the event streams.
    #[must_use]
    pub fn event_stats(&self) -> EventStats {
        self.services.events.stats()
    }

    /// The current configuration.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.services.config.snapshot()
    }

    /// Applies the reloadable settings of a newly read configuration to all later requests.
    pub fn reload(&self, read: Config) -> Reloaded {
        let reloaded = self.services.config.reload(read);
        let config = self.services.config.load();
        let limits = config.limits;
        self.services.failed_attempts.set_limit(config.auth.failed_per_minute);
        self.services.dispatcher.set_limits(limits.calls_per_principal, limits.output_bytes);
        self.services.mcp.set_json_depth(limits.json_depth);
        self.services.custom.configure(config.tools.enabled.clone());
        reloaded
    }

    /// Reloads the certificate files. Invalid files change nothing.
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        let Some(tls) = &self.tls else { return Ok(()) };
        if tls.reload()? {
            tracing::info!("the hub's certificate has changed");
            // Commands on this machine identify the hub by its certificate.
            if let Err(error) = announce(&self.services, self.address, &self.tls) {
                tracing::error!(%error, "cannot publish the new certificate to commands on this machine");
            }
        }
        Ok(())
    }

    /// Reloads the profile files. Tool lists of callers change with their profile.
    pub fn reload_profiles(&self) -> ProfilesChange {
        self.services.reload_profiles()
    }

    /// Stops accepting requests, finishes the running ones and flushes pending writes.
    pub async fn shutdown(self) -> Drained {
        tracing::info!(calls = self.services.dispatcher.in_flight(), "stopping");
        // Report not ready first, so that a load balancer uses another hub while calls finish.
        self.services.draining.cancel();
        // While this hub has the lock of the folder: the next hub can write its address before the last task here has ended.
        self.services.forget_address();
        let drained = self.supervisor.shutdown(GRACE).await;
        tracing::info!("stopped");
        drained
    }

    /// Number of live tasks of a stage, for tests that wait until a hub is idle.
    #[must_use]
    pub fn tasks(&self, stage: Stage) -> usize {
        self.supervisor.count(stage)
    }
}

fn scheme(tls: &Option<Arc<Tls>>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

fn announce(services: &Services, address: SocketAddr, tls: &Option<Arc<Tls>>) -> Result<(), HubError> {
    let url = format!("{}://{}", scheme(tls), reachable(address));
    services.announce(&url, tls.as_ref().map(|tls| tls.fingerprint()))
}

/// The address at which clients on this machine reach a listener: an unspecified address cannot be dialed, but
/// includes loopback.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}
