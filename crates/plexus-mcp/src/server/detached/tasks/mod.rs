//! `tasks/…`: calls that are asked after instead of waited for.
//!
//! A task is stored before its caller hears of it, and its end before anybody can read it. In between only the hub that
//! runs it knows more, in [`live`]. After a stop of that hub nobody does, and the task says so: it is never run again.

mod end;
mod live;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use plexus_auth::Principal;
use plexus_kit::Stage;
use plexus_store::{StoreError, TaskEnd, TaskRecord, TaskStatus};
use plexus_tools::Capabilities;
use serde_json::{Value, json};

use crate::server::State;
use crate::server::call::Subject;
use crate::server::rpc::{self, Params, RpcError};
use crate::server::running_call::RunningCall;

pub(in crate::server) use live::Tasks;

/// The extension, as clients and servers declare it.
pub(in crate::server) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// How long a task can be asked after, since it was made.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// How often a client should ask.
const POLL_MS: u64 = 1_000;
/// The client has not declared what the request is about.
const MISSING_CAPABILITY: i32 = -32021;

/// Lets a call go on as a task of its caller: the members of a result of the type `task`, once the task is stored. The
/// call comes back where that cannot be; it then goes on as any other.
pub(in crate::server) async fn detach(
    state: &Arc<State>,
    principal: &Arc<Principal>,
    call: RunningCall,
    target: &str,
    subject: &Subject,
) -> Result<String, Box<RunningCall>> {
    if *subject != Subject::Tool {
        return Err(Box::new(call));
    }
    let now = state.tasks.clock.now();
    let record = TaskRecord {
        id: uuid::Uuid::new_v4().to_string(),
        owner: principal.subject().to_owned(),
        call_id: call.call_id(),
        tool: target.to_owned(),
        created_at: now,
        updated_at: now,
        expires_at: now.checked_add(KEEP).unwrap_or(now),
        end: None,
    };
    // A request that is dropped on the way must not leave a task that nobody runs.
    state.supervisor.see_through(Stage::Work, "MCP task", begin(state.clone(), record, call)).await
}

async fn begin(state: Arc<State>, record: TaskRecord, call: RunningCall) -> Result<String, Box<RunningCall>> {
    match state.tasks.insert(record.clone()).await {
        Ok(true) => {
            let members = members(&record, &standing(&record));
            live::follow(&state, record, call);
            Ok(members)
        }
        Ok(false) => Err(Box::new(call)),
        Err(error) => {
            tracing::warn!(%error, "a call cannot become a task, and is waited for");
            Err(Box::new(call))
        }
    }
}

/// The members of a result that tells how a task stands.
pub(in crate::server) async fn get(
    state: &State,
    principal: &Principal,
    params: &Params<'_>,
    can: Capabilities,
) -> Result<String, RpcError> {
    let id = declared(params, can)?;
    if let Some(live) = state.tasks.live(principal.subject(), &id) {
        return Ok(live.members());
    }
    let record = stored(state, principal, &id).await?;
    Ok(members(&record, &standing(&record)))
}

/// Takes answers to what a task asks. What it does not ask, or no longer, is ignored.
pub(in crate::server) async fn update(
    state: &State,
    principal: &Principal,
    params: &Params<'_>,
    can: Capabilities,
) -> Result<String, RpcError> {
    let id = declared(params, can)?;
    match state.tasks.live(principal.subject(), &id) {
        Some(live) => live.give(params.input_responses, state.tasks.clock.now())?,
        None => drop(stored(state, principal, &id).await?),
    }
    Ok(String::new())
}

/// Asks a task to stop. How it ended is told by the task; one that has ended stays as it is.
pub(in crate::server) async fn cancel(
    state: &State,
    principal: &Principal,
    params: &Params<'_>,
    can: Capabilities,
) -> Result<String, RpcError> {
    let id = declared(params, can)?;
    match state.tasks.live(principal.subject(), &id) {
        Some(live) => live.cancel(),
        None => drop(stored(state, principal, &id).await?),
    }
    Ok(String::new())
}

/// Gives the tasks that the last run of this hub left without an end the only one that is true; how many there were.
pub(in crate::server) async fn end_lost(tasks: &Tasks) -> Result<u64, StoreError> {
    let (hub, now) = (tasks.store.instance_id().to_owned(), tasks.clock.now());
    let end = end::lost();
    tasks
        .store
        .write(move |conn| Box::pin(async move { conn.end_lost_mcp_tasks(&hub, &end, now).await }))
        .await
}

/// The id that a request of a client that knows tasks is about.
fn declared(params: &Params<'_>, can: Capabilities) -> Result<String, RpcError> {
    if !can.tasks {
        let message = format!("the request does not declare the extension {EXTENSION}");
        return Err(RpcError::new(StatusCode::BAD_REQUEST, MISSING_CAPABILITY, message)
            .with_data(json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } })));
    }
    rpc::text(params.task_id)
        .ok_or_else(|| RpcError::invalid_params("params.taskId must be the id of a task"))
}

/// Another's task is as unknown as one that never was.
async fn stored(state: &State, principal: &Principal, id: &str) -> Result<TaskRecord, RpcError> {
    let read = async {
        let mut reader = state.tasks.store.read_committed().await?;
        reader.mcp_task(principal.subject(), id, state.tasks.clock.now()).await
    };
    match read.await {
        Ok(Some(record)) => Ok(record),
        Ok(None) => Err(RpcError::invalid_params("there is no such task, or no longer")),
        Err(error) => {
            tracing::error!(%error, "a task cannot be read");
            Err(RpcError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                rpc::INTERNAL_ERROR,
                "the hub could not reach its database",
            ))
        }
    }
}

/// The part of a task that depends on how it stands, from what is stored of it.
fn standing(record: &TaskRecord) -> String {
    let Some(TaskEnd { status, message, payload }) = &record.end else {
        return "\"status\":\"working\"".to_owned();
    };
    let member = match status {
        TaskStatus::Completed => "result",
        TaskStatus::Failed => "error",
        TaskStatus::Working | TaskStatus::Cancelled => "",
    };
    let mut json = format!("\"status\":\"{}\"", status.as_str());
    if let Some(message) = message {
        json.push_str(&format!(",\"statusMessage\":{}", Value::from(message.as_str())));
    }
    if let Some(payload) = payload.as_ref().filter(|_| !member.is_empty()) {
        json.push_str(&format!(",\"{member}\":{payload}"));
    }
    json
}

/// All members of a task.
fn members(record: &TaskRecord, standing: &str) -> String {
    let TaskRecord { id, created_at, updated_at, expires_at, .. } = record;
    let ttl = expires_at.as_millisecond() - created_at.as_millisecond();
    format!(
        "\"taskId\":\"{id}\",{standing},\"createdAt\":\"{created_at}\",\"lastUpdatedAt\":\"{updated_at}\",\
         \"ttlMs\":{ttl},\"pollIntervalMs\":{POLL_MS}"
    )
}
