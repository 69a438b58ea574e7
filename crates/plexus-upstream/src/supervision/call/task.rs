//! A call that continues as a task of its server: polls the task until it has ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plexus_kit::Stage;
use plexus_proto::api::UpstreamEra;
use plexus_tools::ToolContext;
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::input_rounds::{self, Failed};
use super::questions::CallerDialog;
use super::upstream_call::CallOutcome;
use crate::client::{
    CallResponse, Client, ClientError, Method, PresentCaller, Request, RequestResponse, TaskState,
    parse_call_result, task_state,
};
use crate::supervision::unit::Unit;

/// Consecutive failed polls before the task counts as lost.
const MAX_MISSES: usize = 5;

/// A task that is running at the server. If dropped before its end, it is cancelled.
struct RunningTask<'f> {
    unit: &'f Arc<Unit>,
    client: &'f Client,
    id: String,
    /// Marks the caller as present at the server between polls, when no request is in flight.
    present: Option<PresentCaller>,
    ended: bool,
}

impl RunningTask<'_> {
    fn request(&self, method: Method, dialog: &CallerDialog) -> Request {
        let params = Map::from_iter([("taskId".to_owned(), Value::from(&*self.id))]);
        Request { bridge: dialog.bridge.clone(), ..Request::new(method, params) }
    }
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        // During shutdown the runtime is gone, and no task can send the cancellation.
        if self.ended || Handle::try_current().is_err() {
            return;
        }
        if let Some(present) = self.present.take() {
            present.depart();
        }
        let params = Map::from_iter([("taskId".to_owned(), Value::from(&*self.id))]);
        let (client, request) = (self.client.clone(), Request::new(Method::CancelTask, params));
        let name = format!("upstream {}: cancel a task", self.unit.name);
        self.unit.shared.supervisor.spawn(Stage::Work, name, async move {
            // If the cancellation fails, the server finishes work that nobody needs.
            let _ = client.request(request).await;
        });
    }
}

/// Within a session, one request is answered when the task ends, and the server may ask questions meanwhile.
async fn in_session(
    task: &mut RunningTask<'_>,
    dialog: &CallerDialog,
    context: &ToolContext,
) -> Result<CallOutcome, Failed> {
    let cancel = Some(context.cancel.clone());
    let request = Request { cancel, ..task.request(Method::TaskResult, dialog) };
    let replied = task.client.request(request).await.map_err(as_lost)?;
    task.ended = true;
    match replied {
        RequestResponse::Result(result) => ended(&result),
        RequestResponse::Ask { .. } => {
            Err(ClientError::Protocol("tasks/result returned a question".to_owned()).into())
        }
    }
}

fn ended(result: &Bytes) -> Result<CallOutcome, Failed> {
    match parse_call_result(result)? {
        CallResponse::Output(output) => Ok(CallOutcome::Output(output)),
        _ => Err(ClientError::Protocol("a task ended without a result".to_owned()).into()),
    }
}

/// Once a call has begun, every failure of its task means that the call is lost.
fn as_lost(error: ClientError) -> ClientError {
    match error {
        ClientError::Unreachable(why) | ClientError::Busy(why) | ClientError::NeedsLogin(why) => {
            ClientError::Lost(why)
        }
        error => error,
    }
}

pub(in crate::supervision) async fn follow(
    unit: &Arc<Unit>,
    client: &Client,
    id: String,
    poll: Duration,
    dialog: &CallerDialog,
    context: &ToolContext,
) -> Result<CallOutcome, Failed> {
    let present = Some(client.present(dialog.bridge.clone()));
    let mut task = RunningTask { unit, client, id, present, ended: false };
    if client.peer().era == UpstreamEra::Session {
        return in_session(&mut task, dialog, context).await;
    }
    let mut poll = poll;
    let mut misses = 0;
    let mut answered = BTreeSet::new();
    loop {
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(ClientError::Cancelled.into()),
            () = tokio::time::sleep(poll) => {}
        }
        let state = match client.request(task.request(Method::GetTask, dialog)).await {
            Ok(RequestResponse::Result(result)) => task_state(&result)?,
            Ok(RequestResponse::Ask { .. }) => {
                return Err(ClientError::Protocol("tasks/get returned a question".to_owned()).into());
            }
            // The task may continue nevertheless.
            Err(ClientError::Busy(why) | ClientError::Lost(why) | ClientError::Unreachable(why)) => {
                misses += 1;
                if misses == MAX_MISSES || client.has_ended() {
                    return Err(ClientError::Lost(why).into());
                }
                continue;
            }
            // The call has begun, so its outcome is unknown.
            Err(ClientError::NeedsLogin(why) | ClientError::Protocol(why)) => {
                return Err(ClientError::Lost(why).into());
            }
            Err(ClientError::Rpc { message, code, .. }) => {
                let why = format!("the status of its task is not available: {message} ({code})");
                return Err(ClientError::Lost(why).into());
            }
            Err(ClientError::Cancelled) => return Err(ClientError::Cancelled.into()),
        };
        misses = 0;
        unit.activity.record_message();
        match state {
            TaskState::Working(again) => poll = again,
            TaskState::Asks { questions, poll: again } => {
                poll = again;
                // An answered question may still be listed for a moment.
                let new: Vec<_> =
                    questions.into_iter().filter(|question| answered.insert(question.key.clone())).collect();
                if new.is_empty() {
                    continue;
                }
                let responses = input_rounds::answers(new, dialog, context).await?;
                dialog.note_round();
                let mut update = task.request(Method::UpdateTask, dialog);
                update.inputs.responses = Some(responses);
                client.request(update).await?;
            }
            TaskState::Completed(result) => {
                task.ended = true;
                return ended(&result);
            }
            TaskState::Failed(error) => {
                task.ended = true;
                return Err(error.into());
            }
            TaskState::Cancelled => {
                task.ended = true;
                let why = "the server cancelled the task of the call";
                return Err(ClientError::Protocol(why.to_owned()).into());
            }
        }
    }
}
