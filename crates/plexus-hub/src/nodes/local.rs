//! The hub's own machine as a node: the same node code in the same process, over an in-memory link.
//!
//! It starts when the hub is ready, so that only calls to it wait for it.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::{BoxFuture, pending};
use plexus_kit::{Clock, Environment, Stage, Supervisor};
use plexus_node::link::memory;
use plexus_node::{LinkSummary, Node, NodeError, NodeOptions};
use plexus_proto::{NodeId, Timestamp};
use plexus_store::{Enrolment, NodeRecord, Store, StoreError};
use plexus_tools::nodes::LOCAL;

use super::gateway::Gateway;
use super::link::LinkProgress;

/// Folder of the node in the hub's data folder.
const FOLDER: &str = "local-node";
/// Delay before a link that ended unexpectedly is opened again.
const RELINK_DELAY: Duration = Duration::from_millis(200);
/// Time for its running calls when the hub stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The parts for starting the node once the hub is ready.
#[derive(Debug)]
pub(crate) struct LocalNode {
    id: NodeId,
    data_dir: PathBuf,
    environment: Environment,
    launcher: Option<PathBuf>,
    clock: Clock,
}

impl LocalNode {
    /// Announces the machine to the gateway: as expected to connect, or, if `start` is false, as switched off.
    pub(crate) async fn prepare(
        gateway: &Gateway,
        store: &Store,
        (data_dir, environment, launcher): (PathBuf, Environment, Option<PathBuf>),
        clock: Clock,
        start: bool,
    ) -> Result<Option<Self>, StoreError> {
        let known = store.read_committed().await?.node_named(LOCAL).await?;
        let record = match known {
            None if !start => return Ok(None),
            Some(record) if record.enrolled_by == Enrolment::Local => record,
            Some(_) => {
                tracing::error!(
                    "another machine's node is named {LOCAL}; the hub's own machine is not available as a node"
                );
                return Ok(None);
            }
            None => insert(store, clock.now()).await?,
        };
        gateway.changed(&record);
        if !start {
            gateway.mark_offline(record.id, "it is disabled in the hub's settings (nodes.local)");
            return Ok(None);
        }
        gateway.mark_expected(record.id);
        Ok(Some(Self { id: record.id, data_dir: data_dir.join(FOLDER), environment, launcher, clock }))
    }

    /// Starts it, and keeps it linked until the hub stops.
    pub(crate) fn start(self, gateway: Gateway, supervisor: &Supervisor) {
        let tasks = supervisor.clone();
        supervisor.spawn(Stage::Intake, "local node", async move {
            let stopping = tasks.stopping(Stage::Intake);
            let id = self.id;
            let node = match self.open(tasks).await {
                Ok(node) => node,
                Err(error) => {
                    tracing::error!(%error, "cannot start the node of the hub's own machine");
                    gateway.mark_offline(id, &format!("it did not start: {error}"));
                    return;
                }
            };
            while !stopping.is_cancelled() {
                let (ours, theirs) = memory::pair();
                let serving: BoxFuture<'static, ()> = {
                    let gateway = gateway.clone();
                    Box::pin(async move {
                        gateway.serve(id, ours, LinkProgress::new(), Box::pin(pending())).await
                    })
                };
                let served: BoxFuture<'static, LinkSummary> = {
                    let node = node.clone();
                    Box::pin(async move { node.serve(theirs).await })
                };
                let (served, ()) = tokio::join!(served, serving);
                tracing::debug!(end = %served.end, "the link of the local node has ended");
                tokio::select! {
                    () = stopping.cancelled() => {}
                    () = tokio::time::sleep(RELINK_DELAY) => {}
                }
            }
            let stopped: BoxFuture<'static, ()> = Box::pin(async move { node.stop(STOP_TIMEOUT).await });
            stopped.await;
        });
    }

    fn open(self, supervisor: Supervisor) -> BoxFuture<'static, Result<Node, NodeError>> {
        let options = NodeOptions {
            clock: self.clock,
            launcher: self.launcher,
            // The hub's keys are next to it, wherever the data folder is.
            private: self.data_dir.parent().map(PathBuf::from).into_iter().collect(),
            ..NodeOptions::new(self.id, self.data_dir, self.environment)
        };
        Box::pin(async move { Node::open(options, &supervisor).await })
    }
}

async fn insert(store: &Store, now: Timestamp) -> Result<NodeRecord, StoreError> {
    let record = NodeRecord {
        id: NodeId::new(),
        name: LOCAL.to_owned(),
        labels: [].into(),
        enrolled_by: Enrolment::Local,
        created_by: "hub".to_owned(),
        created_at: now,
        draining: false,
        epoch: 0,
        about: None,
        last_seen_at: None,
    };
    let stored = record.clone();
    store.write(move |conn| Box::pin(async move { conn.insert_node(&stored).await })).await?;
    Ok(record)
}
