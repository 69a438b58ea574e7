//! Tests a server: connects once, independently of the running units.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Environment, Supervisor};
use plexus_proto::api::{ToolFlag, UpstreamTest};
use plexus_tools::Capabilities;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::client::{ClientSettings, Connect, Listener, ServerChange, StderrRing};
use crate::config::ServerConfig;
use crate::oauth::Account;
use crate::supervision::call::questions::ALL_CAPABILITIES;
use crate::supervision::lifecycle::{self, OpenedConnection};
use crate::supervision::{Timing, Upstreams, catalog, unit};
use crate::trust;

/// Lines of standard error that are reported.
const MAX_STDERR_LINES: usize = 50;

/// Starts or connects to a server, lists its tools and disconnects.
pub async fn try_out(
    server: ServerConfig,
    environment: &Environment,
    supervisor: &Supervisor,
    settings: ClientSettings,
) -> UpstreamTest {
    Trial { server, account: None, environment, supervisor, settings, close: Timing::default().close }
        .run()
        .await
}

impl Upstreams {
    /// Connects to a server, lists its tools and disconnects. No unit is affected; the duration is bounded by
    /// the connect timeout.
    pub async fn test(&self, server: ServerConfig) -> UpstreamTest {
        let shared = &self.0.shared;
        Trial {
            account: Some(self.account_for(&server)),
            server,
            environment: &shared.environment,
            supervisor: &shared.supervisor,
            settings: shared.client.clone(),
            close: shared.timing.close,
        }
        .run()
        .await
    }
}

struct Trial<'a> {
    server: ServerConfig,
    /// The account of the server, with its login.
    account: Option<Arc<Account>>,
    environment: &'a Environment,
    supervisor: &'a Supervisor,
    settings: ClientSettings,
    close: Duration,
}

impl Trial<'_> {
    async fn run(self) -> UpstreamTest {
        let began = Instant::now();
        let config = Arc::new(self.server);
        let stderr = Arc::new(StderrRing::new());
        let account = self.account;
        let connect = Connect {
            account: account.clone(),
            config: config.clone(),
            environment: self.environment.clone(),
            known_era: None,
            listener: Arc::new(IgnoreChanges),
            supervisor: self.supervisor.clone(),
            stderr: stderr.clone(),
            chatter: Arc::default(),
            settings: self.settings,
            capabilities: if config.questions { ALL_CAPABILITIES } else { Capabilities::default() },
        };
        let mut report = UpstreamTest {
            transport: Some(config.transport.kind()),
            warnings: config.warnings.clone(),
            ..UpstreamTest::default()
        };
        let opened = async {
            if let (Some(http), Some(account)) = (config.transport.http(), &account) {
                account.follow(http).await?;
            }
            OpenedConnection::open(connect).await
        };
        match opened.await {
            Ok(OpenedConnection { client, definitions }) => {
                let (catalog, _) = catalog::build(&config, &definitions, |_| true);
                report.success = true;
                report.revision = Some(client.peer().revision.clone());
                report.era = Some(client.peer().era);
                report.server = Some(unit::name_of(client.peer()));
                report.tools = catalog.entries.into_keys().collect();
                report.warnings.extend(catalog.warnings);
                report.warnings.extend(definitions.iter().flat_map(findings));
                lifecycle::close(&client, self.close).await;
            }
            Err(error) => report.error = Some(error.to_string()),
        }
        report.stderr = stderr.lines();
        report.stderr.drain(..report.stderr.len().saturating_sub(MAX_STDERR_LINES));
        report.elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        report
    }
}

/// Findings about a tool, for the person who is about to trust it.
fn findings(definition: &Map<String, Value>) -> Vec<String> {
    let name = trust::visible(definition.get("name").and_then(Value::as_str).unwrap_or_default());
    let line = |flag: ToolFlag| format!("{name} has {} in {}: {}", flag.kind.as_str(), flag.at, flag.found);
    trust::flags(definition).into_iter().map(line).collect()
}

impl Upstreams {
    /// The account of the running server if its configuration is the same; otherwise an empty one.
    fn account_for(&self, config: &ServerConfig) -> Arc<Account> {
        let unit = self.unit(&config.name);
        let same = |unit: &Arc<unit::Unit>| {
            unit.config().is_some_and(|running_config| running_config.fingerprint == config.fingerprint)
        };
        match unit.filter(same) {
            Some(unit) => unit.account.clone(),
            None => self.0.shared.account(&config.name, None),
        }
    }
}

/// Ignores change notifications during a test.
struct IgnoreChanges;

impl Listener for IgnoreChanges {
    fn on_change(&self, _: ServerChange) {}
}
