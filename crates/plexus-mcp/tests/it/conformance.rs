//! The official conformance suite against the hub, in every revision of the suite.
//!
//! `tests/conformance/scenarios.toml` contains the expected results.

use std::collections::{BTreeMap, BTreeSet};

use plexus_testkit::conformance::{self, Report, Suite};
use plexus_testkit::{FaultyLink, TestHub, TestProxy};
use serde::Deserialize;

/// The expected results of a suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    hub: BTreeSet<String>,
    fixture: BTreeSet<String>,
    #[serde(default)]
    extension: BTreeSet<String>,
    /// Checks of scenarios in `hub` that a hub without other servers cannot pass.
    #[serde(default)]
    left_out: BTreeMap<String, BTreeSet<String>>,
}

impl Expected {
    fn of(suite: Suite) -> Self {
        let text = include_str!("../conformance/scenarios.toml");
        let mut suites: BTreeMap<String, Self> = toml::from_str(text).unwrap();
        suites.remove(suite.set()).unwrap()
    }

    /// Descriptions of the unexpected results.
    fn differences(&self, report: &Report) -> Vec<String> {
        let failed: BTreeSet<(&str, &str)> =
            report.complaints().map(|(scenario, check)| (scenario, check.id.as_str())).collect();
        let left_out =
            |scenario: &str, id: &str| self.left_out.get(scenario).is_some_and(|checks| checks.contains(id));
        let mut differences = Vec::new();
        for (scenario, checks) in &report.scenarios {
            if self.fixture.contains(scenario) {
                continue;
            }
            if !self.hub.contains(scenario) {
                differences.push(format!("{scenario} is not in scenarios.toml"));
            }
            if !checks.iter().any(|check| check.status == "SUCCESS") {
                differences.push(format!("{scenario} has no successful check: {checks:?}"));
            }
            let wrong = checks.iter().filter(|check| !check.is_good() && !left_out(scenario, &check.id));
            differences.extend(wrong.map(|check| format!("{scenario}: {check:?}")));
            for id in self.left_out.get(scenario).into_iter().flatten() {
                if !failed.contains(&(scenario.as_str(), id.as_str())) {
                    differences.push(format!("{scenario}: {id} passes; remove it from left_out"));
                }
            }
        }
        differences
    }
}

/// Runs every scenario of a revision. The scenarios in `among` must be included.
async fn run(suite: Suite, revision: &str, among: &[&str]) {
    let hub = TestHub::start().await;
    let token = hub.token("conformance", &["call:*"]).await.token;
    let link = FaultyLink::with_token(hub.address(), &token).await;
    check(&link, suite, revision, among).await;
}

/// Like [`run`], through a proxy.
async fn run_through_proxy(suite: Suite, revision: &str, among: &[&str]) {
    let hub = TestHub::start().await;
    let token = hub.token("conformance", &["call:*"]).await.token;
    let proxy = TestProxy::start(&hub.url(""), &token).await;
    let link = FaultyLink::with_token(proxy.address(), proxy.secret()).await;
    check(&link, suite, revision, among).await;
}

async fn check(link: &FaultyLink, suite: Suite, revision: &str, among: &[&str]) {
    let Some(report) = conformance::run(suite, &link.url("/mcp"), revision).await else {
        return;
    };
    let differences = Expected::of(suite).differences(&report);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    for scenario in among {
        assert!(report.scenarios.contains_key(*scenario), "{scenario} was not run");
    }
}

/// Fails if a new version of the suite adds or removes a scenario.
async fn assert_listed(suite: Suite) {
    let Some(scenarios) = conformance::scenarios(suite).await else { return };
    let Expected { hub, fixture, extension, left_out } = Expected::of(suite);
    let listed: BTreeSet<String> = [&hub, &fixture, &extension].into_iter().flatten().cloned().collect();
    assert_eq!(listed.len(), hub.len() + fixture.len() + extension.len(), "a scenario is listed twice");
    assert_eq!(listed, scenarios.into_iter().collect());
    assert!(left_out.keys().all(|scenario| hub.contains(scenario)), "{left_out:?}");
}

#[tokio::test]
async fn conformance_lists_every_scenario_of_the_suites() {
    assert_listed(Suite::Sessions).await;
    assert_listed(Suite::Stateless).await;
}

#[tokio::test]
async fn conformance_1_in_2025_06_18() {
    run(Suite::Sessions, "2025-06-18", &["server-initialize", "ping", "tools-list"]).await;
}

#[tokio::test]
async fn conformance_1_in_2025_11_25() {
    let among = ["server-initialize", "ping", "tools-list", "server-sse-multiple-streams"];
    run(Suite::Sessions, "2025-11-25", &among).await;
}

#[tokio::test]
async fn conformance_2_in_2025_03_26() {
    run(Suite::Stateless, "2025-03-26", &["server-session-lifecycle"]).await;
}

#[tokio::test]
async fn conformance_2_in_2025_06_18() {
    run(Suite::Stateless, "2025-06-18", &["server-initialize", "server-session-lifecycle", "ping"]).await;
}

#[tokio::test]
async fn conformance_2_in_2025_11_25() {
    let among = ["server-initialize", "server-session-lifecycle", "ping", "dns-rebinding-protection"];
    run(Suite::Stateless, "2025-11-25", &among).await;
}

#[tokio::test]
async fn conformance_2_in_2026_07_28() {
    let among = ["server-stateless", "http-header-validation", "caching", "dns-rebinding-protection"];
    run(Suite::Stateless, "2026-07-28", &among).await;
}

#[tokio::test]
async fn conformance_through_a_proxy_in_sessions() {
    for revision in ["2025-06-18", "2025-11-25"] {
        run_through_proxy(Suite::Sessions, revision, &["server-initialize", "ping", "tools-list"]).await;
    }
    let among = ["server-initialize", "server-session-lifecycle", "ping", "dns-rebinding-protection"];
    run_through_proxy(Suite::Stateless, "2025-11-25", &among).await;
}

#[tokio::test]
async fn conformance_through_a_proxy_stateless() {
    let among = ["server-stateless", "http-header-validation", "caching", "dns-rebinding-protection"];
    run_through_proxy(Suite::Stateless, "2026-07-28", &among).await;
}
