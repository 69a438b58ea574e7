//! Connections that are kept while nobody uses them.
//!
//! One is kept as soon as nothing more is wanted of its last answer, which is often a moment before the server ends
//! that answer: a stream goes on after its last message until the server closes it. So an answer may still have to be
//! read to its end before the next request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::body::Incoming;
use url::Origin;

use super::connection::HttpConnection;

/// More are closed instead of being kept.
const MAX_IDLE: usize = 32;
/// Given to an answer to end where there is no other connection: making one takes about as long.
const LINGER: Duration = Duration::from_millis(5);
/// A server that has used up that time so often in a row is not given it again.
const MAX_LINGERS: usize = 3;

#[derive(Default)]
pub(super) struct Idle {
    kept: Mutex<Vec<IdleConnection>>,
    lingers: AtomicUsize,
}

struct IdleConnection {
    origin: Origin,
    wire: HttpConnection,
    /// What is still to be read of an answer.
    rest: Option<Incoming>,
}

impl Idle {
    fn kept(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, origin: Origin, mut wire: HttpConnection, rest: Option<Incoming>) {
        wire.rest();
        self.keep_all(std::iter::once(IdleConnection { origin, wire, rest }));
    }

    fn keep_all(&self, more: impl Iterator<Item = IdleConnection>) {
        let mut kept = self.kept();
        kept.retain(|kept| !kept.wire.is_stale());
        let room = MAX_IDLE.saturating_sub(kept.len());
        kept.extend(more.take(room));
    }

    /// A connection to this origin that is still good, the one used last first.
    pub(super) async fn take(&self, origin: &Origin) -> Option<HttpConnection> {
        let mut unfinished = Vec::new();
        let mut found = None;
        while found.is_none()
            && let Some(mut kept) = self.pop(origin)
        {
            match kept.finish().now_or_never() {
                Some(true) => found = Some(kept.wire),
                Some(false) => {}
                None => unfinished.push(kept),
            }
        }
        if found.is_none() && !unfinished.is_empty() && self.lingers.load(Ordering::Relaxed) < MAX_LINGERS {
            let mut newest = unfinished.remove(0);
            match tokio::time::timeout(LINGER, newest.finish()).await {
                Ok(true) => {
                    self.lingers.store(0, Ordering::Relaxed);
                    found = Some(newest.wire);
                }
                Ok(false) => {}
                Err(_) => {
                    self.lingers.fetch_add(1, Ordering::Relaxed);
                    unfinished.insert(0, newest);
                }
            }
        }
        if !unfinished.is_empty() {
            self.keep_all(unfinished.into_iter().rev());
        }
        found
    }

    fn pop(&self, origin: &Origin) -> Option<IdleConnection> {
        let mut all = self.kept();
        all.retain(|kept| !kept.wire.is_stale());
        let found = all.iter().rposition(|kept| kept.origin == *origin)?;
        Some(all.remove(found))
    }

    /// Closes what nobody has used for a while.
    pub(super) fn sweep(&self) {
        self.kept().retain(|kept| !kept.wire.is_stale());
    }

    pub(super) fn clear(&self) {
        self.kept().clear();
    }
}

impl IdleConnection {
    /// Reads what is left of the last answer. Whether a request can be sent then: not on a connection that has ended,
    /// nor on one whose answer goes on.
    async fn finish(&mut self) -> bool {
        if let Some(rest) = &mut self.rest {
            if self.wire.piece(rest).await.is_some() {
                return false;
            }
            self.rest = None;
        }
        self.wire.is_ready().await
    }
}
