//! Last use of tokens: collected in memory, written on request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use plexus_kit::clock::from_millis;
use plexus_proto::{Timestamp, TokenId};

/// Uses within this interval of the last recorded one are skipped: the common case is one atomic load.
const RESOLUTION_MILLIS: i64 = 10_000;
/// Maximum number of tokens with an unwritten use; further tokens are recorded when they are used again.
const PENDING: usize = 100_000;

/// Last recorded use of one token.
#[derive(Debug)]
pub(crate) struct LastUse(AtomicI64);

impl Default for LastUse {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

/// Unwritten uses of all tokens.
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

    /// The unwritten use of a token.
    pub(crate) fn pending(&self, jti: TokenId) -> Option<Timestamp> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).get(&jti).copied().map(from_millis)
    }

    pub(crate) fn take(&self) -> Vec<(TokenId, Timestamp)> {
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        pending.into_iter().map(|(jti, at)| (jti, from_millis(at))).collect()
    }

    /// Restores uses that could not be written; newer ones take precedence.
    pub(crate) fn put_back(&self, used: Vec<(TokenId, Timestamp)>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        for (jti, at) in used {
            pending.entry(jti).or_insert(at.as_millisecond());
        }
    }
}
