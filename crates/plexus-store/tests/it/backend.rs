//! A database to test on: creating, reopening and filling it.

use std::future::Future;
use std::time::Duration;

use plexus_kit::clock::from_millis;
use plexus_kit::{Durability, Stage, Supervisor};
use plexus_proto::api::{AuditHead, AuditPhase};
use plexus_proto::{CallId, Event, EventKind, NewEvent, SessionId, Timestamp};
use plexus_store::{NewAudit, Records, Store, StoreOptions};

/// Far more than any rule needs; a test that takes longer hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Aborts a test that hangs.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, test).await.expect("the test hangs")
}

/// A kind of database.
pub(crate) trait Backend: Sized {
    /// Creates an empty database; `None` if there is no server for it.
    async fn create() -> Option<Self>;
    fn options(&self, instance_id: &str) -> StoreOptions;

    /// Opens the database; may be called repeatedly.
    async fn open(&self, instance_id: &str, supervisor: &Supervisor) -> Store {
        Store::open(&self.options(instance_id), supervisor).await.unwrap()
    }
}

pub(crate) struct Sqlite {
    pub(crate) dir: tempfile::TempDir,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }
}

impl Backend for Sqlite {
    async fn create() -> Option<Self> {
        Some(Self::new())
    }

    fn options(&self, instance_id: &str) -> StoreOptions {
        StoreOptions {
            data_dir: self.dir.path().to_owned(),
            database_url: None,
            durability: Durability::Process,
            instance_id: instance_id.to_owned(),
        }
    }
}

/// An open database.
pub(crate) struct Database<B> {
    pub(crate) backend: B,
    pub(crate) store: Store,
    pub(crate) supervisor: Supervisor,
}

impl<B: Backend> Database<B> {
    pub(crate) async fn fresh() -> Option<Self> {
        let (backend, supervisor) = (B::create().await?, Supervisor::new());
        let store = backend.open("main", &supervisor).await;
        Some(Self { backend, store, supervisor })
    }

    /// Closes and reopens the database, as a restart does.
    pub(crate) async fn reopened(self) -> Self {
        let Self { backend, store, supervisor } = self;
        let drained = supervisor.shutdown(LIMIT).await;
        assert!(drained.aborted.is_empty(), "{drained:?}");
        drop(store);
        let supervisor = Supervisor::new();
        let store = backend.open("main", &supervisor).await;
        Self { backend, store, supervisor }
    }

    pub(crate) async fn session(&self, owner: &str, key: &str) -> SessionId {
        session(&self.store, owner, key).await
    }

    pub(crate) async fn events(&self, session: SessionId) -> Vec<Event> {
        self.store.read().await.unwrap().events(session, 0, 100_000).await.unwrap()
    }

    /// The newest link, including everything acknowledged.
    pub(crate) async fn head(&self) -> Option<AuditHead> {
        self.store.settle().await.unwrap();
        self.store.audit_heads().borrow().clone()
    }

    /// Resolves when the writer was asked to stop.
    pub(crate) async fn stopping(&self) {
        self.supervisor.stopping(Stage::Storage).cancelled().await;
    }
}

pub(crate) async fn session(store: &Store, owner: &str, key: &str) -> SessionId {
    let (owner, key) = (owner.to_owned(), key.to_owned());
    store
        .write(move |conn| Box::pin(async move { conn.ensure_session(&owner, &key, None, at(0)).await }))
        .await
        .unwrap()
}

/// A fixed time plus `millis`.
pub(crate) fn at(millis: i64) -> Timestamp {
    from_millis(1_700_000_000_000 + millis)
}

pub(crate) fn event(actor: &str, number: usize) -> NewEvent {
    NewEvent {
        at: at(0),
        kind: EventKind::ToolCall,
        actor: actor.to_owned(),
        payload: format!(r#"{{"number":{number}}}"#),
        external_id: None,
    }
}

pub(crate) fn external(actor: &str, number: usize, id: &str) -> NewEvent {
    NewEvent { external_id: Some(id.to_owned()), ..event(actor, number) }
}

pub(crate) fn events(session: SessionId, events: impl IntoIterator<Item = NewEvent>) -> Records {
    Records { audit: vec![], events: events.into_iter().map(|event| (session, event)).collect() }
}

/// The numbers that [`event`] put into the payloads.
pub(crate) fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.payload["number"].as_u64().unwrap()).collect()
}

pub(crate) fn seqs(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.seq).collect()
}

pub(crate) fn audit(phase: AuditPhase, call_id: CallId, actor: &str, tool: &str) -> NewAudit {
    NewAudit {
        at: at(1),
        phase,
        call_id: Some(call_id),
        token_id: None,
        actor: actor.to_owned(),
        session_id: None,
        tool: tool.to_owned(),
        via: "rest".into(),
        outcome: if phase == AuditPhase::Finished { "ok" } else { "" }.into(),
        detail: r#"{"a":1}"#.to_owned(),
    }
}

/// Both entries of a call.
pub(crate) fn audited(call_id: CallId, actor: &str, tool: &str) -> Vec<NewAudit> {
    [AuditPhase::Started, AuditPhase::Finished].map(|phase| audit(phase, call_id, actor, tool)).into()
}

/// Reproducible random numbers (SplitMix64).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}
