//! One link of a machine, from its first frame to its end.
//!
//! Reading, writing and timing are parts of one task: none blocks another, and a frame wakes no other task on its
//! way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, pending};
use plexus_node::link::{Link, LinkError, LinkRx, LinkTx};
use plexus_proto::NodeId;
use plexus_proto::node::{Bye, Frame, Heartbeat, Hello, Received, Welcome};
use plexus_tools::nodes::LOCAL;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{Gateway, hello};
use crate::nodes::call::interrupted;
use crate::nodes::link::{LinkEnd, LinkProgress};
use crate::nodes::unit::{Admitted, Cut, Presence, Unit};

/// Maximum number of frames waiting to be written.
const QUEUE: usize = 512;
/// Maximum number of frames of a machine per second; more than any known use of the link needs.
const MAX_FRAMES_PER_SECOND: u32 = 20_000;
/// Maximum number of changed capabilities per second.
const MAX_HELLOS_PER_SECOND: u32 = 20;
/// Maximum number of log lines per link about ignored frames.
const MAX_LOG_LINES: u32 = 20;
/// Time limit for the last frame of a link that the hub ends.
const BYE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a link has ended.
#[derive(Debug)]
enum ConnectionEnd {
    Cut(Cut),
    /// The machine sent `bye`.
    Bye(String),
    /// The machine sent nothing for too long.
    Silent,
    /// The machine does not read.
    TooSlow,
    /// The machine violated the protocol; it is sent the reason.
    Policy(String),
    /// Its credential is no longer valid.
    Refused,
    /// The hub is stopping.
    Stopping,
    Broken(LinkError),
}

impl Gateway {
    /// Serves a link until it ends. `credential` completes when the credential that opened the link is no longer
    /// valid.
    pub(crate) async fn serve(
        &self,
        node: NodeId,
        link: Link,
        ending: LinkProgress,
        credential: BoxFuture<'static, ()>,
    ) {
        let Link { mut tx, mut rx, transport } = link;
        let end = match self.admit_link(node, &mut *rx, transport, &ending).await {
            Err(end) => end,
            Ok((connection, admitted, welcome)) => {
                let (unit, epoch) = (connection.unit.clone(), connection.epoch);
                match admitted.settings.name.as_str() {
                    LOCAL => tracing::debug!(%node, epoch, "the hub's own machine is linked"),
                    name => tracing::info!(%node, name, epoch, transport, "a node is linked"),
                }
                self.0.metrics.links.inc();
                self.publish();
                if !admitted.reconciled.to_record.is_empty()
                    && let Some(store) = unit.lock().report.store
                {
                    self.record_and_send(&unit, epoch, store, admitted.reconciled.to_record.clone());
                }
                let end = connection.run(&mut *tx, &mut *rx, admitted, welcome, credential).await;
                tracing::info!(%node, epoch, ?end, "the link of a node has ended");
                self.on_link_lost(&unit, epoch, &end);
                self.store_last_seen(node).await;
                end
            }
        };
        close_link(&mut *tx, end, &ending).await;
    }

    /// Receives the first frame, and makes the link the current one of its machine.
    async fn admit_link(
        &self,
        node: NodeId,
        rx: &mut dyn LinkRx,
        transport: &'static str,
        ending: &LinkProgress,
    ) -> Result<(Connection, Admitted, Frame), ConnectionEnd> {
        let first = timeout(self.0.options.hello, rx.recv()).await.map_err(|_| ConnectionEnd::Silent)?;
        let Received::Frame(Frame::Hello(hello)) = first.map_err(ConnectionEnd::from)? else {
            return Err(ConnectionEnd::Policy("the first frame must be hello".to_owned()));
        };
        if let Some(problem) = hello::problem(&hello, node) {
            return Err(ConnectionEnd::Policy(problem));
        }
        let version = hello::version(&hello).ok_or_else(|| {
            let (theirs, ours) = (&hello.versions, plexus_proto::node::VERSIONS);
            ConnectionEnd::Policy(format!(
                "no common version of the link protocol: the node supports {theirs:?}, the hub {ours:?}"
            ))
        })?;
        let unit = self.unit(node).ok_or(ConnectionEnd::Refused)?;
        if unit.is_outdated(&hello) {
            tracing::info!(%node, dial = ?hello.dial, "ignored a delayed hello: the node already has a newer link");
            return Err(ConnectionEnd::Cut(Cut::Fenced));
        }
        // Do this before the new store is recorded for the machine: after a crash of the hub it must be detected
        // again.
        for call in unit.lost(&hello.calls, hello.store_id) {
            self.conclude(&unit, call, interrupted("its node was set up again")).await;
        }
        let epoch = self.begin_link(node, &hello).await?;
        let admitted = unit.admit(epoch, &hello, transport, QUEUE, self.0.clock.now());
        let admitted = admitted.ok_or_else(|| match self.0.stopping.is_cancelled() {
            true => ConnectionEnd::Stopping,
            false => ConnectionEnd::Cut(Cut::Fenced),
        })?;
        ending.linked(epoch);
        let welcome = Frame::Welcome(Welcome {
            version,
            epoch,
            name: admitted.settings.name.clone(),
            heartbeat_ms: u64::try_from(self.0.options.heartbeat.as_millis()).unwrap_or(u64::MAX),
            missed: self.0.options.missed,
            calls: admitted.reconciled.orders.clone(),
            draining: admitted.settings.draining,
        });
        let activity = Mutex::new(LinkActivity::new());
        Ok((Connection { gateway: self.clone(), unit, epoch, activity }, admitted, welcome))
    }

    /// Assigns the link its epoch in the database, and stores the machine's report.
    async fn begin_link(&self, node: NodeId, hello: &Hello) -> Result<u64, ConnectionEnd> {
        let (about, now) = (about(hello), self.0.clock.now());
        let begun = self
            .0
            .store
            .write(move |conn| Box::pin(async move { conn.begin_node_link(node, &about, now).await }))
            .await;
        match begun {
            Ok(Some(epoch)) => Ok(u64::try_from(epoch).unwrap_or(0)),
            Ok(None) => Err(ConnectionEnd::Refused),
            Err(error) => {
                tracing::error!(%error, %node, "cannot record the link of a node");
                Err(ConnectionEnd::Broken(LinkError::Closed(Some(
                    "the hub cannot reach its database".to_owned(),
                ))))
            }
        }
    }

    /// Stores when a machine was last seen.
    async fn store_last_seen(&self, node: NodeId) {
        let last_seen = [(node, self.0.clock.now())];
        let stored =
            self.0.store.write(move |conn| Box::pin(async move { conn.touch_nodes(&last_seen).await })).await;
        if let Err(error) = stored {
            tracing::debug!(%error, %node, "cannot store when a node was last seen");
        }
    }

    /// A machine has lost its link: it is offline, or expected to reconnect.
    fn on_link_lost(&self, unit: &Arc<Unit>, epoch: u64, end: &ConnectionEnd) {
        let (why, expected) = match end {
            ConnectionEnd::Stopping => return,
            ConnectionEnd::Bye(reason) => (format!("it disconnected: {reason}"), false),
            ConnectionEnd::Silent => (format!("it missed {} heartbeats", self.0.options.missed), false),
            ConnectionEnd::Cut(Cut::Removed) => ("it was removed".to_owned(), false),
            ConnectionEnd::Policy(why) => (format!("it violated the link protocol: {why}"), true),
            ConnectionEnd::Refused => ("its credential is no longer valid".to_owned(), true),
            ConnectionEnd::TooSlow | ConnectionEnd::Cut(Cut::TooSlow) => {
                ("it does not read what is sent to it".to_owned(), true)
            }
            ConnectionEnd::Cut(Cut::Fenced) => ("a newer link has replaced it".to_owned(), true),
            ConnectionEnd::Broken(error) => (error.to_string(), true),
        };
        if !unit.ended(epoch, Presence::Expected) {
            return;
        }
        self.publish();
        let wait = if expected { self.0.options.reconnect } else { Duration::ZERO };
        self.declare_offline_after(unit, epoch, wait, why);
    }

    /// Declares a machine offline if it does not reconnect within `wait`.
    pub(in crate::nodes) fn declare_offline_after(
        &self,
        unit: &Arc<Unit>,
        epoch: u64,
        wait: Duration,
        why: String,
    ) {
        let (gateway, unit) = (self.clone(), unit.clone());
        let declare_offline = move || {
            if unit.declare_offline(epoch, &why, gateway.0.clock.now()) {
                gateway.publish();
                gateway.0.announcer.offline(&unit, &why);
            }
        };
        if wait.is_zero() {
            return declare_offline();
        }
        let stopping = self.0.stopping.clone();
        self.0.supervisor.spawn(plexus_kit::Stage::Intake, "absence of a node", async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(wait) => declare_offline(),
            }
        });
    }
}

/// A machine's report, as stored.
fn about(hello: &Hello) -> String {
    let about = Hello { calls: Vec::new(), ..hello.clone() };
    serde_json::to_string(&about).unwrap_or_default()
}

/// Says goodbye with the message for the reason of the end.
async fn close_link(tx: &mut dyn LinkTx, end: ConnectionEnd, ending: &LinkProgress) {
    let (bye_reason, reason) = match end {
        // The peer is gone or has said goodbye itself.
        ConnectionEnd::Bye(_) | ConnectionEnd::Broken(_) => (None, LinkEnd::Closed),
        ConnectionEnd::Cut(Cut::Fenced) => {
            (Some("another link of this node has replaced it".to_owned()), LinkEnd::Fenced)
        }
        ConnectionEnd::Cut(Cut::Removed) => (Some("the node was removed".to_owned()), LinkEnd::Refused),
        ConnectionEnd::Refused => (Some("the credential is no longer valid".to_owned()), LinkEnd::Refused),
        ConnectionEnd::Cut(Cut::TooSlow) | ConnectionEnd::TooSlow => (None, LinkEnd::TooSlow),
        ConnectionEnd::Silent => (None, LinkEnd::Closed),
        ConnectionEnd::Policy(why) => (Some(why), LinkEnd::Policy),
        ConnectionEnd::Stopping => (Some("the hub is stopping".to_owned()), LinkEnd::Stopping),
    };
    ending.ended(reason);
    let farewell = async {
        if let Some(reason) = bye_reason {
            let _ = tx.send(&Frame::Bye(Bye { reason })).await;
        }
        tx.close().await;
    };
    let _ = timeout(BYE_TIMEOUT, farewell).await;
}

/// A link that is the current one of its machine.
pub(super) struct Connection {
    pub(super) gateway: Gateway,
    pub(super) unit: Arc<Unit>,
    pub(super) epoch: u64,
    activity: Mutex<LinkActivity>,
}

/// When the machine was last heard, and how many frames it sent.
struct LinkActivity {
    last_frame_at: Instant,
    /// Number and time of the last ping.
    ping: Option<(u64, Instant)>,
    /// Start of the current second.
    second: Instant,
    frames: u32,
    hellos: u32,
    log_lines: u32,
}

impl LinkActivity {
    fn new() -> Self {
        let now = Instant::now();
        Self { last_frame_at: now, ping: None, second: now, frames: 0, hellos: 0, log_lines: 0 }
    }
}

impl Connection {
    async fn run(
        &self,
        tx: &mut dyn LinkTx,
        rx: &mut dyn LinkRx,
        admitted: Admitted,
        welcome: Frame,
        credential: BoxFuture<'static, ()>,
    ) -> ConnectionEnd {
        let Admitted { frames, cut, reconciled, .. } = admitted;
        let first = std::iter::once(welcome).chain(reconciled.frames).collect();
        let cut = async {
            match cut.await {
                Ok(cut) => cut,
                Err(_) => pending().await,
            }
        };
        tokio::select! {
            biased;
            cut = cut => ConnectionEnd::Cut(cut),
            () = self.gateway.0.closing_links.cancelled() => ConnectionEnd::Stopping,
            () = credential => ConnectionEnd::Refused,
            end = self.read(rx) => end,
            end = self.write(tx, first, frames) => end,
            end = self.send_heartbeats() => end,
            () = self.keep_probing() => ConnectionEnd::Silent,
        }
    }

    async fn write(
        &self,
        tx: &mut dyn LinkTx,
        first: Vec<Frame>,
        mut frames: mpsc::Receiver<Frame>,
    ) -> ConnectionEnd {
        let slow = self.gateway.0.options.slow;
        let mut first = first.into_iter();
        loop {
            let frame = match first.next() {
                Some(frame) => frame,
                None => match frames.recv().await {
                    Some(frame) => frame,
                    // The link was cut, which the read side is about to notice.
                    None => pending().await,
                },
            };
            match timeout(slow, tx.send(&frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return ConnectionEnd::from(error),
                Err(_) => return ConnectionEnd::TooSlow,
            }
        }
    }

    async fn read(&self, rx: &mut dyn LinkRx) -> ConnectionEnd {
        loop {
            let received = match rx.recv().await {
                Ok(received) => received,
                Err(error) => return ConnectionEnd::from(error),
            };
            if let Err(end) = self.take(received).await {
                return end;
            }
        }
    }

    /// Handles one frame of the machine.
    async fn take(&self, received: Received) -> Result<(), ConnectionEnd> {
        self.on_frame_received()?;
        let frame = match received {
            Received::Frame(frame) => frame,
            Received::Unknown(kind) => {
                self.log_ignored_frame(
                    || tracing::info!(node = %self.unit.id, kind, "ignored a frame of an unknown type"),
                );
                return Ok(());
            }
        };
        match frame {
            Frame::Event(event) => {
                let sink = self.unit.lock_if_current(self.epoch).and_then(|mut state| state.event(&event));
                if let Some(sink) = sink {
                    sink(event);
                }
            }
            Frame::Result(result) => self.result(result),
            Frame::Ack(ack) => {
                if let Some(mut state) = self.unit.lock_if_current(self.epoch) {
                    state.accepted(ack.call_id);
                }
            }
            Frame::Ping(beat) => self.unit.send(self.epoch, Frame::Pong(beat)),
            Frame::Pong(beat) => self.pong(beat),
            Frame::Bye(bye) => return Err(ConnectionEnd::Bye(bye.reason.chars().take(200).collect())),
            Frame::Hello(hello) => self.hello(hello).await?,
            Frame::Welcome(_) | Frame::Call(_) | Frame::Cancel(_) => {
                return Err(ConnectionEnd::Policy(format!(
                    "frames of type {:?} are sent by the hub only",
                    frame.kind()
                )));
            }
        }
        Ok(())
    }

    fn result(&self, result: plexus_proto::node::CallResult) {
        let call = result.call_id;
        let conclusion = match self.unit.lock_if_current(self.epoch) {
            Some(mut state) => state.result(result),
            // The link was replaced: the result arrives again over the new one.
            None => return,
        };
        match conclusion {
            Ok(None) => {}
            Ok(Some(outcome)) => self.gateway.conclude_soon(&self.unit, call, outcome),
            Err(_) => {
                self.gateway.0.metrics.unwanted.inc();
                self.log_ignored_frame(|| tracing::info!(node = %self.unit.id, %call, "dropped the result of a call that has no waiting caller"));
            }
        }
    }

    /// The machine reports changed capabilities.
    async fn hello(&self, hello: Hello) -> Result<(), ConnectionEnd> {
        let hellos = {
            let mut activity = self.activity();
            activity.hellos += 1;
            activity.hellos
        };
        if hellos > MAX_HELLOS_PER_SECOND {
            return Err(ConnectionEnd::Policy(format!(
                "more than {MAX_HELLOS_PER_SECOND} changes of its capabilities in a second"
            )));
        }
        if let Some(problem) = hello::problem(&hello, self.unit.id) {
            return Err(ConnectionEnd::Policy(problem));
        }
        let (about, id, now) = (about(&hello), self.unit.id, self.gateway.0.clock.now());
        match self.unit.lock_if_current(self.epoch) {
            Some(mut state) => state.update_report(&hello),
            None => return Ok(()),
        }
        self.gateway.publish();
        self.gateway.send_queued(&self.unit);
        let store = &self.gateway.0.store;
        let stored = store
            .write(move |conn| Box::pin(async move { conn.set_node_about(id, &about, now).await }))
            .await;
        if let Err(error) = stored {
            tracing::warn!(%error, node = %id, "cannot store the report of a node");
        }
        Ok(())
    }

    fn on_frame_received(&self) -> Result<(), ConnectionEnd> {
        let mut activity = self.activity();
        let now = Instant::now();
        activity.last_frame_at = now;
        if now.duration_since(activity.second) >= Duration::from_secs(1) {
            (activity.second, activity.frames, activity.hellos) = (now, 0, 0);
        }
        activity.frames += 1;
        match activity.frames > MAX_FRAMES_PER_SECOND {
            true => {
                Err(ConnectionEnd::Policy(format!("more than {MAX_FRAMES_PER_SECOND} frames in a second")))
            }
            false => Ok(()),
        }
    }

    fn pong(&self, beat: Heartbeat) {
        let sent = self.activity().ping.take_if(|(n, _)| *n == beat.n);
        let Some((_, sent)) = sent else { return };
        let rtt = sent.elapsed();
        self.gateway.0.metrics.rtt.observe(rtt.as_secs_f64());
        if let Some(mut state) = self.unit.lock_if_current(self.epoch) {
            state.rtt = Some(rtt);
            state.seen_at = Some(self.gateway.0.clock.now());
        }
    }

    /// Sends pings, and completes when the machine has been silent for too long.
    async fn send_heartbeats(&self) -> ConnectionEnd {
        let options = &self.gateway.0.options;
        let mut ticks = interval(options.heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut n = 0;
        loop {
            ticks.tick().await;
            let silence = self.activity().last_frame_at.elapsed();
            if silence > options.heartbeat * options.missed {
                return ConnectionEnd::Silent;
            }
            n += 1;
            self.activity().ping = Some((n, Instant::now()));
            self.unit.send(self.epoch, Frame::Ping(Heartbeat { n }));
        }
    }

    /// Logs a remark about the machine, up to a limit.
    fn log_ignored_frame(&self, say: impl FnOnce()) {
        let log_lines = {
            let mut activity = self.activity();
            activity.log_lines = activity.log_lines.saturating_add(1);
            activity.log_lines
        };
        if log_lines <= MAX_LOG_LINES {
            say();
        }
    }

    fn activity(&self) -> std::sync::MutexGuard<'_, LinkActivity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<LinkError> for ConnectionEnd {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Invalid(why) => Self::Policy(why),
            LinkError::Closed(_) | LinkError::Broken(_) => Self::Broken(error),
            LinkError::Fenced => Self::Cut(Cut::Fenced),
            LinkError::Refused(_) => Self::Refused,
        }
    }
}
