//! So many of something at a time for each name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// Counts what is taken, by name; a name that has taken nothing costs nothing.
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

    /// Holds for what is taken from now on; what is taken already stays.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Taken by all names together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// A place that is free again when dropped; none when the name has all it may have.
    #[must_use]
    pub fn enter(&self, name: &str) -> Option<Place> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(name.to_owned()).or_default();
        if *count >= self.limit() {
            return None;
        }
        *count += 1;
        Some(Place { name: name.to_owned(), counts: self.counts.clone() })
    }
}

/// One of the places of a name.
#[derive(Debug)]
pub struct Place {
    name: String,
    counts: Counts,
}

impl Drop for Place {
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
mod tests {
    use super::Quota;

    #[test]
    fn each_name_has_its_own_places_and_a_dropped_one_is_free() {
        let quota = Quota::new(2);
        let first = quota.enter("ann").unwrap();
        let _second = quota.enter("ann").unwrap();
        assert!(quota.enter("ann").is_none());
        let _other = quota.enter("bob").unwrap();
        assert_eq!(quota.total(), 3);
        drop(first);
        assert!(quota.enter("ann").is_some());
        quota.set_limit(1);
        assert!(quota.enter("ann").is_none());
        quota.set_limit(3);
        assert!(quota.enter("ann").is_some());
    }
}
