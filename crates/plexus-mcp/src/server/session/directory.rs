//! The sessions: in memory while they are used, in the database until they end.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::StatusCode;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_kit::Clock;
use plexus_store::{McpSessionRecord, Store, StoreError};
use plexus_tools::{Capabilities, LogLevel};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::questions::Questions;
use super::stream::{BufferedBytes, StreamLog};
use crate::server::changes::WatchedResources;
use crate::server::rpc::{INVALID_REQUEST, RpcError};
use crate::version::Version;

/// Time after which an unused session is removed from memory, but not from the database.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Most streams buffered for resuming; the oldest is dropped first.
const MAX_STREAMS: usize = 32;
const MAX_CLIENT: usize = 120;

pub(in crate::server) struct McpSession {
    /// Unique for this object, because a reloaded session counts from one again. Part of the ids of streams and
    /// questions.
    tag: String,
    record: McpSessionRecord,
    version: Version,
    /// Calls in flight, with the client's request id as JSON.
    running: Mutex<HashMap<u64, (String, CancellationToken)>>,
    next_call: AtomicU64,
    streams: Mutex<Vec<Arc<StreamLog>>>,
    buffered: BufferedBytes,
    next_stream: AtomicU64,
    capabilities: Capabilities,
    log_level: Mutex<Option<LogLevel>>,
    questions: Questions,
    /// The number of the latest connection with the session stream; it replaces the earlier ones.
    listener: watch::Sender<u64>,
    /// The resources that the client watches.
    watched: Mutex<WatchedResources>,
    ended: CancellationToken,
    alive: AliveSessions,
}

/// All sessions that are still referenced, also those evicted from the cache. Locked briefly, never across an await.
type AliveSessions = Arc<Mutex<HashMap<String, Weak<McpSession>>>>;

impl McpSession {
    fn new(
        record: McpSessionRecord,
        version: Version,
        buffered: BufferedBytes,
        alive: AliveSessions,
    ) -> Self {
        let declared = serde_json::from_str(&record.capabilities).unwrap_or_default();
        let capabilities = version.supported(Capabilities::read(&declared));
        let tag = format!("{:016x}", uuid::Uuid::new_v4().as_u64_pair().1);
        Self {
            questions: Questions::new(&tag),
            tag,
            buffered,
            version,
            running: Mutex::default(),
            next_call: AtomicU64::new(1),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            capabilities,
            log_level: Mutex::new(record.log_level.as_deref().and_then(LogLevel::parse)),
            record,
            listener: watch::Sender::new(0),
            watched: Mutex::default(),
            ended: CancellationToken::new(),
            alive,
        }
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        let record = McpSessionRecord {
            id: "s".to_owned(),
            owner: "ann".to_owned(),
            version: Version::LATEST.as_str().to_owned(),
            client: "test".to_owned(),
            capabilities: "{}".to_owned(),
            log_level: None,
        };
        Self::new(record, Version::LATEST, BufferedBytes::default(), AliveSessions::default())
    }

    pub(in crate::server) fn id(&self) -> &str {
        &self.record.id
    }

    pub(in crate::server) fn version(&self) -> Version {
        self.version
    }

    pub(in crate::server) fn client(&self) -> &str {
        &self.record.client
    }

    /// The client's capabilities.
    pub(super) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The lowest level of the log lines that the client wants to receive; none until it sets one.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open questions to the client.
    pub(super) fn questions(&self) -> &Questions {
        &self.questions
    }

    /// Cancelled when the client ended the session.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Registers a call, so that it can be cancelled by its request id. Some clients do not use unique ids; calls
    /// with the same id are cancelled together.
    pub(super) fn register_call(self: &Arc<Self>, id: &RawValue) -> RegisteredCall {
        let cancel = CancellationToken::new();
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(number, (id.get().to_owned(), cancel.clone()));
        RegisteredCall { session: self.clone(), number, cancel }
    }

    /// Cancels the calls with this request id. Ignores an unknown id.
    pub(super) fn cancel(&self, id: &RawValue) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, cancel) in running.values().filter(|(running, _)| running == id.get()) {
            cancel.cancel();
        }
    }

    /// Accesses the resources that the client watches.
    pub(super) fn with_watched<T>(&self, access: impl FnOnce(&mut WatchedResources) -> T) -> T {
        access(&mut self.watched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn new_stream(&self) -> Arc<StreamLog> {
        let name = format!("{}-{}", self.tag, self.next_stream.fetch_add(1, Ordering::Relaxed));
        let log = Arc::new(StreamLog::new(name, self.buffered.clone()));
        self.trim();
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() >= MAX_STREAMS {
            // A finished one first. If all are open, the oldest can no longer be resumed.
            let victim = streams.iter().position(|log| log.is_finished()).unwrap_or(0);
            streams.remove(victim);
        }
        streams.push(log.clone());
        log
    }

    /// Drops stale streams.
    pub(super) fn trim(&self) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).retain(|log| !log.is_stale());
    }

    pub(super) fn stream(&self, name: &str) -> Option<Arc<StreamLog>> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().find(|log| log.name() == name).cloned()
    }

    /// Takes over the session stream. The earlier connection sees a higher number and ends.
    pub(super) fn take_listener(&self) -> (u64, watch::Receiver<u64>) {
        let mut number = 0;
        self.listener.send_modify(|latest| {
            *latest += 1;
            number = *latest;
        });
        (number, self.listener.subscribe())
    }
}

impl fmt::Debug for McpSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpSession")
            .field("owner", &self.record.owner)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Drop for McpSession {
    fn drop(&mut self) {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        // The session may have been reloaded into a new object meanwhile.
        if alive.get(self.id()).is_some_and(|session| session.strong_count() == 0) {
            alive.remove(self.id());
        }
    }
}

/// A registered call; unregistered on drop.
pub(super) struct RegisteredCall {
    session: Arc<McpSession>,
    number: u64,
    cancel: CancellationToken,
}

impl RegisteredCall {
    pub(super) fn cancel(&self) -> CancellationToken {
        self.cancel.clone()
    }
}

impl Drop for RegisteredCall {
    fn drop(&mut self) {
        self.session.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[derive(Debug)]
pub(in crate::server) struct Sessions {
    store: Store,
    clock: Clock,
    cache: Cache<String, Arc<McpSession>>,
    /// Finds a session that was evicted from the cache while it has a running call or an open stream. Answers,
    /// cancellations and resumed streams must reach that object.
    alive: AliveSessions,
    buffered: BufferedBytes,
}

impl Sessions {
    pub(in crate::server) fn new(store: Store, clock: Clock, capacity: u64) -> Self {
        Self {
            store,
            clock,
            // LRU, because the default policy may reject a new session.
            cache: Cache::builder()
                .max_capacity(capacity)
                .time_to_idle(IDLE_TIMEOUT)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            alive: AliveSessions::default(),
            buffered: BufferedBytes::default(),
        }
    }

    pub(in crate::server) fn count(&self) -> usize {
        self.cache.run_pending_tasks();
        usize::try_from(self.cache.entry_count()).unwrap_or(usize::MAX)
    }

    /// Creates a session; it is stored before the client receives its id.
    pub(super) async fn create(
        &self,
        principal: &Principal,
        version: Version,
        client: &str,
        declared: Capabilities,
    ) -> Result<Arc<McpSession>, RpcError> {
        let record = McpSessionRecord {
            id: uuid::Uuid::new_v4().simple().to_string(),
            owner: principal.subject().to_owned(),
            version: version.as_str().to_owned(),
            client: client.chars().take(MAX_CLIENT).collect(),
            capabilities: version.supported(declared).to_json().to_string(),
            log_level: None,
        };
        let (stored, now) = (record.clone(), self.clock.now());
        self.store
            .write(move |conn| Box::pin(async move { conn.insert_mcp_session(&stored, now).await }))
            .await
            .map_err(|e| unavailable(&e))?;
        let session = self.get_or_create(record, version);
        self.cache.insert(session.id().to_owned(), session.clone());
        Ok(session)
    }

    /// The session with this id, if it belongs to the principal.
    pub(super) async fn open(&self, id: &str, principal: &Principal) -> Result<Arc<McpSession>, RpcError> {
        let session = match self.cache.get(id) {
            Some(session) => Some(session),
            None => match self.find_alive(id) {
                Some(session) => Some(self.cache.get_with(id.to_owned(), || session)),
                None => self.load(id).await.map_err(|e| unavailable(&e))?,
            },
        };
        match session {
            Some(session) if session.record.owner == principal.subject() && !session.ended.is_cancelled() => {
                Ok(session)
            }
            // A session of another owner is reported like a missing or ended one.
            _ => Err(RpcError::new(
                StatusCode::NOT_FOUND,
                INVALID_REQUEST,
                "Session not found; initialize again",
            )),
        }
    }

    /// Loads a session from the database.
    async fn load(&self, id: &str) -> Result<Option<Arc<McpSession>>, StoreError> {
        if id.len() > 100 {
            return Ok(None);
        }
        let Some(record) = self.store.read_committed().await?.mcp_session(id).await? else { return Ok(None) };
        let Some(version) = Version::parse(&record.version) else { return Ok(None) };
        // Concurrent requests must get the same object.
        Ok(Some(self.cache.get_with(id.to_owned(), || self.get_or_create(record, version))))
    }

    /// The session with this id, if it is still referenced.
    fn find_alive(&self, id: &str) -> Option<Arc<McpSession>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).get(id)?.upgrade()
    }

    /// The single object of this session.
    fn get_or_create(&self, record: McpSessionRecord, version: Version) -> Arc<McpSession> {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = alive.get(&record.id).and_then(Weak::upgrade) {
            return session;
        }
        let id = record.id.clone();
        let session = Arc::new(McpSession::new(record, version, self.buffered.clone(), self.alive.clone()));
        alive.insert(id, Arc::downgrade(&session));
        session
    }

    /// Sets the lowest level of log lines that the client receives. Survives a restart.
    pub(super) async fn set_log_level(&self, session: &McpSession, level: LogLevel) -> Result<(), RpcError> {
        let id = session.id().to_owned();
        let level_text = level.as_str();
        self.store
            .write(move |conn| Box::pin(async move { conn.set_mcp_session_log_level(&id, level_text).await }))
            .await
            .map_err(|e| unavailable(&e))?;
        *session.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
        Ok(())
    }

    pub(super) async fn end(&self, session: &McpSession) -> Result<(), RpcError> {
        let id = session.id().to_owned();
        self.store
            .write(move |conn| Box::pin(async move { conn.delete_mcp_session(&id).await }))
            .await
            .map_err(|e| unavailable(&e))?;
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).remove(session.id());
        self.cache.invalidate(session.id());
        session.ended.cancel();
        Ok(())
    }
}

fn unavailable(error: &StoreError) -> RpcError {
    tracing::error!(%error, source = ?std::error::Error::source(error), "cannot access the store for an MCP session");
    let message = "the hub could not reach its database; try again";
    RpcError::new(StatusCode::SERVICE_UNAVAILABLE, -32603, message)
}
