//! Runs a handler under its deadline and bounds its output.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use plexus_proto::ErrorCode;
use tokio_util::sync::CancellationToken;

use super::Deadline;
use super::prepare::PreparedCall;
use crate::{CallError, Outcome, RawJson, Tool, ToolContext, ToolOutput, output};

/// Runs the handler under its deadline. A panic fails this call only.
pub(super) async fn run_handler(prepared: PreparedCall, context: ToolContext) -> Result<Outcome, CallError> {
    let PreparedCall { tool, arguments, .. } = prepared;
    let (cancel, deadline, allowed) = (context.cancel.clone(), context.deadline.clone(), context.allowed);
    let mut run = pin!(guarded(&tool.spec().name, tool.run(context, arguments)));
    let error = tokio::select! {
        biased;
        outcome = &mut run => return outcome,
        error = until_abandoned(&tool, &cancel, allowed, deadline.as_deref()) => error,
    };
    cancel.cancel();
    // A handler that was still queued reports, once cancelled, that nothing ran.
    match run.now_or_never() {
        Some(Err(ended)) if ended.nothing_ran() => Err(error.hint("Nothing was run.").before_it_ran()),
        _ => Err(error),
    }
}

/// Completes when the caller cancels or the deadline passes, with the error for it.
pub(super) async fn until_abandoned(
    tool: &Tool,
    cancel: &CancellationToken,
    deadline: Duration,
    time: Option<&Deadline>,
) -> CallError {
    let passed = async {
        match time {
            Some(time) => time.passed(deadline).await,
            None => tokio::time::sleep(deadline).await,
        }
    };
    tokio::select! {
        () = cancel.cancelled() => CallError::new(ErrorCode::Cancelled, "the call was cancelled"),
        () = passed => {
            let message = format!("{} did not finish within {} s", tool.spec().name, deadline.as_secs());
            let error = CallError::new(ErrorCode::DeadlineExceeded, message);
            match tool.spec().reaches_out() {
                true => error.hint("It may still take effect. Check first, and call again only if it did not."),
                false => error,
            }
        }
    }
}

/// Turns a panic into an error of this call.
pub(super) async fn guarded<T>(
    tool: &str,
    run: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(tool, "tool panicked");
        Err(CallError::new(ErrorCode::Internal, format!("{tool} failed inside the hub"))
            .hint("The hub's log has the details."))
    })
}

/// Truncates text to the limit. Structured data cannot be truncated; beyond the limit it is an error.
pub(super) fn bound(output: ToolOutput, limit: usize) -> Result<ToolOutput, CallError> {
    let size = match &output {
        ToolOutput::Own { structured: None, .. } => 0,
        ToolOutput::Own { structured: Some(structured), .. } => output::json_length(structured),
        ToolOutput::Foreign(foreign) => {
            foreign.content.len() + foreign.structured.as_ref().map_or(0, RawJson::len)
        }
        ToolOutput::Passed(result) => result.len(),
    };
    if size > limit {
        let message = format!("the result has {size} bytes; the limit is {limit}");
        return Err(CallError::new(ErrorCode::TooLarge, message).hint("Request less at a time."));
    }
    Ok(match output {
        ToolOutput::Own { text, structured } => {
            ToolOutput::Own { text: output::bound_text(text, limit), structured }
        }
        foreign @ (ToolOutput::Foreign(_) | ToolOutput::Passed(_)) => foreign,
    })
}
