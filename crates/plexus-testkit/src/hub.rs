//! A hub in this process, with a free port and its own folder.

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

use crate::{EventRequest, McpClient, eventually, postgres};

/// Variable that makes every hub of a test use PostgreSQL: `postgres`.
const DATABASE: &str = "PLEXUS_TEST_DATABASE";
/// Keep-alives are frequent, so that tests need not wait 25 seconds for one.
const KEEP_ALIVE: Duration = Duration::from_millis(100);

/// An HTTP client that uses no proxy.
pub fn http_client() -> reqwest::Client {
    // An error means that another test in this process has installed it already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("an HTTP client")
}

/// A running hub; its folder is deleted with it.
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

    /// Starts a hub with a changed configuration.
    pub async fn start_with(change: impl Fn(&mut Config) + Send + Sync + 'static) -> Self {
        let events = EventOptions { keep_alive: KEEP_ALIVE, ..EventOptions::default() };
        Self::start_all(Box::new(change), Box::new(|_| {}), events, Timing::default()).await
    }

    /// Starts a hub with changed options for MCP clients.
    pub async fn start_answering(change: impl Fn(&mut McpOptions) + Send + Sync + 'static) -> Self {
        let events = EventOptions { keep_alive: KEEP_ALIVE, ..EventOptions::default() };
        Self::start_all(Box::new(|_| {}), Box::new(change), events, Timing::default()).await
    }

    /// Starts a hub with other limits for event streams.
    pub async fn start_streaming(events: EventOptions) -> Self {
        Self::start_all(Box::new(|_| {}), Box::new(|_| {}), events, Timing::default()).await
    }

    /// Starts a hub with other time limits for upstream servers.
    pub async fn start_timed(timing: Timing) -> Self {
        let events = EventOptions { keep_alive: KEEP_ALIVE, ..EventOptions::default() };
        Self::start_all(Box::new(|_| {}), Box::new(|_| {}), events, timing).await
    }

    async fn start_all(change: Change, answering: Answering, events: EventOptions, timing: Timing) -> Self {
        // An error means that another test in this process has installed it already.
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

    /// Stops the hub and starts another one on the same folder, with another address.
    pub async fn restart(self) -> Self {
        let Self { hub, dir, http, change, answering, clock, events, timing } = self;
        let drained = hub.shutdown().await;
        assert!(drained.aborted.is_empty(), "had to be aborted: {:?}", drained.aborted);
        let hub = start(dir.path(), &change, &answering, &events, &timing, clock.clone()).await;
        Self { hub, dir, http, change, answering, clock, events, timing }
    }

    /// The same, with the new hub's clock advanced by `by` and stopped.
    pub async fn restart_later(self, by: Duration) -> Self {
        let clock = Clock::manual(self.clock.now());
        clock.advance(by);
        Self { clock, ..self }.restart().await
    }

    /// Stops the hub; its folder exists until the returned value is dropped.
    pub async fn stop(self) -> TempDir {
        let drained = self.hub.shutdown().await;
        assert!(drained.aborted.is_empty(), "had to be aborted: {:?}", drained.aborted);
        self.dir
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.hub.url())
    }

    /// For tests that use the socket directly.
    pub fn address(&self) -> SocketAddr {
        self.hub.address()
    }

    /// The hub's clock, which can be moved after [`Self::restart_later`].
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn registry(&self) -> &Arc<Registry> {
        self.hub.registry()
    }

    /// Reloads the profiles immediately.
    pub fn reload_profiles(&self) {
        self.hub.reload_profiles();
    }

    /// The upstream servers.
    pub fn upstreams(&self) -> &Upstreams {
        self.hub.upstreams()
    }

    /// An event stream over WebSocket; `path` includes the query.
    pub fn events(&self, path: impl Into<String>, token: &str) -> EventRequest {
        EventRequest::new(self.address(), path).bearer(token)
    }

    /// Number of live tasks of the hub.
    pub fn tasks(&self) -> usize {
        [Stage::Intake, Stage::Work, Stage::Storage].into_iter().map(|stage| self.hub.tasks(stage)).sum()
    }

    /// Statistics of the event streams.
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

    /// A new agent token with these scopes.
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

    /// Revokes a token; the revocation is effective when this returns.
    pub async fn revoke(&self, jti: impl fmt::Display) {
        let request = self.http.delete(self.url(&format!("/api/v1/tokens/{jti}")));
        let response = request.bearer_auth(self.admin_token()).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "not revoked: {}", response.text().await.unwrap_or_default());
    }

    /// The audited outcome of the newest call of a tool; waits for its end.
    pub async fn outcome_of(&self, tool: &str) -> String {
        eventually("the call has ended", async || {
            let page = self.api(&format!("/api/v1/audit?limit=1&tool={tool}")).await;
            match page["items"][0]["outcome"].as_str() {
                None | Some("unfinished") => Err(page),
                Some(outcome) => Ok(outcome.to_owned()),
            }
        })
        .await
    }

    /// An MCP client with this token.
    pub fn mcp(&self, token: &str) -> McpClient {
        McpClient::new(self.http.clone(), self.url("/mcp"), token)
    }

    /// Makes a REST request with the admin token; returns the JSON answer.
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
    // Tests with intended authentication failures have many of them.
    config.auth.failed_per_minute = 0;
    // Most tests do not need a machine to run commands on.
    config.nodes.local = false;
    change(&mut config);
    let Limits { json_depth, mcp_sessions, .. } = config.limits;
    let mut mcp =
        McpOptions { keep_alive: KEEP_ALIVE, json_depth, sessions: mcp_sessions, ..McpOptions::default() };
    answering(&mut mcp);
    // A minimal environment that is the same on every machine: a shell and its tools.
    let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/ann")];
    let environment =
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    let (events, timing) = (events.clone(), timing.clone());
    Hub::start(HubOptions { environment, clock, mcp, events, timing, ..HubOptions::new(config) })
        .await
        .unwrap_or_else(|error| panic!("the hub does not start: {error}"))
}
