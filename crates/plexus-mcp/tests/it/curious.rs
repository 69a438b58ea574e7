//! A tool of the hub that asks what a test tells it to, and counts how often it ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_testkit::asked::all;
use plexus_testkit::{McpClient, TestHub};
use plexus_tools::{
    Access, Answer, CallError, Inquiry, LogLevel, LogLine, Outcome, Placement, Question, RawJson, Tool,
    ToolContext, ToolOutput, ToolSpec, TypedTool, Unasked,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) const NAME: &str = "curious";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Questions that are asked together, one group after the other.
    #[serde(default)]
    rounds: Vec<Vec<AskedFor>>,
    /// Works for so long after each answer.
    #[serde(default)]
    work_ms: u64,
    /// Levels of log lines that are written before the first question.
    #[serde(default)]
    log: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AskedFor {
    key: String,
    method: String,
    params: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Said {
    said: String,
}

/// What became of the calls.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    begun: AtomicUsize,
    over: watch::Sender<usize>,
}

impl Runs {
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Waits until so many calls have left the tool, however that came about.
    pub(crate) async fn over(&self, calls: usize) {
        let mut over = self.over.subscribe();
        let left = over.wait_for(|over| *over >= calls);
        tokio::time::timeout(Duration::from_secs(10), left).await.expect("the calls end in time").unwrap();
    }
}

struct Curious {
    runs: Arc<Runs>,
    deadline: Duration,
}

/// Puts the tool into a hub.
pub(crate) fn curious(hub: &TestHub, deadline: Duration) -> Arc<Runs> {
    let runs = Arc::new(Runs::default());
    hub.registry().add([Tool::typed(Curious { runs: runs.clone(), deadline })]);
    runs
}

struct Leaving(Arc<Runs>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.over.send_modify(|over| *over += 1);
    }
}

impl TypedTool for Curious {
    type Args = Args;
    type Output = Said;

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.into(),
            title: "For a test".into(),
            description: "Asks what it is told to.".into(),
            input_schema: Value::Null,
            output_schema: None,
            access: Access::ADD,
            actions: vec![],
            placement: Placement::Hub,
            deadline: self.deadline,
            admin: false,
            time: None,
            starts_agents: false,
            handling: plexus_tools::Handling::default(),
        }
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        self.runs.begun.fetch_add(1, Ordering::SeqCst);
        let _leaving = Leaving(self.runs.clone());
        for level in &args.log {
            if let Some(sink) = context.log_sink() {
                let params = raw(&json!({ "level": level, "logger": "curious", "data": "a line" }));
                sink.say(LogLine { level: LogLevel::parse(level).unwrap(), params });
            }
        }
        let mut said = Vec::new();
        for round in args.rounds {
            let questions = round.into_iter().map(question).collect();
            let answers = context.ask(questions).await.map_err(|why| unasked(&why))?;
            let answers = answers.into_iter().map(|(key, answer)| (key, shown(answer)));
            said.push(answers.collect::<serde_json::Map<_, _>>());
            tokio::time::sleep(Duration::from_millis(args.work_ms)).await;
        }
        let said = json!(said).to_string();
        Ok(Outcome::Ready(ToolOutput::new(said.clone(), &Said { said })))
    }
}

fn raw(value: &Value) -> RawJson {
    RawJson::of(&serde_json::value::to_raw_value(value).unwrap())
}

fn question(asked: AskedFor) -> Question {
    let inquiry = Inquiry::from_method(&asked.method).unwrap();
    Question { key: asked.key, inquiry, params: asked.params.as_ref().map(raw) }
}

fn shown(answer: Answer) -> Value {
    match answer {
        Answer::Result(result) => result.parsed().unwrap(),
        Answer::Error { code, message, .. } => json!({ "error": code, "message": message }),
    }
}

fn unasked(why: &Unasked) -> CallError {
    let error = CallError::new(ErrorCode::ToolFailed, why.to_string());
    match why {
        Unasked::Incapable(lacking) => {
            error.from_rpc(-32021, "", Some(json!({ "requiredCapabilities": lacking.to_json() })))
        }
        _ => error,
    }
}

/// A form with one question in it.
pub(crate) fn form(key: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "mode": "form", "message": format!("{key}?"), "requestedSchema": schema });
    json!({ "key": key, "method": "elicitation/create", "params": params })
}

pub(crate) fn roots(key: &str) -> Value {
    json!({ "key": key, "method": "roots/list" })
}

/// One request of the stateless revision, by a client that can be asked everything.
pub(crate) async fn stateless(client: &McpClient, params: Value) -> plexus_testkit::Answer {
    let mut params = params;
    params["name"] = NAME.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = all();
    client.modern("tools/call", params).await
}
