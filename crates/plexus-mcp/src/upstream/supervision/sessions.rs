//! Connections of single sessions, for a server whose file says that each is to have its own.
//!
//! A connection is made by the first call of a session and closed when it has none for a while. There are at most
//! [`MAX`] to a server: for one more, the connection that is idle longest is closed; when all are busy, the call is
//! turned away.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_proto::{ErrorCode, SessionId};
use plexus_tools::CallError;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::opened;
use crate::upstream::client::{Client, ClientError};

/// Connections to one server beside the one that all share.
const MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct SessionClients(Mutex<HashMap<SessionId, Arc<Slot>>>);

#[derive(Debug)]
struct Slot {
    /// Made by whoever comes first; others wait for it.
    client: OnceCell<Client>,
    calls: AtomicUsize,
    /// When it last had a call.
    used: Mutex<Instant>,
}

/// A connection that is not closed while this is held.
#[derive(Debug)]
pub(super) struct Held {
    slot: Arc<Slot>,
    pub(super) client: Client,
}

impl SessionClients {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a session, made by `connect` if there is none.
    pub(super) async fn get(
        &self,
        session: SessionId,
        server: &str,
        connect: impl Future<Output = Result<Client, ClientError>>,
    ) -> Result<Held, SessionError> {
        let (slot, gone) = self.slot(session).ok_or_else(|| full(server))?;
        // Its process ends once nobody has it; nobody need wait for that.
        drop(gone);
        let busy = Busy::new(slot.clone());
        match slot.client.get_or_try_init(|| connect).await {
            Ok(client) => {
                let client = client.clone();
                std::mem::forget_busy(busy);
                Ok(Held { slot, client })
            }
            Err(error) => {
                self.forget(session);
                Err(SessionError::Connect(error))
            }
        }
    }

    /// The slot of a session, and one that had to go for it; none when there is no room.
    fn slot(&self, session: SessionId) -> Option<(Arc<Slot>, Option<Arc<Slot>>)> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(&session) {
            return Some((slot.clone(), None));
        }
        let mut gone = None;
        if slots.len() >= MAX {
            let idle = slots.iter().filter(|(_, slot)| slot.is_idle());
            let oldest = idle.min_by_key(|(_, slot)| slot.used()).map(|(session, _)| *session)?;
            gone = slots.remove(&oldest);
        }
        let slot = Arc::new(Slot {
            client: OnceCell::new(),
            calls: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
        });
        slots.insert(session, slot.clone());
        Some((slot, gone))
    }

    /// The connection of a session is of no use any more; its next call makes another.
    pub(super) fn forget(&self, session: SessionId) {
        let gone = self.lock().remove(&session);
        drop(gone);
    }
}
