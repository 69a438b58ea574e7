//! The connections that are open: one for each session, host, user and port, made when it is first wanted.
//!
//! Two sessions never share one: what one may do on a host is not for the other to find open. One that is gone is made anew.
//! There are so many and no more; the one that was idle longest makes room.

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

/// Connections of the node.
const MOST: usize = 64;
/// What runs on one at once: a server takes ten by default, and ending a command takes one too.
const AT_ONCE: usize = 8;
/// One that nobody uses is closed after this time.
const IDLE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_secs(10);

type Key = (SessionId, Target);

/// Cheap to clone; all clones are one pool.
#[derive(Debug, Clone)]
pub(super) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    supervisor: Supervisor,
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

/// A connection, or one that is being made.
#[derive(Debug)]
struct Slot {
    target: Target,
    master: OnceCell<Master>,
    places: Arc<Semaphore>,
    used_at: Mutex<Instant>,
}

/// A place on a connection.
#[derive(Debug)]
pub(super) struct Lease {
    slot: Arc<Slot>,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    /// What an earlier process has left in the folder is removed.
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
                    () = tokio::time::sleep(LOOK) => sweeping.sweep(IDLE),
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

    /// A place on the connection of this session to this host, which is made if there is none.
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
            if master.gone().is_cancelled() {
                self.forget(&key, &slot);
                continue;
            }
            let place = tokio::select! {
                () = master.gone().cancelled() => continue,
                place = slot.places.clone().acquire_owned() => place,
            };
            let Ok(place) = place else { continue };
            slot.touch();
            return Ok(Lease { slot, _place: place });
        }
    }

    fn slot(&self, key: &Key) -> Result<Arc<Slot>, CallError> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(key) {
            return Ok(slot.clone());
        }
        if slots.len() >= MOST {
            let idle = slots.iter().filter(|(_, slot)| slot.is_unused());
            let oldest = idle.min_by_key(|(_, slot)| slot.used_at()).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else {
                return Err(CallError::new(
                    ErrorCode::Overloaded,
                    format!("{MOST} ssh connections are in use on this machine, and there can be no more"),
                )
                .hint("Nothing was run. Wait until one has done its work."));
            };
            slots.remove(&oldest);
        }
        let slot = Arc::new(Slot {
            target: key.1.clone(),
            master: OnceCell::new(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            used_at: Mutex::new(Instant::now()),
        });
        slots.insert(key.clone(), slot.clone());
        Ok(slot)
    }

    /// Takes it out of the pool, unless another one has taken its place.
    fn forget(&self, key: &Key, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        if slots.get(key).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(key);
        }
    }

    /// The connections of a session.
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

    /// Closes those of a session that `which` names. What runs on one ends with it.
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
        self.master.get().is_some_and(|master| !master.gone().is_cancelled())
    }

    /// Nobody has a place on it, or waits for one or for the connection itself. To be asked under the lock, by the pool.
    fn is_unused(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }

    fn in_use(&self) -> usize {
        AT_ONCE.saturating_sub(self.places.available_permits())
    }

    fn used_at(&self) -> Instant {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Lease {
    pub(super) fn target(&self) -> &Target {
        &self.slot.target
    }

    /// Of the connection; it has one, or there were no lease.
    pub(super) fn socket(&self) -> &str {
        self.slot.master.get().map_or("", Master::socket)
    }

    /// Ends the connection, whoever uses it.
    pub(super) fn end(&self) {
        self.slot.master.get().inspect(|master| master.end());
    }

    /// Whether the connection is gone, or about to be: ssh that used it may notice first.
    pub(super) async fn is_gone(&self, patience: Duration) -> bool {
        match self.slot.master.get() {
            Some(master) => tokio::time::timeout(patience, master.gone().cancelled()).await.is_ok(),
            None => true,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slot.touch();
    }
}

#[cfg(test)]
mod tests;
