//! Calls that run on nodes: their routing, repetition and records.

mod emitted;
mod ends;
mod hosted;
mod queued;
mod routing;

use std::future::Future;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use plexus_kit::Stage;
use plexus_proto::{CallId, NodeId, Timestamp};
use plexus_store::NodeCallRecord;
use plexus_tools::nodes::{NodeEntry, Nodes};
use plexus_tools::{
    Access, Action, Call, CallError, CallReply, Outcome, Tool, ToolContext, ToolOutput, ToolSpec,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::hub::Hub;

/// The nodes of a test.
#[derive(Debug, Default)]
pub(crate) struct TestNodes {
    all: Mutex<Vec<NodeEntry>>,
    settled: Mutex<Vec<(NodeId, CallId)>>,
}

impl Nodes for TestNodes {
    fn all(&self) -> Arc<[NodeEntry]> {
        self.all.lock().unwrap().clone().into()
    }

    fn settled(&self, node: NodeId, call: CallId) {
        self.settled.lock().unwrap().push((node, call));
    }
}

impl TestNodes {
    /// Creates nodes that are online.
    pub(crate) fn of(nodes: impl IntoIterator<Item = NodeEntry>) -> Arc<Self> {
        Arc::new(Self { all: Mutex::new(nodes.into_iter().collect()), settled: Mutex::default() })
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut NodeEntry)) {
        change(self.all.lock().unwrap().iter_mut().find(|node| node.name == name).unwrap());
    }

    fn settled(&self) -> Vec<(NodeId, CallId)> {
        self.settled.lock().unwrap().clone()
    }
}

/// A machine that is up and has the tool `shell`.
pub(crate) fn node(name: &str, labels: &[(&str, &str)]) -> NodeEntry {
    NodeEntry {
        id: NodeId::new(),
        name: name.to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        online: true,
        since: Some("2026-10-31T09:00:00Z".parse::<Timestamp>().unwrap()),
        store_id: None,
        draining: false,
        tools: ["shell".to_owned()].into(),
    }
}

/// The tool `shell`, which runs and lists, and which `script` brings to its machine.
pub(crate) fn shell<F, Fut>(script: F) -> Tool
where
    F: Fn(ToolContext, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, CallError>> + Send + 'static,
{
    let spec = ToolSpec {
        input_schema: json!({
            "type": "object",
            "properties": {
                "action": { "type": "string", "enum": ["run", "list"] },
                "command": { "type": "string" },
                "timeout_seconds": { "type": "integer" },
            },
            "required": ["action"],
            "additionalProperties": false,
        }),
        ..ToolSpec::node("shell", "Shell", "Runs a command.", Access::ADD)
    };
    let spec = spec.with_actions(vec![Action::new("run", Access::ADD), Action::new("list", Access::READ)]);
    let grace = std::time::Duration::ZERO;
    let spec = spec.with_time("timeout_seconds", std::time::Duration::from_secs(3_600), grace);
    let run = move |context, arguments| -> BoxFuture<'static, _> {
        let done = script(context, arguments);
        Box::pin(async move { done.await.map(Outcome::Ready) })
    };
    Tool::on_node(spec, Arc::new(run))
}

/// A tool that returns its node and its arguments.
fn echo_shell() -> Tool {
    shell(|context: ToolContext, arguments| async move {
        let node = context.node.expect("a machine was chosen");
        Ok(ToolOutput::new(node.name.clone(), &json!({ "node": node.name, "arguments": arguments })))
    })
}

fn run(command: &str) -> Value {
    json!({ "action": "run", "command": command })
}

fn run_on(node: &str) -> Value {
    json!({ "action": "run", "command": "x", "node": node })
}

/// Starts a call of an admin in the background; returns its id and the receiver of its reply.
fn start_call(hub: &Hub, call: Call) -> (CallId, oneshot::Receiver<CallReply>) {
    let pending = hub.dispatcher.begin(hub.admin(), call);
    let (done, reply) = oneshot::channel();
    hub.supervisor.spawn(Stage::Work, "call of a test", async move {
        let _ = done.send(pending.reply.await);
    });
    (pending.call_id, reply)
}

/// Waits until there is a row.
async fn row(hub: &Hub) -> NodeCallRecord {
    loop {
        if let Some(row) = rows(hub).await.pop() {
            return row;
        }
        tokio::task::yield_now().await;
    }
}

/// Rows of calls that have not ended.
async fn rows(hub: &Hub) -> Vec<NodeCallRecord> {
    hub.store.read().await.unwrap().node_calls(None).await.unwrap()
}
