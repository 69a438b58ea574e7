//! Rate limit for failed authentications, which slows down guessing and broken clients.
//!
//! Only failures are counted and rejected: valid tokens are accepted before this check, so a misbehaving
//! client cannot lock out others behind the same address.
//!
//! The table is bounded. While it is full of sources that failed within the last minute, all further sources
//! share one counter.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plexus_kit::Clock;

use crate::authenticator::fingerprint;

const WINDOW_MILLIS: i64 = 60_000;
/// Maximum number of addresses and tokens with their own counter.
const MAX_SOURCES: usize = 10_000;
/// Minimum interval between two removals of expired entries.
const SWEEP_MILLIS: i64 = 1_000;

pub struct FailedAttempts {
    /// Per minute and source; 0 disables the limit.
    limit: AtomicU32,
    clock: Clock,
    table: Mutex<Table>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Address(IpAddr),
    /// SHA-256 of the token; the token itself is not stored.
    Token([u8; 32]),
    /// All sources that found the table full.
    Overflow,
}

#[derive(Default)]
struct Table {
    windows: HashMap<Source, Window>,
    swept_at: i64,
}

struct Window {
    began_at: i64,
    failures: u32,
}

impl FailedAttempts {
    #[must_use]
    pub fn new(per_minute: u32, clock: Clock) -> Self {
        Self { limit: AtomicU32::new(per_minute), clock, table: Mutex::default() }
    }

    /// Changes the limit.
    pub fn set_limit(&self, per_minute: u32) {
        self.limit.store(per_minute, Ordering::Relaxed);
    }

    /// Counts a failure for this address and for the token, if any. `Err` means that there were too many, and
    /// contains the time to wait.
    pub fn note(&self, address: Option<IpAddr>, token: Option<&str>) -> Result<(), Duration> {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return Ok(());
        }
        let now = self.clock.now().as_millisecond();
        let sources = [
            address.map(|address| Source::Address(network(address))),
            token.map(|token| Source::Token(fingerprint(token))),
        ];
        let (mut wait, mut crossed) = (0, false);
        for source in sources.into_iter().flatten() {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            let (failures, left) = table.count(source, now);
            if failures > limit {
                wait = wait.max(left);
                crossed |= failures == limit.saturating_add(1);
                // Otherwise a blocked address could fill the table with random tokens.
                break;
            }
        }
        // Logged once per window, without the token.
        if crossed {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            tracing::warn!(
                address,
                limit,
                "too many failed authentications within a minute; further ones must wait"
            );
        }
        match u64::try_from(wait) {
            Ok(wait @ 1..) => Err(Duration::from_millis(wait)),
            _ => Ok(()),
        }
    }
}

impl Table {
    /// The number of failures in the source's window, including this one, and the milliseconds until the
    /// window ends.
    fn count(&mut self, source: Source, now: i64) -> (u32, i64) {
        if self.windows.len() >= MAX_SOURCES && !self.windows.contains_key(&source) {
            self.sweep(now);
        }
        let full = self.windows.len() >= MAX_SOURCES && !self.windows.contains_key(&source);
        let source = if full { Source::Overflow } else { source };
        let window = self.windows.entry(source).or_insert(Window { began_at: now, failures: 0 });
        if window.is_over(now) {
            *window = Window { began_at: now, failures: 0 };
        }
        window.failures = window.failures.saturating_add(1);
        (window.failures, window.began_at + WINDOW_MILLIS - now)
    }

    fn sweep(&mut self, now: i64) {
        if now - self.swept_at >= SWEEP_MILLIS {
            self.swept_at = now;
            self.windows.retain(|_, window| !window.is_over(now));
        }
    }
}

impl Window {
    fn is_over(&self, now: i64) -> bool {
        // A clock that was set back must not lock sources out for long.
        !(0..WINDOW_MILLIS).contains(&(now - self.began_at))
    }
}

/// The part of an address that identifies its holder: an IPv4 address, or the /64 network of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}

impl fmt::Debug for FailedAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailedAttempts").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
