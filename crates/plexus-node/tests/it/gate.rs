//! A tool whose calls wait until the test releases them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_proto::ErrorCode;
use plexus_tools::{Access, CallError, Outcome, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};

/// Cheap to clone; clones share their state.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    open: Semaphore,
    started: watch::Sender<usize>,
    cancelled: watch::Sender<usize>,
    ended: AtomicUsize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Text of the result.
    #[serde(default)]
    say: String,
    /// Number of events emitted before waiting.
    #[serde(default)]
    events: u32,
    /// Size of each event.
    #[serde(default)]
    bytes: usize,
    /// Whether the call fails.
    #[serde(default)]
    fail: bool,
}

#[derive(Serialize, JsonSchema)]
struct Output {}

struct Writes(Gate);
struct Reads(Gate);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            open: Semaphore::new(0),
            started: watch::Sender::new(0),
            cancelled: watch::Sender::new(0),
            ended: AtomicUsize::new(0),
        }))
    }

    /// `write`, which is kept on disk, and `look`, which is not.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        vec![Tool::typed(Writes(self.clone())), Tool::typed(Reads(self.clone()))]
    }

    /// Releases this many calls.
    pub(crate) fn open(&self, calls: usize) {
        self.0.open.add_permits(calls);
    }

    /// Waits until this many calls have started in total.
    pub(crate) async fn started(&self, calls: usize) {
        let mut started = self.0.started.subscribe();
        let started = started.wait_for(|started| *started >= calls);
        super::scripted_hub::within("a call to start", started).await.unwrap();
    }

    /// Waits until this many calls were cancelled.
    pub(crate) async fn cancelled(&self, calls: usize) {
        let mut cancelled = self.0.cancelled.subscribe();
        let cancelled = cancelled.wait_for(|cancelled| *cancelled >= calls);
        super::scripted_hub::within("a call to be cancelled", cancelled).await.unwrap();
    }

    pub(crate) fn runs(&self) -> usize {
        *self.0.started.borrow()
    }

    async fn pass(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let counter = CancelledCall(self.clone(), context.cancel.clone());
        for n in 0..args.events {
            let event = Map::from_iter([
                ("text".to_owned(), Value::from("x".repeat(args.bytes))),
                ("n".to_owned(), n.into()),
            ]);
            context.emit("terminal_output", event);
        }
        self.0.started.send_modify(|started| *started += 1);
        let permit = self
            .0
            .open
            .acquire()
            .await
            .map_err(|error| CallError::new(ErrorCode::Internal, error.to_string()))?;
        permit.forget();
        drop(counter);
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        match args.fail {
            true => Err(CallError::new(ErrorCode::ToolFailed, args.say)),
            false => Ok(Outcome::Ready(ToolOutput::new(args.say, &Output {}))),
        }
    }
}

/// Counts a call that is dropped because it was cancelled.
struct CancelledCall(Gate, tokio_util::sync::CancellationToken);

impl Drop for CancelledCall {
    fn drop(&mut self) {
        if self.1.is_cancelled() {
            self.0.0.cancelled.send_modify(|cancelled| *cancelled += 1);
        }
    }
}

impl TypedTool for Writes {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::node("write", "Write", "Waits at the gate.", Access::ADD)
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        self.0.pass(context, args).await
    }
}

impl TypedTool for Reads {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        ToolSpec::node("look", "Look", "Waits at the gate.", Access::READ)
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        self.0.pass(context, args).await
    }
}
