//! Faults under load, and what must hold afterwards.
//!
//! Writers send one write after the other until a fault strikes. Each write carries a marker that
//! no other has and the idempotency key it would be retried with; each writer remembers which ones
//! were answered. What is found afterwards is compared with that by [`exactly_once`]. Nothing here
//! knows what is written to: a hub today, a node or an outbox tomorrow.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;

/// Variable that repeats a run: the seed that the failed one printed.
const VARIABLE: &str = "PLEXUS_TEST_SEED";
/// For a writer to notice that nobody answers any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where all randomness of a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed that the environment asks for, else a fresh one.
    pub fn choose() -> Self {
        match std::env::var_os(VARIABLE) {
            Some(text) => Self(text.to_str().and_then(|text| text.parse().ok()).expect("a number as seed")),
            // Keyed differently in every process.
            None => Self(RandomState::new().hash_one(0) >> 32),
        }
    }

    /// The randomness of one round, the same whatever happened in the rounds before it.
    pub fn round(self, round: u64) -> StdRng {
        StdRng::seed_from_u64(self.0.wrapping_mul(1_000_003).wrapping_add(round))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VARIABLE}={}", self.0)
    }
}

/// One write, before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Number among the writes of its writer.
    pub number: usize,
    /// Text that no other write has, and that is no part of another's.
    pub marker: String,
    pub key: String,
}

impl Write {
    fn new(round: u64, writer: usize, number: usize) -> Self {
        let marker = format!("w{round}.{writer}.{number};");
        Self { number, key: format!("key-{marker}"), marker }
    }

    /// The markers in a text, whoever wrote it.
    pub fn markers(text: &str) -> impl Iterator<Item = &str> {
        text.split_whitespace().filter(|word| word.starts_with('w') && word.ends_with(';'))
    }
}

/// Sends writes to whatever is under test.
pub trait Writer: Send + 'static {
    /// What an acknowledgement says.
    type Ack: Send + 'static;

    /// Sends a write; none when no answer came. An answer that says no is a failure of the test.
    fn write(&mut self, write: &Write) -> impl Future<Output = Option<Self::Ack>> + Send;
}

/// A write that was sent, and the acknowledgement if one came.
#[derive(Debug)]
pub struct Attempt<A> {
    pub write: Write,
    pub ack: Option<A>,
}

/// A writer and what it sent, in order.
#[derive(Debug)]
pub struct Sent<W: Writer> {
    pub writer: W,
    pub attempts: Vec<Attempt<W::Ack>>,
}

impl<W: Writer> Sent<W> {
    pub fn acknowledged(&self) -> impl Iterator<Item = (&Write, &W::Ack)> {
        self.attempts.iter().filter_map(|attempt| Some((&attempt.write, attempt.ack.as_ref()?)))
    }

    pub fn unanswered(&self) -> impl Iterator<Item = &Write> {
        self.attempts.iter().filter(|attempt| attempt.ack.is_none()).map(|attempt| &attempt.write)
    }
}

/// Lets all writers write at once, at most `most` times each, until the fault has struck.
pub async fn under_load<W: Writer>(
    writers: Vec<W>,
    round: u64,
    most: usize,
    fault: impl Future<Output = ()>,
) -> Vec<Sent<W>> {
    let over = Arc::new(AtomicBool::new(false));
    let mut running = JoinSet::new();
    for (place, mut writer) in writers.into_iter().enumerate() {
        let over = over.clone();
        running.spawn(async move {
            let mut attempts = Vec::new();
            while attempts.len() < most && !over.load(Ordering::Relaxed) {
                let write = Write::new(round, place, attempts.len());
                let ack = writer.write(&write).await;
                let answered = ack.is_some();
                attempts.push(Attempt { write, ack });
                if !answered {
                    break;
                }
            }
            (place, Sent { writer, attempts })
        });
    }
    fault.await;
    over.store(true, Ordering::Relaxed);
    let ended = tokio::time::timeout(PATIENCE, running.join_all()).await;
    let mut sent = ended.expect("every writer notices the fault in time");
    sent.sort_by_key(|(place, _)| *place);
    sent.into_iter().map(|(_, sent)| sent).collect()
}

/// Compares what a writer sent with the markers that were found where it wrote: what was
/// acknowledged is there once, what was not is there at most once, and nothing else is there.
pub fn exactly_once<W: Writer>(sent: &Sent<W>, found: &[String]) -> Result<(), String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for marker in found {
        *counts.entry(marker).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for attempt in &sent.attempts {
        let marker = attempt.write.marker.as_str();
        match (counts.remove(marker).unwrap_or(0), &attempt.ack) {
            (1, _) | (0, None) => {}
            (0, Some(_)) => wrong.push(format!("{marker} was acknowledged and is lost")),
            (times, _) => wrong.push(format!("{marker} is there {times} times")),
        }
    }
    wrong.extend(counts.keys().map(|marker| format!("{marker} is another's")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
}
