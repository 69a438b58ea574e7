//! The official conformance suite against the hub, in every revision it knows.
//!
//! `tests/conformance/scenarios.toml` says what is expected of each scenario.

use std::collections::{BTreeMap, BTreeSet};

use plexus_testkit::conformance::{self, Report, Suite};
use plexus_testkit::{Link, TestHub, TestProxy};
use serde::Deserialize;

/// What is expected of a suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    hub: BTreeSet<String>,
    fixture: BTreeSet<String>,
    #[serde(default)]
    extension: BTreeSet<String>,
    /// Checks of scenarios in `hub` that a hub by itself cannot pass.
    #[serde(default)]
    left_out: BTreeMap<String, BTreeSet<String>>,
}

impl Expected {
    fn of(suite: Suite) -> Self {
        let text = include_str!("../conformance/scenarios.toml");
        let mut suites: BTreeMap<String, Self> = toml::from_str(text).unwrap();
        suites.remove(suite.set()).unwrap()
    }

    /// The checks that were not as expected, in words.
    fn surprises(&self, report: &Report) -> Vec<String> {
        let complaints: BTreeSet<(&str, &str)> =
            report.complaints().map(|(scenario, check)| (scenario, check.id.as_str())).collect();
        let left_out =
            |scenario: &str, id: &str| self.left_out.get(scenario).is_some_and(|checks| checks.contains(id));
        let mut surprises = Vec::new();
        for (scenario, checks) in &report.scenarios {
            if self.fixture.contains(scenario) {
                continue;
            }
            if !self.hub.contains(scenario) {
                surprises.push(format!("{scenario} is not in scenarios.toml"));
            }
            if !checks.iter().any(|check| check.status == "SUCCESS") {
                surprises.push(format!("{scenario} looked at nothing: {checks:?}"));
            }
            let wrong = checks.iter().filter(|check| !check.is_good() && !left_out(scenario, &check.id));
            surprises.extend(wrong.map(|check| format!("{scenario}: {check:?}")));
            for id in self.left_out.get(scenario).into_iter().flatten() {
                if !complaints.contains(&(scenario.as_str(), id.as_str())) {
                    surprises
                        .push(format!("{scenario} has nothing against {id}, which need not be left out"));
                }
            }
        }
        surprises
    }
}

/// Runs every scenario of a revision; those named must be among them.
async fn run(suite: Suite, revision: &str, among: &[&str]) {
    let hub = TestHub::start().await;
    let token = hub.token("conformance", &["call:*"]).await.token;
    let link = Link::with_token(hub.address(), &token).await;
    look_at(&link, suite, revision, among).await;
}

/// The same for a proxy, which is a server like any other.
async fn run_by_proxy(suite: Suite, revision: &str, among: &[&str]) {
    let hub = TestHub::start().await;
    let token = hub.token("conformance", &["call:*"]).await.token;
    let proxy = TestProxy::start(&hub.url(""), &token).await;
    let link = Link::with_token(proxy.address(), proxy.secret()).await;
    look_at(&link, suite, revision, among).await;
}

async fn look_at(link: &Link, suite: Suite, revision: &str, among: &[&str]) {
    let Some(report) = conformance::run(suite, &link.url("/mcp"), revision).await else {
        return;
    };
    let surprises = Expected::of(suite).surprises(&report);
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    for scenario in among {
        assert!(report.scenarios.contains_key(*scenario), "{scenario} was not run");
    }
}

/// A scenario that comes or goes with another version of the suite is noticed.
async fn assert_listed(suite: Suite) {
    let Some(scenarios) = conformance::scenarios(suite).await else { return };
    let Expected { hub, fixture, extension, left_out } = Expected::of(suite);
    let listed: BTreeSet<String> = [&hub, &fixture, &extension].into_iter().flatten().cloned().collect();
    assert_eq!(listed.len(), hub.len() + fixture.len() + extension.len(), "a scenario is named twice");
    assert_eq!(listed, scenarios.into_iter().collect());
    assert!(left_out.keys().all(|scenario| hub.contains(scenario)), "{left_out:?}");
}

#[tokio::test]
async fn conformance_lists_every_scenario_of_the_suites() {
    assert_listed(Suite::Sessions).await;
    assert_listed(Suite::Stateless).await;
}

#[tokio::test]
async fn conformance_1_by_2025_06_18() {
    run(Suite::Sessions, "2025-06-18", &["server-initialize", "ping", "tools-list"]).await;
}

#[tokio::test]
async fn conformance_1_by_2025_11_25() {
    let among = ["server-initialize", "ping", "tools-list", "server-sse-multiple-streams"];
    run(Suite::Sessions, "2025-11-25", &among).await;
}

#[tokio::test]
async fn conformance_2_by_2025_03_26() {
    run(Suite::Stateless, "2025-03-26", &["server-session-lifecycle"]).await;
}

#[tokio::test]
async fn conformance_2_by_2025_06_18() {
    run(Suite::Stateless, "2025-06-18", &["server-initialize", "server-session-lifecycle", "ping"]).await;
}

#[tokio::test]
async fn conformance_2_by_2025_11_25() {
    let among = ["server-initialize", "server-session-lifecycle", "ping", "dns-rebinding-protection"];
    run(Suite::Stateless, "2025-11-25", &among).await;
}

#[tokio::test]
async fn conformance_2_by_2026_07_28() {
    let among = ["server-stateless", "http-header-validation", "caching", "dns-rebinding-protection"];
    run(Suite::Stateless, "2026-07-28", &among).await;
}

#[tokio::test]
async fn conformance_by_a_proxy_in_sessions() {
    for revision in ["2025-06-18", "2025-11-25"] {
        run_by_proxy(Suite::Sessions, revision, &["server-initialize", "ping", "tools-list"]).await;
    }
    let among = ["server-initialize", "server-session-lifecycle", "ping", "dns-rebinding-protection"];
    run_by_proxy(Suite::Stateless, "2025-11-25", &among).await;
}

#[tokio::test]
async fn conformance_by_a_proxy_without_them() {
    let among = ["server-stateless", "http-header-validation", "caching", "dns-rebinding-protection"];
    run_by_proxy(Suite::Stateless, "2026-07-28", &among).await;
}
