//! The official conformance suite against the fixture server: every scenario of every revision.
//!
//! Scenarios of extensions belong to no revision, and the server has no extensions.

use plexus_testkit::conformance::{self, Suite};
use plexus_testkit::fixture::Fixture;

/// Runs all scenarios of a revision. Their number is given, so that missing ones are noticed.
async fn assert_conforms(suite: Suite, revision: &str, scenarios: usize) {
    let server = Fixture::new().start().await;
    let Some(report) = conformance::run(suite, &server.url(), revision).await else {
        return;
    };
    let complaints: Vec<_> = report.complaints().collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    for (scenario, checks) in &report.scenarios {
        assert!(
            checks.iter().any(|check| check.status == "SUCCESS"),
            "{scenario} checked nothing: {checks:#?}"
        );
    }
    assert_eq!(report.scenarios.len(), scenarios, "{:?}", report.scenarios.keys());
}

#[tokio::test]
async fn conformance_1_by_2025_06_18() {
    assert_conforms(Suite::Sessions, "2025-06-18", 26).await;
}

#[tokio::test]
async fn conformance_1_by_2025_11_25() {
    assert_conforms(Suite::Sessions, "2025-11-25", 32).await;
}

#[tokio::test]
async fn conformance_2_by_2025_03_26() {
    assert_conforms(Suite::Stateless, "2025-03-26", 1).await;
}

#[tokio::test]
async fn conformance_2_by_2025_06_18() {
    assert_conforms(Suite::Stateless, "2025-06-18", 27).await;
}

#[tokio::test]
async fn conformance_2_by_2025_11_25() {
    assert_conforms(Suite::Stateless, "2025-11-25", 33).await;
}

#[tokio::test]
async fn conformance_2_by_2026_07_28() {
    assert_conforms(Suite::Stateless, "2026-07-28", 40).await;
}
