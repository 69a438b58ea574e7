//! Connections of single sessions, for a server whose file says that each is to have its own.
//!
//! A connection is made by the first call of a session and closed when it has none for a while. There are at most
//! [`MAX`] to a server: for one more, the connection that is idle longest is closed; when all are busy, the call is
//! turned away. A connection is of the file that it was made with: when that says something else, or the connection is
//! gone, the next call makes another. One that is let go is closed in good order as soon as no call uses it: the server
//! would keep its session else, and counts towards [`MAX`] until then.
//!
//! A connection says once for all what can be asked over it, while each request of a session may say something else. So one
//! that can be asked more serves as well, and one that takes its place can be asked all that the one before could: a
//! session that changes its mind with every request does not start a process with every request.

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

/// Of the file that a connection is made with, and what can be asked over it.
pub(super) type Fingerprint = (u64, Capabilities);

/// Connections to one server beside the one that all share.
pub(super) const MAX: usize = 64;

#[derive(Debug)]
pub(super) struct SessionClients {
    slots: Mutex<Slots>,
    closing: Arc<Closing>,
}

#[derive(Debug, Default)]
struct Slots {
    of: HashMap<SessionId, Arc<Slot>>,
    /// Those that another has taken the place of, and that calls may still use.
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

/// How connections that were let go are closed.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) server: String,
    pub(super) supervisor: Supervisor,
    pub(super) patience: Duration,
}

#[derive(Debug)]
struct Slot {
    /// Made by whoever comes first; others wait for it.
    client: OnceCell<Client>,
    fingerprint: Fingerprint,
    usage: Mutex<Use>,
    closing: Arc<Closing>,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    calls: usize,
    /// When a call last began or ended.
    last: Instant,
}

/// The place of a session: it is not taken away while this is held.
#[derive(Debug)]
pub(super) struct SessionLease(Arc<Slot>);

impl Slot {
    fn begin(self: &Arc<Self>) -> SessionLease {
        let mut used = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *used = Use { calls: used.calls + 1, last: Instant::now() };
        SessionLease(self.clone())
    }

    /// Whether a call can use it, or may find out that it can.
    fn serves(&self, (file, can): Fingerprint) -> bool {
        let (made_by, asked) = self.fingerprint;
        let can_be_asked = asked.and(can) == asked;
        made_by == file && can_be_asked && self.client.get().is_none_or(|client| !client.has_ended())
    }

    /// Since when nobody uses it; none while somebody does.
    fn idle_since(&self) -> Option<Instant> {
        let used = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        (used.calls == 0).then_some(used.last)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Where tasks end because all of them do, nobody is left to close it.
        let Some(client) = self.client.take().filter(|_| Handle::try_current().is_ok()) else { return };
        if client.has_ended() {
            return;
        }
        let Closing { server, supervisor, patience } = &*self.closing;
        let patience = *patience;
        supervisor.spawn(Stage::Work, format!("upstream {server}: end of a session"), async move {
            lifecycle::close(&client, patience).await;
        });
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        let mut used = self.0.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *used = Use { calls: used.calls - 1, last: Instant::now() };
    }
}

impl SessionLease {
    /// What can be asked over the connection: at least what it was taken for.
    pub(super) fn can(&self) -> Capabilities {
        self.0.fingerprint.1
    }

    /// The connection, made by `connect` if there is none yet.
    pub(super) async fn client(
        &self,
        connect: impl Future<Output = Result<Client, ClientError>>,
    ) -> Result<Client, ClientError> {
        self.0.client.get_or_try_init(|| connect).await.cloned()
    }
}

impl SessionClients {
    pub(super) fn new(closing: Closing) -> Self {
        Self { slots: Mutex::default(), closing: Arc::new(closing) }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().of.is_empty()
    }

    /// The connection that a session has, with its place.
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

    /// The place of a session; none when all are taken and busy.
    pub(super) fn place(&self, session: SessionId, fingerprint: Fingerprint) -> Option<SessionLease> {
        let mut slots = self.lock();
        let (file, mut can) = fingerprint;
        if let Some(slot) = slots.of.get(&session) {
            if slot.serves(fingerprint) {
                return Some(slot.begin());
            }
            can = can.and(slot.fingerprint.1);
        }
        slots.replaced.retain(|slot| slot.strong_count() > 0);
        // One that nobody uses makes room for the one that takes its place.
        let makes_room = slots.of.get(&session).is_some_and(|slot| slot.idle_since().is_some());
        if slots.of.len() + slots.replaced.len() - usize::from(makes_room) >= MAX {
            let idle = slots.of.iter().filter_map(|(session, slot)| Some((slot.idle_since()?, *session)));
            let (_, oldest) = idle.filter(|(_, idle)| *idle != session).min()?;
            slots.remove(oldest);
        }
        slots.remove(session);
        let fingerprint = (file, can);
        let usage = Mutex::new(Use { calls: 0, last: Instant::now() });
        let closing = self.closing.clone();
        let slot = Arc::new(Slot { client: OnceCell::new(), fingerprint, usage, closing });
        slots.of.insert(session, slot.clone());
        Some(slot.begin())
    }

    /// The connection of a session is of no use any more; its next call makes another. Only the one that was
    /// found so: somebody else may have made the new one already.
    pub(super) fn forget(&self, session: SessionId, place: &SessionLease) {
        let mut slots = self.lock();
        if slots.of.get(&session).is_some_and(|slot| Arc::ptr_eq(slot, &place.0)) {
            slots.remove(session);
        }
    }

    /// Lets go of those that had no call for so long.
    pub(super) fn drop_idle(&self, idle: Duration) {
        let now = Instant::now();
        let left = |slot: &Slot| slot.idle_since().is_some_and(|since| now.duration_since(since) >= idle);
        let gone: Vec<_> = self.lock().of.extract_if(|_, slot| left(slot)).collect();
        drop(gone);
    }

    pub(super) async fn close_all(&self, patience: Duration) {
        let gone: Vec<_> = self.lock().of.drain().map(|(_, slot)| slot).collect();
        close(gone, patience).await;
    }
}

/// All at the same time.
async fn close(slots: Vec<Arc<Slot>>, patience: Duration) {
    let clients = slots.iter().filter_map(|slot| slot.client.get());
    futures_util::future::join_all(clients.map(|client| lifecycle::close(client, patience))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_idle_longest_goes_and_busy_ones_stay() {
        let supervisor = Supervisor::new();
        let clients =
            SessionClients::new(Closing { server: "s".to_owned(), supervisor, patience: Duration::ZERO });
        let of = (1, Capabilities::default());
        let sessions: Vec<SessionId> = (0..=MAX).map(|_| SessionId::new()).collect();
        let mut places: Vec<SessionLease> = Vec::new();
        for session in &sessions[..MAX] {
            places.push(clients.place(*session, of).unwrap());
        }
        assert!(clients.place(sessions[MAX], of).is_none(), "all are busy");
        assert!(clients.place(sessions[3], of).is_some(), "one that has its place keeps it");
        // The first to end is idle longest.
        drop(places.remove(7));
        drop(places.remove(0));
        assert!(clients.place(sessions[MAX], of).is_some());
        let there = |session: usize| clients.lock().of.contains_key(&sessions[session]);
        assert_eq!([there(0), there(7), there(MAX)], [true, false, true]);
        clients.drop_idle(Duration::from_secs(60));
        assert!(there(0));
        clients.drop_idle(Duration::ZERO);
        assert_eq!(clients.lock().of.len(), MAX - 2, "those that are in use are not closed");
    }

    fn none_yet() -> SessionClients {
        let supervisor = Supervisor::new();
        SessionClients::new(Closing { server: "s".to_owned(), supervisor, patience: Duration::ZERO })
    }

    #[test]
    fn a_session_that_changes_its_mind_keeps_the_connection_that_can_be_asked_more() {
        let (clients, session) = (none_yet(), SessionId::new());
        let (nothing, roots) = (Capabilities::default(), Capabilities { roots: true, ..Default::default() });
        let form = Capabilities { form: true, ..Default::default() };
        let place = |can| clients.place(session, (1, can)).unwrap();
        let first = place(nothing);
        let wider = place(roots);
        assert!(!Arc::ptr_eq(&first.0, &wider.0));
        for can in [nothing, roots, nothing] {
            assert!(Arc::ptr_eq(&place(can).0, &wider.0), "{can:?}");
        }
        assert_eq!(place(form).can(), form.and(roots), "it is never narrowed");
        assert_eq!(clients.place(session, (2, nothing)).unwrap().can(), form.and(roots), "another file");
    }

    #[test]
    fn one_that_was_replaced_counts_for_as_long_as_it_is_used() {
        let clients = none_yet();
        let sessions: Vec<SessionId> = (0..MAX).map(|_| SessionId::new()).collect();
        let of = (1, Capabilities::default());
        let mut places: Vec<SessionLease> =
            sessions.iter().map(|session| clients.place(*session, of).unwrap()).collect();
        let wider = (1, Capabilities { roots: true, ..Default::default() });
        assert!(clients.place(sessions[0], wider).is_none(), "that would be one more");
        assert!(clients.place(sessions[0], of).is_some(), "and takes nothing from it");
        drop(places.remove(1));
        // In place of one that is idle.
        places.push(clients.place(sessions[0], wider).unwrap());
        assert!(clients.place(sessions[1], of).is_none(), "both of the first session are in use");
        drop(places.remove(0));
        assert!(clients.place(sessions[1], of).is_some());
    }
}
