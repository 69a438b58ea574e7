//! The task that watches a job from its start to its end.
//!
//! Only this task signals the process group of a running job, so no signal is sent after the leader was reaped and
//! its pid may have been reused.

use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Clock;
use plexus_kit::process::Signal;
use tokio::process::Child;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::identity::{self, Identity};
use super::job::{Job, WatchRequest};
use super::record::{BORN, Exit, StopReason};
use super::signals;
use super::spool::Spool;

/// How long a job may take to end after it was asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// The interval between checks of the output, and of a job of an earlier process.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The interval between checks of the remaining processes of a group.
const STEP: Duration = Duration::from_millis(20);
/// How long a terminal may take to deliver its last output after its command has ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);
/// If no space can be released, a job that writes this many times the limit is ended.
const OUTPUT_FACTOR: u64 = 4;

/// The first process of a job.
pub(super) enum Leader {
    /// The keeper, a child of this process.
    Keeper(Child),
    /// The command itself, in a terminal of this process.
    InTerminal { child: Child, pump: Pin<Box<dyn Future<Output = ()> + Send>>, pump_done: bool },
    /// A process started by an earlier node.
    Found(Identity),
}

impl Leader {
    /// Waits for the end. Cancel safe.
    async fn ended(&mut self) -> Option<Exit> {
        match self {
            Self::Keeper(child) => child.wait().await.ok().map(exit_of),
            Self::InTerminal { child, pump, pump_done } => {
                let status = loop {
                    tokio::select! {
                        status = child.wait() => break status,
                        () = pump.as_mut(), if !*pump_done => *pump_done = true,
                    }
                };
                if !*pump_done && tokio::time::timeout(OUTPUT_GRACE, pump.as_mut()).await.is_ok() {
                    *pump_done = true;
                }
                status.ok().map(exit_of)
            }
            Self::Found(leader) => {
                while leader.is_alive() {
                    tokio::time::sleep(CHECK_INTERVAL).await;
                }
                None
            }
        }
    }

    fn signal(&self, signal: Signal) -> bool {
        match self {
            // Until it is reaped, its pid is not reused.
            Self::Keeper(child) => child.id().is_some_and(|leader| identity::signal_group(leader, signal)),
            Self::InTerminal { child, .. } => {
                child.id().is_some_and(|leader| identity::signal_session(leader, signal))
            }
            Self::Found(leader) => leader.signal(signal),
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal().and_then(signals::name)) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(name)) => Exit::Signal(name.to_owned()),
        (None, None) => Exit::Unknown,
    }
}

pub(super) struct Watch {
    pub(super) job: Arc<Job>,
    pub(super) leader: Leader,
    pub(super) requests: mpsc::Receiver<WatchRequest>,
    /// When the job times out.
    pub(super) until: Option<Instant>,
    pub(super) spools: Vec<Spool>,
    pub(super) spool_bytes: u64,
    pub(super) clock: Clock,
    /// The node stops; the job continues.
    pub(super) stopping: CancellationToken,
    /// Its slot among the running jobs.
    pub(super) _slot: Option<OwnedSemaphorePermit>,
}

impl Watch {
    pub(super) async fn run(mut self) {
        let mut kill_at: Option<Instant> = None;
        let mut check_interval = tokio::time::interval(CHECK_INTERVAL);
        check_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                exit = self.leader.ended() => {
                    self.trim(&mut kill_at);
                    if let Some(kill_at) = kill_at {
                        self.end_processes(kill_at).await;
                    }
                    self.job.conclude(exit, self.clock.now());
                    return;
                }
                () = self.stopping.cancelled() => {
                    if kill_at.is_some() {
                        self.leader.signal(Signal::KILL);
                    }
                    return;
                }
                Some(order) = self.requests.recv() => match order {
                    WatchRequest::Signal(signal, answer) => {
                        if signal == Signal::KILL {
                            StopReason::Killed.write(self.job.folder());
                        }
                        let _ = answer.send(self.leader.signal(signal));
                    }
                    WatchRequest::Stop(why) => self.stop(why, &mut kill_at),
                },
                () = at(self.until), if kill_at.is_none() => self.stop(StopReason::Timeout, &mut kill_at),
                () = at(kill_at) => {
                    self.leader.signal(Signal::KILL);
                    // A process forked just before the signal may have escaped it.
                    kill_at = Some(Instant::now() + CHECK_INTERVAL);
                }
                _ = check_interval.tick() => self.trim(&mut kill_at),
            }
        }
    }

    /// The leader has ended, but other processes of its group may not have. They get the same grace period and are
    /// killed afterwards. The group id is not reused while any of them exists.
    async fn end_processes(&mut self, kill_at: Instant) {
        let Some(leader) = Identity::written(&self.job.folder().join(BORN)) else { return };
        let give_up = kill_at + GRACE;
        while identity::group_lives(leader.pid()) && Instant::now() < give_up {
            if Instant::now() >= kill_at || self.stopping.is_cancelled() {
                identity::signal_group(leader.pid(), Signal::KILL);
            }
            tokio::time::sleep(STEP).await;
        }
    }

    fn stop(&mut self, why: StopReason, kill_at: &mut Option<Instant>) {
        if kill_at.is_none() {
            why.write(self.job.folder());
            // The caller was told that the call was interrupted. A command that is just starting in its sandbox does
            // not receive a request to end and would run afterwards.
            let (signal, grace) = match why {
                StopReason::Interrupted => (Signal::KILL, CHECK_INTERVAL),
                _ => (Signal::TERM, GRACE),
            };
            self.leader.signal(signal);
            // A stopped process would not react otherwise.
            self.leader.signal(Signal::CONT);
            *kill_at = Some(Instant::now() + grace);
        }
    }

    fn trim(&mut self, kill_at: &mut Option<Instant>) {
        for spool in &self.spools {
            if let Err(error) = spool.trim(self.spool_bytes)
                && spool.size() > self.spool_bytes.saturating_mul(OUTPUT_FACTOR)
                && kill_at.is_none()
            {
                tracing::warn!(%error, job = %self.job.id, "a job writes too much, and the file system cannot release any of its output");
                return self.stop(StopReason::Output, kill_at);
            }
        }
    }
}

/// Completes at the given time, or never.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
