//! The lifecycle of one server: started, monitored and restarted until its file is removed or the hub stops.
//!
//! A single task does all of it sequentially. Whatever it waits for, it also waits for the hub to stop, for a
//! changed file, and for the time at which the tools of an unavailable server are withdrawn.

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

use self::backoff::{Backoff, NextAttempt};
use self::monitor::MonitorEnd;
use self::reload::{DesiredState, Target};
use crate::client::{Client, ClientError, Connect, Definitions, Mark};
use crate::config::ServerConfig;
use crate::supervision::call::questions::ALL_CAPABILITIES;
use crate::supervision::unit::Unit;
use crate::trust::Offer;

pub(super) struct Lifecycle {
    unit: Arc<Unit>,
    desired: watch::Receiver<DesiredState>,
    stop: CancellationToken,
    /// The current configuration, and the number of restarts requested before it.
    current: Option<(Arc<ServerConfig>, u64)>,
    /// When the tools of an unavailable server are withdrawn.
    withdraw_at: Option<Instant>,
    /// The fingerprint that a lazy server had when its tools were listed.
    listed_fingerprint: Option<u64>,
    /// Start of the current process's output in the standard error buffer.
    stderr_start: Mark,
    /// When idle connections of sessions are closed next.
    sweep_at: Instant,
}

impl Lifecycle {
    pub(super) fn new(unit: Arc<Unit>) -> Self {
        let stop = unit.shared.supervisor.stopping(Stage::Work);
        let desired = unit.desired.subscribe();
        let sweep_at = Instant::now() + unit.shared.timing.idle;
        let stderr_start = Mark::default();
        Self {
            unit,
            desired,
            stop,
            current: None,
            withdraw_at: None,
            listed_fingerprint: None,
            stderr_start,
            sweep_at,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.stop.is_cancelled() {
            let desired = self.desired.borrow_and_update().clone();
            match desired.target {
                Target::Run(config) => {
                    let keep_running = self.keep_running(desired.turn, desired.restarts, config);
                    let outcome = AssertUnwindSafe(keep_running).catch_unwind().await;
                    self.end_sessions().await;
                    if outcome.is_err() {
                        self.handle_panic().await;
                    }
                }
                Target::Off(_) => self.idle_until_changed(desired.turn, UpstreamState::Disabled, None).await,
                Target::Wrong { message, .. } => {
                    let failure = self.unit.failure(message.to_string(), self.unit.stderr.mark());
                    self.idle_until_changed(desired.turn, UpstreamState::Invalid, Some(failure)).await;
                }
                Target::Gone => break,
            }
        }
        self.unit.withdraw();
        // Tells waiting calls that the server will not return. It is not counted in the metrics, which no
        // longer know it.
        self.unit.status.send_modify(|status| status.state = UpstreamState::Disabled);
    }

    /// Waits until a different state is desired.
    async fn idle_until_changed(
        &mut self,
        turn: u64,
        state: UpstreamState,
        failure: Option<UpstreamFailure>,
    ) {
        self.current = None;
        self.listed_fingerprint = None;
        self.withdraw_at = None;
        self.unit.withdraw();
        self.end_sessions().await;
        self.unit.set_state(state, |status| {
            status.turn = turn;
            status.failure = failure;
        });
        tokio::select! {
            () = self.stop.cancelled() => {}
            // An error would mean that no further state can be desired.
            _ = self.desired.changed() => {}
        }
    }

    /// Connections of sessions belong to the configuration that they were made from, and are closed with it.
    async fn end_sessions(&self) {
        let (unit, timing) = (&self.unit, &self.unit.shared.timing);
        if unit.sessions.is_empty() {
            return;
        }
        let _ = tokio::time::timeout(timing.drain, unit.activity.wait_until_quiet()).await;
        unit.sessions.close_all(timing.close).await;
    }

    /// An internal error stops only this server, until a different state is desired.
    async fn handle_panic(&mut self) {
        tracing::error!(server = %self.unit.name, "the task that supervises it panicked");
        self.unit.client.store(None);
        let failure = self
            .unit
            .failure("an internal error of the hub; its log has the details".to_owned(), self.stderr_start);
        let turn = self.desired.borrow().turn;
        self.idle_until_changed(turn, UpstreamState::Failed, Some(failure)).await;
    }

    /// Keeps the server running until a different state is desired.
    async fn keep_running(&mut self, turn: u64, restarts: u64, config: Arc<ServerConfig>) {
        let unit = self.unit.clone();
        let mut backoff = Backoff::new(unit.shared.timing.clone(), reload::is_process(&config));
        unit.adopt(&config).await;
        if unit.recall(&config).await {
            // The same grace period as for a server that was just lost.
            self.withdraw_at = Some(Instant::now() + unit.shared.timing.grace);
            self.listed_fingerprint = Some(config.fingerprint);
        }
        // A requested restart starts the server, even a lazy one.
        if self.current.replace((config, restarts)).is_some_and(|(_, before)| before != restarts) {
            self.listed_fingerprint = None;
        }
        let mut turn = turn;
        loop {
            let Some((config, _)) = self.current.clone() else { return };
            if config.lazy && self.listed_fingerprint == Some(config.fingerprint) {
                // Discards further notifications of the calls that woke it the last time.
                let _ = unit.called.notified().now_or_never();
                unit.set_state(UpstreamState::Idle, |status| status.turn = status.turn.max(turn));
                // A lazy server's tools stay listed while it is stopped.
                self.withdraw_at = None;
                if self.run_unless_changed(unit.called.notified()).await.is_none() {
                    return;
                }
            }
            unit.set_state(UpstreamState::Starting, |status| status.turn = status.turn.max(turn));
            turn = 0;
            self.stderr_start = unit.stderr.mark();
            let (ended, uptime) = match self.run_unless_changed(open(&unit, config)).await {
                None => return,
                Some(Err(ClientError::NeedsLogin(why))) => (MonitorEnd::NeedsLogin(why), Duration::ZERO),
                Some(Err(error)) => (MonitorEnd::Lost(error.to_string()), Duration::ZERO),
                Some(Ok(opened)) => {
                    let began = Instant::now();
                    let Some(ended) = self.publish_and_monitor(opened).await else { return };
                    (ended, began.elapsed())
                }
            };
            let continues = match ended {
                MonitorEnd::Lost(why) => self.pause(&mut backoff, why, uptime).await,
                MonitorEnd::NeedsLogin(why) => self.wait_for_login(why).await,
                MonitorEnd::Idle => true,
            };
            if !continues {
                return;
            }
        }
    }

    /// Monitors a connected server until its end. None if a different state is desired.
    async fn publish_and_monitor(&mut self, opened: OpenedConnection) -> Option<MonitorEnd> {
        let unit = self.unit.clone();
        let (config, _) = self.current.clone()?;
        let OpenedConnection { client, definitions } = opened;
        let instructions = client.peer().instructions.clone();
        // Publish first: the list may differ from the previous one, and no call may reach the server before
        // the list is judged.
        if !unit.publish(Offer { definitions, instructions, live: true }).await {
            close(&client, unit.shared.timing.close).await;
            let why = "the hub could not read which of its tools are approved; the hub's log has the reason";
            return Some(MonitorEnd::Lost(why.to_owned()));
        }
        self.listed_fingerprint = Some(config.fingerprint);
        self.withdraw_at = None;
        unit.client.store(Some(Arc::new(client.clone())));
        unit.activity.record_message();
        unit.set_state(UpstreamState::Ready, |status| {
            status.peer = Some(client.peer().clone());
            status.era = Some(client.peer().era);
            status.pid = client.pid();
        });
        unit.remember().await;
        let ended = self.monitor_until_end(&client).await;
        let timing = &unit.shared.timing;
        self.withdraw_at = Some(Instant::now() + timing.grace);
        // Calls over a lost pipe are lost. Otherwise running calls may finish: the hub stops, the file has
        // changed, or a server over HTTP accepts no new calls.
        if !(client.is_pipe() && matches!(ended, Some(MonitorEnd::Lost(_)))) {
            let _ = tokio::time::timeout(timing.drain, unit.activity.wait_until_quiet()).await;
        }
        if ended.is_none() {
            unit.sessions.close_all(timing.close).await;
        }
        close(&client, timing.close).await;
        // The list may have changed during the connection.
        unit.remember().await;
        ended
    }

    /// Monitors a server until it is to be disconnected; new calls do not get the connection after that.
    async fn monitor_until_end(&mut self, client: &Client) -> Option<MonitorEnd> {
        let unit = self.unit.clone();
        loop {
            let ended = self.run_unless_changed(monitor::monitor(&unit, client)).await;
            unit.client.store(None);
            if ended != Some(MonitorEnd::Idle) || unit.activity.running() == 0 {
                return ended;
            }
            // A call arrived in time, so the server is not idle. Calls that arrived in between wait for this
            // notification.
            unit.client.store(Some(Arc::new(client.clone())));
            unit.status.send_modify(|_| ());
        }
    }

    /// Waits for a login, which restarts the server. Retries after a long pause nevertheless, because the
    /// server may no longer require a login.
    async fn wait_for_login(&mut self, why: String) -> bool {
        let unit = self.unit.clone();
        let failure = Some(unit.failure(why, self.stderr_start));
        unit.set_state(UpstreamState::NeedsLogin, |status| status.failure = failure);
        self.run_unless_changed(tokio::time::sleep(unit.shared.timing.given_up)).await.is_some()
    }

    /// Waits before the next attempt; false if there is none.
    async fn pause(&mut self, backoff: &mut Backoff, why: String, uptime: Duration) -> bool {
        let unit = self.unit.clone();
        let failure = Some(unit.failure(why, self.stderr_start));
        let (state, pause) = match backoff.failed(Instant::now(), uptime) {
            // The "down" state is not shown for a server that restarts immediately.
            NextAttempt::Retry(Duration::ZERO) => {
                unit.status.send_modify(|status| status.failure = failure);
                unit.shared.changed();
                return !self.stop.is_cancelled();
            }
            NextAttempt::Retry(pause) => (UpstreamState::Down, pause),
            NextAttempt::GiveUp(pause) => (UpstreamState::Failed, pause),
        };
        let retry_at = timestamp_after(unit.shared.clock.now(), pause);
        unit.set_state(state, |status| {
            status.failure = failure;
            status.retry_at = Some(retry_at);
        });
        self.run_unless_changed(tokio::time::sleep(pause)).await.is_some()
    }

    /// Waits for `work` as long as the desired state does not change.
    async fn run_unless_changed<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                changed = self.desired.changed() => {
                    if changed.is_err() || !self.apply_without_restart().await {
                        return None;
                    }
                }
                () = tokio::time::sleep_until(self.sweep_at) => {
                    let idle = self.unit.shared.timing.idle;
                    self.sweep_at = Instant::now() + idle;
                    self.unit.sessions.drop_idle(idle);
                }
                () = sleep_until_some(self.withdraw_at) => {
                    self.withdraw_at = None;
                    // A lazy server whose tools are not listed would never be called.
                    self.listed_fingerprint = None;
                    tracing::info!(server = %self.unit.name, "its tools are withdrawn until it is back");
                    self.unit.withdraw();
                }
                done = &mut work => return Some(done),
            }
        }
    }

    /// Applies a change of the desired state that needs no restart; returns false if one is needed.
    async fn apply_without_restart(&mut self) -> bool {
        let desired = self.desired.borrow_and_update().clone();
        let (Some((current, restarts)), Target::Run(config)) = (&mut self.current, &desired.target) else {
            return false;
        };
        if *restarts != desired.restarts || !reload::has_same_process_settings(current, config) {
            return false;
        }
        *current = config.clone();
        self.unit.adopt(config).await;
        if !config.lazy {
            // A lazy server that waits for a call must start now.
            self.unit.called.notify_one();
        }
        self.unit.status.send_modify(|status| status.turn = desired.turn);
        self.unit.shared.changed();
        true
    }
}

/// Connects, with the hub's tokens if there are any.
async fn open(unit: &Arc<Unit>, config: Arc<ServerConfig>) -> Result<OpenedConnection, ClientError> {
    if let Some(http) = config.transport.http() {
        unit.account.follow(http).await?;
    }
    OpenedConnection::open(unit.connect(config, unit.stderr.clone(), ALL_CAPABILITIES)).await
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn timestamp_after(start: Timestamp, by: Duration) -> Timestamp {
    from_millis(start.as_millisecond().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

#[derive(Debug)]
pub(super) struct OpenedConnection {
    pub(super) client: Client,
    pub(super) definitions: Arc<Definitions>,
}

impl OpenedConnection {
    /// Connects and lists the tools. Both are bounded by the settings of the connection.
    pub(super) async fn open(connect: Connect) -> Result<Self, ClientError> {
        // Boxed because connecting needs much memory for a short time, while a unit lives long.
        let client = Box::pin(Client::connect(connect)).await?;
        let definitions = Arc::new(client.list_tools().await?);
        Ok(Self { client, definitions })
    }
}

/// Closes a connection cleanly within `patience`; after that it is abandoned.
pub(super) async fn close(client: &Client, patience: Duration) {
    // After a timeout the task that owns the process kills it.
    let _ = tokio::time::timeout(patience, client.close()).await;
}
