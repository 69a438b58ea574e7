//! Calls that continue as tasks of their server.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use plexus_tools::Question;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::message::rpc_error;
use super::super::{CallResponse, CallResult, ClientError};
use super::{input_required, malformed, parsed};

const MAX_ID: usize = 512;
/// Polling interval if the server does not specify one.
const DEFAULT_POLL: Duration = Duration::from_secs(1);
/// Bounds of the interval that the server specifies.
const MIN_POLL: Duration = Duration::from_millis(200);
const MAX_POLL: Duration = Duration::from_secs(30);

/// The state of a task.
#[derive(Debug)]
pub(crate) enum TaskState {
    /// Poll again after this time.
    Working(Duration),
    Asks {
        questions: Vec<Question>,
        poll: Duration,
    },
    /// The text of the call's result.
    Completed(Bytes),
    Failed(ClientError),
    Cancelled,
}

/// Parses the result of a call that became a task.
pub(super) fn task_created(result: &Bytes) -> CallResult {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts {
        task_id: String,
        poll_interval_ms: Option<f64>,
    }
    let Parts { task_id, poll_interval_ms } = parsed(result, "tools/call")?;
    task_response(task_id, poll(poll_interval_ms))
}

/// The same in the experimental form of 2025-11-25.
pub(super) fn task_created_in_session(result: &Bytes) -> CallResult {
    #[derive(Deserialize)]
    struct Parts {
        task: Task,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Task {
        task_id: String,
        poll_interval: Option<f64>,
    }
    let Parts { task } = parsed(result, "tools/call")?;
    task_response(task.task_id, poll(task.poll_interval))
}

fn task_response(id: String, poll: Duration) -> CallResult {
    if id.is_empty() || id.len() > MAX_ID {
        return Err(malformed(
            "tools/call",
            &format_args!("the id of its task does not have 1 to {MAX_ID} bytes"),
        ));
    }
    Ok(CallResponse::Task { id, poll })
}

/// Parses the result of `tasks/get`.
pub(crate) fn task_state(result: &Bytes) -> Result<TaskState, ClientError> {
    const METHOD: &str = "tasks/get";
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts<'a> {
        #[serde(borrow)]
        status: Cow<'a, str>,
        poll_interval_ms: Option<f64>,
        #[serde(borrow)]
        input_requests: Option<&'a RawValue>,
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let parts: Parts<'_> = parsed(result, METHOD)?;
    let poll = poll(parts.poll_interval_ms);
    match (&*parts.status, parts.input_requests, parts.result, parts.error) {
        ("working", ..) => Ok(TaskState::Working(poll)),
        ("input_required", Some(requests), ..) => {
            Ok(TaskState::Asks { questions: input_required::read(result, METHOD, requests)?, poll })
        }
        ("completed", _, Some(ended), _) => {
            Ok(TaskState::Completed(result.slice_ref(ended.get().as_bytes())))
        }
        ("failed", _, _, Some(error)) => Ok(TaskState::Failed(rpc_error(error))),
        ("cancelled", ..) => Ok(TaskState::Cancelled),
        _ => Err(malformed(METHOD, &"it does not report the state of the task")),
    }
}

fn poll(millis: Option<f64>) -> Duration {
    let interval = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1e3).ok());
    interval.unwrap_or(DEFAULT_POLL).clamp(MIN_POLL, MAX_POLL)
}
