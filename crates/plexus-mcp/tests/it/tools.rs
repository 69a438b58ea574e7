//! Tools that exist only here: one that does nothing, and one that does what the test says, when it says so.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use plexus_tools::{
    Access, CallError, Outcome, Placement, Progress, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} did not happen in time"))
}

/// What a list says of a tool of the hub for programs on the way to it; null for nothing.
pub(crate) fn meta_of(tool: &str) -> Value {
    match tool {
        "scratchpad" => json!({ "plexus/bufferable": ["write", "append", "delete"] }),
        "todo" => json!({ "plexus/bufferable": ["add", "update", "remove", "clear"] }),
        _ => Value::Null,
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

#[derive(Debug, Serialize, JsonSchema)]
struct Said {
    said: String,
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned().into(),
        title: "For a test".into(),
        description: "Exists for the length of one test.".into(),
        input_schema: Value::Null,
        output_schema: None,
        access: Access::ADD,
        actions: vec![],
        placement: Placement::Hub,
        deadline: Duration::from_secs(60),
        admin: false,
        time: None,
        starts_agents: false,
        handling: plexus_tools::Handling::default(),
    }
}

fn say(text: &str) -> Result<Outcome, CallError> {
    Ok(Outcome::Ready(ToolOutput::new(text, &Said { said: text.to_owned() })))
}

struct Idle(String);

impl TypedTool for Idle {
    type Args = NoArgs;
    type Output = Said;

    fn spec(&self) -> ToolSpec {
        spec(&self.0)
    }

    async fn run(&self, _: ToolContext, _: NoArgs) -> Result<Outcome, CallError> {
        say("nothing")
    }
}

/// A tool that does nothing, for lists.
pub(crate) fn idle(name: impl Into<String>) -> Tool {
    Tool::typed(Idle(name.into()))
}

enum Step {
    Progress(f64),
    Finish(&'static str),
}

#[derive(Debug, PartialEq)]
enum Seen {
    Started,
    /// The work is over, whether it ended by itself or was dropped.
    Over,
}

struct Puppet {
    name: &'static str,
    steps: Arc<Mutex<mpsc::Receiver<Step>>>,
    seen: mpsc::UnboundedSender<Seen>,
}

/// The strings of a tool that moves only when they are pulled.
pub(crate) struct Strings {
    steps: mpsc::Sender<Step>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

/// A tool that waits in its handler, and its strings.
pub(crate) fn puppet(name: &'static str) -> (Tool, Strings) {
    let (steps, pulled) = mpsc::channel(8);
    let (seen, watched) = mpsc::unbounded_channel();
    let tool = Tool::typed(Puppet { name, steps: Arc::new(Mutex::new(pulled)), seen });
    (tool, Strings { steps, seen: watched })
}

impl Strings {
    /// Waits until a call is in the handler.
    pub(crate) async fn started(&mut self) {
        self.expect(Seen::Started, "the start of the call").await;
    }

    /// Waits until the handler is left, on its own or because it was cancelled.
    pub(crate) async fn over(&mut self) {
        self.expect(Seen::Over, "the end of the call").await;
    }

    /// Whether the handler is still at work, after everything that it said so far was read.
    pub(crate) fn is_over(&mut self) -> bool {
        self.seen.try_recv().is_ok()
    }

    pub(crate) async fn progress(&self, done: f64) {
        self.steps.send(Step::Progress(done)).await.unwrap();
    }

    pub(crate) async fn finish(&self, text: &'static str) {
        self.steps.send(Step::Finish(text)).await.unwrap();
    }

    async fn expect(&mut self, wanted: Seen, what: &str) {
        assert_eq!(in_time(what, self.seen.recv()).await, Some(wanted));
    }
}

/// Says that the handler was left, however that came about.
struct Leaving(mpsc::UnboundedSender<Seen>);

impl Drop for Leaving {
    fn drop(&mut self) {
        let _ = self.0.send(Seen::Over);
    }
}

impl TypedTool for Puppet {
    type Args = NoArgs;
    type Output = Said;

    fn spec(&self) -> ToolSpec {
        spec(self.name)
    }

    async fn run(&self, context: ToolContext, _: NoArgs) -> Result<Outcome, CallError> {
        self.seen.send(Seen::Started).unwrap();
        let _leaving = Leaving(self.seen.clone());
        loop {
            match self.steps.lock().await.recv().await {
                Some(Step::Progress(done)) => {
                    let message = Some(format!("step {done}"));
                    context.progress(Progress { done, total: Some(3.0), message });
                }
                Some(Step::Finish(text)) => return say(text),
                None => return say("the strings were cut"),
            }
        }
    }
}

struct PlaceInTrace(&'static str);

impl TypedTool for PlaceInTrace {
    type Args = NoArgs;
    type Output = Said;

    fn spec(&self) -> ToolSpec {
        spec(self.0)
    }

    async fn run(&self, context: ToolContext, _: NoArgs) -> Result<Outcome, CallError> {
        let Some(trace) = context.trace_context() else { return say("none") };
        let state = trace.tracestate().map(|state| format!(" {state}")).unwrap_or_default();
        say(&format!("{}{state}", trace.traceparent()))
    }
}

/// A tool that says what it would pass on of the trace it is called in.
pub(crate) fn place_in_trace(name: &'static str) -> Tool {
    Tool::typed(PlaceInTrace(name))
}
