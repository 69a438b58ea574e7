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
use crate::nodes::link::{Ending, LinkEnd};
use crate::nodes::unit::{Admitted, Cut, Presence, Unit};

/// Maximum number of frames waiting to be written.
const QUEUE: usize = 512;
/// Maximum number of frames of a machine per second; more than any known use of the link needs.
const FLOOD: u32 = 20_000;
/// Maximum number of changed capabilities per second.
const HELLOS: u32 = 20;
/// Maximum number of log lines per link about ignored frames.
const REMARKS: u32 = 20;
/// Time limit for the last frame of a link that the hub ends.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Why a link has ended.
#[derive(Debug)]
enum End {
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
        ending: Ending,
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
                self.absent(&unit, epoch, &end);
                self.was_seen(node).await;
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
        ending: &Ending,
    ) -> Result<(Connection, Admitted, Frame), End> {
        let first = timeout(self.0.options.hello, rx.recv()).await.map_err(|_| End::Silent)?;
        let Received::Frame(Frame::Hello(hello)) = first.map_err(End::from)? else {
            return Err(End::Policy("the first frame must be hello".to_owned()));
        };
        if let Some(problem) = hello::problem(&hello, node) {
            return Err(End::Policy(problem));
        }
        let version = hello::version(&hello).ok_or_else(|| {
            let (theirs, ours) = (&hello.versions, plexus_proto::node::VERSIONS);
            End::Policy(format!(
                "no common version of the link protocol: the node supports {theirs:?}, the hub {ours:?}"
            ))
        })?;
        let unit = self.unit(node).ok_or(End::Refused)?;
        if unit.is_overtaken(&hello) {
            tracing::info!(%node, dial = ?hello.dial, "ignored a delayed hello: the node already has a newer link");
            return Err(End::Cut(Cut::Fenced));
        }
        // Do this before the new store is recorded for the machine: after a crash of the hub it must be detected
        // again.
        for call in unit.lost(&hello.calls, hello.store_id) {
            self.conclude(&unit, call, interrupted("its node was set up again")).await;
        }
        let epoch = self.begin_link(node, &hello).await?;
        let admitted = unit.admit(epoch, &hello, transport, QUEUE, self.0.clock.now());
        let admitted = admitted.ok_or_else(|| match self.0.stopping.is_cancelled() {
            true => End::Stopping,
            false => End::Cut(Cut::Fenced),
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
        let pulse = Mutex::new(Pulse::new());
        Ok((Connection { gateway: self.clone(), unit, epoch, pulse }, admitted, welcome))
    }

    /// Assigns the link its epoch in the database, and stores the machine's report.
    async fn begin_link(&self, node: NodeId, hello: &Hello) -> Result<u64, End> {
        let (about, now) = (about(hello), self.0.clock.now());
        let begun = self
            .0
            .store
            .write(move |conn| Box::pin(async move { conn.begin_node_link(node, &about, now).await }))
            .await;
        match begun {
            Ok(Some(epoch)) => Ok(u64::try_from(epoch).unwrap_or(0)),
            Ok(None) => Err(End::Refused),
            Err(error) => {
                tracing::error!(%error, %node, "cannot record the link of a node");
                Err(End::Broken(LinkError::Closed(Some("the hub cannot reach its database".to_owned()))))
            }
        }
    }

    /// Stores when a machine was last seen.
    async fn was_seen(&self, node: NodeId) {
        let seen = [(node, self.0.clock.now())];
        let kept =
            self.0.store.write(move |conn| Box::pin(async move { conn.touch_nodes(&seen).await })).await;
        if let Err(error) = kept {
            tracing::debug!(%error, %node, "cannot store when a node was last seen");
        }
    }

    /// A machine has lost its link: it is offline, or expected to reconnect.
    fn absent(&self, unit: &Arc<Unit>, epoch: u64, end: &End) {
        let (why, expected) = match end {
            End::Stopping => return,
            End::Bye(reason) => (format!("it disconnected: {reason}"), false),
            End::Silent => (format!("it missed {} heartbeats", self.0.options.missed), false),
            End::Cut(Cut::Removed) => ("it was removed".to_owned(), false),
            End::Policy(why) => (format!("it violated the link protocol: {why}"), true),
            End::Refused => ("its credential is no longer valid".to_owned(), true),
            End::TooSlow | End::Cut(Cut::TooSlow) => ("it does not read what is sent to it".to_owned(), true),
            End::Cut(Cut::Fenced) => ("a newer link has replaced it".to_owned(), true),
            End::Broken(error) => (error.to_string(), true),
        };
        if !unit.ended(epoch, Presence::Expected) {
            return;
        }
        self.publish();
        let wait = if expected { self.0.options.reconnect } else { Duration::ZERO };
        self.give_up_after(unit, epoch, wait, why);
    }

    /// Declares a machine offline if it does not reconnect within `wait`.
    pub(in crate::nodes) fn give_up_after(&self, unit: &Arc<Unit>, epoch: u64, wait: Duration, why: String) {
        let (gateway, unit) = (self.clone(), unit.clone());
        let give_up = move || {
            if unit.give_up(epoch, &why, gateway.0.clock.now()) {
                gateway.publish();
                gateway.0.announcer.offline(&unit, &why);
            }
        };
        if wait.is_zero() {
            return give_up();
        }
        let stopping = self.0.stopping.clone();
        self.0.supervisor.spawn(plexus_kit::Stage::Intake, "absence of a node", async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(wait) => give_up(),
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
async fn close_link(tx: &mut dyn LinkTx, end: End, ending: &Ending) {
    let (word, reason) = match end {
        // The peer is gone or has said goodbye itself.
        End::Bye(_) | End::Broken(_) => (None, LinkEnd::Closed),
        End::Cut(Cut::Fenced) => {
            (Some("another link of this node has replaced it".to_owned()), LinkEnd::Fenced)
        }
        End::Cut(Cut::Removed) => (Some("the node was removed".to_owned()), LinkEnd::Refused),
        End::Refused => (Some("the credential is no longer valid".to_owned()), LinkEnd::Refused),
        End::Cut(Cut::TooSlow) | End::TooSlow => (None, LinkEnd::TooSlow),
        End::Silent => (None, LinkEnd::Closed),
        End::Policy(why) => (Some(why), LinkEnd::Policy),
        End::Stopping => (Some("the hub is stopping".to_owned()), LinkEnd::Stopping),
    };
    ending.ended(reason);
    let farewell = async {
        if let Some(reason) = word {
            let _ = tx.send(&Frame::Bye(Bye { reason })).await;
        }
        tx.close().await;
    };
    let _ = timeout(LAST_WORD, farewell).await;
}

/// A link that is the current one of its machine.
pub(super) struct Connection {
    pub(super) gateway: Gateway,
    pub(super) unit: Arc<Unit>,
    pub(super) epoch: u64,
    pulse: Mutex<Pulse>,
}

/// When the machine was last heard, and how many frames it sent.
struct Pulse {
    heard_at: Instant,
    /// Number and time of the last ping.
    ping: Option<(u64, Instant)>,
    /// Start of the current second.
    second: Instant,
    frames: u32,
    hellos: u32,
    remarks: u32,
}

impl Pulse {
    fn new() -> Self {
        let now = Instant::now();
        Self { heard_at: now, ping: None, second: now, frames: 0, hellos: 0, remarks: 0 }
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
    ) -> End {
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
            cut = cut => End::Cut(cut),
            () = self.gateway.0.parted.cancelled() => End::Stopping,
            () = credential => End::Refused,
            end = self.read(rx) => end,
            end = self.write(tx, first, frames) => end,
            end = self.beat() => end,
            () = self.keep_probing() => End::Silent,
        }
    }

    async fn write(&self, tx: &mut dyn LinkTx, first: Vec<Frame>, mut frames: mpsc::Receiver<Frame>) -> End {
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
                Ok(Err(error)) => return End::from(error),
                Err(_) => return End::TooSlow,
            }
        }
    }

    async fn read(&self, rx: &mut dyn LinkRx) -> End {
        loop {
            let received = match rx.recv().await {
                Ok(received) => received,
                Err(error) => return End::from(error),
            };
            if let Err(end) = self.take(received).await {
                return end;
            }
        }
    }

    /// Handles one frame of the machine.
    async fn take(&self, received: Received) -> Result<(), End> {
        self.heard()?;
        let frame = match received {
            Received::Frame(frame) => frame,
            Received::Unknown(kind) => {
                self.remark(
                    || tracing::info!(node = %self.unit.id, kind, "ignored a frame of an unknown type"),
                );
                return Ok(());
            }
        };
        match frame {
            Frame::Event(event) => {
                let sink = self.unit.of_link(self.epoch).and_then(|mut state| state.event(&event));
                if let Some(sink) = sink {
                    sink(event);
                }
            }
            Frame::Result(result) => self.result(result),
            Frame::Ack(ack) => {
                if let Some(mut state) = self.unit.of_link(self.epoch) {
                    state.accepted(ack.call_id);
                }
            }
            Frame::Ping(beat) => self.unit.send(self.epoch, Frame::Pong(beat)),
            Frame::Pong(beat) => self.pong(beat),
            Frame::Bye(bye) => return Err(End::Bye(bye.reason.chars().take(200).collect())),
            Frame::Hello(hello) => self.hello(hello).await?,
            Frame::Welcome(_) | Frame::Call(_) | Frame::Cancel(_) => {
                return Err(End::Policy(format!(
                    "frames of type {:?} are sent by the hub only",
                    frame.kind()
                )));
            }
        }
        Ok(())
    }

    fn result(&self, result: plexus_proto::node::CallResult) {
        let call = result.call_id;
        let taken = match self.unit.of_link(self.epoch) {
            Some(mut state) => state.result(result),
            // The link was replaced: the result arrives again over the new one.
            None => return,
        };
        match taken {
            Ok(None) => {}
            Ok(Some(outcome)) => self.gateway.conclude_soon(&self.unit, call, outcome),
            Err(_) => {
                self.gateway.0.metrics.unwanted.inc();
                self.remark(|| tracing::info!(node = %self.unit.id, %call, "dropped the result of a call that has no waiting caller"));
            }
        }
    }

    /// The machine reports changed capabilities.
    async fn hello(&self, hello: Hello) -> Result<(), End> {
        let hellos = {
            let mut pulse = self.pulse();
            pulse.hellos += 1;
            pulse.hellos
        };
        if hellos > HELLOS {
            return Err(End::Policy(format!("more than {HELLOS} changes of its capabilities in a second")));
        }
        if let Some(problem) = hello::problem(&hello, self.unit.id) {
            return Err(End::Policy(problem));
        }
        let (about, id, now) = (about(&hello), self.unit.id, self.gateway.0.clock.now());
        match self.unit.of_link(self.epoch) {
            Some(mut state) => state.update_report(&hello),
            None => return Ok(()),
        }
        self.gateway.publish();
        self.gateway.send_queued(&self.unit);
        let store = &self.gateway.0.store;
        let kept = store
            .write(move |conn| Box::pin(async move { conn.set_node_about(id, &about, now).await }))
            .await;
        if let Err(error) = kept {
            tracing::warn!(%error, node = %id, "cannot store the report of a node");
        }
        Ok(())
    }

    fn heard(&self) -> Result<(), End> {
        let mut pulse = self.pulse();
        let now = Instant::now();
        pulse.heard_at = now;
        if now.duration_since(pulse.second) >= Duration::from_secs(1) {
            (pulse.second, pulse.frames, pulse.hellos) = (now, 0, 0);
        }
        pulse.frames += 1;
        match pulse.frames > FLOOD {
            true => Err(End::Policy(format!("more than {FLOOD} frames in a second"))),
            false => Ok(()),
        }
    }

    fn pong(&self, beat: Heartbeat) {
        let sent = self.pulse().ping.take_if(|(n, _)| *n == beat.n);
        let Some((_, sent)) = sent else { return };
        let rtt = sent.elapsed();
        self.gateway.0.metrics.rtt.observe(rtt.as_secs_f64());
        if let Some(mut state) = self.unit.of_link(self.epoch) {
            state.rtt = Some(rtt);
            state.seen_at = Some(self.gateway.0.clock.now());
        }
    }

    /// Sends pings, and completes when the machine has been silent for too long.
    async fn beat(&self) -> End {
        let options = &self.gateway.0.options;
        let mut ticks = interval(options.heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut n = 0;
        loop {
            ticks.tick().await;
            let silence = self.pulse().heard_at.elapsed();
            if silence > options.heartbeat * options.missed {
                return End::Silent;
            }
            n += 1;
            self.pulse().ping = Some((n, Instant::now()));
            self.unit.send(self.epoch, Frame::Ping(Heartbeat { n }));
        }
    }

    /// Logs a remark about the machine, up to a limit.
    fn remark(&self, say: impl FnOnce()) {
        let remarks = {
            let mut pulse = self.pulse();
            pulse.remarks = pulse.remarks.saturating_add(1);
            pulse.remarks
        };
        if remarks <= REMARKS {
            say();
        }
    }

    fn pulse(&self) -> std::sync::MutexGuard<'_, Pulse> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Invalid(why) => Self::Policy(why),
            LinkError::Closed(_) | LinkError::Broken(_) => Self::Broken(error),
            LinkError::Fenced => Self::Cut(Cut::Fenced),
            LinkError::Refused(_) => Self::Refused,
        }
    }
}
