//! The sessions there are: in memory while they are used, in the database for as long as they live.

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
use crate::server::news::Watching;
use crate::server::rpc::{INVALID_REQUEST, RpcError};
use crate::version::Version;

/// A session that is not used for so long is forgotten by memory, not by the database.
const IDLE: Duration = Duration::from_secs(3600);
/// Streams kept for resuming; the oldest goes first.
const STREAMS: usize = 32;
const MAX_CLIENT: usize = 120;

pub(in crate::server) struct McpSession {
    /// Of this object, and of no other that the session is loaded into: what counts from one has it beside the number.
    tag: String,
    record: McpSessionRecord,
    version: Version,
    /// Calls in flight, with the JSON text of the id the client gave each.
    running: Mutex<HashMap<u64, (String, CancellationToken)>>,
    next_call: AtomicU64,
    streams: Mutex<Vec<Arc<StreamLog>>>,
    kept: BufferedBytes,
    next_stream: AtomicU64,
    can: Capabilities,
    log_level: Mutex<Option<LogLevel>>,
    questions: Questions,
    /// Which connection holds the session's own stream: a new one takes it over.
    listener: watch::Sender<u64>,
    /// Resources that its client hears of.
    watching: Mutex<Watching>,
    ended: CancellationToken,
    alive: Alive,
}

/// All sessions that anything still holds, whether or not memory has forgotten them. Held for a look or a change, never
/// while anything is waited for.
type Alive = Arc<Mutex<HashMap<String, Weak<McpSession>>>>;

impl McpSession {
    fn new(record: McpSessionRecord, version: Version, kept: BufferedBytes, alive: Alive) -> Self {
        let can = serde_json::from_str(&record.capabilities).unwrap_or_default();
        let can = version.askable(Capabilities::read(&can));
        let tag = format!("{:016x}", uuid::Uuid::new_v4().as_u64_pair().1);
        Self {
            questions: Questions::new(&tag),
            tag,
            kept,
            version,
            running: Mutex::default(),
            next_call: AtomicU64::new(1),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            can,
            log_level: Mutex::new(record.log_level.as_deref().and_then(LogLevel::parse)),
            record,
            listener: watch::Sender::new(0),
            watching: Mutex::default(),
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
        Self::new(record, Version::LATEST, BufferedBytes::default(), Alive::default())
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

    /// What its client can be asked.
    pub(super) fn can(&self) -> Capabilities {
        self.can
    }

    /// The least grave of the log lines that its client wants to read; none before it has said so.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its client is asked now.
    pub(super) fn questions(&self) -> &Questions {
        &self.questions
    }

    /// Cancelled when the client ended the session.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Notes a call, so that it can be cancelled by its id. Ids should be unique and are not with
    /// every client; calls that share one are cancelled together.
    pub(super) fn running(self: &Arc<Self>, id: &RawValue) -> RunningCall {
        let cancel = CancellationToken::new();
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(number, (id.get().to_owned(), cancel.clone()));
        RunningCall { session: self.clone(), number, cancel }
    }

    /// Cancels a call; an id that is not running is none of our business.
    pub(super) fn cancel(&self, id: &RawValue) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, cancel) in running.values().filter(|(running, _)| running == id.get()) {
            cancel.cancel();
        }
    }

    /// A look at the resources that the client hears of.
    pub(super) fn watched<T>(&self, look: impl FnOnce(&mut Watching) -> T) -> T {
        look(&mut self.watching.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn new_stream(&self) -> Arc<StreamLog> {
        let name = format!("{}-{}", self.tag, self.next_stream.fetch_add(1, Ordering::Relaxed));
        let log = Arc::new(StreamLog::new(name, self.kept.clone()));
        self.trim();
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() >= STREAMS {
            // A finished one first; if all are open, the oldest loses only the right to be resumed.
            let victim = streams.iter().position(|log| log.is_finished()).unwrap_or(0);
            streams.remove(victim);
        }
        streams.push(log.clone());
        log
    }

    /// Lets go of streams that are no longer worth keeping.
    pub(super) fn trim(&self) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).retain(|log| !log.is_stale());
    }

    pub(super) fn stream(&self, name: &str) -> Option<Arc<StreamLog>> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().find(|log| log.name() == name).cloned()
    }

    /// Takes over the session's own stream; whoever held it sees a higher number and leaves.
    pub(super) fn take_listener(&self) -> (u64, watch::Receiver<u64>) {
        let mut mine = 0;
        self.listener.send_modify(|holder| {
            *holder += 1;
            mine = *holder;
        });
        (mine, self.listener.subscribe())
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
        // It may have been loaded again since the last who held this one let go.
        if alive.get(self.id()).is_some_and(|session| session.strong_count() == 0) {
            alive.remove(self.id());
        }
    }
}

/// A call in flight; forgotten when dropped.
pub(super) struct RunningCall {
    session: Arc<McpSession>,
    number: u64,
    cancel: CancellationToken,
}

impl RunningCall {
    pub(super) fn cancel(&self) -> CancellationToken {
        self.cancel.clone()
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.session.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[derive(Debug)]
pub(in crate::server) struct Sessions {
    store: Store,
    clock: Clock,
    live: Cache<String, Arc<McpSession>>,
    /// A session that is forgotten while a call of it runs, or a stream is open, is found here: its answers, its
    /// cancellations and its resumed streams must reach the one that has them.
    alive: Alive,
    kept: BufferedBytes,
}

impl Sessions {
    pub(in crate::server) fn new(store: Store, clock: Clock, most: u64) -> Self {
        Self {
            store,
            clock,
            // The least recently used goes, not the one that is new.
            live: Cache::builder()
                .max_capacity(most)
                .time_to_idle(IDLE)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            alive: Alive::default(),
            kept: BufferedBytes::default(),
        }
    }

    pub(in crate::server) fn count(&self) -> usize {
        self.live.run_pending_tasks();
        usize::try_from(self.live.entry_count()).unwrap_or(usize::MAX)
    }

    /// Opens a session; it is stored before the client hears of it.
    pub(super) async fn create(
        &self,
        principal: &Principal,
        version: Version,
        client: &str,
        can: Capabilities,
    ) -> Result<Arc<McpSession>, RpcError> {
        let record = McpSessionRecord {
            id: uuid::Uuid::new_v4().simple().to_string(),
            owner: principal.subject().to_owned(),
            version: version.as_str().to_owned(),
            client: client.chars().take(MAX_CLIENT).collect(),
            capabilities: version.askable(can).to_json().to_string(),
            log_level: None,
        };
        let (stored, now) = (record.clone(), self.clock.now());
        self.store
            .write(move |conn| Box::pin(async move { conn.insert_mcp_session(&stored, now).await }))
            .await
            .map_err(|e| unavailable(&e))?;
        let session = self.alive(record, version);
        self.live.insert(session.id().to_owned(), session.clone());
        Ok(session)
    }

    /// The session of this id, if it is the principal's.
    pub(super) async fn open(&self, id: &str, principal: &Principal) -> Result<Arc<McpSession>, RpcError> {
        let session = match self.live.get(id) {
            Some(session) => Some(session),
            None => match self.held(id) {
                Some(session) => Some(self.live.get_with(id.to_owned(), || session)),
                None => self.load(id).await.map_err(|e| unavailable(&e))?,
            },
        };
        match session {
            Some(session) if session.record.owner == principal.subject() && !session.ended.is_cancelled() => {
                Ok(session)
            }
            // Another's session is as unknown as one that never was, or is no more.
            _ => Err(RpcError::new(
                StatusCode::NOT_FOUND,
                INVALID_REQUEST,
                "Session not found; initialize again",
            )),
        }
    }

    /// A session from before a restart.
    async fn load(&self, id: &str) -> Result<Option<Arc<McpSession>>, StoreError> {
        if id.len() > 100 {
            return Ok(None);
        }
        let Some(record) = self.store.read_committed().await?.mcp_session(id).await? else { return Ok(None) };
        let Some(version) = Version::parse(&record.version) else { return Ok(None) };
        // Two requests may load it at once; they must end up with the same one.
        Ok(Some(self.live.get_with(id.to_owned(), || self.alive(record, version))))
    }

    /// The session of this id, if anything holds it.
    fn held(&self, id: &str) -> Option<Arc<McpSession>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).get(id)?.upgrade()
    }

    /// The one session of this record.
    fn alive(&self, record: McpSessionRecord, version: Version) -> Arc<McpSession> {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = alive.get(&record.id).and_then(Weak::upgrade) {
            return session;
        }
        let id = record.id.clone();
        let session = Arc::new(McpSession::new(record, version, self.kept.clone(), self.alive.clone()));
        alive.insert(id, Arc::downgrade(&session));
        session
    }

    /// From now on the client reads lines of the log from this level on; also after a restart.
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
        self.live.invalidate(session.id());
        session.ended.cancel();
        Ok(())
    }
}

fn unavailable(error: &StoreError) -> RpcError {
    tracing::error!(%error, source = ?std::error::Error::source(error), "store failed for an MCP session");
    let message = "the hub could not reach its database; try again";
    RpcError::new(StatusCode::SERVICE_UNAVAILABLE, -32603, message)
}
