//! A tool that asks the questions in its arguments and counts its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_testkit::interactive_client::all_capabilities;
use plexus_testkit::{McpClient, TestHub};
use plexus_tools::{
    Access, Answer, AskError, CallError, Inquiry, LogLevel, LogLine, Outcome, Placement, Question, RawJson,
    Tool, ToolContext, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) const NAME: &str = "asking";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Rounds of questions, asked one after the other.
    #[serde(default)]
    rounds: Vec<Vec<QuestionArg>>,
    /// Time to work after each answer.
    #[serde(default)]
    work_ms: u64,
    /// Levels of the log lines to write before the first question.
    #[serde(default)]
    log: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct QuestionArg {
    key: String,
    method: String,
    params: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answers {
    answers: String,
}

/// Counts the calls.
#[derive(Debug, Default)]
pub(crate) struct CallCounter {
    started_calls: AtomicUsize,
    ended: watch::Sender<usize>,
}

impl CallCounter {
    pub(crate) fn started_calls(&self) -> usize {
        self.started_calls.load(Ordering::SeqCst)
    }

    /// Waits until this many calls have left the handler, also by cancellation.
    pub(crate) async fn wait_for_end_of(&self, calls: usize) {
        let mut ended = self.ended.subscribe();
        let all_ended = ended.wait_for(|ended| *ended >= calls);
        tokio::time::timeout(Duration::from_secs(10), all_ended)
            .await
            .expect("the calls end in time")
            .unwrap();
    }
}

struct AskingTool {
    calls: Arc<CallCounter>,
    deadline: Duration,
}

/// Adds the tool to a hub.
pub(crate) fn add_asking_tool(hub: &TestHub, deadline: Duration) -> Arc<CallCounter> {
    let calls = Arc::new(CallCounter::default());
    hub.registry().add([Tool::typed(AskingTool { calls: calls.clone(), deadline })]);
    calls
}

/// Counts the end of a call when dropped.
struct CountEnd(Arc<CallCounter>);

impl Drop for CountEnd {
    fn drop(&mut self) {
        self.0.ended.send_modify(|ended| *ended += 1);
    }
}

impl TypedTool for AskingTool {
    type Args = Args;
    type Output = Answers;

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.into(),
            title: "For a test".into(),
            description: "Asks the questions in its arguments.".into(),
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
        self.calls.started_calls.fetch_add(1, Ordering::SeqCst);
        let _end = CountEnd(self.calls.clone());
        for level in &args.log {
            if let Some(sink) = context.log_sink() {
                let params = raw(&json!({ "level": level, "logger": "asking", "data": "a line" }));
                sink.say(LogLine { level: LogLevel::parse(level).unwrap(), params });
            }
        }
        let mut all = Vec::new();
        for round in args.rounds {
            let questions = round.into_iter().map(question).collect();
            let answers = context.ask(questions).await.map_err(|why| ask_error(&why))?;
            let answers = answers.into_iter().map(|(key, answer)| (key, answer_json(answer)));
            all.push(answers.collect::<serde_json::Map<_, _>>());
            tokio::time::sleep(Duration::from_millis(args.work_ms)).await;
        }
        let answers = json!(all).to_string();
        Ok(Outcome::Ready(ToolOutput::new(answers.clone(), &Answers { answers })))
    }
}

fn raw(value: &Value) -> RawJson {
    RawJson::of(&serde_json::value::to_raw_value(value).unwrap())
}

fn question(arg: QuestionArg) -> Question {
    let inquiry = Inquiry::from_method(&arg.method).unwrap();
    Question { key: arg.key, inquiry, params: arg.params.as_ref().map(raw) }
}

fn answer_json(answer: Answer) -> Value {
    match answer {
        Answer::Result(result) => result.parsed().unwrap(),
        Answer::Error { code, message, .. } => json!({ "error": code, "message": message }),
    }
}

fn ask_error(why: &AskError) -> CallError {
    let error = CallError::new(ErrorCode::ToolFailed, why.to_string());
    match why {
        AskError::Incapable(lacking) => {
            error.from_rpc(-32021, "", Some(json!({ "requiredCapabilities": lacking.to_json() })))
        }
        _ => error,
    }
}

/// A form with one field.
pub(crate) fn form(key: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "mode": "form", "message": format!("{key}?"), "requestedSchema": schema });
    json!({ "key": key, "method": "elicitation/create", "params": params })
}

pub(crate) fn roots(key: &str) -> Value {
    json!({ "key": key, "method": "roots/list" })
}

/// Calls the tool in the stateless revision, as a client with all capabilities.
pub(crate) async fn stateless(client: &McpClient, params: Value) -> plexus_testkit::Answer {
    let mut params = params;
    params["name"] = NAME.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = all_capabilities();
    client.modern("tools/call", params).await
}
