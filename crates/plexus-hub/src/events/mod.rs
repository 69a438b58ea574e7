//! Live events: `/ws/sessions/{id}` and `/ws/events`, and the same as server-sent events.
//!
//! - The database is the source of truth: streams send only events read from it, and notifications are just hints.
//! - A stream sends every event that its principal may see once and in order, starting at the requested position. If events
//!   were pruned, the stream reports the gap.
//! - A reader uses one batch of memory, however slow it is. A reader that accepts nothing for too long is
//!   disconnected and told where to resume.
//! - A stream ends when its token does.

mod feed;
mod filter;
mod item;
mod reader;
mod ring;
pub(crate) mod sse;
mod ws;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use plexus_auth::{Authenticator, Principal, StreamPermit};
use plexus_kit::metrics::count;
use plexus_kit::{Metrics, Quota, Stage, Supervisor};
use plexus_proto::ErrorCode;
use plexus_store::Store;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::http::ApiError;
use feed::Feed;
use filter::Filter;
use reader::Reader;

pub(crate) use filter::{EventSelection, SEE_ALL_SESSIONS, visible_owner};
pub(crate) use reader::Log;

/// Maximum number of concurrent streams per subject; more are refused.
const MAX_STREAMS_PER_SUBJECT: usize = 128;
/// Maximum number of database pages that all streams read concurrently; the other readers of the store remain
/// available for other work.
const MAX_CONCURRENT_READS: usize = 2;

#[derive(Debug, Clone)]
pub struct EventOptions {
    /// Interval of keep-alives on an idle stream.
    pub keep_alive: Duration,
    /// A WebSocket is closed after this time without a frame from the client.
    pub silence: Duration,
    /// How long a reader may take for a batch of 64 KiB before it counts as too slow.
    pub slow: Duration,
    /// How long a reader may take to receive its close message.
    pub grace: Duration,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self {
            keep_alive: Duration::from_secs(25),
            silence: Duration::from_secs(60),
            slow: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

impl EventOptions {
    /// How long a connection may accept none of the written data.
    pub(crate) fn stalled(&self) -> Duration {
        self.slow + self.grace
    }
}

/// Statistics of the event streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventStats {
    /// Open streams.
    pub open: usize,
    /// Readers that were disconnected since startup because they were too slow.
    pub too_slow: u64,
}

/// Where a stream starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// With new events only.
    Now,
    /// After the event with this number.
    After(i64),
    /// This many numbers before the end.
    Last(i64),
}

#[derive(Debug)]
pub(crate) struct Events {
    feed: Arc<Feed>,
    authenticator: Arc<Authenticator>,
    supervisor: Supervisor,
    stream_quota: Quota,
    read_permits: Arc<Semaphore>,
    too_slow: Arc<AtomicU64>,
    options: EventOptions,
}

impl Events {
    pub(crate) fn new(
        store: Store,
        authenticator: Arc<Authenticator>,
        supervisor: Supervisor,
        options: EventOptions,
    ) -> Self {
        Self {
            feed: Feed::start(store, &supervisor),
            authenticator,
            supervisor,
            stream_quota: Quota::new(MAX_STREAMS_PER_SUBJECT),
            read_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
            too_slow: Arc::default(),
            options,
        }
    }

    pub(crate) fn stats(&self) -> EventStats {
        EventStats { open: self.feed.readers(), too_slow: self.too_slow.load(Ordering::Relaxed) }
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, metrics: &Metrics) {
        let feed = self.feed.clone();
        metrics.read("plexus_event_streams", "Open event streams", move || count(feed.readers()));
        let too_slow = self.too_slow.clone();
        let about = "Event streams that were closed because their reader was too slow";
        metrics.read("plexus_event_readers_too_slow", about, move || {
            count(usize::try_from(too_slow.load(Ordering::Relaxed)).unwrap_or(usize::MAX))
        });
    }

    /// Opens a stream for a principal. A session that it may not see is treated as missing.
    pub(crate) async fn open(
        &self,
        principal: Arc<Principal>,
        log: Log,
        start: Start,
        selection: EventSelection,
    ) -> Result<EventStream, ApiError> {
        let slot = self.stream_quota.enter(principal.subject()).ok_or_else(|| {
            let message =
                format!("{} already has {MAX_STREAMS_PER_SUBJECT} event streams open", principal.subject());
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
                .hint("That is the limit; close one first.")
        })?;
        // Join before looking at the log, so that no event is missed in between.
        let feed_reader = self.feed.add_reader();
        let newest = self.newest(&principal, log).await?;
        let after = match start {
            Start::Now => newest,
            Start::Last(count) => newest.saturating_sub(count).max(0),
            Start::After(after) if after <= newest => after,
            Start::After(after) => {
                let message = format!("after={after} is beyond the newest event, {newest}");
                return Err(ApiError::bad_request(message)
                    .hint("The number belongs to another log; start with after=0 or without it."));
            }
        };
        let filter = Filter::new(&principal, selection);
        Ok(EventStream {
            reader: Reader::new(feed_reader, self.read_permits.clone(), log, filter, after, newest),
            permit: StreamPermit::new(self.authenticator.clone(), principal, slot),
            stopping: self.supervisor.stopping(Stage::Intake),
            too_slow: self.too_slow.clone(),
            options: self.options.clone(),
        })
    }

    /// Number of the newest event of a log.
    async fn newest(&self, principal: &Principal, log: Log) -> Result<i64, ApiError> {
        let mut reader = self.feed.store().read().await?;
        let Log::Session(id) = log else { return Ok(reader.newest_event().await?) };
        let visible = visible_owner(principal);
        let session = reader.session(id).await?;
        session
            .filter(|session| visible.is_none_or(|owner| owner == session.owner))
            .map(|session| session.last_seq)
            .ok_or_else(ApiError::no_session)
    }
}

/// A stream that was authorized but not started.
#[derive(Debug)]
pub(crate) struct EventStream {
    reader: Reader,
    permit: StreamPermit,
    /// Cancelled when the hub stops accepting requests.
    stopping: CancellationToken,
    too_slow: Arc<AtomicU64>,
    options: EventOptions,
}

/// Keep-alive ticks; the first one after a full period.
fn ticks(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
