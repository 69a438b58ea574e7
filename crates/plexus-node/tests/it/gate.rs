//! A tool that a test holds in its hand: it runs until it is let go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_proto::ErrorCode;
use plexus_tools::{Access, CallError, Outcome, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};

/// Cheap to clone; all clones are one gate.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    open: Semaphore,
    begun: watch::Sender<usize>,
    cancelled: watch::Sender<usize>,
    ended: AtomicUsize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Goes back as the text of the result.
    #[serde(default)]
    say: String,
    /// Events to be told before the gate is waited at.
    #[serde(default)]
    events: u32,
    /// Bytes of each.
    #[serde(default)]
    bytes: usize,
    /// Fails instead of ending well.
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
            begun: watch::Sender::new(0),
            cancelled: watch::Sender::new(0),
            ended: AtomicUsize::new(0),
        }))
    }

    /// `write`, which is to be kept, and `look`, which is not.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        vec![Tool::typed(Writes(self.clone())), Tool::typed(Reads(self.clone()))]
    }

    /// Lets so many calls through.
    pub(crate) fn open(&self, calls: usize) {
        self.0.open.add_permits(calls);
    }

    /// Waits until so many calls have begun in all.
    pub(crate) async fn begun(&self, calls: usize) {
        let mut begun = self.0.begun.subscribe();
        let begun = begun.wait_for(|begun| *begun >= calls);
        super::scripted::within("a call to begin", begun).await.unwrap();
    }

    /// Waits until so many calls were told to stop.
    pub(crate) async fn cancelled(&self, calls: usize) {
        let mut cancelled = self.0.cancelled.subscribe();
        let cancelled = cancelled.wait_for(|cancelled| *cancelled >= calls);
        super::scripted::within("a call to be told to stop", cancelled).await.unwrap();
    }

    pub(crate) fn runs(&self) -> usize {
        *self.0.begun.borrow()
    }

    async fn pass(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let told = Told(self.clone(), context.cancel.clone());
        for n in 0..args.events {
            let said = Map::from_iter([
                ("text".to_owned(), Value::from("x".repeat(args.bytes))),
                ("n".to_owned(), n.into()),
            ]);
            context.emit("terminal_output", said);
        }
        self.0.begun.send_modify(|begun| *begun += 1);
        let permit = self
            .0
            .open
            .acquire()
            .await
            .map_err(|error| CallError::new(ErrorCode::Internal, error.to_string()))?;
        permit.forget();
        drop(told);
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        match args.fail {
            true => Err(CallError::new(ErrorCode::ToolFailed, args.say)),
            false => Ok(Outcome::Ready(ToolOutput::new(args.say, &Output {}))),
        }
    }
}

/// Counts a call that is dropped because it was told to stop.
struct Told(Gate, tokio_util::sync::CancellationToken);

impl Drop for Told {
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
