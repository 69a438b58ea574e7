//! Whoever watches a job: one task for each, from its start to its end.
//!
//! It is the only one that signals the process group of a job that runs, so a signal never comes after somebody has
//! asked how the leader ended, when its number is free for others.

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
use super::job::{Job, Order};
use super::record::{BORN, Exit, Why};
use super::signals;
use super::spool::Spool;

/// For a job that was asked to end, before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at what a job has written, and at one that was found.
const LOOK: Duration = Duration::from_millis(250);
/// Between two looks at who of a group is left.
const STEP: Duration = Duration::from_millis(20);
/// For what a terminal still has to show, after its command has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Where nothing can be given back, a job may write so many times what is kept, and is ended then.
const PATIENCE: u64 = 4;

/// The first process of a job.
pub(super) enum Leader {
    /// The keeper, a child of ours.
    Keeper(Child),
    /// The command itself, in a terminal of ours.
    InTerminal { child: Child, pump: Pin<Box<dyn Future<Output = ()> + Send>>, shown: bool },
    /// Started by an earlier process.
    Found(Identity),
}

impl Leader {
    /// Waits for the end. Nothing is lost when it is dropped before.
    async fn ended(&mut self) -> Option<Exit> {
        match self {
            Self::Keeper(child) => child.wait().await.ok().map(exit_of),
            Self::InTerminal { child, pump, shown } => {
                let status = loop {
                    tokio::select! {
                        status = child.wait() => break status,
                        () = pump.as_mut(), if !*shown => *shown = true,
                    }
                };
                if !*shown && tokio::time::timeout(LAST_WORDS, pump.as_mut()).await.is_ok() {
                    *shown = true;
                }
                status.ok().map(exit_of)
            }
            Self::Found(leader) => {
                while leader.is_alive() {
                    tokio::time::sleep(LOOK).await;
                }
                None
            }
        }
    }

    fn signal(&self, signal: Signal) -> bool {
        match self {
            // As long as nobody has waited for it, its number is its own.
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
    pub(super) orders: mpsc::Receiver<Order>,
    /// When its time is up.
    pub(super) until: Option<Instant>,
    pub(super) spools: Vec<Spool>,
    pub(super) spool_bytes: u64,
    pub(super) clock: Clock,
    /// The node ends; the job does not.
    pub(super) stopping: CancellationToken,
    /// Its place among those that run.
    pub(super) _place: Option<OwnedSemaphorePermit>,
}

impl Watch {
    pub(super) async fn run(mut self) {
        let mut kill_at: Option<Instant> = None;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                exit = self.leader.ended() => {
                    self.trim(&mut kill_at);
                    if let Some(kill_at) = kill_at {
                        self.clear_out(kill_at).await;
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
                Some(order) = self.orders.recv() => match order {
                    Order::Signal(signal, answer) => {
                        if signal == Signal::KILL {
                            Why::Killed.write(self.job.folder());
                        }
                        let _ = answer.send(self.leader.signal(signal));
                    }
                    Order::Stop(why) => self.stop(why, &mut kill_at),
                },
                () = at(self.until), if kill_at.is_none() => self.stop(Why::Timeout, &mut kill_at),
                () = at(kill_at) => {
                    self.leader.signal(Signal::KILL);
                    // One that was just forked may have got away.
                    kill_at = Some(Instant::now() + LOOK);
                }
                _ = look.tick() => self.trim(&mut kill_at),
            }
        }
    }

    /// The leader has heeded, and others of its group need not have: they have the same time, and are killed then. Their
    /// group keeps its number as long as any of them is there.
    async fn clear_out(&mut self, kill_at: Instant) {
        let Some(leader) = Identity::written(&self.job.folder().join(BORN)) else { return };
        let give_up = kill_at + GRACE;
        while identity::group_lives(leader.pid()) && Instant::now() < give_up {
            if Instant::now() >= kill_at || self.stopping.is_cancelled() {
                identity::signal_group(leader.pid(), Signal::KILL);
            }
            tokio::time::sleep(STEP).await;
        }
    }

    fn stop(&mut self, why: Why, kill_at: &mut Option<Instant>) {
        if kill_at.is_none() {
            why.write(self.job.folder());
            // Its caller was told that it is interrupted. A command that is about to begin in its sandbox does not hear a
            // request to end, and would run after that.
            let (signal, grace) = match why {
                Why::Interrupted => (Signal::KILL, LOOK),
                _ => (Signal::TERM, GRACE),
            };
            self.leader.signal(signal);
            // One that was stopped would not notice.
            self.leader.signal(Signal::CONT);
            *kill_at = Some(Instant::now() + grace);
        }
    }

    fn trim(&mut self, kill_at: &mut Option<Instant>) {
        for spool in &self.spools {
            if let Err(error) = spool.trim(self.spool_bytes)
                && spool.size() > self.spool_bytes.saturating_mul(PATIENCE)
                && kill_at.is_none()
            {
                tracing::warn!(%error, job = %self.job.id, "a job writes too much and nothing of it can be given back");
                return self.stop(Why::Output, kill_at);
            }
        }
    }
}

/// Ends at a time, if there is one.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
