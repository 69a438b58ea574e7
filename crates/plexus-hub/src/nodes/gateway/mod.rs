//! The gateway to the machines: routes calls to them and admits their links.

mod connection;
mod hello;
mod probe;
mod queue;
mod status;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use plexus_kit::{Clock, Metrics, Quota, Stage, Supervisor};
use plexus_proto::node::{CallOutcome, Hello, HostedServer};
use plexus_proto::{CallId, NodeId};
use plexus_store::{Enrolment, NodeCallState, NodeRecord, Store, StoreError};
use plexus_tools::nodes::{NodeEntry, Nodes};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::call::{Conclude, EventSink, OutgoingCall, Undelivered, interrupted};
use super::events::Announcer;
use super::link::poll::Polls;
use super::metrics::NodeMetrics;
use super::options::NodeOptions;
use super::unit::{NodeReport, NodeSettings, Presence, Unit};

/// Maximum number of concurrent links of one machine, including those that have not sent hello; a newer link
/// replaces an older one.
const MAX_LINKS: usize = 8;

/// Cheap to clone; all clones share one gateway.
#[derive(Debug, Clone)]
pub(crate) struct Gateway(Arc<Inner>);

struct Inner {
    store: Store,
    clock: Clock,
    supervisor: Supervisor,
    options: NodeOptions,
    units: RwLock<HashMap<NodeId, Arc<Unit>>>,
    /// The machines as the dispatcher sees them.
    entries: ArcSwap<Arc<[NodeEntry]>>,
    /// Notified whenever the visible state of a machine changes.
    changes: watch::Sender<u64>,
    conclude: OnceLock<Conclude>,
    announcer: Announcer,
    metrics: NodeMetrics,
    polls: Polls,
    link_quota: Quota,
    /// Cancelled when the hub is about to stop.
    stopping: CancellationToken,
    /// Cancelled when the running calls have had their time to finish: links then say goodbye.
    closing_links: CancellationToken,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("nodes", &self.entries.load().len()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Loads the machines and their unfinished calls from the database.
    pub(crate) async fn open(
        store: Store,
        clock: Clock,
        supervisor: &Supervisor,
        options: NodeOptions,
    ) -> Result<Self, StoreError> {
        let mut reader = store.read_committed().await?;
        let (records, calls) = (reader.nodes().await?, reader.node_calls(None).await?);
        drop(reader);
        let gateway = Self(Arc::new(Inner {
            announcer: Announcer::start(store.clone(), clock.clone(), supervisor),
            stopping: supervisor.stopping(Stage::Intake),
            closing_links: CancellationToken::new(),
            store,
            clock,
            supervisor: supervisor.clone(),
            options,
            units: RwLock::default(),
            entries: ArcSwap::from_pointee(Arc::default()),
            changes: watch::Sender::new(0),
            conclude: OnceLock::new(),
            metrics: NodeMetrics::default(),
            polls: Polls::default(),
            link_quota: Quota::new(MAX_LINKS),
        }));
        for record in &records {
            gateway.insert(record);
        }
        for call in calls {
            // Calls of removed machines are ended once `conclude_with` has been called.
            if let Some(unit) = gateway.unit(call.node_id) {
                let sent = call.state == NodeCallState::Sent;
                let store = call.store_id.or_else(|| unit.lock().report.store);
                unit.adopt(call.call_id, store.filter(|_| sent));
            }
        }
        // Machines that were linked to the previous hub process are reconnecting. The hub's own machine is awaited
        // without a limit by the task that starts it.
        let dialling =
            |record: &&NodeRecord| record.enrolled_by != Enrolment::Local && record.last_seen_at.is_some();
        for record in records.iter().filter(dialling) {
            gateway.mark_expected(record.id);
            if let Some(unit) = gateway.unit(record.id) {
                let wait = gateway.0.options.reconnect;
                gateway.declare_offline_after(&unit, unit.epoch(), wait, "it is not linked".to_owned());
            }
        }
        gateway.publish();
        let leaving = gateway.clone();
        supervisor.spawn(
            Stage::Intake,
            "shutdown of nodes",
            async move { leaving.close_links_at_stop().await },
        );
        Ok(gateway)
    }

    /// At shutdown: accepts no new calls, gives running ones a moment, and then closes all links.
    async fn close_links_at_stop(&self) {
        self.0.stopping.cancelled().await;
        let units = self.units();
        let calls_drained = join_all(units.iter().map(|unit| unit.drain_calls()));
        let _ = timeout(self.0.options.farewell, calls_drained).await;
        for unit in &units {
            unit.release_callers();
        }
        self.0.closing_links.cancel();
    }

    /// Sets the function that ends calls without a waiting caller. Called once, before the first link.
    pub(crate) fn conclude_with(&self, conclude: Conclude) {
        let _ = self.0.conclude.set(conclude);
        let gateway = self.clone();
        self.0.supervisor.spawn(Stage::Work, "calls of removed nodes", async move {
            if let Err(error) = gateway.end_calls_of_removed_nodes().await {
                tracing::warn!(%error, "cannot end the calls of removed nodes");
            }
        });
    }

    /// Runs a call on a machine and waits for its outcome, across lost links.
    ///
    /// A persistent call already has its row. When `cancel` is cancelled, or this future is dropped, the machine is
    /// told to stop. The end of a persistent call must be [settled](Nodes::settled), unless the hub is stopping and
    /// the call continues.
    pub(crate) async fn call(
        &self,
        node: NodeId,
        call: OutgoingCall,
        events: EventSink,
        cancel: &CancellationToken,
    ) -> Result<CallOutcome, Undelivered> {
        let unit = self.unit(node).ok_or(Undelivered::Unknown)?;
        let (call_id, must_record) = (call.call.call_id, call.call.keep && call.queue);
        let begun = Instant::now();
        let mut end = unit.begin(call, events, self.0.options.calls)?;
        // Abandons the call on every exit; one that has ended is not affected.
        let abandon_guard = AbandonOnDrop { unit: &unit, call_id };
        if must_record {
            self.send_queued(&unit);
        }
        tokio::select! {
            biased;
            end = &mut end => {
                let end = end.unwrap_or(Err(Undelivered::Stopping { continues: true }));
                if end.is_ok() {
                    self.0.metrics.calls.observe(begun.elapsed().as_secs_f64());
                }
                end
            }
            () = cancel.cancelled() => Err(Undelivered::Abandoned { sent: abandon_guard.unit.abandon(call_id) }),
        }
    }

    /// MCP servers that run on the machines, as last reported, by machine.
    pub(crate) fn hosted_servers(&self) -> Vec<(NodeEntry, Vec<HostedServer>)> {
        let mut hosted: Vec<_> = self
            .units()
            .iter()
            .map(|unit| {
                let state = unit.lock();
                (state.entry(unit.id), state.report.servers.clone())
            })
            .filter(|(_, servers)| !servers.is_empty())
            .collect();
        hosted.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        hosted
    }

    /// Notified when the visible state of a machine changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// A machine joined or its settings were changed. Called after the commit.
    pub(crate) fn changed(&self, record: &NodeRecord) {
        match self.unit(record.id) {
            None => self.insert(record),
            Some(unit) => {
                if !unit.changed(settings(record)) {
                    return;
                }
                self.send_queued(&unit);
            }
        }
        self.publish();
    }

    /// A machine was removed: cuts its link and ends its calls. Called after the commit.
    pub(crate) async fn removed(&self, id: NodeId) {
        let unit = self.0.units.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let Some(unit) = unit else { return };
        let orphans = unit.remove();
        self.0.polls.remove(id);
        self.publish();
        self.0.announcer.offline(&unit, "it was removed");
        for call in orphans {
            self.conclude(&unit, call, interrupted("its node was removed")).await;
        }
    }

    /// The links over HTTP polling.
    pub(crate) fn polls(&self) -> &Polls {
        &self.0.polls
    }

    /// The link slots, by machine id.
    pub(crate) fn link_quota(&self) -> &Quota {
        &self.0.link_quota
    }

    /// The epoch of a machine's newest link.
    pub(crate) fn newest_epoch(&self, node: NodeId) -> Option<u64> {
        self.unit(node).map(|unit| unit.epoch())
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, metrics: &Metrics) {
        self.0.metrics.register(metrics, self);
    }

    pub(super) fn unit(&self, id: NodeId) -> Option<Arc<Unit>> {
        self.0.units.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub(super) fn units(&self) -> Vec<Arc<Unit>> {
        self.0.units.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn insert(&self, record: &NodeRecord) {
        let report = record.about.as_deref().and_then(|about| serde_json::from_str::<Hello>(about).ok());
        let report = report.as_ref().map(NodeReport::new).unwrap_or_default();
        let epoch = u64::try_from(record.epoch).unwrap_or(0);
        let unit = Unit::new(record.id, settings(record), report, epoch, record.last_seen_at);
        self.0.units.write().unwrap_or_else(PoisonError::into_inner).insert(record.id, Arc::new(unit));
    }

    /// Publishes the current state of the machines to the dispatcher and to all watchers.
    pub(super) fn publish(&self) {
        let mut entries: Vec<NodeEntry> = self.units().iter().map(|unit| unit.entry()).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        self.0.entries.store(Arc::new(entries.into()));
        self.0.changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// A machine is expected to connect: calls wait for it.
    pub(super) fn mark_expected(&self, id: NodeId) {
        if let Some(unit) = self.unit(id) {
            unit.lock().presence = Presence::Expected;
            self.publish();
        }
    }

    /// A machine does not connect, for the given reason.
    pub(super) fn mark_offline(&self, id: NodeId, why: &str) {
        if let Some(unit) = self.unit(id) {
            unit.declare_offline(unit.epoch(), why, self.0.clock.now());
            self.publish();
        }
    }
}

impl Nodes for Gateway {
    fn all(&self) -> Arc<[NodeEntry]> {
        Arc::clone(&self.0.entries.load())
    }

    fn settled(&self, node: NodeId, call: CallId) {
        if let Some(unit) = self.unit(node) {
            unit.settled(call);
        }
    }
}

fn settings(record: &NodeRecord) -> NodeSettings {
    NodeSettings { name: record.name.clone(), labels: record.labels.clone(), draining: record.draining }
}

/// Abandons a call when its caller is gone.
struct AbandonOnDrop<'u> {
    unit: &'u Unit,
    call_id: CallId,
}

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        self.unit.abandon(self.call_id);
    }
}
