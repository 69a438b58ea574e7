//! The outbox of a proxy, on real files.

mod crash;
mod damage;
mod dead_letters;
mod disk;
mod model;
mod queue;

use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::Clock;
use plexus_store::outbox::{ClaimedWrite, Limits, NewWrite, Outbox};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A folder, a clock, and any number of outboxes on the same file.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        Self { dir: tempfile::tempdir().unwrap(), clock, limits: Limits::default() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("codex-0011aabb/outbox.db")
    }

    /// Opens the file as another process would.
    pub(crate) async fn open(&self) -> Outbox {
        let (outbox, opened) = Outbox::open(&self.path(), self.clock.clone(), self.limits).await.unwrap();
        assert_eq!(opened.recovered, None);
        outbox
    }
}

pub(crate) fn write(session: &str, key: &str) -> NewWrite {
    NewWrite {
        key: key.to_owned(),
        session: session.to_owned(),
        client: r#"{"name":"codex","version":"1"}"#.to_owned(),
        tool: "todo".to_owned(),
        params: format!(r#"{{"name":"todo","arguments":{{"action":"add","text":"{key}"}}}}"#),
    }
}

pub(crate) async fn fill(outbox: &Outbox, session: &str, keys: &[&str]) {
    for key in keys {
        outbox.enqueue(write(session, key)).await.unwrap();
    }
}

pub(crate) async fn claim(outbox: &Outbox, owner: &str) -> Option<ClaimedWrite> {
    outbox.claim(owner, LEASE).await.unwrap()
}

/// Delivers all due writes, and returns their keys in order.
pub(crate) async fn deliver(outbox: &Outbox) -> Vec<String> {
    let mut delivered = Vec::new();
    while let Some(claimed) = claim(outbox, "deliver").await {
        assert!(outbox.settle(&claimed).await.unwrap());
        delivered.push(claimed.key);
    }
    delivered
}
