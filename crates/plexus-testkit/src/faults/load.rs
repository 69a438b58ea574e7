//! Concurrent writers, and the comparison of the sent writes with the stored ones.
//!
//! Each write has a unique marker and the idempotency key for its retries; each writer records which writes were
//! acknowledged.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// Time limit for a writer to notice an outage, or to get answers again.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Delay between two attempts at the same write.
const BACKOFF: Duration = Duration::from_millis(50);

/// A writer's reaction to a missing answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnansweredPolicy {
    /// Stops, so that the fate of the write can be examined.
    Stop,
    /// Repeats the same write with the same key until it is answered.
    Retry,
    /// Continues with the next write.
    GoOn,
}

/// The amount of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Maximum number of writes per writer and round.
    pub most: usize,
    pub unanswered_policy: UnansweredPolicy,
}

/// A write to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Number among the writes of its writer.
    pub number: usize,
    /// Unique text, which is not part of another write's text.
    pub marker: String,
    pub key: String,
}

impl Write {
    fn new(round: u64, writer: usize, number: usize) -> Self {
        let marker = format!("w{round}.{writer}.{number};");
        Self { number, key: format!("key-{marker}"), marker }
    }

    /// The markers in a text.
    pub fn markers(text: &str) -> impl Iterator<Item = &str> {
        text.split_whitespace().filter(|word| word.starts_with('w') && word.ends_with(';'))
    }
}

/// Sends writes to the system under test.
pub trait Writer: Send + 'static {
    /// The content of an acknowledgement.
    type Ack: Send + 'static;

    /// Sends a write; `None` if no answer arrived. Panics if the answer is a refusal.
    fn write(&mut self, write: &Write) -> impl Future<Output = Option<Self::Ack>> + Send;
}

/// A write that was sent, and its acknowledgement if there was one.
#[derive(Debug)]
pub struct Attempt<A> {
    pub write: Write,
    pub ack: Option<A>,
    /// Number of repetitions.
    pub retries: usize,
}

/// A writer and its attempts, in order.
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

/// Lets all writers write concurrently until the faults have occurred.
pub(super) async fn under_load<W: Writer>(
    writers: Vec<W>,
    round: u64,
    load: Load,
    faults: impl Future<Output = ()>,
) -> Vec<Sent<W>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let mut running = JoinSet::new();
    for (index, mut writer) in writers.into_iter().enumerate() {
        let stopped = stopped.clone();
        running.spawn(async move {
            let mut attempts = Vec::new();
            while attempts.len() < load.most && !stopped.load(Ordering::Relaxed) {
                let write = Write::new(round, index, attempts.len());
                let attempt = attempt(&mut writer, write, load.unanswered_policy).await;
                let answered = attempt.ack.is_some();
                attempts.push(attempt);
                if !answered && load.unanswered_policy == UnansweredPolicy::Stop {
                    break;
                }
            }
            (index, Sent { writer, attempts })
        });
    }
    faults.await;
    stopped.store(true, Ordering::Relaxed);
    let finished = tokio::time::timeout(TIMEOUT, running.join_all()).await;
    let mut sent = finished.expect("every writer notices the faults, or is answered again, in time");
    sent.sort_by_key(|(index, _)| *index);
    sent.into_iter().map(|(_, sent)| sent).collect()
}

async fn attempt<W: Writer>(
    writer: &mut W,
    write: Write,
    unanswered_policy: UnansweredPolicy,
) -> Attempt<W::Ack> {
    let (mut retries, until) = (0, Instant::now() + TIMEOUT);
    loop {
        let ack = writer.write(&write).await;
        if ack.is_some() || unanswered_policy != UnansweredPolicy::Retry {
            return Attempt { write, ack, retries };
        }
        assert!(Instant::now() < until, "{write:?} was not answered in time");
        retries += 1;
        tokio::time::sleep(BACKOFF).await;
    }
}

/// Compares a writer's attempts with the markers found at its target: acknowledged writes exist exactly once, other
/// writes at most once, and nothing else exists.
pub fn exactly_once<W: Writer>(sent: &Sent<W>, found: &[String]) -> Result<(), String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for marker in found {
        *counts.entry(marker).or_default() += 1;
    }
    let mut differences = Vec::new();
    for attempt in &sent.attempts {
        let marker = attempt.write.marker.as_str();
        match (counts.remove(marker).unwrap_or(0), &attempt.ack) {
            (1, _) | (0, None) => {}
            (0, Some(_)) => differences.push(format!("{marker} was acknowledged and is lost")),
            (times, _) => differences.push(format!("{marker} is there {times} times")),
        }
    }
    differences.extend(counts.keys().map(|marker| format!("{marker} was not sent by this writer")));
    if differences.is_empty() { Ok(()) } else { Err(differences.join(", ")) }
}
