//! Errors of `resources/read` and `prompts/get`, in the form of the client's revision.

use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, RpcCause};
use serde_json::{Value, json};

use super::super::call::TargetKind;
use super::super::errors;
use super::super::rpc::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    RESOURCE_NOT_FOUND, RpcError, UNSUPPORTED_VERSION,
};
use crate::version::Dialect;

/// Largest `data` of another server's error that is passed on, in bytes.
const MAX_DATA: usize = 8 << 10;

/// Codes that servers can define themselves.
const SERVER_DEFINED: std::ops::RangeInclusive<i64> = -32_099..=-32_000;

/// Converts the error of a read to a protocol error, because a read has no result for a failure.
pub(in crate::server) fn read_error(error: CallError, kind: &TargetKind, dialect: Dialect) -> RpcError {
    match (&error.rpc, kind) {
        (Some(cause), TargetKind::Resource { uri }) if is_not_found(cause) => {
            not_found(&cause.message, uri, dialect)
        }
        (Some(cause), _) => server_error(cause, &error, dialect),
        (None, TargetKind::Resource { uri }) if error.code == ErrorCode::UnknownTool => {
            not_found("Resource not found", uri, dialect)
        }
        (None, _) if matches!(error.code, ErrorCode::UnknownTool | ErrorCode::InvalidArguments) => {
            RpcError::invalid_params(error.message)
        }
        (None, _) => hub_error(&error),
    }
}

/// The error for a missing resource, with the code of the revision.
pub(in crate::server) fn not_found(message: &str, uri: &str, dialect: Dialect) -> RpcError {
    let code = match dialect {
        Dialect::Session(_) => RESOURCE_NOT_FOUND,
        Dialect::Modern => INVALID_PARAMS,
    };
    RpcError::new(StatusCode::OK, code, message).with_data(json!({ "uri": uri }))
}

/// The session era has a code for it; since 2026-07-28 the URI in the error's data identifies it.
fn is_not_found(cause: &RpcCause) -> bool {
    let names_it = || cause.data.as_ref().is_some_and(|data| data["uri"].is_string());
    cause.code == i64::from(RESOURCE_NOT_FOUND) || (cause.code == i64::from(INVALID_PARAMS) && names_it())
}

/// Another server's error, if its code means the same to the client.
fn server_error(cause: &RpcCause, error: &CallError, dialect: Dialect) -> RpcError {
    let code = i32::try_from(cause.code).unwrap_or(INTERNAL_ERROR);
    let code = match code {
        // These concern the hub's request to the server, not the client's.
        HEADER_MISMATCH | UNSUPPORTED_VERSION => return hub_error(error),
        METHOD_NOT_FOUND => match dialect {
            Dialect::Session(_) => METHOD_NOT_FOUND,
            // A client would conclude that the hub lacks the method.
            Dialect::Modern => INTERNAL_ERROR,
        },
        PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS | INTERNAL_ERROR => code,
        code if SERVER_DEFINED.contains(&i64::from(code)) => code,
        _ => INTERNAL_ERROR,
    };
    let passed = RpcError::new(StatusCode::OK, code, cause.message.as_str());
    let fits = |data: &&Value| data.to_string().len() <= MAX_DATA;
    match cause.data.as_ref().filter(fits) {
        Some(data) => passed.with_data(data.clone()),
        None => passed,
    }
}

/// An error of the hub.
fn hub_error(error: &CallError) -> RpcError {
    RpcError::new(StatusCode::OK, INTERNAL_ERROR, error.text()).with_data(errors::error_data(error))
}

#[cfg(test)]
mod tests;
