//! The hub: an HTTP server around the dispatcher.
//!
//! [`Hub::start`] listens at once and answers 503 until everything behind it is up, so that a
//! client that comes early is told to wait instead of being refused.

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
use plexus_mcp::upstream::{Timing, Upstreams};
use plexus_tools::Registry;
use tokio::net::TcpListener;

use crate::http::HttpMetrics;
pub use error::HubError;
pub use events::{EventOptions, EventStats};
pub use nodes::NodeOptions;
use services::Services;
pub use services::{DataDirState, INSTANCE, LOG_FILE, data_dir_state, prepare_data_dir};
use tls::Tls;
pub use tls::TlsError;

/// Time that each stage of a shutdown gets.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct HubOptions {
    pub config: Config,
    /// What the configuration of upstream servers may refer to.
    pub environment: Environment,
    pub clock: Clock,
    pub mcp: McpOptions,
    /// How long the servers behind the hub are waited for.
    pub timing: Timing,
    pub events: EventOptions,
    /// How the machines that tools run on are treated.
    pub nodes: NodeOptions,
    /// The program that puts commands on the hub's own machine into their sandbox; without it there is none.
    pub launcher: Option<PathBuf>,
}

impl HubOptions {
    /// What a hub runs with unless a test says otherwise.
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

/// What every request can reach; the services come when they are ready.
#[derive(Debug, Clone)]
pub(crate) struct App {
    config: LiveConfig,
    /// Where clients on this machine reach it.
    address: SocketAddr,
    scheme: &'static str,
    ready: Arc<OnceLock<Arc<Services>>>,
    metrics: Metrics,
    http: Arc<HttpMetrics>,
}

impl App {
    /// Where clients reach the hub, as far as it knows.
    pub(crate) fn public_url(&self) -> String {
        self.config.load().public_url.clone().unwrap_or_else(|| format!("{}://{}", self.scheme, self.address))
    }
}

/// The description of the REST API (OpenAPI 3.1), made from its routes.
pub fn openapi() -> Result<String, serde_json::Error> {
    routes::document()
}

impl Hub {
    /// Starts a hub; returns when it is ready.
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
            // Last: whoever finds the address may count on an answer.
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

    /// Where it listens, which may be every interface.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where clients on this machine reach it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", scheme(&self.tls), reachable(self.address))
    }

    /// The tools this hub offers; tools may be added and removed while it runs.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        self.services.dispatcher.registry()
    }

    /// The MCP servers behind this hub.
    #[must_use]
    pub fn upstreams(&self) -> &Upstreams {
        &self.services.upstreams
    }

    /// How the event streams are doing.
    #[must_use]
    pub fn event_stats(&self) -> EventStats {
        self.services.events.stats()
    }

    /// What the hub runs with now.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.services.config.snapshot()
    }

    /// Takes from a configuration that was read anew what can change while the hub runs; it holds for
    /// every request from now on.
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

    /// Reads the files of certificates again. What is wrong with them changes nothing.
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        let Some(tls) = &self.tls else { return Ok(()) };
        if tls.reload()? {
            tracing::info!("the hub has another certificate");
            // Commands on this machine know the hub by its certificate.
            if let Err(error) = announce(&self.services, self.address, &self.tls) {
                tracing::error!(%error, "commands on this machine do not know the new certificate");
            }
        }
        Ok(())
    }

    /// Reads the files of the profiles again; lists of callers change where their profile has.
    pub fn reload_profiles(&self) -> ProfilesChange {
        self.services.reload_profiles()
    }

    /// Stops taking requests, finishes those that run, writes what is left to write.
    pub async fn shutdown(self) -> Drained {
        tracing::info!(calls = self.services.dispatcher.in_flight(), "stopping");
        // No longer ready: a load balancer looks elsewhere while calls finish.
        self.services.draining.cancel();
        let drained = self.supervisor.shutdown(GRACE).await;
        self.services.forget_address();
        tracing::info!("stopped");
        drained
    }

    /// Tasks that are alive, by stage; for those who wait for a hub to come to rest.
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

/// Where clients on this machine reach what listens at an address: one that stands for every
/// interface is none to connect to, and loopback is among those it stands for.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}
