//! The life of one server: started, attended, started again, until its file or the hub is gone.
//!
//! One task does all of it, one thing after the other. Whatever it waits for, it also waits for the hub to stop, for
//! a file that wants something else, and for the time when the tools of a server that is away are withdrawn.

pub(super) mod activity;
mod backoff;
pub(super) mod folder_watcher;
mod monitor;
pub(super) mod reload;
pub(super) mod trial;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use plexus_kit::Stage;
use plexus_kit::clock::from_millis;
use plexus_proto::Timestamp;
use plexus_proto::api::{UpstreamFailure, UpstreamState};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::backoff::{Backoff, Next};
use self::monitor::MonitorEnd;
use self::reload::{DesiredState, Target};
use crate::client::{Client, ClientError, Connect, Definitions, Mark};
use crate::config::ServerConfig;
use crate::supervision::call::questions::EVERYTHING;
use crate::supervision::unit::Unit;
use crate::trust::Offer;

pub(super) struct Lifecycle {
    unit: Arc<Unit>,
    wanted: watch::Receiver<DesiredState>,
    stop: CancellationToken,
    /// The file it goes by now, and the number of restarts that were asked for before.
    now: Option<(Arc<ServerConfig>, u64)>,
    /// When the tools of a server that is away are withdrawn.
    withdraw_at: Option<Instant>,
    /// The fingerprint that a lazy server had when its tools were learnt.
    learnt: Option<u64>,
    /// Where what the process of the newest attempt writes to its standard error begins.
    begun: Mark,
    /// When connections of sessions that nobody uses are next let go.
    sweep_at: Instant,
}

impl Lifecycle {
    pub(super) fn new(unit: Arc<Unit>) -> Self {
        let stop = unit.shared.supervisor.stopping(Stage::Work);
        let wanted = unit.wanted.subscribe();
        let sweep_at = Instant::now() + unit.shared.timing.idle;
        let begun = Mark::default();
        Self { unit, wanted, stop, now: None, withdraw_at: None, learnt: None, begun, sweep_at }
    }

    pub(super) async fn run(mut self) {
        while !self.stop.is_cancelled() {
            let wanted = self.wanted.borrow_and_update().clone();
            match wanted.target {
                Target::Run(config) => {
                    let keep = self.keep(wanted.turn, wanted.restarts, config);
                    let kept = AssertUnwindSafe(keep).catch_unwind().await;
                    self.end_sessions().await;
                    if kept.is_err() {
                        self.fault().await;
                    }
                }
                Target::Off(_) => self.rest(wanted.turn, UpstreamState::Disabled, None).await,
                Target::Wrong { message, .. } => {
                    let failure = self.unit.failure(message.to_string(), self.unit.stderr.mark());
                    self.rest(wanted.turn, UpstreamState::Invalid, Some(failure)).await;
                }
                Target::Gone => break,
            }
        }
        self.unit.withdraw();
        // For calls that wait for it: nothing comes any more. It is not counted, as it is not known to anybody else.
        self.unit.status.send_modify(|status| status.state = UpstreamState::Disabled);
    }

    /// Does nothing until something else is wanted.
    async fn rest(&mut self, turn: u64, state: UpstreamState, failure: Option<UpstreamFailure>) {
        self.now = None;
        self.learnt = None;
        self.withdraw_at = None;
        self.unit.withdraw();
        self.end_sessions().await;
        self.unit.become_state(state, |status| {
            status.turn = turn;
            status.failure = failure;
        });
        tokio::select! {
            () = self.stop.cancelled() => {}
            // An error would mean that nobody can want anything any more.
            _ = self.wanted.changed() => {}
        }
    }

    /// Connections of sessions are of the file that they were made with, and go when it does.
    async fn end_sessions(&self) {
        let (unit, timing) = (&self.unit, &self.unit.shared.timing);
        if unit.sessions.is_empty() {
            return;
        }
        let _ = tokio::time::timeout(timing.drain, unit.activity.quiet()).await;
        unit.sessions.close_all(timing.close).await;
    }

    /// A fault of ours ends the work for this server only, until something else is wanted.
    async fn fault(&mut self) {
        tracing::error!(server = %self.unit.name, "the task that keeps it panicked");
        self.unit.client.store(None);
        let failure =
            self.unit.failure("a fault inside the hub; its log has the details".to_owned(), self.begun);
        let turn = self.wanted.borrow().turn;
        self.rest(turn, UpstreamState::Failed, Some(failure)).await;
    }

    /// Keeps the server there until something else is wanted.
    async fn keep(&mut self, turn: u64, restarts: u64, config: Arc<ServerConfig>) {
        let unit = self.unit.clone();
        let mut backoff = Backoff::new(unit.shared.timing.clone(), reload::is_process(&config));
        unit.adopt(&config).await;
        if unit.recall(&config).await {
            // As of a server that was just lost.
            self.withdraw_at = Some(Instant::now() + unit.shared.timing.grace);
            self.learnt = Some(config.fingerprint);
        }
        // Whoever asks for a restart wants to see it come up, also a lazy one.
        if self.now.replace((config, restarts)).is_some_and(|(_, before)| before != restarts) {
            self.learnt = None;
        }
        let mut turn = turn;
        loop {
            let Some((config, _)) = self.now.clone() else { return };
            if config.lazy && self.learnt == Some(config.fingerprint) {
                // Of the calls that woke it the last time, one was enough.
                let _ = unit.called.notified().now_or_never();
                unit.become_state(UpstreamState::Idle, |status| status.turn = status.turn.max(turn));
                // Its tools are listed although it is not there: that is what it is lazy for.
                self.withdraw_at = None;
                if self.meanwhile(unit.called.notified()).await.is_none() {
                    return;
                }
            }
            unit.become_state(UpstreamState::Starting, |status| status.turn = status.turn.max(turn));
            turn = 0;
            self.begun = unit.stderr.mark();
            let (ended, uptime) = match self.meanwhile(open(&unit, config)).await {
                None => return,
                Some(Err(ClientError::NeedsLogin(why))) => (MonitorEnd::Locked(why), Duration::ZERO),
                Some(Err(error)) => (MonitorEnd::Lost(error.to_string()), Duration::ZERO),
                Some(Ok(opened)) => {
                    let began = Instant::now();
                    let Some(ended) = self.attend(opened).await else { return };
                    (ended, began.elapsed())
                }
            };
            let goes_on = match ended {
                MonitorEnd::Lost(why) => self.pause(&mut backoff, why, uptime).await,
                MonitorEnd::Locked(why) => self.wait_for_login(why).await,
                MonitorEnd::Idle => true,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Is with a server that is there, to its end. None when something else is wanted, or nothing.
    async fn attend(&mut self, opened: Opened) -> Option<MonitorEnd> {
        let unit = self.unit.clone();
        let (config, _) = self.now.clone()?;
        let Opened { client, definitions } = opened;
        let instructions = client.peer().instructions.clone();
        // First: what it lists now may be something else than what it listed before, and no call gets there until that is
        // judged.
        if !unit.publish(Offer { definitions, instructions, live: true }).await {
            close(&client, unit.shared.timing.close).await;
            let why =
                "the database does not say which of its tools are approved; the hub's log has the reason";
            return Some(MonitorEnd::Lost(why.to_owned()));
        }
        self.learnt = Some(config.fingerprint);
        self.withdraw_at = None;
        unit.client.store(Some(Arc::new(client.clone())));
        unit.activity.hear();
        unit.become_state(UpstreamState::Ready, |status| {
            status.peer = Some(client.peer().clone());
            status.era = Some(client.peer().era);
            status.pid = client.pid();
        });
        unit.remember().await;
        let ended = self.stay(&client).await;
        let timing = &unit.shared.timing;
        self.withdraw_at = Some(Instant::now() + timing.grace);
        // What is lost with the connection is lost. Else calls that run there may end: the hub stops, the file has
        // changed, or a server over HTTP takes no new ones.
        if !(client.is_pipe() && matches!(ended, Some(MonitorEnd::Lost(_)))) {
            let _ = tokio::time::timeout(timing.drain, unit.activity.quiet()).await;
        }
        if ended.is_none() {
            unit.sessions.close_all(timing.close).await;
        }
        close(&client, timing.close).await;
        // It may have changed its list while it was there.
        unit.remember().await;
        ended
    }

    /// Attends a server until it is to go; no new call gets the connection then.
    async fn stay(&mut self, client: &Client) -> Option<MonitorEnd> {
        let unit = self.unit.clone();
        loop {
            let ended = self.meanwhile(monitor::monitor(&unit, client)).await;
            unit.client.store(None);
            if ended != Some(MonitorEnd::Idle) || unit.activity.running() == 0 {
                return ended;
            }
            // A call was faster: the server is not idle at all. Who came in between waits for news.
            unit.client.store(Some(Arc::new(client.clone())));
            unit.status.send_modify(|_| ());
        }
    }

    /// Waits for somebody to log in, who has it started anew. It is looked at again after a long while all the same: it
    /// may no longer want that.
    async fn wait_for_login(&mut self, why: String) -> bool {
        let unit = self.unit.clone();
        let failure = Some(unit.failure(why, self.begun));
        unit.become_state(UpstreamState::NeedsLogin, |status| status.failure = failure);
        self.meanwhile(tokio::time::sleep(unit.shared.timing.given_up)).await.is_some()
    }

    /// Waits before the next attempt; false when there is none.
    async fn pause(&mut self, backoff: &mut Backoff, why: String, uptime: Duration) -> bool {
        let unit = self.unit.clone();
        let failure = Some(unit.failure(why, self.begun));
        let (state, pause) = match backoff.failed(Instant::now(), uptime) {
            // Nobody need see a server down that is about to be started again.
            Next::Retry(Duration::ZERO) => {
                unit.status.send_modify(|status| status.failure = failure);
                unit.shared.changed();
                return !self.stop.is_cancelled();
            }
            Next::Retry(pause) => (UpstreamState::Down, pause),
            Next::GiveUp(pause) => (UpstreamState::Failed, pause),
        };
        let retry_at = later(unit.shared.clock.now(), pause);
        unit.become_state(state, |status| {
            status.failure = failure;
            status.retry_at = Some(retry_at);
        });
        self.meanwhile(tokio::time::sleep(pause)).await.is_some()
    }

    /// Waits for something, as long as nothing else is wanted.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                changed = self.wanted.changed() => {
                    if changed.is_err() || !self.goes_on().await {
                        return None;
                    }
                }
                () = tokio::time::sleep_until(self.sweep_at) => {
                    let idle = self.unit.shared.timing.idle;
                    self.sweep_at = Instant::now() + idle;
                    self.unit.sessions.drop_idle(idle);
                }
                () = until(self.withdraw_at) => {
                    self.withdraw_at = None;
                    // A lazy server whose tools nobody sees would never be called.
                    self.learnt = None;
                    tracing::info!(server = %self.unit.name, "its tools are withdrawn until it is back");
                    self.unit.withdraw();
                }
                done = &mut work => return Some(done),
            }
        }
    }

    /// Whether what is wanted now can be had without a restart; it is then so.
    async fn goes_on(&mut self) -> bool {
        let wanted = self.wanted.borrow_and_update().clone();
        let (Some((now, restarts)), Target::Run(config)) = (&mut self.now, &wanted.target) else {
            return false;
        };
        if *restarts != wanted.restarts || !reload::runs_on(now, config) {
            return false;
        }
        *now = config.clone();
        self.unit.adopt(config).await;
        if !config.lazy {
            // One that waits for a call waits for nothing any more.
            self.unit.called.notify_one();
        }
        self.unit.status.send_modify(|status| status.turn = wanted.turn);
        self.unit.shared.changed();
        true
    }
}

/// Connects with the access that the hub has, if any.
async fn open(unit: &Arc<Unit>, config: Arc<ServerConfig>) -> Result<Opened, ClientError> {
    if let Some(http) = config.transport.http() {
        unit.account.follow(http).await?;
    }
    Opened::open(unit.connect(config, unit.stderr.clone(), EVERYTHING)).await
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    from_millis(now.as_millisecond().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) definitions: Arc<Definitions>,
}

impl Opened {
    /// Connects and lists the tools. Both are bounded by the settings of the connection.
    pub(super) async fn open(connect: Connect) -> Result<Self, ClientError> {
        // Boxed: a unit keeps its room for as long as it lives, and connecting takes much of it for a moment.
        let client = Box::pin(Client::connect(connect)).await?;
        let definitions = Arc::new(client.list_tools().await?);
        Ok(Self { client, definitions })
    }
}

/// Ends a connection in good order, as long as that does not take too long; then it ends without being waited for.
pub(super) async fn close(client: &Client, patience: Duration) {
    // Nothing is left to be done about one that takes longer: its process is killed by whoever keeps it.
    let _ = tokio::time::timeout(patience, client.close()).await;
}
