//! The Python SDK as a client.

use plexus_testkit::Pinned;

use crate::sdk_scripts::{assert_refused, run};

async fn sdk(version: &str) -> Option<Pinned> {
    Pinned::python("mcp", version).await
}

#[tokio::test]
async fn python_2_pinned_to_the_stateless_revision() {
    run(sdk("2.3.0").await, "python/client_v2.py", "2026-07-28", "2026-07-28").await;
}

#[tokio::test]
async fn python_2_detects_the_stateless_revision() {
    run(sdk("2.3.0").await, "python/client_v2.py", "auto", "2026-07-28").await;
}

#[tokio::test]
async fn python_2_in_the_session_era() {
    run(sdk("2.3.0").await, "python/client_v2.py", "legacy", "2025-11-25").await;
}

#[tokio::test]
async fn python_1_in_the_session_era() {
    run(sdk("1.30.0").await, "python/client_v1.py", "legacy", "2025-11-25").await;
}

#[tokio::test]
async fn python_reports_an_invalid_token() {
    assert_refused(sdk("2.3.0").await, "python/client_v2.py", "2026-07-28").await;
}
