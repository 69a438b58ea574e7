//! One call of a tool of an upstream server: from the dispatcher to the server and back.

pub(super) mod concurrency;
mod input_rounds;
pub(super) mod questions;
mod route;
mod task;
mod upstream_call;

use std::path::Path;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use plexus_kit::env;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ForeignOutput, Outcome, Run, ToolContext, ToolOutput};
use serde_json::Value;

use self::upstream_call::{CallOutcome, Operation, UpstreamCall};
use crate::client::Request;
use crate::supervision::catalog::injection;
use crate::supervision::unit::Unit;

/// The handler of a server's tool under this canonical name. It refers only to the unit, so it stays valid
/// when the server's connection or file changes.
pub(super) fn handler(unit: &Arc<Unit>, name: String, tool: String) -> Arc<Run> {
    let unit = Arc::downgrade(unit);
    let (name, tool): (Arc<str>, Arc<str>) = (name.into(), tool.into());
    Arc::new(move |context, arguments| {
        let (unit, name, tool) = (unit.clone(), name.clone(), tool.clone());
        Box::pin(async move { run(&unit, &name, &tool, context, arguments).await })
    })
}

async fn run(
    unit: &Weak<Unit>,
    name: &str,
    tool: &str,
    context: ToolContext,
    arguments: Value,
) -> Result<Outcome, CallError> {
    let withdrawn =
        || CallError::new(ErrorCode::UnknownTool, format!("Unknown tool: {name}")).hint("It was removed.");
    let unit = unit.upgrade().ok_or_else(withdrawn)?;
    // The name may now stand for a different tool, which this caller was not authorized for.
    let entry = unit.catalog.load().entries.get(name).filter(|entry| entry.tool == tool).cloned();
    let entry = entry.ok_or_else(withdrawn)?;
    let config = unit.config().ok_or_else(withdrawn)?;
    let _in_flight = unit.activity.begin(config.timeout);
    let mut arguments = arguments;
    if let (false, Value::Object(arguments)) = (entry.injected.is_empty(), &mut arguments) {
        let home = unit.shared.environment.get(env::HOME).map(Path::new);
        injection::fill(&entry.injected, &context, home, arguments).map_err(CallError::before_it_ran)?;
    }
    let call = UpstreamCall::begin(&unit, &config, &context, entry.repeatable).await?;
    let operation =
        Operation::Call { tool: &entry.tool, arguments: Arc::new(arguments), as_task: entry.as_task };
    let ended = call.run(&operation).await;
    let lacking = call.lacking();
    match ended? {
        CallOutcome::Output(output) => {
            Ok(Outcome::Ready(ToolOutput::Foreign(ForeignOutput { lacking, ..output })))
        }
        CallOutcome::Result(_) => Err(CallError::new(
            ErrorCode::Internal,
            "a tool call returned something other than a tool result",
        )),
    }
}

/// Returns the text of a result; questions of the server go to the caller. Only for requests that may be
/// repeated.
pub(super) async fn request(
    unit: &Arc<Unit>,
    context: &ToolContext,
    request: Request,
) -> Result<Bytes, CallError> {
    let removed_error = || CallError::new(ErrorCode::UnknownTool, format!("{} was removed", unit.name));
    let config = unit.config().ok_or_else(removed_error)?;
    let _in_flight = unit.activity.begin(config.timeout);
    let call = UpstreamCall::begin(unit, &config, context, true).await?;
    let operation = Operation::Request { method: request.method, params: request.params };
    let ended = call.run(&operation).await;
    // Only tool calls report missing capabilities; this discards the note.
    let _ = call.lacking();
    match ended? {
        CallOutcome::Result(result) => Ok(result),
        CallOutcome::Output(_) => {
            Err(CallError::new(ErrorCode::Internal, "a request returned a tool result"))
        }
    }
}
