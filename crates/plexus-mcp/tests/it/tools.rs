//! Tools for the tests: one that does nothing, one that the test controls, and one that returns its trace context.

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

/// Time limit of every wait in a test.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn in_time<T>(event: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("{event} did not happen in time"))
}

/// The expected `_meta` of a listed tool of the hub; null if there is none.
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
struct TextOutput {
    text: String,
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

fn output(text: &str) -> Result<Outcome, CallError> {
    Ok(Outcome::Ready(ToolOutput::new(text, &TextOutput { text: text.to_owned() })))
}

struct Idle(String);

impl TypedTool for Idle {
    type Args = NoArgs;
    type Output = TextOutput;

    fn spec(&self) -> ToolSpec {
        spec(&self.0)
    }

    async fn run(&self, _: ToolContext, _: NoArgs) -> Result<Outcome, CallError> {
        output("nothing")
    }
}

/// A tool that does nothing.
pub(crate) fn idle(name: impl Into<String>) -> Tool {
    Tool::typed(Idle(name.into()))
}

enum Step {
    Progress(f64),
    Finish(&'static str),
}

#[derive(Debug, PartialEq)]
enum HandlerEvent {
    Started,
    /// The handler has returned or was dropped.
    Over,
}

struct ControlledTool {
    name: &'static str,
    steps: Arc<Mutex<mpsc::Receiver<Step>>>,
    events: mpsc::UnboundedSender<HandlerEvent>,
}

/// Controls the handler of a tool.
pub(crate) struct ToolControl {
    steps: mpsc::Sender<Step>,
    events: mpsc::UnboundedReceiver<HandlerEvent>,
}

/// A tool whose handler waits for steps from its control.
pub(crate) fn controlled_tool(name: &'static str) -> (Tool, ToolControl) {
    let (steps, received_steps) = mpsc::channel(8);
    let (events, received_events) = mpsc::unbounded_channel();
    let tool = Tool::typed(ControlledTool { name, steps: Arc::new(Mutex::new(received_steps)), events });
    (tool, ToolControl { steps, events: received_events })
}

impl ToolControl {
    /// Waits until a call is in the handler.
    pub(crate) async fn started(&mut self) {
        self.expect(HandlerEvent::Started, "the start of the call").await;
    }

    /// Waits until the handler has returned or was cancelled.
    pub(crate) async fn wait_until_over(&mut self) {
        self.expect(HandlerEvent::Over, "the end of the call").await;
    }

    /// Whether the handler has ended, if all earlier events were read.
    pub(crate) fn is_over(&mut self) -> bool {
        self.events.try_recv().is_ok()
    }

    pub(crate) async fn progress(&self, done: f64) {
        self.steps.send(Step::Progress(done)).await.unwrap();
    }

    pub(crate) async fn finish(&self, text: &'static str) {
        self.steps.send(Step::Finish(text)).await.unwrap();
    }

    async fn expect(&mut self, expected: HandlerEvent, event: &str) {
        assert_eq!(in_time(event, self.events.recv()).await, Some(expected));
    }
}

/// Reports the end of the handler when dropped.
struct ReportEnd(mpsc::UnboundedSender<HandlerEvent>);

impl Drop for ReportEnd {
    fn drop(&mut self) {
        let _ = self.0.send(HandlerEvent::Over);
    }
}

impl TypedTool for ControlledTool {
    type Args = NoArgs;
    type Output = TextOutput;

    fn spec(&self) -> ToolSpec {
        spec(self.name)
    }

    async fn run(&self, context: ToolContext, _: NoArgs) -> Result<Outcome, CallError> {
        self.events.send(HandlerEvent::Started).unwrap();
        let _end = ReportEnd(self.events.clone());
        loop {
            match self.steps.lock().await.recv().await {
                Some(Step::Progress(done)) => {
                    let message = Some(format!("step {done}"));
                    context.progress(Progress { done, total: Some(3.0), message });
                }
                Some(Step::Finish(text)) => return output(text),
                None => return output("the control was dropped"),
            }
        }
    }
}

struct TraceContextTool(&'static str);

impl TypedTool for TraceContextTool {
    type Args = NoArgs;
    type Output = TextOutput;

    fn spec(&self) -> ToolSpec {
        spec(self.0)
    }

    async fn run(&self, context: ToolContext, _: NoArgs) -> Result<Outcome, CallError> {
        let Some(trace) = context.trace_context() else { return output("none") };
        let state = trace.tracestate().map(|state| format!(" {state}")).unwrap_or_default();
        output(&format!("{}{state}", trace.traceparent()))
    }
}

/// A tool that returns the trace context it would pass on.
pub(crate) fn trace_context_tool(name: &'static str) -> Tool {
    Tool::typed(TraceContextTool(name))
}
