//! How a task ends, from how its call did.

use plexus_proto::ErrorCode;
use plexus_store::{TaskEnd, TaskStatus};
use plexus_tools::CallReply;
use serde_json::{Value, json};

use crate::server::call::{self, Subject};
use crate::server::reads;
use crate::server::rpc::{INTERNAL_ERROR, RpcError};
use crate::version::Dialect;

const LOST: &str = "the hub was restarted while it ran; nobody knows whether it has done its work, and it was not run \
                    again. Look first";

const BROKEN: &str = "the hub failed while it ran; nobody knows whether it has done its work, and it was not run again. \
                      Look first";

/// Of a task that the hub itself failed to follow.
pub(super) fn broken() -> TaskEnd {
    failed(INTERNAL_ERROR, BROKEN, None)
}

/// Of a task that was running when the hub stopped.
pub(super) fn lost() -> TaskEnd {
    failed(INTERNAL_ERROR, LOST, None)
}

/// An error of the tool is a result; one of the protocol is not.
pub(super) fn of(reply: CallReply) -> TaskEnd {
    match reply.result {
        Err(error) if error.code == ErrorCode::Cancelled => {
            TaskEnd { status: TaskStatus::Cancelled, message: Some(error.message), payload: None }
        }
        Err(error) if error.rpc.is_some() => refused(&reads::failed(error, &Subject::Tool, Dialect::Modern)),
        result => completed(CallReply { result, ..reply }),
    }
}

fn completed(reply: CallReply) -> TaskEnd {
    let meta = call::reply_meta(&reply);
    match call::result_members(reply, &Subject::Tool, Dialect::Modern) {
        Ok(members) => TaskEnd {
            status: TaskStatus::Completed,
            message: None,
            payload: Some(format!("{{\"resultType\":\"complete\",{members},\"_meta\":{{{meta}}}}}")),
        },
        Err(error) => refused(&error),
    }
}

fn refused(error: &RpcError) -> TaskEnd {
    failed(error.code, &error.message, error.data.as_ref())
}

fn failed(code: i32, message: &str, data: Option<&Value>) -> TaskEnd {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data.clone();
    }
    TaskEnd {
        status: TaskStatus::Failed,
        message: Some(message.to_owned()),
        payload: Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use plexus_proto::{CallId, ErrorCode};
    use plexus_store::TaskStatus;
    use plexus_tools::{CallError, CallReply};
    use serde_json::{Value, json};

    use super::of;

    fn refused(code: i64, data: Value) -> Value {
        let error = CallError::new(ErrorCode::ToolFailed, "it failed").from_rpc(code, "why", Some(data));
        let reply = CallReply {
            call_id: CallId::new(),
            session_id: None,
            tool: "mcp__a__b".to_owned(),
            replayed: false,
            result: Err(error),
        };
        let end = of(reply);
        assert_eq!(end.status, TaskStatus::Failed);
        serde_json::from_str(&end.payload.unwrap()).unwrap()
    }

    #[test]
    fn what_a_server_says_of_its_failure_is_passed_on_as_far_as_it_means_the_same() {
        let said = refused(-32050, json!({ "a": 1 }));
        assert_eq!(said, json!({ "code": -32050, "message": "why", "data": { "a": 1 } }));
        for misleading in [-32601, -32020, -32022, 1, i64::MIN] {
            assert_eq!(refused(misleading, json!(null))["code"], -32603, "{misleading}");
        }
        assert_eq!(refused(-32050, json!("x".repeat(9_000))), json!({ "code": -32050, "message": "why" }));
    }
}
