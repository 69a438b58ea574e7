//! How a task ends, from how its call did.

use plexus_proto::ErrorCode;
use plexus_store::{TaskEnd, TaskStatus};
use plexus_tools::{CallReply, RpcCause};
use serde_json::{Value, json};

use crate::server::call::{self, Subject};
use crate::server::rpc::INTERNAL_ERROR;
use crate::server::version::Dialect;

const LOST: &str = "the hub was restarted while it ran; nobody knows whether it has done its work, and it was not run \
                    again. Look first";

/// Of a task that was running when the hub stopped.
pub(super) fn lost() -> TaskEnd {
    failed(i64::from(INTERNAL_ERROR), LOST, None)
}

/// An error of the tool is a result; one of the protocol is not.
pub(super) fn of(reply: CallReply) -> TaskEnd {
    match &reply.result {
        Err(error) if error.code == ErrorCode::Cancelled => {
            TaskEnd { status: TaskStatus::Cancelled, message: Some(error.message.clone()), payload: None }
        }
        Err(error) if let Some(cause) = &error.rpc => {
            let RpcCause { code, message, data } = &**cause;
            failed(*code, message, data.as_ref())
        }
        _ => completed(reply),
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
        Err(error) => failed(i64::from(error.code), &error.message, error.data.as_ref()),
    }
}

fn failed(code: i64, message: &str, data: Option<&Value>) -> TaskEnd {
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
