//! Reads event streams of the hub as server-sent events, and resumes them after a disconnect.

use std::time::Duration;

use plexus_mcp::http_client::SseParser;
use plexus_proto::{Event, StreamControl, StreamMessage};
use reqwest::Response;
use serde_json::value::RawValue;

use crate::client::{Hub, Param, decode};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Delay before the first reconnect. It doubles with each attempt.
const MIN_DELAY: Duration = Duration::from_millis(500);
/// Maximum delay between reconnects.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// A stream without data for this long is dead: the hub sends something every 25 seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of an event, far above the size that a hub stores.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Maximum number of existing events to print together.
const MAX_BATCH: usize = 256;

/// An event, and the hub's JSON of it.
pub(crate) type RawEvent = (Event, Box<RawValue>);

/// Prints the events of a stream: the existing ones or, with `follow`, new ones as well, without an end.
pub(crate) struct Tail<'a> {
    pub(crate) out: &'a Output,
    pub(crate) hub: &'a Hub,
    pub(crate) path: &'a [&'a str],
    /// Which events to print.
    pub(crate) filters: Vec<Param<'a>>,
    /// Where the stream starts.
    pub(crate) start: Param<'a>,
    pub(crate) follow: bool,
}

/// The state across reconnects.
#[derive(Default)]
struct TailState {
    /// The hub has responded at least once.
    connected_once: bool,
    /// The user was told that the hub is away.
    disconnected: bool,
    /// The events to print next.
    batch: Vec<RawEvent>,
    /// At least one event was printed.
    has_events: bool,
}

impl Tail<'_> {
    /// Calls `print` once for each event: for existing events in batches, for new ones one by one.
    pub(crate) async fn run(
        mut self,
        mut print: impl FnMut(&Output, &[RawEvent]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut delay, mut state) = (MIN_DELAY, TailState::default());
        loop {
            let before = self.start.clone();
            let ended = self.read(&mut print, &mut state).await;
            state.flush(self.out, &mut print)?;
            match ended {
                Ok(()) if !self.follow => {
                    if !state.has_events && !self.out.json() {
                        self.out.note("No events.");
                    }
                    return Ok(());
                }
                // With `follow`, wait for a hub that restarts and resume the stream.
                Err(error) if !(self.follow && state.can_retry(&error)) => return Err(error),
                ended => {
                    state.connected_once = true;
                    if before != self.start {
                        delay = MIN_DELAY;
                    }
                    if let Err(error) = ended
                        && !std::mem::replace(&mut state.disconnected, true)
                    {
                        self.out.note(&format!("{error}; waiting for it to come back"));
                    }
                }
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }

    /// Reads until the stream ends or, without `follow`, until all existing events were read.
    async fn read(
        &mut self,
        print: &mut impl FnMut(&Output, &[RawEvent]) -> anyhow::Result<()>,
        state: &mut TailState,
    ) -> anyhow::Result<()> {
        let mut query = self.filters.clone();
        query.push(self.start.clone());
        let response = self.hub.stream(self.path, &query).await?;
        let mut stream = SseReader { response, parser: SseParser::new(MAX_EVENT_BYTES) };
        state.connected_once = true;
        if std::mem::take(&mut state.disconnected) {
            self.out.note(&format!("{} is back", self.hub.url()));
        }
        let mut batch_size = MAX_BATCH;
        while let Some(data) = stream.next(self.hub).await? {
            match decode(&data)? {
                StreamMessage::Event(event) => {
                    state.batch.push((event, data));
                    if state.batch.len() >= batch_size {
                        state.flush(self.out, print)?;
                    }
                }
                StreamMessage::Control(StreamControl::Live { .. }) if !self.follow => return Ok(()),
                StreamMessage::Control(StreamControl::Live { .. }) => {
                    state.flush(self.out, print)?;
                    batch_size = 1;
                }
                StreamMessage::Control(StreamControl::Pruned { after, through }) => {
                    state.flush(self.out, print)?;
                    let missing_range = format!("events {} to {through} are no longer kept", after + 1);
                    self.out.note(&missing_range);
                }
                StreamMessage::Control(_) => {}
            }
            if let Some(id) = stream.parser.last_id() {
                self.start = ("after", Some(id.to_owned()));
            }
        }
        if self.follow {
            return Ok(());
        }
        let message = format!("{} ended the stream before it was complete", self.hub.url());
        Err(Failure::new(Exit::Failed, message).hint("try again").into())
    }
}

impl TailState {
    /// Prints the events of the batch.
    fn flush(
        &mut self,
        out: &Output,
        print: &mut impl FnMut(&Output, &[RawEvent]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.has_events = true;
        print(out, &std::mem::take(&mut self.batch))
    }

    /// Whether a reconnect can help. A hub that never responded most likely does not exist.
    fn can_retry(&self, error: &anyhow::Error) -> bool {
        let failure = error.downcast_ref::<Failure>();
        failure.is_some_and(|failure| {
            failure.retryable && (self.connected_once || failure.exit != Exit::Unreachable)
        })
    }
}

struct SseReader {
    response: Response,
    parser: SseParser,
}

impl SseReader {
    /// The data of the next event that has any. None at the end of the stream.
    async fn next(&mut self, hub: &Hub) -> anyhow::Result<Option<Box<RawValue>>> {
        loop {
            let event = self.parser.next_event().map_err(|_| {
                let message =
                    format!("an event of {} is larger than {} MiB", hub.url(), MAX_EVENT_BYTES >> 20);
                Failure::new(Exit::Failed, message)
            })?;
            if let Some(event) = event {
                let data = serde_json::from_slice(&event.data).map_err(|error| {
                    let message = format!("the hub sent an event that is not JSON: {error}");
                    Failure::new(Exit::Failed, message)
                })?;
                return Ok(Some(data));
            }
            match tokio::time::timeout(IDLE_TIMEOUT, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.parser.push(&chunk),
                Ok(Ok(None)) | Err(_) => return Ok(None),
                Ok(Err(error)) => return Err(hub.unreachable(&error).into()),
            }
        }
    }
}
