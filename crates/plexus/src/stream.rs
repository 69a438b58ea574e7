//! Event streams of the hub, read as server-sent events and taken up again after a break.

use std::time::Duration;

use plexus_proto::{Event, StreamControl, StreamMessage};
use reqwest::Response;
use serde_json::value::RawValue;

use crate::client::{Hub, Param, decode};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Before the first attempt to take a stream up again; doubled each time after that.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause while the hub is away.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// A stream that is silent for longer is dead: the hub speaks every 25 seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// One event; far above what a hub keeps of one.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// Prints the events of a stream: up to now, or, following, for ever.
pub(crate) struct Tail<'a> {
    pub(crate) out: &'a Output,
    pub(crate) hub: &'a Hub,
    pub(crate) path: &'a [&'a str],
    /// What the stream is narrowed to.
    pub(crate) filters: Vec<Param<'a>>,
    /// Where it begins.
    pub(crate) start: Param<'a>,
    pub(crate) follow: bool,
}

/// What was heard and told so far.
#[derive(Default)]
struct Progress {
    /// There is a hub, whatever it said.
    answered: bool,
    /// That the hub is away.
    away: bool,
    /// At least one event.
    any: bool,
}

impl Tail<'_> {
    /// `print` gets each event once, typed and as the hub wrote it.
    pub(crate) async fn run(
        mut self,
        print: impl Fn(&Output, &Event, &RawValue) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut pause, mut progress) = (PAUSE, Progress::default());
        loop {
            let before = self.start.clone();
            match self.read(&print, &mut progress).await {
                Ok(()) if !self.follow => {
                    if !progress.any && !self.out.json() {
                        self.out.note("No events.");
                    }
                    return Ok(());
                }
                // A hub that restarts is waited for: the stream goes on where it was.
                Err(error) if !(self.follow && progress.is_passing(&error)) => return Err(error),
                ended => {
                    progress.answered = true;
                    if before != self.start {
                        pause = PAUSE;
                    }
                    if let Err(error) = ended
                        && !std::mem::replace(&mut progress.away, true)
                    {
                        self.out.note(&format!("{error}; waiting for it to come back"));
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Reads until the stream ends; without `follow`, until it has caught up.
    async fn read(
        &mut self,
        print: &impl Fn(&Output, &Event, &RawValue) -> anyhow::Result<()>,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let mut query = self.filters.clone();
        query.push(self.start.clone());
        let mut stream =
            SseReader { response: self.hub.stream(self.path, &query).await?, buffer: Vec::new() };
        progress.answered = true;
        if std::mem::take(&mut progress.away) {
            self.out.note(&format!("{} is back", self.hub.url()));
        }
        while let Some(message) = stream.next(self.hub).await? {
            match decode(&message.data)? {
                StreamMessage::Event(event) => {
                    progress.any = true;
                    print(self.out, &event, &message.data)?;
                }
                StreamMessage::Control(StreamControl::Live { .. }) if !self.follow => return Ok(()),
                StreamMessage::Control(StreamControl::Pruned { after, through }) => {
                    let gone = format!("events {} to {through} are no longer kept", after + 1);
                    self.out.note(&gone);
                }
                StreamMessage::Control(_) => {}
            }
            if let Some(id) = message.id {
                self.start = ("after", Some(id));
            }
        }
        if self.follow {
            return Ok(());
        }
        let message = format!("{} ended the stream before it was complete", self.hub.url());
        Err(Failure::new(Exit::Failed, message).hint("try again").into())
    }
}

impl Progress {
    /// Whether it is worth waiting: a hub that never answered is most likely not there at all.
    fn is_passing(&self, error: &anyhow::Error) -> bool {
        let failure = error.downcast_ref::<Failure>();
        failure
            .is_some_and(|failure| failure.retryable && (self.answered || failure.exit != Exit::Unreachable))
    }
}

/// A server-sent event with data.
struct SseMessage {
    id: Option<String>,
    data: Box<RawValue>,
}

struct SseReader {
    response: Response,
    buffer: Vec<u8>,
}

impl SseReader {
    /// The next event; comments are passed over. None when the stream has ended.
    async fn next(&mut self, hub: &Hub) -> anyhow::Result<Option<SseMessage>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                match parse(&event)? {
                    Some(message) => return Ok(Some(message)),
                    None => continue,
                }
            }
            if self.buffer.len() > MAX_EVENT_BYTES {
                let message =
                    format!("an event of {} is longer than {} MiB", hub.url(), MAX_EVENT_BYTES >> 20);
                return Err(Failure::new(Exit::Failed, message).into());
            }
            match tokio::time::timeout(SILENCE, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.buffer.extend_from_slice(&chunk),
                Ok(Ok(None)) | Err(_) => return Ok(None),
                Ok(Err(error)) => return Err(hub.unreachable(&error).into()),
            }
        }
    }
}

fn parse(event: &[u8]) -> anyhow::Result<Option<SseMessage>> {
    let (mut id, mut data) = (None, None);
    for line in String::from_utf8_lossy(event).lines() {
        match line.split_once(':') {
            Some(("id", value)) => id = Some(value.trim().to_owned()),
            Some(("data", value)) => data = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let Some(data) = data else { return Ok(None) };
    match RawValue::from_string(data) {
        Ok(data) => Ok(Some(SseMessage { id, data })),
        Err(error) => {
            let message = format!("the hub sent an event that is not JSON: {error}");
            Err(Failure::new(Exit::Failed, message).into())
        }
    }
}
