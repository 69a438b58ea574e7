//! The official conformance suite against a server behind the hub: every scenario of every revision, for
//! servers of both eras.
//!
//! `tests/conformance/bridge.toml` lists the only accepted complaints, each with its reason.

use std::collections::BTreeSet;

use plexus_testkit::conformance::{self, Check, Report, Suite};
use plexus_testkit::fixture::{Eras, Fixture, TASK_AFTER};
use plexus_testkit::{FaultyLink, TestHub};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

/// Accepted complaints of a scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFailure {
    scenario: String,
    /// Empty: the scenario checks nothing.
    checks: BTreeSet<String>,
    /// Revisions of the client; empty: all that have the scenario.
    #[serde(default)]
    clients: BTreeSet<String>,
    /// Eras of the server: `sessions`, `stateless`.
    upstreams: BTreeSet<String>,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFailures {
    #[serde(default)]
    excused: Vec<KnownFailure>,
}

impl KnownFailures {
    /// The entries for a client and a server.
    fn of(client: &str, upstream: Eras) -> Vec<KnownFailure> {
        let era = if upstream == Eras::Sessions { "sessions" } else { "stateless" };
        let all: Self = toml::from_str(include_str!("../conformance/bridge.toml")).unwrap();
        let holds = |excuse: &KnownFailure| {
            assert!(excuse.why.len() > 20, "{}: say why", excuse.scenario);
            (excuse.clients.is_empty() || excuse.clients.contains(client)) && excuse.upstreams.contains(era)
        };
        all.excused.into_iter().filter(holds).collect()
    }
}

/// Differences from the expectation: complaints without an entry, and entries without a complaint.
fn unexpected_results(report: &Report, excuses: &[KnownFailure]) -> Vec<String> {
    let mut unexpected_results = Vec::new();
    for (scenario, checks) in &report.scenarios {
        let excuse = excuses.iter().find(|excuse| excuse.scenario == *scenario);
        let excused = |id: &str| excuse.is_some_and(|excuse| excuse.checks.contains(id));
        let wrong = checks.iter().filter(|check| !check.is_good() && !excused(&check.id));
        unexpected_results.extend(wrong.map(|check| format!("{scenario}: {check:?}")));
        let has_success = checks.iter().any(|check| check.status == "SUCCESS");
        if !has_success && excuse.is_none() {
            unexpected_results.push(format!("{scenario} looked at nothing: {checks:?}"));
        }
        let complained = |id: &str| checks.iter().any(|check| check.id == id && !check.is_good());
        let needless = excuse.into_iter().flat_map(|excuse| &excuse.checks).filter(|id| !complained(id));
        unexpected_results
            .extend(needless.map(|id| format!("{scenario} has nothing against {id}: take it out")));
        if has_success && excuse.is_some_and(|excuse| excuse.checks.is_empty()) {
            unexpected_results.push(format!("{scenario} has looked at something: take its excuse out"));
        }
    }
    unexpected_results
}

/// A server of an era behind a hub, with an endpoint for a suite that cannot send tokens.
async fn bridge(hub: &TestHub, upstream: Eras) -> (plexus_testkit::fixture::HttpFixture, FaultyLink) {
    let fixture = Fixture::new().only(upstream).start().await;
    // The suite changes the tools, which must be listed without approval.
    let document = json!({ "url": fixture.url(), "naming": "bare", "approve": "auto" });
    hub.add_upstream("fixture", &document).await;
    let token = hub.token("conformance", &["call:*"]).await.token;
    let link = FaultyLink::with_token(hub.address(), &token).await;
    (fixture, link)
}

/// Runs all scenarios of a revision. Their number must be that of the fixture's own test.
async fn assert_passes(suite: Suite, revision: &str, scenarios: usize, upstream: Eras) {
    let hub = TestHub::start().await;
    let (_fixture, link) = bridge(&hub, upstream).await;
    let Some(report) = conformance::run(suite, &link.url("/mcp"), revision).await else {
        return;
    };
    let unexpected_results = unexpected_results(&report, &KnownFailures::of(revision, upstream));
    assert!(unexpected_results.is_empty(), "{}", unexpected_results.join("\n"));
    assert_eq!(report.scenarios.len(), scenarios, "{:?}", report.scenarios.keys());
}

/// The hub turns long calls into tasks, so the scenarios of the extension run against plain slow tools.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance_2_of_the_tasks_extension() {
    let hub = TestHub::start_answering(|options| options.task_after = TASK_AFTER).await;
    let (_fixture, link) = bridge(&hub, Eras::Both).await;
    let url = link.url("/mcp");
    let Some(all) = conformance::scenarios(Suite::Stateless).await else { return };
    let task_scenarios = all.into_iter().filter(|scenario| scenario.starts_with("tasks-"));
    // They mostly wait.
    let runs: JoinSet<(String, Vec<Check>)> = task_scenarios
        .map(|scenario| {
            let url = url.clone();
            async move {
                let checks = conformance::run_one(Suite::Stateless, &url, &scenario).await.unwrap();
                (scenario, checks)
            }
        })
        .collect();
    let report = Report { scenarios: runs.join_all().await.into_iter().collect() };
    let unexpected_results = unexpected_results(&report, &KnownFailures::of("2026-07-28", Eras::Both));
    assert!(unexpected_results.is_empty(), "{}", unexpected_results.join("\n"));
    assert_eq!(report.scenarios.len(), 10, "{:?}", report.scenarios.keys());
}

macro_rules! runs {
    ($($name:ident: $suite:ident $revision:literal $scenarios:literal $upstream:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            assert_passes(Suite::$suite, $revision, $scenarios, Eras::$upstream).await;
        }
    )*};
}

runs! {
    conformance_2_by_2025_11_25_of_a_stateless_server: Stateless "2025-11-25" 33 Both
    conformance_2_by_2026_07_28_of_a_stateless_server: Stateless "2026-07-28" 40 Both
    conformance_2_by_2025_11_25_of_a_server_with_sessions: Stateless "2025-11-25" 33 Sessions
    conformance_2_by_2026_07_28_of_a_server_with_sessions: Stateless "2026-07-28" 40 Sessions
    conformance_1_by_2025_06_18_of_a_stateless_server: Sessions "2025-06-18" 26 Both
    conformance_1_by_2025_11_25_of_a_stateless_server: Sessions "2025-11-25" 32 Both
    conformance_2_by_2025_03_26_of_a_stateless_server: Stateless "2025-03-26" 1 Both
    conformance_2_by_2025_06_18_of_a_stateless_server: Stateless "2025-06-18" 27 Both
    conformance_1_by_2025_06_18_of_a_server_with_sessions: Sessions "2025-06-18" 26 Sessions
    conformance_1_by_2025_11_25_of_a_server_with_sessions: Sessions "2025-11-25" 32 Sessions
    conformance_2_by_2025_03_26_of_a_server_with_sessions: Stateless "2025-03-26" 1 Sessions
    conformance_2_by_2025_06_18_of_a_server_with_sessions: Stateless "2025-06-18" 27 Sessions
}
