//! One task that reads new events once, for all readers, and only while there are any.
//!
//! The database is the truth: the writer's hint and the slow poll only say when to look. Readers
//! pull; nobody is waited for. The poll finds what other hubs wrote to the same database.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use plexus_kit::{Stage, Supervisor};
use plexus_store::{Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use super::item::Item;
use super::ring::{Ring, Taken};

/// Between two looks when there was no hint.
const POLL: Duration = Duration::from_secs(1);
/// Between two looks under load: events that come close together wake the readers once.
const PACE: Duration = Duration::from_millis(10);
/// Events read at a time.
const PAGE: i64 = 256;

#[derive(Debug)]
pub(super) struct Feed {
    store: Store,
    ring: RwLock<Ring>,
    /// Moves when the ring has something new, or begins anew.
    moved: watch::Sender<()>,
    readers: watch::Sender<usize>,
}

impl Feed {
    pub(super) fn start(store: Store, supervisor: &Supervisor) -> Arc<Self> {
        let feed = Arc::new(Self {
            store,
            ring: RwLock::default(),
            moved: watch::Sender::new(()),
            readers: watch::Sender::new(0),
        });
        let running = feed.clone();
        supervisor.spawn_restarting(Stage::Work, "event feed", move || {
            let feed = running.clone();
            async move {
                let mut readers = feed.readers.subscribe();
                while readers.wait_for(|readers| *readers > 0).await.is_ok() {
                    if let Err(error) = feed.follow(&mut readers).await {
                        tracing::warn!(%error, "cannot read new events; readers wait");
                        return;
                    }
                }
            }
        });
        feed
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Counts a reader until the value is dropped.
    pub(super) fn join(self: &Arc<Self>) -> Reading {
        self.readers.send_modify(|readers| *readers += 1);
        Reading { moved: self.moved.subscribe(), feed: self.clone() }
    }

    /// Streams that are open.
    pub(super) fn readers(&self) -> usize {
        *self.readers.borrow()
    }

    async fn follow(&self, readers: &mut watch::Receiver<usize>) -> Result<(), StoreError> {
        let mut hints = self.store.event_hints();
        let mut tip = self.store.read_committed().await?.newest_event().await?;
        self.change(|ring| ring.begin(tip));
        loop {
            // Before the look, so that a hint that comes during it is not missed.
            hints.mark_unchanged();
            let looked = Instant::now();
            let events = self.store.read_committed().await?.events_after(tip, PAGE).await?;
            let more = events.len() as i64 == PAGE;
            if let Some(last) = events.last() {
                tip = last.pos;
                let items: Vec<_> = events.into_iter().map(|event| Arc::new(Item::new(event))).collect();
                self.change(|ring| items.into_iter().for_each(|item| ring.push(item)));
            }
            if more {
                continue;
            }
            tokio::select! {
                Ok(()) = hints.changed() => tokio::time::sleep_until(looked + PACE).await,
                () = tokio::time::sleep(POLL) => {}
                () = nobody_reads(readers) => {
                    self.change(Ring::clear);
                    return Ok(());
                }
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Ring)) {
        change(&mut self.ring.write().unwrap_or_else(PoisonError::into_inner));
        self.moved.send_replace(());
    }
}

async fn nobody_reads(readers: &mut watch::Receiver<usize>) {
    let _ = readers.wait_for(|readers| *readers == 0).await;
}

/// A reader's place among those that are counted.
#[derive(Debug)]
pub(super) struct Reading {
    feed: Arc<Feed>,
    moved: watch::Receiver<()>,
}

impl Reading {
    pub(super) fn store(&self) -> &Store {
        &self.feed.store
    }

    /// Whether the ring can be read from a place on.
    pub(super) fn covers(&self, after: i64) -> bool {
        self.feed.ring.read().unwrap_or_else(PoisonError::into_inner).covers(after)
    }

    /// What the ring has after a place. Whatever comes after this look ends [`Self::moved`].
    pub(super) fn take(&mut self, after: i64, wanted: impl Fn(&Item) -> bool) -> Taken {
        self.moved.mark_unchanged();
        self.feed.ring.read().unwrap_or_else(PoisonError::into_inner).take(after, wanted)
    }

    /// Ends when the ring has changed since the last look.
    pub(super) async fn moved(&mut self) {
        // The sender lives in the feed, which we hold.
        let _ = self.moved.changed().await;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.feed.readers.send_modify(|readers| *readers -= 1);
    }
}
