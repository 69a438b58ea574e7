//! Failed calls, in the form of the client's revision.
//!
//! A failure inside a tool becomes a result that the model can read. A protocol error of another server is passed on
//! if its code means the same to the client; a code that only concerns the hub and that server is not. Reads have no
//! result for a failure: see `reads`.

use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_tools::{AskError, CallError, Capabilities, RpcCause};
use serde_json::{Value, json};

use super::call::TargetKind;
use super::reads;
use super::rpc::{INVALID_REQUEST, RpcError};
use crate::version::{Dialect, Version};

/// The client does not support a question that has to be asked.
const MISSING_CAPABILITY: i64 = -32021;
/// A person has to visit pages first. Only in 2025-11-25.
const URL_REQUIRED: i64 = -32042;

/// The answer to a failed call: the text of a result, or a protocol error.
pub(super) fn result_text(error: CallError, kind: &TargetKind, dialect: Dialect) -> Result<String, RpcError> {
    // An error of another server is passed on unchanged.
    let data = error.rpc.is_none().then(|| error_data(&error));
    without_data(error, kind, dialect).map_err(|error| match data {
        Some(data) => with_error_data(error, data),
        None => error,
    })
}

/// An error for programs: its code, and whether the same call may succeed later.
pub(super) fn error_data(error: &CallError) -> Value {
    json!({ "code": error.code.as_str(), "retryable": error.code.is_retryable() })
}

/// Adds these members to the error's data.
fn with_error_data(mut error: RpcError, members: Value) -> RpcError {
    match (&mut error.data, members) {
        (Some(Value::Object(data)), Value::Object(members)) => {
            for (name, value) in members {
                data.entry(name).or_insert(value);
            }
        }
        (Some(_), _) => {}
        (none, members) => *none = Some(members),
    }
    error
}

fn without_data(error: CallError, kind: &TargetKind, dialect: Dialect) -> Result<String, RpcError> {
    let is_tool = *kind == TargetKind::Tool;
    match (error.rpc.as_deref(), dialect) {
        (Some(cause @ RpcCause { code: MISSING_CAPABILITY, .. }), Dialect::Modern) => {
            Err(missing_capability(&error, cause))
        }
        (Some(RpcCause { code: MISSING_CAPABILITY, .. }), Dialect::Session(_)) if !is_tool => {
            Err(RpcError::new(StatusCode::OK, INVALID_REQUEST, error.text()))
        }
        (Some(cause @ RpcCause { code: URL_REQUIRED, .. }), Dialect::Session(Version::V2025_11_25)) => {
            Err(url_required(cause))
        }
        _ if !is_tool => Err(reads::read_error(error, kind, dialect)),
        // A protocol error, because no tool ran.
        _ if error.code == ErrorCode::UnknownTool => {
            let hint = error.hint.map_or(Value::Null, Value::from);
            Err(RpcError::invalid_params(error.message).with_data(json!({ "hint": hint })))
        }
        _ => Ok(error.text()),
    }
}

/// The error of a tool that has to ask its caller something which the caller does not support.
pub(super) fn missing_capabilities(lacking: Capabilities) -> RpcError {
    let code = i32::try_from(MISSING_CAPABILITY).unwrap_or(INVALID_REQUEST);
    RpcError::new(StatusCode::BAD_REQUEST, code, AskError::Incapable(lacking).to_string())
        .with_data(json!({ "requiredCapabilities": lacking.to_json() }))
}

fn missing_capability(error: &CallError, cause: &RpcCause) -> RpcError {
    let required = cause.data.clone().unwrap_or_else(|| json!({ "requiredCapabilities": {} }));
    let code = i32::try_from(MISSING_CAPABILITY).unwrap_or(INVALID_REQUEST);
    RpcError::new(StatusCode::BAD_REQUEST, code, error.text()).with_data(required)
}

fn url_required(cause: &RpcCause) -> RpcError {
    let code = i32::try_from(URL_REQUIRED).unwrap_or(INVALID_REQUEST);
    let error = RpcError::new(StatusCode::OK, code, cause.message.as_str());
    match &cause.data {
        Some(data) => error.with_data(data.clone()),
        None => error,
    }
}

#[cfg(test)]
mod tests;
