//! A call that goes on as a task of its server: looked at until it has ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plexus_kit::Stage;
use plexus_proto::api::UpstreamEra;
use plexus_tools::ToolContext;
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::asking::Talk;
use super::errand::Ended;
use super::rounds::{self, Failed};
use super::unit::Unit;
use crate::client::{
    Client, ClientError, Method, Present, Replied, Request, Returned, TaskState, called, task_state,
};

/// Looks in a row that fail before the task is given up for lost.
const MAX_MISSES: usize = 5;

/// A task that the server works on. Dropped before its end, the server hears that nobody wants it.
struct Followed<'f> {
    unit: &'f Arc<Unit>,
    client: &'f Client,
    id: String,
    /// Between two looks no request is under way, and the server is at work all the same.
    present: Option<Present>,
    ended: bool,
}

impl Followed<'_> {
    fn request(&self, method: Method, talk: &Talk) -> Request {
        let params = Map::from_iter([("taskId".to_owned(), Value::from(&*self.id))]);
        Request { bridge: talk.bridge.clone(), ..Request::new(method, params) }
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        // Where tasks end because all of them do, nobody is left to say it.
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
            // A server that does not hear of it works for nobody.
            let _ = client.request(request).await;
        });
    }
}

/// In a session there is a request that is answered when the task has ended, and the server asks meanwhile.
async fn in_session(task: &mut Followed<'_>, talk: &Talk, context: &ToolContext) -> Result<Ended, Failed> {
    let cancel = Some(context.cancel.clone());
    let request = Request { cancel, ..task.request(Method::TaskResult, talk) };
    let replied = task.client.request(request).await.map_err(begun)?;
    task.ended = true;
    match replied {
        Replied::Result(result) => ended(&result),
        Replied::Ask { .. } => Err(ClientError::Protocol("tasks/result asks something".to_owned()).into()),
    }
}

fn ended(result: &Bytes) -> Result<Ended, Failed> {
    match called(result)? {
        Returned::Output(output) => Ok(Ended::Output(output)),
        _ => Err(ClientError::Protocol("a task ended with what is no result".to_owned()).into()),
    }
}

/// A call that has begun is lost, whatever is said of its task.
fn begun(error: ClientError) -> ClientError {
    match error {
        ClientError::Unreachable(why) | ClientError::Busy(why) | ClientError::NeedsLogin(why) => {
            ClientError::Lost(why)
        }
        error => error,
    }
}

pub(super) async fn follow(
    unit: &Arc<Unit>,
    client: &Client,
    id: String,
    poll: Duration,
    talk: &Talk,
    context: &ToolContext,
) -> Result<Ended, Failed> {
    let present = Some(client.present(talk.bridge.clone()));
    let mut task = Followed { unit, client, id, present, ended: false };
    if client.peer().era == UpstreamEra::Session {
        return in_session(&mut task, talk, context).await;
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
        let state = match client.request(task.request(Method::GetTask, talk)).await {
            Ok(Replied::Result(result)) => task_state(&result)?,
            Ok(Replied::Ask { .. }) => {
                return Err(ClientError::Protocol("tasks/get asks something".to_owned()).into());
            }
            // The task may go on all the same.
            Err(ClientError::Busy(why) | ClientError::Lost(why) | ClientError::Unreachable(why)) => {
                misses += 1;
                if misses == MAX_MISSES || client.has_ended() {
                    return Err(ClientError::Lost(why).into());
                }
                continue;
            }
            // The call has begun, whatever became of it.
            Err(ClientError::NeedsLogin(why) | ClientError::Protocol(why)) => {
                return Err(ClientError::Lost(why).into());
            }
            Err(ClientError::Rpc { message, code, .. }) => {
                let why = format!("the task that it had become cannot be asked after: {message} ({code})");
                return Err(ClientError::Lost(why).into());
            }
            Err(ClientError::Cancelled) => return Err(ClientError::Cancelled.into()),
        };
        misses = 0;
        unit.pulse.hear();
        match state {
            TaskState::Working(again) => poll = again,
            TaskState::Asks { questions, poll: again } => {
                poll = again;
                // What is answered may still be listed for a moment.
                let new: Vec<_> =
                    questions.into_iter().filter(|question| answered.insert(question.key.clone())).collect();
                if new.is_empty() {
                    continue;
                }
                let responses = rounds::answers(new, talk, context).await?;
                talk.note_round();
                let mut update = task.request(Method::UpdateTask, talk);
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
                let why = "the server cancelled the task that the call had become";
                return Err(ClientError::Protocol(why.to_owned()).into());
            }
        }
    }
}
