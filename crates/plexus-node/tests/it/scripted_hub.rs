//! A hub that sends what the test says, linked to a real node.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_kit::{Environment, Stage, Supervisor};
use plexus_node::link::{Link, memory};
use plexus_node::{LinkSummary, Node, NodeLimits, NodeOptions};
use plexus_proto::node::{
    Ack, Call, CallOrder, CallOutcome, CallResult, Caller, Cancel, CancelReason, Failure, Frame, HeldState,
    Hello, Order, Received, Welcome,
};
use plexus_proto::{CallId, NodeId, SessionId};
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::gate::Gate;

/// Time limit for everything that a test waits for.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}

/// A node with its folder, and the gate at which its tools wait.
pub(crate) struct TestNode {
    pub(crate) gate: Gate,
    pub(crate) supervisor: Supervisor,
    pub(crate) node: Node,
    folder: PathBuf,
    _kept: Option<TempDir>,
}

impl TestNode {
    pub(crate) async fn new() -> Self {
        Self::with(NodeLimits::default()).await
    }

    pub(crate) async fn with(limits: NodeLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        Self { _kept: Some(folder), ..Self::at(&path, limits).await }
    }

    pub(crate) async fn at(folder: &Path, limits: NodeLimits) -> Self {
        let options = NodeOptions::new(NodeId::new(), folder.to_owned(), Environment::default());
        Self::start(NodeOptions { limits, ..options }).await
    }

    pub(crate) async fn start(options: NodeOptions) -> Self {
        let (gate, supervisor, folder) = (Gate::new(), Supervisor::new(), options.data_dir.clone());
        let node = Node::open_with(options, gate.tools(), &supervisor).await.expect("the node opens");
        Self { gate, supervisor, node, folder, _kept: None }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Links the node to a hub that has not sent anything yet.
    pub(crate) fn dial(&self) -> ScriptedHub {
        let (ours, theirs) = memory::pair();
        self.serve(theirs, ours)
    }

    /// The same over the given link.
    pub(crate) fn serve(&self, theirs: Link, ours: Link) -> ScriptedHub {
        let (ended, served) = oneshot::channel();
        let node = self.node.clone();
        self.supervisor.spawn(Stage::Intake, "serving", async move {
            let _ = ended.send(node.serve(theirs).await);
        });
        ScriptedHub { link: ours, served: Some(served) }
    }

    /// Links the node and welcomes it; returns its `hello`.
    pub(crate) async fn link(&self, orders: &[(CallId, Order)]) -> (ScriptedHub, Hello) {
        let mut hub = self.dial();
        let hello = hub.welcome_node(orders).await;
        (hub, hello)
    }

    /// State of a call in the node's database, read over a separate connection.
    pub(crate) async fn on_disk(&self, call: CallId) -> Option<String> {
        on_disk(&self.folder, call).await
    }

    /// The result of a counting query on the node's database.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let options = SqliteConnectOptions::new().filename(self.folder.join("plexus.db")).read_only(true);
        let mut conn: SqliteConnection = options.connect().await.unwrap();
        sqlx::query(sql).fetch_one(&mut conn).await.unwrap().get(0)
    }

    /// Waits until a call is no longer on disk.
    pub(crate) async fn deleted(&self, call: CallId) {
        within("a call to be deleted", async {
            while self.on_disk(call).await.is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

pub(crate) async fn on_disk(folder: &Path, call: CallId) -> Option<String> {
    let options = SqliteConnectOptions::new().filename(folder.join("plexus.db")).read_only(true);
    let mut conn: SqliteConnection = options.connect().await.unwrap();
    let row = sqlx::query("SELECT state FROM held_calls WHERE call_id = ?")
        .bind(call.to_string())
        .fetch_optional(&mut conn)
        .await
        .unwrap();
    row.map(|row| row.get(0))
}

/// The hub's end of a link.
pub(crate) struct ScriptedHub {
    pub(crate) link: Link,
    /// The summary of the link, if the node did not dial it.
    pub(crate) served: Option<oneshot::Receiver<LinkSummary>>,
}

impl ScriptedHub {
    pub(crate) async fn send(&mut self, frame: Frame) {
        within("the node to read a frame", self.link.tx.send(&frame)).await.expect("an open link");
    }

    pub(crate) async fn frame(&mut self) -> Frame {
        match within("a frame of the node", self.link.rx.recv()).await {
            Ok(Received::Frame(frame)) => frame,
            other => panic!("{other:?}"),
        }
    }

    /// The next frame that is not a heartbeat.
    pub(crate) async fn next_frame(&mut self) -> Frame {
        loop {
            match self.frame().await {
                Frame::Ping(_) | Frame::Pong(_) => {}
                frame => return frame,
            }
        }
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        match self.frame().await {
            Frame::Hello(hello) => hello,
            other => panic!("hello comes first: {other:?}"),
        }
    }

    pub(crate) async fn welcome_node(&mut self, orders: &[(CallId, Order)]) -> Hello {
        let hello = self.hello().await;
        self.send(Frame::Welcome(welcome(60_000, 3, orders))).await;
        hello
    }

    /// Sends a call.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> CallId {
        let call = call(tool, arguments);
        let id = call.call_id;
        self.send(Frame::Call(call)).await;
        id
    }

    pub(crate) async fn cancel(&mut self, call_id: CallId, reason: CancelReason) {
        self.send(Frame::Cancel(Cancel { call_id, reason })).await;
    }

    pub(crate) async fn confirm(&mut self, call_id: CallId) {
        self.send(Frame::Ack(Ack { call_id })).await;
    }

    /// Expects that the next frame accepts this call.
    pub(crate) async fn accepted(&mut self, call: CallId) {
        match self.next_frame().await {
            Frame::Ack(Ack { call_id }) if call_id == call => {}
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// The result of this call; events and acknowledgements before it are skipped.
    pub(crate) async fn result(&mut self, call: CallId) -> CallOutcome {
        loop {
            match self.next_frame().await {
                Frame::Result(CallResult { call_id, outcome }) if call_id == call => return outcome,
                Frame::Result(other) => panic!("the result of another call: {other:?}"),
                _ => {}
            }
        }
    }

    /// Drops the link, and waits until the node has noticed.
    pub(crate) async fn cut(self) {
        let Self { link, served } = self;
        drop(link);
        if let Some(served) = served {
            within("the node to notice", served).await.expect("the link was served");
        }
    }

    /// Waits until the node ends the link.
    pub(crate) async fn end(self) -> LinkSummary {
        let served = self.served.expect("the node did not dial");
        within("the link to end", served).await.expect("the link was served")
    }
}

pub(crate) fn welcome(heartbeat_ms: u64, missed: u32, orders: &[(CallId, Order)]) -> Welcome {
    Welcome {
        version: 1,
        epoch: 1,
        name: "nas".to_owned(),
        heartbeat_ms,
        missed,
        calls: orders.iter().map(|(call_id, order)| CallOrder { call_id: *call_id, order: *order }).collect(),
        draining: false,
    }
}

/// A call with a long deadline; `write` is kept on disk.
pub(crate) fn call(tool: &str, arguments: Value) -> Call {
    Call {
        call_id: CallId::new(),
        tool: tool.to_owned(),
        arguments: serde_json::value::to_raw_value(&arguments).unwrap(),
        session_id: SessionId::new(),
        caller: Caller { subject: "agent:codex".to_owned(), profile: None },
        deadline_ms: 60_000,
        keep: tool == "write",
        idempotency_key: None,
        traceparent: None,
    }
}

pub(crate) fn text(outcome: CallOutcome) -> String {
    match outcome {
        CallOutcome::Output(output) => output.text,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn failure(outcome: CallOutcome) -> Failure {
    match outcome {
        CallOutcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

/// The state of a call in `hello`.
pub(crate) fn state(hello: &Hello, call: CallId) -> Option<HeldState> {
    hello.calls.iter().find(|listed| listed.call_id == call).map(|listed| listed.state)
}

pub(crate) fn nothing() -> Value {
    json!({})
}
