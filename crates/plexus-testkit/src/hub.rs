//! A hub in this process, on a free port, with a folder of its own.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plexus_hub::{EventOptions, EventStats, Hub, HubOptions};
use plexus_kit::config::{Limits, RawConfig};
use plexus_kit::{Clock, Config, Environment, Secret, Stage};
use plexus_mcp::server::McpOptions;
use plexus_proto::api::{CreateTokenParams, CreatedToken, TokenKind};
use plexus_tools::Registry;
use plexus_upstream::{Timing, Upstreams};
use tempfile::TempDir;

use crate::{EventRequest, McpClient, postgres};

/// Variable that puts every hub in a test on PostgreSQL: `postgres`.
const DATABASE: &str = "PLEXUS_TEST_DATABASE";
/// Keep-alives come often, so that a test need not wait 25 seconds for one.
const KEEP_ALIVE: Duration = Duration::from_millis(100);
/// Between two looks at something that only the API tells.
const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// A client that goes through no proxy.
pub fn http_client() -> reqwest::Client {
    // A second one in the same process finds it installed, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("an HTTP client")
}

/// A running hub; its folder goes with it.
pub struct TestHub {
    hub: Hub,
    dir: TempDir,
    http: reqwest::Client,
    change: Change,
    answering: Answering,
    clock: Clock,
    events: EventOptions,
    timing: Timing,
}

type Change = Box<dyn Fn(&mut Config) + Send + Sync>;
type Answering = Box<dyn Fn(&mut McpOptions) + Send + Sync>;

impl TestHub {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A hub whose configuration is changed before it starts.
    pub async fn start_with(change: impl Fn(&mut Config) + Send + Sync + 'static) -> Self {
        let events = EventOptions { keep_alive: KEEP_ALIVE, ..EventOptions::default() };
        Self::start_all(Box::new(change), Box::new(|_| {}), events, Timing::default()).await
    }

    /// A hub that answers MCP clients by other options.
    pub async fn start_answering(change: impl Fn(&mut McpOptions) + Send + Sync + 'static) -> Self {
        let events = EventOptions { keep_alive: KEEP_ALIVE, ..EventOptions::default() };
        Self::start_all(Box::new(|_| {}), Box::new(change), events, Timing::default()).await
    }

    /// A hub whose event streams have other limits.
    pub async fn start_streaming(events: EventOptions) -> Self {
        Self::start_all(Box::new(|_| {}), Box::new(|_| {}), events, Timing::default()).await
    }

    /// A hub that takes other times with the servers behind it.
    pub async fn start_timed(timing: Timing) -> Self {
        let events = EventOptions { keep_alive: KEEP_ALIVE, ..EventOptions::default() };
        Self::start_all(Box::new(|_| {}), Box::new(|_| {}), events, timing).await
    }

    async fn start_all(change: Change, answering: Answering, events: EventOptions, timing: Timing) -> Self {
        // A second test in the same process finds it installed, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let clock = Clock::system();
        let database = match std::env::var_os(DATABASE) {
            Some(name) if name == "postgres" => {
                Some(postgres::database().await.expect("a PostgreSQL server"))
            }
            _ => None,
        };
        let change: Change = Box::new(move |config| {
            config.database_url = database.clone().map(Secret::from);
            change(config);
        });
        let hub = start(dir.path(), &change, &answering, &events, &timing, clock.clone()).await;
        let http = http_client();
        Self { hub, dir, http, change, answering, clock, events, timing }
    }

    /// Stops the hub and starts another one on the same folder; it has another address.
    pub async fn restart(self) -> Self {
        let Self { hub, dir, http, change, answering, clock, events, timing } = self;
        let drained = hub.shutdown().await;
        assert!(drained.aborted.is_empty(), "did not stop by themselves: {:?}", drained.aborted);
        let hub = start(dir.path(), &change, &answering, &events, &timing, clock.clone()).await;
        Self { hub, dir, http, change, answering, clock, events, timing }
    }

    /// The same, for a hub to which so much time has passed since; its clock stands still from then on.
    pub async fn restart_later(self, by: Duration) -> Self {
        let clock = Clock::manual(self.clock.now());
        clock.advance(by);
        Self { clock, ..self }.restart().await
    }

    /// Stops the hub; its folder can be looked at until the returned value is dropped.
    pub async fn stop(self) -> TempDir {
        let drained = self.hub.shutdown().await;
        assert!(drained.aborted.is_empty(), "did not stop by themselves: {:?}", drained.aborted);
        self.dir
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.hub.url())
    }

    /// For tests that speak to the socket themselves.
    pub fn address(&self) -> SocketAddr {
        self.hub.address()
    }

    /// Its clock; it can be moved after [`Self::restart_later`].
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn registry(&self) -> &Arc<Registry> {
        self.hub.registry()
    }

    /// Has the files of the profiles read now, without waiting for the hub to notice.
    pub fn reload_profiles(&self) {
        self.hub.reload_profiles();
    }

    /// The servers behind the hub.
    pub fn upstreams(&self) -> &Upstreams {
        self.hub.upstreams()
    }

    /// A stream of events over WebSocket; `path` with its query.
    pub fn events(&self, path: impl Into<String>, token: &str) -> EventRequest {
        EventRequest::new(self.address(), path).bearer(token)
    }

    /// Tasks of the hub that are alive.
    pub fn tasks(&self) -> usize {
        [Stage::Intake, Stage::Work, Stage::Storage].into_iter().map(|stage| self.hub.tasks(stage)).sum()
    }

    /// How the event streams are doing.
    pub fn event_stats(&self) -> EventStats {
        self.hub.event_stats()
    }

    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub fn admin_token(&self) -> String {
        let token = std::fs::read_to_string(self.dir.path().join("admin-token")).expect("the admin token");
        token.trim().to_owned()
    }

    /// A fresh agent token with these scopes.
    pub async fn token(&self, name: &str, scopes: &[&str]) -> CreatedToken {
        let params = CreateTokenParams {
            kind: TokenKind::Agent,
            name: name.to_owned(),
            profile: None,
            node: None,
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            ttl_seconds: None,
            renew_seconds: None,
        };
        let request =
            self.http.post(self.url("/api/v1/tokens")).bearer_auth(self.admin_token()).json(&params);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 201, "token refused: {}", response.text().await.unwrap_or_default());
        response.json().await.expect("a token")
    }

    /// Revokes a token; the hub knows when this returns.
    pub async fn revoke(&self, jti: impl fmt::Display) {
        let request = self.http.delete(self.url(&format!("/api/v1/tokens/{jti}")));
        let response = request.bearer_auth(self.admin_token()).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "not revoked: {}", response.text().await.unwrap_or_default());
    }

    /// How the newest call of a tool ended, as audited; waits for its end.
    pub async fn outcome_of(&self, tool: &str) -> String {
        let ended = async {
            loop {
                let page = self.api(&format!("/api/v1/audit?limit=1&tool={tool}")).await;
                match page["items"][0]["outcome"].as_str() {
                    None | Some("unfinished") => tokio::time::sleep(POLL).await,
                    Some(outcome) => return outcome.to_owned(),
                }
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("the call ends in time")
    }

    /// A client at `/mcp` with this token.
    pub fn mcp(&self, token: &str) -> McpClient {
        McpClient::new(self.http.clone(), self.url("/mcp"), token)
    }

    /// A REST request with the admin token, answered as JSON.
    pub async fn api(&self, path: &str) -> serde_json::Value {
        let request = self.http.get(self.url(path)).bearer_auth(self.admin_token());
        let response = request.send().await.expect("an answer");
        let status = response.status();
        let body = response.text().await.expect("a body");
        assert!(status.is_success(), "{path}: {status} {body}");
        serde_json::from_str(&body).expect("JSON")
    }
}

impl fmt::Debug for TestHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestHub").field("hub", &self.hub).field("dir", &self.dir).finish_non_exhaustive()
    }
}

async fn start(
    dir: &Path,
    change: &Change,
    answering: &Answering,
    events: &EventOptions,
    timing: &Timing,
    clock: Clock,
) -> Hub {
    let flags = RawConfig {
        data_dir: Some(dir.to_owned()),
        listen: Some("127.0.0.1:0".to_owned()),
        ..RawConfig::default()
    };
    let mut config = Config::load(None, &Environment::default(), flags).expect("a configuration");
    // Tests that are turned away on purpose are turned away often.
    config.auth.failed_per_minute = 0;
    // Most tests have no use for a machine to run something on.
    config.nodes.local = false;
    change(&mut config);
    let Limits { json_depth, mcp_sessions, .. } = config.limits;
    let mut mcp =
        McpOptions { keep_alive: KEEP_ALIVE, json_depth, sessions: mcp_sessions, ..McpOptions::default() };
    answering(&mut mcp);
    // Little enough to be the same on every machine: a shell and its tools.
    let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/ann")];
    let environment =
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    let (events, timing) = (events.clone(), timing.clone());
    Hub::start(HubOptions { environment, clock, mcp, events, timing, ..HubOptions::new(config) })
        .await
        .unwrap_or_else(|error| panic!("the hub does not start: {error}"))
}
