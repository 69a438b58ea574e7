//! A handler under its deadline, and what comes out of it within bounds.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use plexus_proto::ErrorCode;
use tokio_util::sync::CancellationToken;

use super::Deadline;
use super::prepare::Prepared;
use crate::{CallError, Outcome, RawJson, Tool, ToolContext, ToolOutput, output};

/// The handler under its deadline; a panic is an error of this call only.
pub(super) async fn run_handler(prepared: Prepared, context: ToolContext) -> Result<Outcome, CallError> {
    let Prepared { tool, arguments, .. } = prepared;
    let (cancel, deadline, allowed) = (context.cancel.clone(), context.deadline.clone(), context.allowed);
    let mut run = pin!(guarded(&tool.spec().name, tool.run(context, arguments)));
    let error = tokio::select! {
        biased;
        outcome = &mut run => return outcome,
        error = given_up(&tool, &cancel, allowed, deadline.as_deref()) => error,
    };
    cancel.cancel();
    // One that still waits for its turn says so when it is told.
    match run.now_or_never() {
        Some(Err(ended)) if ended.nothing_ran() => Err(error.hint("Nothing was run.").before_it_ran()),
        _ => Err(error),
    }
}

/// Ends when the caller cancels or the tool's time is up, and says which.
pub(super) async fn given_up(
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
            let message = format!("{} did not end within {} s", tool.spec().name, deadline.as_secs());
            let error = CallError::new(ErrorCode::DeadlineExceeded, message);
            match tool.spec().reaches_out() {
                true => error.hint("It may do its work all the same. Look first, and call again only if it has not."),
                false => error,
            }
        }
    }
}

/// A panic becomes an error of this call only.
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

/// Cuts text to the limit; data cannot be cut and is refused.
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
        let message = format!("the result has {size} bytes, the most allowed is {limit}");
        return Err(CallError::new(ErrorCode::TooLarge, message).hint("Ask for less at a time."));
    }
    Ok(match output {
        ToolOutput::Own { text, structured } => {
            ToolOutput::Own { text: output::bound_text(text, limit), structured }
        }
        foreign @ (ToolOutput::Foreign(_) | ToolOutput::Passed(_)) => foreign,
    })
}
