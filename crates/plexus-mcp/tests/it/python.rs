//! The Python SDK as a client, in both eras.

use plexus_testkit::Pinned;

use crate::scripts::{assert_refused, run};

async fn sdk(version: &str) -> Option<Pinned> {
    Pinned::python("mcp", version).await
}

#[tokio::test]
async fn python_2_pinned_to_the_stateless_revision() {
    run(sdk("2.3.0").await, "python/client_v2.py", "2026-07-28", "2026-07-28").await;
}

#[tokio::test]
async fn python_2_finds_the_stateless_revision_by_itself() {
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
async fn python_is_told_that_its_token_is_no_good() {
    assert_refused(sdk("2.3.0").await, "python/client_v2.py", "2026-07-28").await;
}
