//! Live events: `/ws/sessions/{id}` and `/ws/events`, and the same as server-sent events.
//!
//! - The database is the truth. What is sent was read from it; what says that there is something new
//!   is a hint.
//! - A stream gives every event that its principal may see once, in order, from where it was asked to
//!   begin. Where it cannot, because events were pruned, it says so.
//! - A reader costs one batch of memory, however slow it is. One that takes nothing for too long is
//!   disconnected and told where to go on.
//! - A stream lasts no longer than its token.

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
use plexus_auth::{Authenticator, Principal, Welcome};
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

pub(crate) use filter::{SEE_ALL_SESSIONS, Wanted, visible_owner};
pub(crate) use reader::Log;

/// Streams of one subject at the same time; one more is refused.
const PER_SUBJECT: usize = 128;
/// Pages that all readers together read at the same time; the rest of the store's readers are for
/// everybody else.
const TURNS: usize = 2;

#[derive(Debug, Clone)]
pub struct EventOptions {
    /// Time between two signs of life on a stream that has nothing to say.
    pub keep_alive: Duration,
    /// A WebSocket that nothing was heard from for so long is gone.
    pub silence: Duration,
    /// How long a reader may take for a batch of 64 KiB before it is too slow.
    pub slow: Duration,
    /// How long a reader that is told to go has to hear it.
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
    /// For a connection to take anything at all of what is written to it.
    pub(crate) fn stalled(&self) -> Duration {
        self.slow + self.grace
    }
}

/// How the event streams are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventStats {
    /// Streams that are open.
    pub open: usize,
    /// Readers that were disconnected because they were too slow, since the start.
    pub too_slow: u64,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// With what happens from now on.
    Now,
    /// After this number.
    After(i64),
    /// So many numbers before the end.
    Last(i64),
}

#[derive(Debug)]
pub(crate) struct Events {
    feed: Arc<Feed>,
    authenticator: Arc<Authenticator>,
    supervisor: Supervisor,
    places: Quota,
    turns: Arc<Semaphore>,
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
            places: Quota::new(PER_SUBJECT),
            turns: Arc::new(Semaphore::new(TURNS)),
            too_slow: Arc::default(),
            options,
        }
    }

    pub(crate) fn stats(&self) -> EventStats {
        EventStats { open: self.feed.readers(), too_slow: self.too_slow.load(Ordering::Relaxed) }
    }

    /// Lets others read what is measured here.
    pub(crate) fn register(&self, metrics: &Metrics) {
        let feed = self.feed.clone();
        metrics.read("plexus_event_streams", "Event streams that are open", move || count(feed.readers()));
        let too_slow = self.too_slow.clone();
        let about = "Readers of events that were disconnected because they were too slow";
        metrics.read("plexus_event_readers_too_slow", about, move || {
            count(usize::try_from(too_slow.load(Ordering::Relaxed)).unwrap_or(usize::MAX))
        });
    }

    /// A stream for a principal. A session that it may not see is one that does not exist.
    pub(crate) async fn open(
        &self,
        principal: Arc<Principal>,
        log: Log,
        start: Start,
        wanted: Wanted,
    ) -> Result<EventStream, ApiError> {
        let place = self.places.enter(principal.subject()).ok_or_else(|| {
            let message = format!("{} has {PER_SUBJECT} event streams open", principal.subject());
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
                .hint("That is the most allowed; close one first.")
        })?;
        // Joined before the first look at the log: nothing can happen in between.
        let reading = self.feed.join();
        let newest = self.newest(&principal, log).await?;
        let after = match start {
            Start::Now => newest,
            Start::Last(count) => newest.saturating_sub(count).max(0),
            Start::After(after) if after <= newest => after,
            Start::After(after) => {
                let message = format!("after={after} is beyond the newest event, which is {newest}");
                return Err(ApiError::bad_request(message)
                    .hint("The number is from another log; begin with after=0, or without it."));
            }
        };
        let filter = Filter::new(&principal, wanted);
        Ok(EventStream {
            reader: Reader::new(reading, self.turns.clone(), log, filter, after, newest),
            welcome: Welcome::new(self.authenticator.clone(), principal, place),
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

/// A stream that was granted and not begun.
#[derive(Debug)]
pub(crate) struct EventStream {
    reader: Reader,
    welcome: Welcome,
    /// Cancelled when the hub takes nothing more.
    stopping: CancellationToken,
    too_slow: Arc<AtomicU64>,
    options: EventOptions,
}

/// Ticks for keep-alives, the first one a whole period from now.
fn ticks(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
