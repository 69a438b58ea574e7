//! Reads and gets that failed: what the server itself said, in the words of the client's revision.

use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, RpcCause};
use serde_json::{Value, json};

use super::super::call::Subject;
use super::super::errors;
use super::super::rpc::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    RESOURCE_NOT_FOUND, RpcError, UNSUPPORTED_VERSION,
};
use crate::version::Dialect;

/// Largest `data` of a server's error that is passed on, in bytes.
const MAX_DATA: usize = 8 << 10;

/// Codes that servers may choose themselves.
const THEIRS: std::ops::RangeInclusive<i64> = -32_099..=-32_000;

/// As an error of the protocol: a read has no result that could say that it failed.
pub(in crate::server) fn failed(error: CallError, subject: &Subject, dialect: Dialect) -> RpcError {
    match (&error.rpc, subject) {
        (Some(cause), Subject::Resource { uri }) if is_not_found(cause) => {
            not_found(&cause.message, uri, dialect)
        }
        (Some(cause), _) => said(cause, &error, dialect),
        (None, Subject::Resource { uri }) if error.code == ErrorCode::UnknownTool => {
            not_found("Resource not found", uri, dialect)
        }
        (None, _) if matches!(error.code, ErrorCode::UnknownTool | ErrorCode::InvalidArguments) => {
            RpcError::invalid_params(error.message)
        }
        (None, _) => ours(&error),
    }
}

/// There is no such resource, by the code that the revision has for it.
pub(in crate::server) fn not_found(message: &str, uri: &str, dialect: Dialect) -> RpcError {
    let code = match dialect {
        Dialect::Session(_) => RESOURCE_NOT_FOUND,
        Dialect::Modern => INVALID_PARAMS,
    };
    RpcError::new(StatusCode::OK, code, message).with_data(json!({ "uri": uri }))
}

/// Sessions have a code for it; since 2026-07-28 it is known by the URI that goes with the error.
fn is_not_found(cause: &RpcCause) -> bool {
    let names_it = || cause.data.as_ref().is_some_and(|data| data["uri"].is_string());
    cause.code == i64::from(RESOURCE_NOT_FOUND) || (cause.code == i64::from(INVALID_PARAMS) && names_it())
}

/// What the server said, as far as it means the same to the client.
fn said(cause: &RpcCause, error: &CallError, dialect: Dialect) -> RpcError {
    let code = i32::try_from(cause.code).unwrap_or(INTERNAL_ERROR);
    let code = match code {
        // Between neighbours: the client's own headers and revision were right.
        HEADER_MISMATCH | UNSUPPORTED_VERSION => return ours(error),
        METHOD_NOT_FOUND => match dialect {
            Dialect::Session(_) => METHOD_NOT_FOUND,
            // A client would take it for the hub's own method.
            Dialect::Modern => INTERNAL_ERROR,
        },
        PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS | INTERNAL_ERROR => code,
        code if THEIRS.contains(&i64::from(code)) => code,
        _ => INTERNAL_ERROR,
    };
    let passed = RpcError::new(StatusCode::OK, code, cause.message.as_str());
    let fits = |data: &&Value| data.to_string().len() <= MAX_DATA;
    match cause.data.as_ref().filter(fits) {
        Some(data) => passed.with_data(data.clone()),
        None => passed,
    }
}

/// What came between the client and the server.
fn ours(error: &CallError) -> RpcError {
    RpcError::new(StatusCode::OK, INTERNAL_ERROR, error.text()).with_data(errors::for_programs(error))
}

#[cfg(test)]
mod tests {
    use plexus_proto::ErrorCode;
    use plexus_tools::CallError;
    use serde_json::{Value, json};

    use super::failed;
    use crate::server::call::Subject;
    use crate::version::Dialect;
    use crate::version::Version;

    const SESSION: Dialect = Dialect::Session(Version::LATEST);

    fn code(code: i64, data: Option<Value>, dialect: Dialect) -> i32 {
        let error = CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(code, "why", data);
        failed(error, &Subject::Resource { uri: "a://1".to_owned() }, dialect).code
    }

    #[test]
    fn a_resource_that_is_not_there_has_the_code_of_the_revision() {
        for (theirs, data) in [(-32002, None), (-32602, Some(json!({ "uri": "a://1" })))] {
            assert_eq!(code(theirs, data.clone(), SESSION), -32002);
            assert_eq!(code(theirs, data, Dialect::Modern), -32602);
        }
        assert_eq!(code(-32602, None, SESSION), -32602, "something else is wrong with it");
    }

    #[test]
    fn codes_that_would_mislead_are_not_passed_on() {
        for misleading in [-32020, -32022, 1, -1, i64::MIN] {
            assert_eq!(code(misleading, None, Dialect::Modern), -32603, "{misleading}");
        }
        assert_eq!((code(-32601, None, SESSION), code(-32601, None, Dialect::Modern)), (-32601, -32603));
        assert_eq!(code(-32050, None, Dialect::Modern), -32050);
    }

    #[test]
    fn data_that_is_too_large_is_left_out() {
        let error = |data: Value| {
            let error =
                CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(-32050, "why", Some(data));
            failed(error, &Subject::Prompt, SESSION).data
        };
        assert_eq!(error(json!({ "a": 1 })), Some(json!({ "a": 1 })));
        assert_eq!(error(json!("x".repeat(9_000))), None);
    }
}
