//! `test_tool`: calls a user-defined tool and reports the details of the call.

use std::sync::Weak;

use plexus_proto::ErrorCode;
use plexus_proto::api::ToolTrial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CustomError, CustomTools, Inner, try_out};
use crate::dispatcher::WeakDispatcher;
use crate::{
    Access, CallError, Dispatcher, Outcome, Placement, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool,
    Via,
};

pub(super) const NAME: &str = "test_tool";

/// The tool. Its references are weak, because both own the tool.
pub(super) fn tool(tools: Weak<Inner>, dispatcher: &Dispatcher) -> Tool {
    Tool::typed(TestTool { tools, dispatcher: dispatcher.downgrade() })
}

struct TestTool {
    tools: Weak<Inner>,
    dispatcher: WeakDispatcher,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Name of a user-defined tool that you may call.
    tool: String,
    /// Arguments of that tool.
    arguments: Option<Map<String, Value>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The call, as recorded under the tool's own name.
    call_id: String,
    success: bool,
    /// Whether its program was started.
    ran: bool,
    /// How the program ended.
    exit: Option<String>,
    exit_code: Option<i32>,
    elapsed_ms: u64,
    /// The last lines of its standard error.
    stderr: Vec<String>,
    /// Problems with the arguments.
    problems: Vec<Problem>,
    error: Option<String>,
    text: Option<String>,
    #[schemars(with = "Option<Map<String, Value>>")]
    structured: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Problem {
    path: String,
    message: String,
}

impl Output {
    fn of(trial: ToolTrial) -> Self {
        let problem = |problem: plexus_proto::api::ArgumentProblem| Problem {
            path: problem.path,
            message: problem.message,
        };
        Self {
            call_id: trial.call_id.to_string(),
            success: trial.success,
            ran: trial.ran,
            exit: trial.exit,
            exit_code: trial.exit_code,
            elapsed_ms: trial.elapsed_ms,
            stderr: trial.stderr,
            problems: trial.problems.into_iter().map(problem).collect(),
            error: trial.error,
            text: trial.text,
            structured: trial.structured,
        }
    }

    fn text(&self) -> String {
        let exit = self.exit.as_deref().unwrap_or(if self.ran { "killed" } else { "not started" });
        let mut text = match self.success {
            true => format!("It works ({exit}, {} ms).", self.elapsed_ms),
            false => format!("It does not work ({exit}, {} ms).", self.elapsed_ms),
        };
        for part in [&self.error, &self.text].into_iter().flatten() {
            text.push_str(&format!("\n{part}"));
        }
        if !self.stderr.is_empty() {
            text.push_str(&format!("\nstandard error:\n{}", self.stderr.join("\n")));
        }
        text
    }
}

impl TypedTool for TestTool {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        let access = Access { bufferable: false, ..Access::ADD };
        let annotations = plexus_proto::api::ToolAnnotations {
            destructive_hint: true,
            open_world_hint: true,
            ..access.annotations
        };
        ToolSpec {
            deadline: std::time::Duration::from_secs(60 * 60 + 10),
            ..ToolSpec::hub(
                NAME,
                "Test a user-defined tool",
                "Makes a real call of a user-defined tool of this hub and reports the details: problems with the \
                 arguments, the result, how its program ended, its standard error and the elapsed time.",
                Access { annotations, ..access },
            )
        }
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        // An invisible tool gives the same error as one that does not exist.
        let target = context.visible.resolve(&args.tool)?;
        if target.spec().placement != Placement::Custom {
            let message = format!("{} is not a user-defined tool", target.name());
            return Err(CallError::new(ErrorCode::InvalidArguments, message)
                .hint("Nothing was run. Call it by its name."));
        }
        let stopping = || CallError::new(ErrorCode::Unavailable, "the hub is stopping").before_it_ran();
        let dispatcher = self.dispatcher.upgrade().ok_or_else(stopping)?;
        let tools = self.tools.upgrade().map(CustomTools).ok_or_else(stopping)?;
        let name = target.spec().name.to_string();
        let arguments = args.arguments.map_or(Value::Null, Value::Object);
        let cancel = context.cancel.child_token();
        let trial =
            try_out(&tools, &dispatcher, context.principal.clone(), &name, arguments, Via::Mcp, cancel).await;
        let output = Output::of(trial.map_err(|error| match error {
            CustomError::Unknown(_) => {
                CallError::new(ErrorCode::UnknownTool, format!("Unknown tool: {name}"))
            }
            error => CallError::new(ErrorCode::ToolFailed, error.to_string()),
        })?);
        Ok(Outcome::Ready(ToolOutput::new(output.text(), &output)))
    }
}
