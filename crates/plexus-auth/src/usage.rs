//! When tokens were used last: noted in memory, written by whoever asks for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use plexus_kit::clock::from_millis;
use plexus_proto::{Timestamp, TokenId};

/// A use this soon after the last one that was noted is not noted: the common case is one load.
const RESOLUTION_MILLIS: i64 = 10_000;
/// Tokens whose use is yet to be written; those beyond are noted when they are used again.
const PENDING: usize = 100_000;

/// Of one token.
#[derive(Debug)]
pub(crate) struct LastUse(AtomicI64);

impl Default for LastUse {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

/// Of all tokens: what has not been written yet.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pending: Mutex<HashMap<TokenId, i64>>,
}

impl Usage {
    pub(crate) fn note(&self, jti: TokenId, last: &LastUse, now: Timestamp) {
        let now = now.as_millisecond();
        if now.saturating_sub(last.0.load(Ordering::Relaxed)) < RESOLUTION_MILLIS {
            return;
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() < PENDING || pending.contains_key(&jti) {
            last.0.store(now, Ordering::Relaxed);
            pending.insert(jti, now);
        }
    }

    /// A use that is yet to be written.
    pub(crate) fn pending(&self, jti: TokenId) -> Option<Timestamp> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).get(&jti).copied().map(from_millis)
    }

    pub(crate) fn take(&self) -> Vec<(TokenId, Timestamp)> {
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        pending.into_iter().map(|(jti, at)| (jti, from_millis(at))).collect()
    }

    /// Puts back what could not be written; what was noted since then is newer.
    pub(crate) fn put_back(&self, used: Vec<(TokenId, Timestamp)>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        for (jti, at) in used {
            pending.entry(jti).or_insert(at.as_millisecond());
        }
    }
}
