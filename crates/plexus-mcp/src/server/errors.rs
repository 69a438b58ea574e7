//! A call that failed, in the words of the revision that its client speaks.
//!
//! What goes wrong inside a tool is a result that says so, for the model to read. What another server said in terms of
//! the protocol stays that where both sides have the same terms; a code that only means something between the hub and
//! that server does not leave the hub.

use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, RpcCause};
use serde_json::{Value, json};

use super::call::Subject;
use super::rpc::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    RpcError, UNSUPPORTED_VERSION,
};
use super::version::{Dialect, Version};

/// The client cannot be asked what has to be asked.
pub(super) const MISSING_CAPABILITY: i32 = -32021;
/// Pages that a person has to visit first; of 2025-11-25 only.
const URL_REQUIRED: i32 = -32042;
const RESOURCE_NOT_FOUND: i32 = -32002;
/// Data of another server's error that is passed on.
const MAX_DATA: usize = 8 << 10;

/// What a client is told of a call that failed: a result with this text, or an error of the protocol.
pub(super) fn told(error: CallError, subject: &Subject, dialect: Dialect) -> Result<String, RpcError> {
    match subject {
        Subject::Tool => of_tool(error, dialect),
        Subject::Resource { .. } | Subject::Prompt => Err(of_read(error, subject, dialect)),
    }
}

fn of_tool(error: CallError, dialect: Dialect) -> Result<String, RpcError> {
    // Protocol, not result: there is no tool that could have failed.
    if error.code == ErrorCode::UnknownTool {
        let hint = error.hint.map_or(Value::Null, Value::from);
        return Err(RpcError::invalid_params(error.message).with_data(json!({ "hint": hint })));
    }
    match (code(&error), dialect) {
        (Some(MISSING_CAPABILITY), Dialect::Modern) => Err(missing_capability(error)),
        (Some(URL_REQUIRED), Dialect::Session(Version::V2025_11_25)) => Err(as_said(error, URL_REQUIRED)),
        _ => Ok(error.text()),
    }
}

fn of_read(error: CallError, subject: &Subject, dialect: Dialect) -> RpcError {
    let resource = match subject {
        Subject::Resource { uri } => Some(uri),
        Subject::Tool | Subject::Prompt => None,
    };
    let unknown = error.code == ErrorCode::UnknownTool;
    match code(&error) {
        code if unknown || matches!(code, Some(RESOURCE_NOT_FOUND | INVALID_PARAMS)) => match resource {
            Some(uri) => not_found(&said(&error), uri, dialect),
            None => as_said(error, INVALID_PARAMS),
        },
        Some(MISSING_CAPABILITY) => match dialect {
            Dialect::Modern => missing_capability(error),
            Dialect::Session(_) => RpcError::new(StatusCode::OK, INVALID_REQUEST, error.text()),
        },
        Some(URL_REQUIRED) if dialect == Dialect::Session(Version::V2025_11_25) => {
            as_said(error, URL_REQUIRED)
        }
        // The hub has the method; it is the server behind it that does not.
        Some(METHOD_NOT_FOUND) => match dialect {
            Dialect::Modern => RpcError::new(StatusCode::OK, INTERNAL_ERROR, error.text()),
            Dialect::Session(_) => as_said(error, METHOD_NOT_FOUND),
        },
        Some(code) if is_passed_on(code) => as_said(error, code),
        _ => internal(&error),
    }
}

/// A resource that nobody has, or that this caller may not know of.
pub(super) fn not_found(message: &str, uri: &str, dialect: Dialect) -> RpcError {
    let code = match dialect {
        Dialect::Modern => INVALID_PARAMS,
        Dialect::Session(_) => RESOURCE_NOT_FOUND,
    };
    RpcError::new(StatusCode::OK, code, message).with_data(json!({ "uri": uri }))
}

fn missing_capability(error: CallError) -> RpcError {
    let data = error.rpc.as_ref().and_then(|cause| cause.data.clone());
    RpcError::new(StatusCode::BAD_REQUEST, MISSING_CAPABILITY, error.text())
        .with_data(data.unwrap_or_else(|| json!({ "requiredCapabilities": {} })))
}

/// Codes that mean the same to everybody.
fn is_passed_on(code: i32) -> bool {
    let between_neighbours = matches!(code, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION);
    let json_rpc = matches!(code, PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS | INTERNAL_ERROR);
    json_rpc || ((-32_099..=-32_000).contains(&code) && !between_neighbours)
}

fn as_said(error: CallError, code: i32) -> RpcError {
    let message = said(&error);
    let data = error.rpc.and_then(|cause| cause.data).filter(|data| data.to_string().len() <= MAX_DATA);
    let told = RpcError::new(StatusCode::OK, code, message);
    match data {
        Some(data) => told.with_data(data),
        None => told,
    }
}

fn internal(error: &CallError) -> RpcError {
    let (code, retryable) = (error.code.as_str(), error.code.is_retryable());
    RpcError::new(StatusCode::OK, INTERNAL_ERROR, error.text())
        .with_data(json!({ "plexus/error": code, "plexus/retryable": retryable }))
}

fn code(error: &CallError) -> Option<i32> {
    error.rpc.as_ref().and_then(|cause| i32::try_from(cause.code).ok())
}

/// In the words of the server, where there are any.
fn said(error: &CallError) -> String {
    match &error.rpc {
        Some(cause) => RpcCause::clone(cause).message,
        None => error.text(),
    }
}

#[cfg(test)]
mod tests {
    use plexus_proto::ErrorCode;
    use plexus_tools::CallError;
    use serde_json::json;

    use super::{Dialect, Subject, Version, told};

    const OLD: Dialect = Dialect::Session(Version::V2025_06_18);
    const NEW: Dialect = Dialect::Session(Version::V2025_11_25);

    fn from_server(code: i64) -> CallError {
        CallError::new(ErrorCode::ToolFailed, "github answered with an error: no").from_rpc(
            code,
            "no",
            Some(json!({ "elicitations": [] })),
        )
    }

    #[test]
    fn what_a_tool_of_another_server_says_is_a_result_but_for_what_the_protocol_has_a_word_for() {
        let of = |code, dialect| told(from_server(code), &Subject::Tool, dialect).map_err(|e| e.code);
        for code in [-32000, -32002, -32020, -32022, -32601, -32603, 7] {
            for dialect in [OLD, NEW, Dialect::Modern] {
                assert!(of(code, dialect).is_ok(), "{code} {dialect:?}");
            }
        }
        assert_eq!(of(-32021, Dialect::Modern), Err(-32021));
        assert!(of(-32021, NEW).is_ok());
        assert_eq!(of(-32042, NEW), Err(-32042));
        assert!(of(-32042, OLD).is_ok() && of(-32042, Dialect::Modern).is_ok());
    }

    #[test]
    fn a_resource_that_is_not_there_has_the_code_of_the_revision() {
        let subject = Subject::Resource { uri: "test://x".to_owned() };
        for code in [-32002, -32602] {
            let of = |dialect| told(from_server(code), &subject, dialect).unwrap_err();
            assert_eq!((of(OLD).code, of(OLD).data), (-32002, Some(json!({ "uri": "test://x" }))));
            assert_eq!((of(Dialect::Modern).code), -32602);
        }
        let gone = CallError::new(ErrorCode::UnknownTool, "Unknown");
        assert_eq!(told(gone.clone(), &subject, OLD).unwrap_err().code, -32002);
        assert_eq!(told(gone, &Subject::Prompt, OLD).unwrap_err().code, -32602);
    }

    #[test]
    fn a_read_that_failed_is_an_error_whose_code_means_something_to_the_client() {
        let of = |code, dialect| told(from_server(code), &Subject::Prompt, dialect).unwrap_err();
        assert_eq!(of(-32050, OLD).code, -32050);
        assert_eq!(of(-32020, OLD).code, -32603, "between the hub and the server");
        assert_eq!(of(12, Dialect::Modern).code, -32603);
        assert_eq!((of(-32601, OLD).code, of(-32601, Dialect::Modern).code), (-32601, -32603));
        assert_eq!((of(-32021, OLD).code, of(-32021, Dialect::Modern).code), (-32600, -32021));
        assert_eq!(of(-32021, Dialect::Modern).status, 400);
        let away = CallError::new(ErrorCode::Unavailable, "github is away");
        let away = told(away, &Subject::Prompt, OLD).unwrap_err();
        assert_eq!((away.code, away.data.unwrap()["plexus/retryable"].clone()), (-32603, json!(true)));
    }
}
