//! A call that failed, in the words of the revision that its client speaks.
//!
//! What goes wrong inside a tool is a result that says so, for the model to read. What another server said in terms of
//! the protocol stays that where both sides have the same terms; a code that only means something between the hub and
//! that server does not leave the hub. Reads have no result that could say that they failed: see `reads`.

use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, Capabilities, RpcCause, Unasked};
use serde_json::{Value, json};

use super::call::Subject;
use super::reads;
use super::rpc::{INVALID_REQUEST, RpcError};
use crate::version::{Dialect, Version};

/// The client cannot be asked what has to be asked.
const MISSING_CAPABILITY: i64 = -32021;
/// Pages that a person has to visit first; of 2025-11-25 only.
const URL_REQUIRED: i64 = -32042;

/// What a client is told of a call that failed: a result with this text, or an error of the protocol.
pub(super) fn told(error: CallError, subject: &Subject, dialect: Dialect) -> Result<String, RpcError> {
    // What another server said is passed on as it is.
    let ours = error.rpc.is_none().then(|| for_programs(&error));
    said(error, subject, dialect).map_err(|refusal| match ours {
        Some(ours) => with_code(refusal, ours),
        None => refusal,
    })
}

/// What went wrong in words for programs: the code, and whether the same call may succeed later.
pub(super) fn for_programs(error: &CallError) -> Value {
    json!({ "code": error.code.as_str(), "retryable": error.code.is_retryable() })
}

/// The same refusal, with the code among its data.
fn with_code(mut refusal: RpcError, ours: Value) -> RpcError {
    match (&mut refusal.data, ours) {
        (Some(Value::Object(data)), Value::Object(ours)) => {
            for (name, value) in ours {
                data.entry(name).or_insert(value);
            }
        }
        (Some(_), _) => {}
        (none, ours) => *none = Some(ours),
    }
    refusal
}

fn said(error: CallError, subject: &Subject, dialect: Dialect) -> Result<String, RpcError> {
    let is_tool = *subject == Subject::Tool;
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
        _ if !is_tool => Err(reads::failed(error, subject, dialect)),
        // Protocol, not result: there is no tool that could have failed.
        _ if error.code == ErrorCode::UnknownTool => {
            let hint = error.hint.map_or(Value::Null, Value::from);
            Err(RpcError::invalid_params(error.message).with_data(json!({ "hint": hint })))
        }
        _ => Ok(error.text()),
    }
}

/// A tool failed that could not ask its caller what it has to.
pub(super) fn unasked(lacking: Capabilities) -> RpcError {
    let code = i32::try_from(MISSING_CAPABILITY).unwrap_or(INVALID_REQUEST);
    RpcError::new(StatusCode::BAD_REQUEST, code, Unasked::Incapable(lacking).to_string())
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
    fn an_error_of_the_hub_says_its_code_to_programs_too() {
        let unknown = CallError::new(ErrorCode::UnknownTool, "no such tool").hint("look");
        let refused = told(unknown, &Subject::Tool, Dialect::Modern).unwrap_err();
        let data = json!({ "code": "unknown_tool", "retryable": false, "hint": "look" });
        assert_eq!(refused.data, Some(data));
        let busy = CallError::new(ErrorCode::Overloaded, "busy");
        let refused = told(busy, &Subject::Prompt, OLD).unwrap_err();
        assert_eq!(refused.data, Some(json!({ "code": "overloaded", "retryable": true })));
        let theirs = told(from_server(-32042), &Subject::Tool, NEW).unwrap_err();
        assert_eq!(theirs.data, Some(json!({ "elicitations": [] })), "their words are theirs");
    }

    #[test]
    fn a_read_that_would_have_to_ask_is_refused_by_the_code_of_the_revision() {
        let of = |code, dialect| told(from_server(code), &Subject::Prompt, dialect).unwrap_err();
        assert_eq!((of(-32021, OLD).code, of(-32021, Dialect::Modern).code), (-32600, -32021));
        assert_eq!(of(-32021, Dialect::Modern).status, 400);
        assert_eq!(of(-32042, NEW).code, -32042);
    }
}
