//! A trial of a tool: a regular call with a detailed report.

use std::sync::{Arc, PoisonError};

use plexus_auth::Principal;
use plexus_proto::ErrorCode;
use plexus_proto::api::{ArgumentProblem, ToolTrial};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{CustomError, CustomTools, run};
use crate::{Call, CallError, Dispatcher, SessionKey, Via};

/// Calls a tool with these arguments, enabled or not, and returns a detailed report. The caller must have checked that
/// the principal may do so.
pub async fn try_out(
    tools: &CustomTools,
    dispatcher: &Dispatcher,
    principal: Arc<Principal>,
    name: &str,
    arguments: Value,
    via: Via,
    cancel: CancellationToken,
) -> Result<ToolTrial, CustomError> {
    let (tool, report) = tools.trial(name)?;
    // A session of its own: a trial is not part of the user's work.
    let call = Call::new(name, arguments, SessionKey::new("test", &[name], None), via).with_cancel(cancel);
    let reply = dispatcher.try_out(principal, call, tool).await;
    let ran = report.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut trial = ToolTrial {
        tool: reply.tool,
        call_id: reply.call_id,
        success: reply.result.is_ok(),
        ran: ran.as_ref().is_some_and(|ran| ran.started),
        exit: None,
        exit_code: None,
        elapsed_ms: 0,
        stderr: Vec::new(),
        problems: Vec::new(),
        error: None,
        text: None,
        structured: None,
    };
    if let Some(ran) = ran {
        trial.exit = ran.exit;
        trial.exit_code = ran.exit_code;
        trial.stderr = ran.stderr;
        trial.elapsed_ms = u64::try_from(ran.elapsed.as_millis()).unwrap_or(u64::MAX);
    }
    match reply.result {
        Ok(output) => {
            trial.text = Some(output.text().into_owned());
            trial.structured = output.structured().map(|data| data.into_owned());
        }
        Err(mut error) => {
            // It has its own field.
            if let Some(shorter) = error.message.strip_suffix(&run::quoted(&trial.stderr)) {
                error.message = shorter.to_owned();
            }
            trial.problems = problems(&error);
            trial.error = Some(error.text());
        }
    }
    Ok(trial)
}

/// The problems with the arguments, if the error is about them.
fn problems(error: &CallError) -> Vec<ArgumentProblem> {
    if error.code != ErrorCode::InvalidArguments {
        return Vec::new();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let problems = error.details["problems"].as_array().into_iter().flatten();
    problems.map(|one| ArgumentProblem { path: text(&one["path"]), message: text(&one["message"]) }).collect()
}
