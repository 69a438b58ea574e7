//! Converts the end of a call into the end of its task.

use plexus_proto::ErrorCode;
use plexus_store::{TaskEnd, TaskStatus};
use plexus_tools::CallReply;
use serde_json::{Value, json};

use crate::server::call::{self, TargetKind};
use crate::server::reads;
use crate::server::rpc::{INTERNAL_ERROR, RpcError};
use crate::version::Dialect;

const LOST_MESSAGE: &str = "the hub was restarted while the task ran. It is unknown whether the task has done its work; it was \
                    not run again. Check its effects before you call again";

const HUB_FAILED: &str = "the hub failed while the task ran. It is unknown whether the task has done its work; it was \
                          not run again. Check its effects before you call again";

/// The end of a task whose driver panicked.
pub(super) fn hub_failed() -> TaskEnd {
    failed(INTERNAL_ERROR, HUB_FAILED, None)
}

/// The end of a task that was running when the hub stopped.
pub(super) fn lost() -> TaskEnd {
    failed(INTERNAL_ERROR, LOST_MESSAGE, None)
}

/// A tool error completes the task; a protocol error fails it.
pub(super) fn from_reply(reply: CallReply) -> TaskEnd {
    match reply.result {
        Err(error) if error.code == ErrorCode::Cancelled => {
            TaskEnd { status: TaskStatus::Cancelled, message: Some(error.message), payload: None }
        }
        Err(error) if error.rpc.is_some() => {
            rpc_failed(&reads::read_error(error, &TargetKind::Tool, Dialect::Modern))
        }
        result => completed(CallReply { result, ..reply }),
    }
}

fn completed(reply: CallReply) -> TaskEnd {
    let meta = call::reply_meta(&reply);
    match call::result_members(reply, &TargetKind::Tool, Dialect::Modern) {
        Ok(members) => TaskEnd {
            status: TaskStatus::Completed,
            message: None,
            payload: Some(format!("{{\"resultType\":\"complete\",{members},\"_meta\":{{{meta}}}}}")),
        },
        Err(error) => rpc_failed(&error),
    }
}

fn rpc_failed(error: &RpcError) -> TaskEnd {
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
mod tests;
