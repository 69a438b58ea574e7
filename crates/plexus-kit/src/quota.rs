//! Concurrency limit per name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// Counts held slots by name; names without slots use no memory.
///
/// ```
/// let calls = plexus_kit::Quota::new(1);
/// let running = calls.enter("agent:codex");
/// assert!(running.is_some());
/// assert!(calls.enter("agent:codex").is_none());
/// drop(running);
/// assert!(calls.enter("agent:codex").is_some());
/// ```
#[derive(Debug)]
pub struct Quota {
    limit: AtomicUsize,
    counts: Counts,
}

impl Quota {
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit: AtomicUsize::new(limit), counts: Counts::default() }
    }

    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit for new slots; slots already held remain valid.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Number of slots held by all names.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Acquires a slot, which is released on drop; `None` if the name has reached its limit.
    #[must_use]
    pub fn enter(&self, name: &str) -> Option<QuotaSlot> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(name.to_owned()).or_default();
        if *count >= self.limit() {
            return None;
        }
        *count += 1;
        Some(QuotaSlot { name: name.to_owned(), counts: self.counts.clone() })
    }
}

/// A held slot of a name; released on drop.
#[derive(Debug)]
pub struct QuotaSlot {
    name: String,
    counts: Counts,
}

impl Drop for QuotaSlot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
