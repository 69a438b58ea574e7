//! The pool of idle connections.
//!
//! A connection becomes idle as soon as no more of its last answer is needed, often shortly before the server ends
//! that answer: a stream continues after its last message until the server closes it. So the rest of an answer may
//! have to be read before the next request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::body::Incoming;
use url::Origin;

use super::connection::HttpConnection;

/// Idle connections in the pool; further ones are closed.
const MAX_IDLE: usize = 32;
/// Time for an answer to end if no other connection is available. Opening one takes about as long.
const LINGER_TIMEOUT: Duration = Duration::from_millis(5);
/// Consecutive timeouts of that wait after which it is skipped.
const MAX_LINGERS: usize = 3;

#[derive(Default)]
pub(super) struct IdlePool {
    connections: Mutex<Vec<IdleConnection>>,
    lingers: AtomicUsize,
}

struct IdleConnection {
    origin: Origin,
    connection: HttpConnection,
    /// The unread rest of the last answer.
    rest: Option<Incoming>,
}

impl IdlePool {
    fn connections(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, origin: Origin, mut connection: HttpConnection, rest: Option<Incoming>) {
        connection.mark_idle();
        self.put_all(std::iter::once(IdleConnection { origin, connection, rest }));
    }

    fn put_all(&self, more: impl Iterator<Item = IdleConnection>) {
        let mut connections = self.connections();
        connections.retain(|idle| !idle.connection.is_stale());
        let room = MAX_IDLE.saturating_sub(connections.len());
        connections.extend(more.take(room));
    }

    /// A usable connection to this origin, the most recently used first.
    pub(super) async fn take(&self, origin: &Origin) -> Option<HttpConnection> {
        let mut unfinished = Vec::new();
        let mut reusable = None;
        while reusable.is_none()
            && let Some(mut idle) = self.pop(origin)
        {
            match idle.finish().now_or_never() {
                Some(true) => reusable = Some(idle.connection),
                Some(false) => {}
                None => unfinished.push(idle),
            }
        }
        if reusable.is_none() && !unfinished.is_empty() && self.lingers.load(Ordering::Relaxed) < MAX_LINGERS
        {
            let mut newest = unfinished.remove(0);
            match tokio::time::timeout(LINGER_TIMEOUT, newest.finish()).await {
                Ok(true) => {
                    self.lingers.store(0, Ordering::Relaxed);
                    reusable = Some(newest.connection);
                }
                Ok(false) => {}
                Err(_) => {
                    self.lingers.fetch_add(1, Ordering::Relaxed);
                    unfinished.insert(0, newest);
                }
            }
        }
        if !unfinished.is_empty() {
            self.put_all(unfinished.into_iter().rev());
        }
        reusable
    }

    fn pop(&self, origin: &Origin) -> Option<IdleConnection> {
        let mut all = self.connections();
        all.retain(|idle| !idle.connection.is_stale());
        let reusable = all.iter().rposition(|idle| idle.origin == *origin)?;
        Some(all.remove(reusable))
    }

    /// Closes connections that have been idle too long.
    pub(super) fn sweep(&self) {
        self.connections().retain(|idle| !idle.connection.is_stale());
    }

    pub(super) fn clear(&self) {
        self.connections().clear();
    }
}

impl IdleConnection {
    /// Reads the rest of the last answer. Returns whether a request can be sent: false if the connection has ended or
    /// the answer continues.
    async fn finish(&mut self) -> bool {
        if let Some(rest) = &mut self.rest {
            if self.connection.piece(rest).await.is_some() {
                return false;
            }
            self.rest = None;
        }
        self.connection.is_ready().await
    }
}
