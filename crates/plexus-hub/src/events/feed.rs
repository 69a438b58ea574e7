//! One task that reads new events once for all readers, and only while there are any.
//!
//! The database is the source of truth: the writer's hint and the slow poll only trigger a read. Readers pull, and
//! the feed waits for none of them. The poll finds events that other hubs wrote to the same database.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use plexus_kit::{Stage, Supervisor};
use plexus_store::{Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use super::item::Item;
use super::ring::{Ring, RingRead};

/// Interval between two reads without a hint.
const POLL: Duration = Duration::from_secs(1);
/// Minimum interval between two reads under load, so that a burst of events wakes the readers once.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of events per read.
const PAGE: i64 = 256;

#[derive(Debug)]
pub(super) struct Feed {
    store: Store,
    ring: RwLock<Ring>,
    /// Notified when the ring has new events or starts over.
    ring_changed: watch::Sender<()>,
    readers: watch::Sender<usize>,
}

impl Feed {
    pub(super) fn start(store: Store, supervisor: &Supervisor) -> Arc<Self> {
        let feed = Arc::new(Self {
            store,
            ring: RwLock::default(),
            ring_changed: watch::Sender::new(()),
            readers: watch::Sender::new(0),
        });
        let running = feed.clone();
        supervisor.spawn_restarting(Stage::Work, "event feed", move || {
            let feed = running.clone();
            async move {
                let mut readers = feed.readers.subscribe();
                while readers.wait_for(|readers| *readers > 0).await.is_ok() {
                    if let Err(error) = feed.follow_database(&mut readers).await {
                        tracing::warn!(%error, "cannot read new events; event streams are delayed");
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

    /// Counts a reader until the returned value is dropped.
    pub(super) fn add_reader(self: &Arc<Self>) -> FeedReader {
        self.readers.send_modify(|readers| *readers += 1);
        FeedReader { ring_changed: self.ring_changed.subscribe(), feed: self.clone() }
    }

    /// Number of open streams.
    pub(super) fn readers(&self) -> usize {
        *self.readers.borrow()
    }

    async fn follow_database(&self, readers: &mut watch::Receiver<usize>) -> Result<(), StoreError> {
        let mut hints = self.store.event_hints();
        let mut tip = self.store.read_committed().await?.newest_event().await?;
        self.change(|ring| ring.begin(tip));
        loop {
            // Mark the hints as seen before the read, so that a hint during the read is not missed.
            hints.mark_unchanged();
            let read_at = Instant::now();
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
                Ok(()) = hints.changed() => tokio::time::sleep_until(read_at + MIN_INTERVAL).await,
                () = tokio::time::sleep(POLL) => {}
                () = no_readers(readers) => {
                    self.change(Ring::clear);
                    return Ok(());
                }
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Ring)) {
        change(&mut self.ring.write().unwrap_or_else(PoisonError::into_inner));
        self.ring_changed.send_replace(());
    }
}

async fn no_readers(readers: &mut watch::Receiver<usize>) {
    let _ = readers.wait_for(|readers| *readers == 0).await;
}

/// A counted reader.
#[derive(Debug)]
pub(super) struct FeedReader {
    feed: Arc<Feed>,
    ring_changed: watch::Receiver<()>,
}

impl FeedReader {
    pub(super) fn store(&self) -> &Store {
        &self.feed.store
    }

    /// Whether the ring can be read from this position.
    pub(super) fn covers(&self, after: i64) -> bool {
        self.feed.ring.read().unwrap_or_else(PoisonError::into_inner).covers(after)
    }

    /// The events in the ring after a position. Later changes complete [`Self::ring_changed`].
    pub(super) fn take(&mut self, after: i64, wanted: impl Fn(&Item) -> bool) -> RingRead {
        self.ring_changed.mark_unchanged();
        self.feed.ring.read().unwrap_or_else(PoisonError::into_inner).take(after, wanted)
    }

    /// Completes when the ring has changed since the last read.
    pub(super) async fn wait_for_change(&mut self) {
        // The sender is owned by the feed, which this value keeps alive.
        let _ = self.ring_changed.changed().await;
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        self.feed.readers.send_modify(|readers| *readers -= 1);
    }
}
