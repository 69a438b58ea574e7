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
mod tests {
    use plexus_proto::ErrorCode;
    use plexus_tools::CallError;
    use serde_json::{Value, json};

    use super::read_error;
    use crate::server::call::TargetKind;
    use crate::version::Dialect;
    use crate::version::Version;

    const SESSION: Dialect = Dialect::Session(Version::LATEST);

    fn code(code: i64, data: Option<Value>, dialect: Dialect) -> i32 {
        let error = CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(code, "why", data);
        read_error(error, &TargetKind::Resource { uri: "a://1".to_owned() }, dialect).code
    }

    #[test]
    fn missing_resource_has_the_code_of_the_revision() {
        for (server_code, data) in [(-32002, None), (-32602, Some(json!({ "uri": "a://1" })))] {
            assert_eq!(code(server_code, data.clone(), SESSION), -32002);
            assert_eq!(code(server_code, data, Dialect::Modern), -32602);
        }
        assert_eq!(code(-32602, None, SESSION), -32602, "an error about something else");
    }

    #[test]
    fn misleading_codes_are_replaced() {
        for misleading in [-32020, -32022, 1, -1, i64::MIN] {
            assert_eq!(code(misleading, None, Dialect::Modern), -32603, "{misleading}");
        }
        assert_eq!((code(-32601, None, SESSION), code(-32601, None, Dialect::Modern)), (-32601, -32603));
        assert_eq!(code(-32050, None, Dialect::Modern), -32050);
    }

    #[test]
    fn oversized_error_data_is_left_out() {
        let error = |data: Value| {
            let error =
                CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(-32050, "why", Some(data));
            read_error(error, &TargetKind::Prompt, SESSION).data
        };
        assert_eq!(error(json!({ "a": 1 })), Some(json!({ "a": 1 })));
        assert_eq!(error(json!("x".repeat(9_000))), None);
    }
}
