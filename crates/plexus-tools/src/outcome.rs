//! Conversion of call results between a node and a hub.

use plexus_proto::ErrorCode;
use plexus_proto::node::{CallOutcome, Failure, Foreign, Output};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::output::json_length;
use crate::{CallError, ForeignOutput, RawJson, ToolOutput};

/// Longest message or hint accepted from a node, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// Longest details accepted from a node, as JSON, in bytes.
const MAX_DETAILS_BYTES: usize = 64 * 1024;

/// The result of a call as a node sends it.
#[must_use]
pub fn to_frame(result: Result<ToolOutput, CallError>) -> CallOutcome {
    match result {
        Ok(ToolOutput::Own { text, structured }) => CallOutcome::Output(Output { text, structured }),
        Ok(ToolOutput::Foreign(foreign)) => match foreign_parts(&foreign) {
            Ok(parts) => CallOutcome::Foreign(parts),
            Err(error) => {
                failed(CallError::new(ErrorCode::Internal, format!("the result cannot be sent: {error}")))
            }
        },
        Ok(ToolOutput::Passed(_)) => {
            failed(CallError::new(ErrorCode::Internal, "resources and prompts do not go over a link"))
        }
        Err(error) => failed(error),
    }
}

/// The result of a call as reported by a node; validated, because a node is not trusted.
pub fn from_frame(outcome: CallOutcome) -> Result<ToolOutput, CallError> {
    match outcome {
        CallOutcome::Output(Output { text, structured }) => Ok(ToolOutput::Own { text, structured }),
        CallOutcome::Foreign(foreign) => foreign_output(&foreign),
        CallOutcome::Failed(failure) => Err(call_error(failure)),
    }
}

fn foreign_parts(foreign: &ForeignOutput) -> Result<Foreign, serde_json::Error> {
    let raw = |json: &RawJson| RawValue::from_string(json.as_str().to_owned());
    Ok(Foreign {
        content: raw(&foreign.content)?,
        structured: foreign.structured.as_ref().map(raw).transpose()?,
        is_error: foreign.is_error,
        meta: foreign.meta.as_ref().map(raw).transpose()?,
    })
}

fn foreign_output(foreign: &Foreign) -> Result<ToolOutput, CallError> {
    let begins = |json: &RawValue, with: char| json.get().trim_start().starts_with(with);
    let object = |json: &Option<Box<RawValue>>| json.as_deref().is_none_or(|json| begins(json, '{'));
    if !begins(&foreign.content, '[') || !object(&foreign.structured) || !object(&foreign.meta) {
        let message = "the node sent a result that is not a valid MCP result";
        return Err(CallError::new(ErrorCode::ToolFailed, message)
            .hint("The tool has run. Check first, and call again only if it did not take effect."));
    }
    Ok(ToolOutput::Foreign(ForeignOutput {
        content: RawJson::of(&foreign.content),
        structured: foreign.structured.as_deref().map(RawJson::of),
        is_error: foreign.is_error,
        meta: foreign.meta.as_deref().map(RawJson::of),
        lacking: None,
    }))
}

fn failed(error: CallError) -> CallOutcome {
    let nothing_ran = error.nothing_ran();
    CallOutcome::Failed(Failure {
        code: error.code,
        message: error.message,
        hint: error.hint,
        details: error.details,
        nothing_ran,
    })
}

fn call_error(failure: Failure) -> CallError {
    let bounded = |text: String| match text.len() > MAX_MESSAGE_BYTES {
        true => text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)].to_owned(),
        false => text,
    };
    let details =
        if json_length(&failure.details) > MAX_DETAILS_BYTES { Value::Null } else { failure.details };
    // Codes about a caller's credential or about internal faults must come from the hub itself.
    let code = match failure.code {
        ErrorCode::InvalidArguments
        | ErrorCode::NotFound
        | ErrorCode::Forbidden
        | ErrorCode::Conflict
        | ErrorCode::Overloaded
        | ErrorCode::TooLarge
        | ErrorCode::DeadlineExceeded
        | ErrorCode::Cancelled
        | ErrorCode::Interrupted
        | ErrorCode::Unavailable => failure.code,
        _ => ErrorCode::ToolFailed,
    };
    let mut error = CallError::new(code, bounded(failure.message)).details(details);
    error.hint = failure.hint.map(bounded);
    // The hub derives `nothing_ran` from some codes; a node reports it explicitly.
    if failure.nothing_ran { error.before_it_ran() } else { error }
}

#[cfg(test)]
mod tests;
