//! A single job: its record, its state and its operations.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use plexus_kit::env;
use plexus_kit::process::Signal;
use plexus_proto::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::identity::{self, Identity};
use super::keeper;
use super::record::{BORN, Exit, Record, STDIN, StopReason};
use super::screen::{END_OF_INPUT, Keyboard, Screen};
use super::spool::Spool;
use crate::tools::output::Stream;

/// Set in the environment of every job, so that its leftover processes can be recognised.
pub(super) const MARK: &str = env::JOB.name;

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) exit: Exit,
    /// The reason the node ended it, if it did.
    pub(crate) why: Option<StopReason>,
    pub(crate) duration: Duration,
    pub(crate) ended_at: Timestamp,
    /// The same on the monotonic clock of this process; `None` for a job that had ended before this process started.
    pub(crate) seen: Option<Instant>,
    /// Some of the processes it started were still running.
    pub(crate) left_running: bool,
}

/// A request to the task that watches a job.
#[derive(Debug)]
pub(super) enum WatchRequest {
    /// Send this signal to the process group; the answer is whether the group existed.
    Signal(Signal, oneshot::Sender<bool>),
    /// End the job, by force if necessary.
    Stop(StopReason),
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) record: Record,
    folder: PathBuf,
    /// On the monotonic clock of this process; `None` for a job of an earlier process.
    began: Option<Instant>,
    end: watch::Sender<Option<End>>,
    /// `None` if the job has ended and is not watched.
    orders: Option<mpsc::Sender<WatchRequest>>,
    keyboard: Option<Keyboard>,
    /// Input bytes the job has received through [`Self::feed`]; `None` for a job of an earlier process, for which the
    /// number is unknown.
    fed: tokio::sync::Mutex<Option<u64>>,
}

/// The reason input was not written to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedError {
    /// The job accepts no more input.
    Closed,
    /// The input offset is unknown.
    Lost,
    /// The job has received only this many bytes.
    Ahead(u64),
}

impl Job {
    /// A job that was just started.
    pub(super) fn started(
        id: String,
        record: Record,
        folder: PathBuf,
        orders: mpsc::Sender<WatchRequest>,
        keyboard: Option<Keyboard>,
    ) -> Self {
        let (began, end) = (Some(Instant::now()), watch::Sender::new(None));
        Self { id, record, folder, began, end, orders: Some(orders), keyboard, fed: Some(0).into() }
    }

    /// A job started by an earlier process.
    pub(super) fn recovered(
        id: String,
        record: Record,
        folder: PathBuf,
        now: Timestamp,
        orders: Option<mpsc::Sender<WatchRequest>>,
    ) -> Self {
        let job = Self {
            id,
            record,
            folder,
            began: None,
            end: watch::Sender::new(None),
            orders,
            keyboard: None,
            fed: None.into(),
        };
        if job.orders.is_none() {
            job.conclude(None, now);
        }
        job
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn spool(&self, stream: Stream) -> Spool {
        Spool::at(&self.folder.join(match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }))
    }

    /// `None` while the job runs.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// Waits until the job ends.
    pub(crate) async fn ended(&self) {
        // `self` owns the sender, so the channel cannot close during the wait.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// The run time so far, or until the end.
    pub(crate) fn duration(&self, now: Timestamp) -> Duration {
        match self.end() {
            Some(end) => end.duration,
            None => self.elapsed(now),
        }
    }

    fn elapsed(&self, now: Timestamp) -> Duration {
        match self.began {
            Some(began) => began.elapsed(),
            None => Duration::try_from(now.duration_since(self.record.started_at)).unwrap_or_default(),
        }
    }

    /// Records the end, once no process is left to wait for. `exit` is the status that the parent saw; it is used if
    /// the keeper could not write the exit file.
    pub(super) fn conclude(&self, exit: Option<Exit>, now: Timestamp) {
        let why = StopReason::read(&self.folder);
        let exit = Exit::read(&self.folder).unwrap_or_else(|| {
            let exit = exit.unwrap_or(match why {
                Some(_) => Exit::Signal("KILL".to_owned()),
                None => Exit::Unknown,
            });
            exit.write(&self.folder);
            exit
        });
        // The input is no longer needed and may be confidential.
        let _ = fs::remove_file(self.folder.join(STDIN));
        let ended_at = Exit::written_at(&self.folder).unwrap_or(now);
        let duration = self.elapsed(ended_at);
        let left_running = self.began.is_some()
            && Identity::written(&self.folder.join(BORN))
                .is_some_and(|leader| identity::group_lives(leader.pid()));
        let seen = self.orders.is_some().then(Instant::now);
        self.end.send_replace(Some(End { exit, why, duration, ended_at, seen, left_running }));
    }

    /// Sends a signal to the job and its process group. Returns false if no process is left.
    pub(crate) async fn signal(&self, signal: Signal) -> bool {
        if let Some(orders) = self.orders.as_ref().filter(|_| self.end.borrow().is_none()) {
            let (answer, answered) = oneshot::channel();
            if orders.send(WatchRequest::Signal(signal, answer)).await.is_ok()
                && let Ok(sent) = answered.await
            {
                return sent;
            }
        }
        // The pid may have been reused, so the remaining processes are checked individually.
        let Some(leader) = Identity::written(&self.folder.join(BORN)) else { return false };
        let mark = format!("{MARK}={}", self.id);
        let looked = move || identity::signal_left(leader.pid(), &mark, signal);
        tokio::task::spawn_blocking(looked).await.unwrap_or(0) > 0
    }

    /// Ends the job: asks first, then kills. Returns immediately.
    pub(crate) fn stop(&self, why: StopReason) {
        if let Some(orders) = &self.orders
            && self.end.borrow().is_none()
            && let Err(mpsc::error::TrySendError::Full(_)) = orders.try_send(WatchRequest::Stop(why))
        {
            tracing::warn!(job = %self.id, "a job has too many pending requests and cannot be stopped now");
        }
    }

    /// Whether input can be written to it.
    pub(crate) fn takes_input(&self) -> bool {
        self.keyboard.is_some() || keeper::is_open(&self.folder)
    }

    /// Writes as much as the job accepts within `patience`.
    pub(crate) async fn write(&self, text: &str, patience: Duration) -> io::Result<usize> {
        let Some(keyboard) = &self.keyboard else {
            return keeper::write(&self.folder, text.as_bytes(), patience).await;
        };
        match tokio::time::timeout(patience, keyboard.press(text.as_bytes().to_vec())).await {
            Ok(true) => Ok(text.len()),
            Ok(false) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Ok(0),
        }
    }

    /// Writes `bytes` as the input that follows offset `at`, skipping what the job has already received, as far as it
    /// accepts it within `patience`; then closes the input if `eof` is set. Returns the number of bytes received so
    /// far.
    pub(crate) async fn feed(
        &self,
        at: u64,
        bytes: &[u8],
        eof: bool,
        patience: Duration,
    ) -> Result<u64, FeedError> {
        // One writer at a time, each bounded by its patience.
        let mut fed = self.fed.lock().await;
        let Some(fed) = fed.as_mut() else { return Err(FeedError::Lost) };
        let before = fed.checked_sub(at).ok_or(FeedError::Ahead(*fed))?;
        let end = at + bytes.len() as u64;
        let new = usize::try_from(before).ok().and_then(|before| bytes.get(before..)).unwrap_or_default();
        if !new.is_empty() {
            if self.end.borrow().is_some() || !self.takes_input() {
                return Err(FeedError::Closed);
            }
            match &self.keyboard {
                None => {
                    keeper::write_counted(&self.folder, new, patience, |accepted| *fed += accepted as u64)
                        .await
                        .map_err(|_| FeedError::Closed)?
                }
                Some(keyboard) => {
                    let queued = tokio::time::timeout(patience, keyboard.queue(new.to_vec())).await;
                    if let Ok(queued) = queued {
                        let typed = queued.ok_or(FeedError::Closed)?;
                        *fed = end;
                        let _ = tokio::time::timeout(patience, typed).await;
                    }
                }
            }
        }
        // In a terminal, the end of input is typed like any other key.
        if eof && *fed >= end && self.keyboard.is_none() {
            // Closing twice is harmless.
            let _ = self.close(patience).await;
        }
        Ok(*fed)
    }

    /// Resizes the terminal. Returns false if the job has none.
    pub(crate) async fn resize(&self, screen: Screen) -> bool {
        match &self.keyboard {
            Some(keyboard) => keyboard.resize(screen).await,
            None => false,
        }
    }

    /// Closes the standard input.
    pub(crate) async fn close(&self, patience: Duration) -> io::Result<()> {
        let Some(keyboard) = &self.keyboard else { return keeper::close(&self.folder, patience).await };
        match tokio::time::timeout(patience, keyboard.press(vec![END_OF_INPUT])).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
