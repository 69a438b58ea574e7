//! A reader: a cursor into the events of one session or of all.
//!
//! It starts with pages from the database and continues with the ring once it has caught up; a reader that
//! reconnects soon starts with the ring, and one that falls behind the ring returns to pages. Numbers have no gaps,
//! so a missing number means that the event was pruned, and the reader reports that. While waiting it holds no
//! database connection, and it never buffers events.

use std::sync::Arc;
use std::time::Duration;

use plexus_proto::{SessionId, StreamControl};
use plexus_store::{StoreError, StoredEvent};
use tokio::sync::Semaphore;

use super::feed::FeedReader;
use super::filter::Filter;
use super::item::Item;
use super::ring::{BATCH, BATCH_BYTES, RingRead};

/// Maximum number of events in the first page; later pages are sized to a batch.
const FIRST_PAGE: i64 = 32;
/// Delay before a failed page read is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The log that is read, which determines the numbering.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Log {
    /// One session, numbered by `seq`.
    Session(SessionId),
    /// All sessions, numbered by `pos`.
    All,
}

impl Log {
    fn number(self, item: &Item) -> i64 {
        match self {
            Self::Session(_) => item.seq,
            Self::All => item.pos,
        }
    }
}

/// One message of a stream, with the number to resume from once it was received.
#[derive(Debug)]
pub(super) enum Message {
    Control(StreamControl),
    Event { number: i64, item: Arc<Item> },
}

impl Message {
    pub(super) fn number(&self) -> i64 {
        match self {
            Self::Event { number, .. } => *number,
            Self::Control(StreamControl::Open { after } | StreamControl::Live { after }) => *after,
            Self::Control(StreamControl::Pruned { through, .. }) => *through,
        }
    }
}

#[derive(Debug)]
pub(super) struct Reader {
    feed: FeedReader,
    /// Limits the concurrent page reads of all readers.
    read_permits: Arc<Semaphore>,
    log: Log,
    filter: Filter,
    /// Number of the last event that was sent or skipped.
    after: i64,
    /// Position from which the ring is read; `None` while pages are read.
    ring_position: Option<i64>,
    /// Number of the newest event when the stream was opened.
    newest: i64,
    opened: bool,
    live: bool,
    page: i64,
}

/// Events in the database after a number.
struct Page {
    events: Vec<StoredEvent>,
    /// Newest position and newest number of the log before the events were read.
    newest_position: i64,
    newest: i64,
    is_last: bool,
}

impl Reader {
    /// Starts after `after`; `newest` is the current number of the newest event.
    pub(super) fn new(
        feed: FeedReader,
        read_permits: Arc<Semaphore>,
        log: Log,
        filter: Filter,
        after: i64,
        newest: i64,
    ) -> Self {
        let ring_position = match log {
            Log::All if feed.covers(after) => Some(after),
            _ => None,
        };
        let page = FIRST_PAGE;
        Self {
            feed,
            read_permits,
            log,
            filter,
            after,
            ring_position,
            newest,
            opened: false,
            live: false,
            page,
        }
    }

    /// Number to resume from if none of the following messages are received.
    pub(super) fn after(&self) -> i64 {
        self.after
    }

    /// The next messages, at least one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<Message> {
        if !self.opened {
            self.opened = true;
            return vec![Message::Control(StreamControl::Open { after: self.after })];
        }
        loop {
            let messages = match self.ring_position {
                Some(ring_position) => self.next_from_ring(ring_position).await,
                None => self.next_from_database().await,
            };
            if !messages.is_empty() {
                return messages;
            }
        }
    }

    async fn next_from_ring(&mut self, ring_position: i64) -> Vec<Message> {
        let (log, filter, after) = (self.log, &self.filter, self.after);
        // The last page of a session may extend past the position at which it was read.
        let read = self.feed.take(ring_position, |item| match log {
            Log::Session(id) => item.session_id == id && item.seq > after && filter.passes(item),
            Log::All => filter.passes(item),
        });
        match read {
            RingRead::Items { items, through } => {
                self.ring_position = Some(through);
                let messages: Vec<_> = items.into_iter().map(|item| self.event(item)).collect();
                if let Log::All = log {
                    self.after = through;
                }
                return messages;
            }
            RingRead::Behind => self.ring_position = None,
            RingRead::Idle if !self.live => self.ring_position = None,
            // The ring may lag behind the events that existed when the stream was opened.
            RingRead::Wait if !self.live && ring_position >= self.newest => return vec![self.live_marker()],
            RingRead::Wait | RingRead::Idle => self.feed.wait_for_change().await,
        }
        Vec::new()
    }

    fn event(&mut self, item: Arc<Item>) -> Message {
        self.after = self.log.number(&item);
        Message::Event { number: self.after, item }
    }

    async fn next_from_database(&mut self) -> Vec<Message> {
        match self.read_page().await {
            Ok(page) => self.apply_page(page),
            Err(error) => {
                // The feed reads the same database and logs the failure once for all readers.
                tracing::debug!(%error, "cannot read events for a stream; trying again");
                tokio::time::sleep(RETRY_DELAY).await;
                Vec::new()
            }
        }
    }

    async fn read_page(&self) -> Result<Page, StoreError> {
        // The semaphore is never closed. An error would only mean reading without a permit, which is harmless.
        let _permit = self.read_permits.acquire().await;
        let mut reader = self.feed.store().read().await?;
        let newest_position = reader.newest_event().await?;
        let (newest, events) = match self.log {
            Log::All => (newest_position, reader.events_after(self.after, self.page).await?),
            Log::Session(id) => {
                let session = reader.session(id).await?;
                let events = reader.session_events_after(id, self.after, self.page).await?;
                (session.map_or(0, |session| session.last_seq), events)
            }
        };
        let is_last = (events.len() as i64) < self.page;
        Ok(Page { events, newest_position, newest, is_last })
    }

    /// Advances past a page and returns its matching events.
    fn apply_page(&mut self, page: Page) -> Vec<Message> {
        let (count, mut bytes) = (page.events.len(), 0);
        let mut messages = Vec::with_capacity(count);
        for item in page.events.into_iter().map(Item::new) {
            bytes += item.json.len();
            let number = self.log.number(&item);
            self.report_pruned(number - 1, &mut messages);
            self.after = number;
            if self.filter.passes(&item) {
                messages.push(Message::Event { number, item: Arc::new(item) });
            }
        }
        if count == 0 {
            self.report_pruned(page.newest, &mut messages);
        }
        if page.is_last {
            self.ring_position = Some(match self.log {
                Log::All => self.after,
                Log::Session(_) => page.newest_position,
            });
            if !self.live {
                messages.push(self.live_marker());
            }
        } else {
            let fitting = BATCH_BYTES * count / bytes.max(1);
            self.page = fitting.clamp(1, BATCH) as i64;
        }
        messages
    }

    fn live_marker(&mut self) -> Message {
        self.live = true;
        Message::Control(StreamControl::Live { after: self.after })
    }

    /// Reports the missing events between the last number and this one.
    fn report_pruned(&mut self, through: i64, messages: &mut Vec<Message>) {
        if through > self.after {
            messages.push(Message::Control(StreamControl::Pruned { after: self.after, through }));
            self.after = through;
        }
    }
}
