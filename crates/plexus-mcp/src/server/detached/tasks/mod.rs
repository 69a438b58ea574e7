//! `tasks/…`: calls whose state the client polls.
//!
//! A task is stored before its caller receives it, and its end before it can be read. In between its state is in the
//! memory of the hub that runs it ([`live`]). If that hub stops, the task ends as lost and is never run again.

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
use crate::server::call::TargetKind;
use crate::server::rpc::{self, Params, RpcError};
use crate::server::running_call::RunningCall;

pub(in crate::server) use live::Tasks;

/// The extension that clients and servers declare.
pub(in crate::server) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Lifetime of a task.
const TASK_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Polling interval recommended to clients.
const POLL_MS: u64 = 1_000;
/// The client has not declared the capability that the request needs.
const MISSING_CAPABILITY: i32 = -32021;

/// Turns a call into a task of its caller. Returns the members of a `task` result once the task is stored, or the
/// call if that is not possible.
pub(in crate::server) async fn detach(
    state: &Arc<State>,
    principal: &Arc<Principal>,
    call: RunningCall,
    target: &str,
    kind: &TargetKind,
) -> Result<String, Box<RunningCall>> {
    if *kind != TargetKind::Tool {
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
        expires_at: now.checked_add(TASK_LIFETIME).unwrap_or(now),
        end: None,
    };
    // Supervised, so that a dropped request does not leave a stored task that does not run.
    state.supervisor.run_to_completion(Stage::Work, "MCP task", begin(state.clone(), record, call)).await
}

async fn begin(state: Arc<State>, record: TaskRecord, call: RunningCall) -> Result<String, Box<RunningCall>> {
    match state.tasks.insert(record.clone()).await {
        Ok(true) => {
            let members = task_members(&record, &status_members(&record));
            live::spawn(&state, record, call);
            Ok(members)
        }
        Ok(false) => Err(Box::new(call)),
        Err(error) => {
            tracing::warn!(%error, "cannot store a call as a task; the client keeps waiting for it");
            Err(Box::new(call))
        }
    }
}

/// The members of the result of `tasks/get`.
pub(in crate::server) async fn get(
    state: &State,
    principal: &Principal,
    params: &Params<'_>,
    capabilities: Capabilities,
) -> Result<String, RpcError> {
    let id = task_id(params, capabilities)?;
    if let Some(live) = state.tasks.live(principal.subject(), &id) {
        return Ok(live.members());
    }
    let record = stored(state, principal, &id).await?;
    Ok(task_members(&record, &status_members(&record)))
}

/// Accepts answers to a task's questions. Ignores those that are not open.
pub(in crate::server) async fn update(
    state: &State,
    principal: &Principal,
    params: &Params<'_>,
    capabilities: Capabilities,
) -> Result<String, RpcError> {
    let id = task_id(params, capabilities)?;
    match state.tasks.live(principal.subject(), &id) {
        Some(live) => live.accept_answers(params.input_responses, state.tasks.clock.now())?,
        None => drop(stored(state, principal, &id).await?),
    }
    Ok(String::new())
}

/// Cancels a task. An ended task stays unchanged.
pub(in crate::server) async fn cancel(
    state: &State,
    principal: &Principal,
    params: &Params<'_>,
    capabilities: Capabilities,
) -> Result<String, RpcError> {
    let id = task_id(params, capabilities)?;
    match state.tasks.live(principal.subject(), &id) {
        Some(live) => live.cancel(),
        None => drop(stored(state, principal, &id).await?),
    }
    Ok(String::new())
}

/// Ends as lost the tasks that were running when this hub last stopped; returns their number.
pub(in crate::server) async fn end_lost(tasks: &Tasks) -> Result<u64, StoreError> {
    let (hub, now) = (tasks.store.instance_id().to_owned(), tasks.clock.now());
    let end = end::lost();
    tasks
        .store
        .write(move |conn| Box::pin(async move { conn.end_lost_mcp_tasks(&hub, &end, now).await }))
        .await
}

/// The task id of a request, whose client must have declared the extension.
fn task_id(params: &Params<'_>, capabilities: Capabilities) -> Result<String, RpcError> {
    if !capabilities.tasks {
        let message = format!("the request does not declare the extension {EXTENSION}");
        return Err(RpcError::new(StatusCode::BAD_REQUEST, MISSING_CAPABILITY, message)
            .with_data(json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } })));
    }
    rpc::text(params.task_id)
        .ok_or_else(|| RpcError::invalid_params("params.taskId must be the id of a task"))
}

/// Reads a stored task. A task of another owner is reported like a missing one.
async fn stored(state: &State, principal: &Principal, id: &str) -> Result<TaskRecord, RpcError> {
    let read = async {
        let mut reader = state.tasks.store.read_committed().await?;
        reader.mcp_task(principal.subject(), id, state.tasks.clock.now()).await
    };
    match read.await {
        Ok(Some(record)) => Ok(record),
        Ok(None) => Err(RpcError::invalid_params("the task does not exist or has expired")),
        Err(error) => {
            tracing::error!(%error, "cannot read a task");
            Err(RpcError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                rpc::INTERNAL_ERROR,
                "the hub could not reach its database; try again",
            ))
        }
    }
}

/// The members of a stored task that depend on its status.
fn status_members(record: &TaskRecord) -> String {
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
fn task_members(record: &TaskRecord, status: &str) -> String {
    let TaskRecord { id, created_at, updated_at, expires_at, .. } = record;
    let ttl = expires_at.as_millisecond() - created_at.as_millisecond();
    format!(
        "\"taskId\":\"{id}\",{status},\"createdAt\":\"{created_at}\",\"lastUpdatedAt\":\"{updated_at}\",\
         \"ttlMs\":{ttl},\"pollIntervalMs\":{POLL_MS}"
    )
}
