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
use super::screen::{END_OF_INPUT, Keyboard};
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
        Self { id, record, folder, began, end, orders: Some(orders), keyboard }
    }

    /// One that an earlier process has started.
    pub(super) fn found(
        id: String,
        record: Record,
        folder: PathBuf,
        now: Timestamp,
        orders: Option<mpsc::Sender<Order>>,
    ) -> Self {
        let job =
            Self { id, record, folder, began: None, end: watch::Sender::new(None), orders, keyboard: None };
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
        self.end.send_replace(Some(End { exit, why, duration, ended_at, left_running }));
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

    /// Ends its standard input.
    pub(crate) async fn close(&self, patience: Duration) -> io::Result<()> {
        let Some(keyboard) = &self.keyboard else { return keeper::close(&self.folder, patience).await };
        match tokio::time::timeout(patience, keyboard.press(vec![END_OF_INPUT])).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
