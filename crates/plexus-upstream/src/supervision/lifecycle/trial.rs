//! Trying a server out: connected to once, beside those that run.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Environment, Supervisor};
use plexus_proto::api::{ToolFlag, UpstreamTest};
use plexus_tools::Capabilities;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::client::{ClientSettings, Connect, Listener, News, StderrRing};
use crate::config::ServerConfig;
use crate::oauth::Account;
use crate::supervision::call::questions::EVERYTHING;
use crate::supervision::lifecycle::{self, Opened};
use crate::supervision::{Timing, Upstreams, catalog, unit};
use crate::trust;

/// Lines of standard error that are shown.
const STDERR_SHOWN: usize = 50;

/// Starts or dials a server as a client of it would, lists its tools and leaves.
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
    /// Connects to a server, lists its tools and leaves. No unit is touched; it takes no longer than connecting may.
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
    /// Who is logged in there.
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
            listener: Arc::new(Deaf),
            supervisor: self.supervisor.clone(),
            stderr: stderr.clone(),
            chatter: Arc::default(),
            settings: self.settings,
            capabilities: if config.questions { EVERYTHING } else { Capabilities::default() },
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
            Opened::open(connect).await
        };
        match opened.await {
            Ok(Opened { client, definitions }) => {
                let (catalog, _) = catalog::build(&config, &definitions, |_| true);
                report.success = true;
                report.revision = Some(client.peer().revision.clone());
                report.era = Some(client.peer().era);
                report.server = Some(unit::name_of(client.peer()));
                report.tools = catalog.entries.into_keys().collect();
                report.warnings.extend(catalog.warnings);
                report.warnings.extend(definitions.iter().flat_map(strange));
                lifecycle::close(&client, self.close).await;
            }
            Err(error) => report.error = Some(error.to_string()),
        }
        report.stderr = stderr.lines();
        report.stderr.drain(..report.stderr.len().saturating_sub(STDERR_SHOWN));
        report.elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        report
    }
}

/// What is strange about a tool, for who is about to trust it.
fn strange(definition: &Map<String, Value>) -> Vec<String> {
    let name = trust::visible(definition.get("name").and_then(Value::as_str).unwrap_or_default());
    let told = |flag: ToolFlag| format!("{name} has {} in {}: {}", flag.kind.as_str(), flag.at, flag.found);
    trust::flags(definition).into_iter().map(told).collect()
}

impl Upstreams {
    /// That of the server which is there, if it is the one that is tried out; else one that has nothing yet.
    fn account_for(&self, config: &ServerConfig) -> Arc<Account> {
        let unit = self.unit(&config.name);
        let same = |unit: &Arc<unit::Unit>| {
            unit.config().is_some_and(|known| known.fingerprint == config.fingerprint)
        };
        match unit.filter(same) {
            Some(unit) => unit.account.clone(),
            None => self.0.shared.account(&config.name, None),
        }
    }
}

/// Nobody follows the list of a server that is only tried out.
struct Deaf;

impl Listener for Deaf {
    fn heard(&self, _: News) {}
}
