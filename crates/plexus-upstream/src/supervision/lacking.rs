//! Calls in which a server wanted to ask what their clients cannot be asked.
//!
//! A session asks in the middle of a call, is refused, and then fails in words of its own. A client of 2026-07-28 is to be
//! told by a code what it lacks, so it is noted here until the call has ended. Nearly no call is ever noted, and one that
//! is not costs nothing but a number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_tools::Capabilities;

/// Calls that are noted; the oldest is forgotten first.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Lacking {
    last: AtomicU64,
    count: AtomicUsize,
    noted: Mutex<BTreeMap<u64, Capabilities>>,
}

impl Lacking {
    /// What a call is noted under.
    pub(super) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn note(&self, call: u64, lacking: Capabilities) {
        let mut noted = self.noted();
        let before = noted.get(&call).copied().unwrap_or_default();
        noted.insert(call, before.and(lacking));
        if noted.len() > MOST {
            noted.pop_first();
        }
        self.count.store(noted.len(), Ordering::Release);
    }

    /// What the client of a call that has ended lacks.
    pub(super) fn take(&self, call: u64) -> Option<Capabilities> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut noted = self.noted();
        let lacking = noted.remove(&call);
        self.count.store(noted.len(), Ordering::Release);
        lacking
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<u64, Capabilities>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
