//! One job: what it is, how it is, and what can be done with it.

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
use super::record::{BORN, Exit, Record, STDIN, Why};
use super::screen::{END_OF_INPUT, Keyboard, Screen};
use super::spool::Spool;
use crate::tools::output::Stream;

/// In the environment of every job, so that what it has left behind can be told from everything else.
pub(super) const MARK: &str = env::JOB.name;

/// A job that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) exit: Exit,
    /// Why the node ended it, if it did.
    pub(crate) why: Option<Why>,
    pub(crate) duration: Duration,
    pub(crate) ended_at: Timestamp,
    /// The same on this process's own clock; a job that was found ended has none.
    pub(crate) seen: Option<Instant>,
    /// Some of what it started was still there.
    pub(crate) left_running: bool,
}

/// What whoever watches a job is told to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Send this to its group; answers whether there was one.
    Signal(Signal, oneshot::Sender<bool>),
    /// End it, by force if need be.
    Stop(Why),
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) record: Record,
    folder: PathBuf,
    /// On this process's own clock; a job that was found has none.
    began: Option<Instant>,
    end: watch::Sender<Option<End>>,
    /// None: nobody watches it, because it has ended.
    orders: Option<mpsc::Sender<Order>>,
    keyboard: Option<Keyboard>,
    /// Bytes of its input that it was given by [`Self::feed`]; none: by an earlier process, and nobody knows how many.
    fed: tokio::sync::Mutex<Option<u64>>,
}

/// Why a job was not given its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedError {
    /// It takes no more.
    Closed,
    /// Nobody knows where its input is.
    Lost,
    /// It was given so much only.
    Ahead(u64),
}

impl Job {
    /// One that was just started.
    pub(super) fn begun(
        id: String,
        record: Record,
        folder: PathBuf,
        orders: mpsc::Sender<Order>,
        keyboard: Option<Keyboard>,
    ) -> Self {
        let (began, end) = (Some(Instant::now()), watch::Sender::new(None));
        Self { id, record, folder, began, end, orders: Some(orders), keyboard, fed: Some(0).into() }
    }

    /// One that an earlier process has started.
    pub(super) fn found(
        id: String,
        record: Record,
        folder: PathBuf,
        now: Timestamp,
        orders: Option<mpsc::Sender<Order>>,
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

    /// None as long as it runs.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        // The sender is `self`: the wait does not end for want of one.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// How long it runs, or ran.
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

    /// Nobody is left to wait for. `exit` is what its parent saw, which matters where the keeper could write nothing.
    pub(super) fn conclude(&self, exit: Option<Exit>, now: Timestamp) {
        let why = Why::read(&self.folder);
        let exit = Exit::read(&self.folder).unwrap_or_else(|| {
            let exit = exit.unwrap_or(match why {
                Some(_) => Exit::Signal("KILL".to_owned()),
                None => Exit::Unknown,
            });
            exit.write(&self.folder);
            exit
        });
        // Nobody reads it any more, and it may be what nobody else is to read.
        let _ = fs::remove_file(self.folder.join(STDIN));
        let ended_at = Exit::written_at(&self.folder).unwrap_or(now);
        let duration = self.elapsed(ended_at);
        let left_running = self.began.is_some()
            && Identity::written(&self.folder.join(BORN))
                .is_some_and(|leader| identity::group_lives(leader.pid()));
        let seen = self.orders.is_some().then(Instant::now);
        self.end.send_replace(Some(End { exit, why, duration, ended_at, seen, left_running }));
    }

    /// Sends a signal to the job and all that it has started in its group; false when nobody is left.
    pub(crate) async fn signal(&self, signal: Signal) -> bool {
        if let Some(orders) = self.orders.as_ref().filter(|_| self.end.borrow().is_none()) {
            let (answer, answered) = oneshot::channel();
            if orders.send(Order::Signal(signal, answer)).await.is_ok()
                && let Ok(sent) = answered.await
            {
                return sent;
            }
        }
        // Its number may be another's by now, so those that are left are looked at one by one.
        let Some(leader) = Identity::written(&self.folder.join(BORN)) else { return false };
        let mark = format!("{MARK}={}", self.id);
        let looked = move || identity::signal_left(leader.pid(), &mark, signal);
        tokio::task::spawn_blocking(looked).await.unwrap_or(0) > 0
    }

    /// Ends it: asks first, and kills what does not end. Returns at once.
    pub(crate) fn stop(&self, why: Why) {
        if let Some(orders) = &self.orders
            && self.end.borrow().is_none()
            && let Err(mpsc::error::TrySendError::Full(_)) = orders.try_send(Order::Stop(why))
        {
            tracing::warn!(job = %self.id, "a job has too many orders to be stopped now");
        }
    }

    /// Whether it can be written to.
    pub(crate) fn takes_input(&self) -> bool {
        self.keyboard.is_some() || keeper::is_open(&self.folder)
    }

    /// Writes as much as the job takes within `patience`.
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

    /// Gives it this as what comes after `at` bytes of its input, as far as it was not given before and it takes it within
    /// `patience`, and ends its input after all of it. Says how much it was given so far.
    pub(crate) async fn feed(
        &self,
        at: u64,
        bytes: &[u8],
        eof: bool,
        patience: Duration,
    ) -> Result<u64, FeedError> {
        // One at a time, each of them bounded by its patience.
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
                None => keeper::write_counted(&self.folder, new, patience, |taken| *fed += taken as u64)
                    .await
                    .map_err(|_| FeedError::Closed)?,
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
        // At a terminal the end is typed as any other key.
        if eof && *fed >= end && self.keyboard.is_none() {
            // Ended twice is ended.
            let _ = self.close(patience).await;
        }
        Ok(*fed)
    }

    /// Its terminal has another size; false: it has none.
    pub(crate) async fn resize(&self, screen: Screen) -> bool {
        match &self.keyboard {
            Some(keyboard) => keyboard.resize(screen).await,
            None => false,
        }
    }

    /// Ends its standard input.
    pub(crate) async fn close(&self, patience: Duration) -> io::Result<()> {
        let Some(keyboard) = &self.keyboard else { return keeper::close(&self.folder, patience).await };
        match tokio::time::timeout(patience, keyboard.press(vec![END_OF_INPUT])).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
