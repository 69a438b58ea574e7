//! Connections of single sessions, for servers whose file sets `per_session`.
//!
//! A session's first call opens its connection, which is closed when it is idle for a while. A server has at
//! most [`MAX_CONNECTIONS`] of them: to make room, the connection that is idle longest is closed; if all are busy, the
//! call is rejected. A connection belongs to the configuration that it was made from: if the file changes or
//! the connection ends, the next call opens another. A removed connection is closed cleanly as soon as no
//! call uses it, because the server would otherwise keep its session; it counts towards [`MAX_CONNECTIONS`] until then.
//!
//! The capabilities of a connection are fixed when it is opened, while each request of a session may declare
//! different ones. A connection with more capabilities is therefore reused, and a replacement has all
//! capabilities of its predecessor, so that a session with varying requests does not start a process for each
//! of them.

pub(super) mod resource_watches;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use plexus_kit::{Stage, Supervisor};
use plexus_proto::SessionId;
use plexus_tools::Capabilities;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::client::{Client, ClientError};
use crate::supervision::lifecycle;

/// The fingerprint of a connection's configuration, and the connection's capabilities.
pub(super) type Fingerprint = (u64, Capabilities);

/// Limit of connections to one server besides the shared one.
pub(super) const MAX_CONNECTIONS: usize = 64;

#[derive(Debug)]
pub(super) struct SessionClients {
    slots: Mutex<Slots>,
    closing: Arc<CloseContext>,
}

#[derive(Debug, Default)]
struct Slots {
    of: HashMap<SessionId, Arc<Slot>>,
    /// Replaced slots that calls may still use.
    replaced: Vec<Weak<Slot>>,
}

impl Slots {
    fn remove(&mut self, session: SessionId) {
        if let Some(slot) = self.of.remove(&session) {
            self.replaced.push(Arc::downgrade(&slot));
        }
        self.replaced.retain(|slot| slot.strong_count() > 0);
    }
}

/// Parameters for closing removed connections.
#[derive(Debug)]
pub(super) struct CloseContext {
    pub(super) server: String,
    pub(super) supervisor: Supervisor,
    pub(super) patience: Duration,
}

#[derive(Debug)]
struct Slot {
    /// Opened by the first call; others wait for it.
    client: OnceCell<Client>,
    fingerprint: Fingerprint,
    usage: Mutex<SlotUsage>,
    closing: Arc<CloseContext>,
}

#[derive(Debug, Clone, Copy)]
struct SlotUsage {
    calls: usize,
    /// When a call last began or ended.
    last: Instant,
}

/// A lease on a session's connection, which is not removed while the lease exists.
#[derive(Debug)]
pub(super) struct SessionLease(Arc<Slot>);

impl Slot {
    fn begin(self: &Arc<Self>) -> SessionLease {
        let mut used = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *used = SlotUsage { calls: used.calls + 1, last: Instant::now() };
        SessionLease(self.clone())
    }

    /// Whether a call can use it, or can wait for its connection.
    fn serves(&self, (file, can): Fingerprint) -> bool {
        let (own_file, supported) = self.fingerprint;
        let supports_all = supported.and(can) == supported;
        own_file == file && supports_all && self.client.get().is_none_or(|client| !client.has_ended())
    }

    /// Since when it is idle; none while it is in use.
    fn idle_since(&self) -> Option<Instant> {
        let used = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        (used.calls == 0).then_some(used.last)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // During shutdown the runtime is gone, and no task can close it.
        let Some(client) = self.client.take().filter(|_| Handle::try_current().is_ok()) else { return };
        if client.has_ended() {
            return;
        }
        let CloseContext { server, supervisor, patience } = &*self.closing;
        let patience = *patience;
        supervisor.spawn(Stage::Work, format!("upstream {server}: end of a session"), async move {
            lifecycle::close(&client, patience).await;
        });
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        let mut used = self.0.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *used = SlotUsage { calls: used.calls - 1, last: Instant::now() };
    }
}

impl SessionLease {
    /// The capabilities of the connection: at least the requested ones.
    pub(super) fn capabilities(&self) -> Capabilities {
        self.0.fingerprint.1
    }

    /// Returns the connection, opening it with `connect` if necessary.
    pub(super) async fn client(
        &self,
        connect: impl Future<Output = Result<Client, ClientError>>,
    ) -> Result<Client, ClientError> {
        self.0.client.get_or_try_init(|| connect).await.cloned()
    }
}

impl SessionClients {
    pub(super) fn new(closing: CloseContext) -> Self {
        Self { slots: Mutex::default(), closing: Arc::new(closing) }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().of.is_empty()
    }

    /// The open connection of a session, with its lease.
    pub(super) fn connected(
        &self,
        session: SessionId,
        fingerprint: Fingerprint,
    ) -> Option<(SessionLease, Client)> {
        let slots = self.lock();
        let slot = slots.of.get(&session).filter(|slot| slot.serves(fingerprint))?;
        let client = slot.client.get()?.clone();
        Some((slot.begin(), client))
    }

    /// A lease for a session; none if all connections are busy.
    pub(super) fn lease(&self, session: SessionId, fingerprint: Fingerprint) -> Option<SessionLease> {
        let mut slots = self.lock();
        let (file, mut can) = fingerprint;
        if let Some(slot) = slots.of.get(&session) {
            if slot.serves(fingerprint) {
                return Some(slot.begin());
            }
            can = can.and(slot.fingerprint.1);
        }
        slots.replaced.retain(|slot| slot.strong_count() > 0);
        // An idle slot makes room for its replacement.
        let makes_room = slots.of.get(&session).is_some_and(|slot| slot.idle_since().is_some());
        if slots.of.len() + slots.replaced.len() - usize::from(makes_room) >= MAX_CONNECTIONS {
            let idle = slots.of.iter().filter_map(|(session, slot)| Some((slot.idle_since()?, *session)));
            let (_, oldest) = idle.filter(|(_, idle)| *idle != session).min()?;
            slots.remove(oldest);
        }
        slots.remove(session);
        let fingerprint = (file, can);
        let usage = Mutex::new(SlotUsage { calls: 0, last: Instant::now() });
        let closing = self.closing.clone();
        let slot = Arc::new(Slot { client: OnceCell::new(), fingerprint, usage, closing });
        slots.of.insert(session, slot.clone());
        Some(slot.begin())
    }

    /// Removes an unusable connection, so that the session's next call opens another. Only the given one is
    /// removed, because it may already have been replaced.
    pub(super) fn forget(&self, session: SessionId, lease: &SessionLease) {
        let mut slots = self.lock();
        if slots.of.get(&session).is_some_and(|slot| Arc::ptr_eq(slot, &lease.0)) {
            slots.remove(session);
        }
    }

    /// Removes connections that were idle for this long.
    pub(super) fn drop_idle(&self, idle: Duration) {
        let now = Instant::now();
        let is_idle = |slot: &Slot| slot.idle_since().is_some_and(|since| now.duration_since(since) >= idle);
        let removed: Vec<_> = self.lock().of.extract_if(|_, slot| is_idle(slot)).collect();
        drop(removed);
    }

    pub(super) async fn close_all(&self, patience: Duration) {
        let removed: Vec<_> = self.lock().of.drain().map(|(_, slot)| slot).collect();
        close(removed, patience).await;
    }
}

/// Closes all connections concurrently.
async fn close(slots: Vec<Arc<Slot>>, patience: Duration) {
    let clients = slots.iter().filter_map(|slot| slot.client.get());
    futures_util::future::join_all(clients.map(|client| lifecycle::close(client, patience))).await;
}

#[cfg(test)]
mod tests;
