//! The open connections: one per session, host, user and port, opened on first use.
//!
//! Sessions never share a connection, so the access of one session is not available to another. A lost connection is
//! opened again. The number of connections is limited; the one that was idle longest is closed to make room.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plexus_kit::{Environment, Stage, Supervisor, private_file};
use plexus_proto::{ErrorCode, SessionId};
use plexus_tools::CallError;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::client::Client;
use super::master::Master;
use super::report::Connection;
use super::target::Target;

/// The maximum number of connections of the node.
const MAX_CONNECTIONS: usize = 64;
/// The maximum number of concurrent uses of a connection: a server allows ten by default, and ending a command takes
/// one as well.
const MAX_CONCURRENT_USES: usize = 8;
/// An idle connection is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

type Key = (SessionId, Target);

/// Cheap to clone; all clones share one pool.
#[derive(Debug, Clone)]
pub(super) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    supervisor: Supervisor,
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

/// A connection, open or being opened.
#[derive(Debug)]
struct Slot {
    target: Target,
    master: OnceCell<Master>,
    permits: Arc<Semaphore>,
    used_at: Mutex<Instant>,
}

/// The right to use a connection.
#[derive(Debug)]
pub(super) struct Lease {
    slot: Arc<Slot>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// Removes what an earlier process left in the folder.
    pub(super) fn open(
        folder: &Path,
        environment: &Environment,
        supervisor: &Supervisor,
    ) -> io::Result<Self> {
        private_file::create_dir(folder)?;
        for entry in fs_err::read_dir(folder)? {
            fs_err::remove_file(entry?.path())?;
        }
        let pool = Self(Arc::new(Inner {
            client: Client::new(environment, folder.to_owned()),
            supervisor: supervisor.clone(),
            slots: Mutex::default(),
        }));
        let (sweeping, stopping) = (pool.clone(), supervisor.stopping(Stage::Work));
        supervisor.spawn(Stage::Work, "idle ssh connections", async move {
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(SWEEP_INTERVAL) => sweeping.sweep(IDLE_TIMEOUT),
                }
            }
        });
        Ok(pool)
    }

    pub(super) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.0.supervisor
    }

    /// Leases the connection of this session to this host, opening it if there is none.
    pub(super) async fn lease(&self, session: SessionId, target: &Target) -> Result<Lease, CallError> {
        let key = (session, target.clone());
        loop {
            let slot = self.slot(&key)?;
            let connect = || Master::connect(&self.0.client, target, &self.0.supervisor);
            let master = match slot.master.get_or_try_init(connect).await {
                Ok(master) => master,
                Err(error) => {
                    self.forget(&key, &slot);
                    return Err(error);
                }
            };
            if master.lost_token().is_cancelled() {
                self.forget(&key, &slot);
                continue;
            }
            let permit = tokio::select! {
                () = master.lost_token().cancelled() => continue,
                permit = slot.permits.clone().acquire_owned() => permit,
            };
            let Ok(permit) = permit else { continue };
            slot.mark_used();
            return Ok(Lease { slot, _permit: permit });
        }
    }

    fn slot(&self, key: &Key) -> Result<Arc<Slot>, CallError> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(key) {
            return Ok(slot.clone());
        }
        if slots.len() >= MAX_CONNECTIONS {
            let idle = slots.iter().filter(|(_, slot)| slot.is_unused());
            let oldest = idle.min_by_key(|(_, slot)| slot.used_at()).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else {
                return Err(CallError::new(
                    ErrorCode::Overloaded,
                    format!(
                        "{MAX_CONNECTIONS} ssh connections are in use on this machine, which is the maximum"
                    ),
                )
                .hint("Nothing was run. Wait until one of them is no longer in use."));
            };
            slots.remove(&oldest);
        }
        let slot = Arc::new(Slot {
            target: key.1.clone(),
            master: OnceCell::new(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_USES)),
            used_at: Mutex::new(Instant::now()),
        });
        slots.insert(key.clone(), slot.clone());
        Ok(slot)
    }

    /// Removes the slot from the pool, unless it was already replaced.
    fn forget(&self, key: &Key, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        if slots.get(key).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(key);
        }
    }

    /// The open connections of a session.
    pub(super) fn list(&self, session: SessionId) -> Vec<Connection> {
        let slots = self.slots();
        let own = slots.iter().filter(|((of, _), slot)| *of == session && slot.is_open());
        let mut list: Vec<_> = own
            .map(|(_, slot)| Connection {
                host: slot.target.host.clone(),
                user: slot.target.user.clone(),
                port: slot.target.port,
                in_use: slot.in_use(),
                idle_seconds: slot.used_at().elapsed().as_secs(),
            })
            .collect();
        list.sort_by(|a, b| (&a.host, &a.user, a.port).cmp(&(&b.host, &b.user, b.port)));
        list
    }

    /// Closes the connections of a session that `which` selects. Commands that run on them end.
    pub(super) fn close(&self, session: SessionId, which: impl Fn(&Target) -> bool) -> usize {
        let mut closed = 0;
        let mut slots = self.slots();
        slots.retain(|(of, target), slot| {
            let closes = *of == session && which(target);
            if closes {
                closed += usize::from(slot.is_open());
                slot.master.get().inspect(|master| master.end());
            }
            !closes
        });
        closed
    }

    fn sweep(&self, idle: Duration) {
        self.slots().retain(|_, slot| {
            let is_dead = slot.master.initialized() && !slot.is_open();
            !(is_dead || (slot.is_unused() && slot.used_at().elapsed() >= idle))
        });
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn is_open(&self) -> bool {
        self.master.get().is_some_and(|master| !master.lost_token().is_cancelled())
    }

    /// Nothing uses the connection or waits for it. Must be called under the pool's lock.
    fn is_unused(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }

    fn in_use(&self) -> usize {
        MAX_CONCURRENT_USES.saturating_sub(self.permits.available_permits())
    }

    fn used_at(&self) -> Instant {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_used(&self) {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Lease {
    pub(super) fn target(&self) -> &Target {
        &self.slot.target
    }

    /// The socket of the connection, which exists as long as there is a lease.
    pub(super) fn socket(&self) -> &str {
        self.slot.master.get().map_or("", Master::socket)
    }

    /// Ends the connection even if others use it.
    pub(super) fn end(&self) {
        self.slot.master.get().inspect(|master| master.end());
    }

    /// Whether the connection is lost or is about to be: an ssh process that uses it may notice first.
    pub(super) async fn is_lost(&self, patience: Duration) -> bool {
        match self.slot.master.get() {
            Some(master) => tokio::time::timeout(patience, master.lost_token().cancelled()).await.is_ok(),
            None => true,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slot.mark_used();
    }
}

#[cfg(test)]
mod tests;
