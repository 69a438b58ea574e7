//! `/api/v1/tools`.

use axum::Json;
use axum::body::Body;
use http::HeaderMap;
use plexus_kit::trace::Incoming;
use plexus_proto::ErrorCode;
use plexus_proto::api::{CallToolParams, CallToolResponse, Page, Tool, ToolAction};
use plexus_tools::{Call, SessionKey, Via};
use tokio_util::sync::CancellationToken;

use super::query::{self, PageParams, Params, Segment};
use crate::http::{ApiError, Caller, trace_context};

pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
) -> Result<Json<Page<Tool>>, ApiError> {
    let limit = query::limit(page.limit)? as usize;
    let visible = caller.services.dispatcher.registry().visible_to(&caller.principal);
    let after = page.cursor.unwrap_or_default();
    let mut rest = visible.tools().filter(|tool| *tool.spec().name > *after);
    let items: Vec<Tool> = rest.by_ref().take(limit).map(|tool| describe(tool)).collect();
    let next = rest.next().and(items.last()).map(|tool| tool.name.clone());
    Ok(Json(Page { items, next }))
}

pub(super) async fn show(caller: Caller, Segment(name): Segment) -> Result<Json<Tool>, ApiError> {
    let visible = caller.services.dispatcher.registry().visible_to(&caller.principal);
    Ok(Json(describe(visible.resolve(&name)?)))
}

fn describe(tool: &plexus_tools::Tool) -> Tool {
    let spec = tool.spec();
    Tool {
        name: spec.name.to_string(),
        title: spec.title.to_string(),
        description: spec.description.to_string(),
        placement: spec.placement.as_str().to_owned(),
        scope: spec.scope(),
        annotations: spec.access.annotations,
        actions: spec
            .actions
            .iter()
            .map(|action| ToolAction {
                name: action.name.to_string(),
                scope: spec.action_scope(action),
                annotations: action.access.annotations,
                bufferable: action.access.bufferable,
            })
            .collect(),
        deadline_seconds: spec.deadline.as_secs(),
        input_schema: spec.input_schema.clone(),
        output_schema: spec.output_schema.clone(),
    }
}

/// Calls a tool. What the tool itself answers is a 200, also when it failed; what kept it from
/// running is an error.
pub(super) async fn call(
    caller: Caller,
    Segment(name): Segment,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CallToolResponse>, ApiError> {
    let body = caller.read_body(body).await?;
    let params: CallToolParams = serde_json::from_slice(&body)
        .map_err(|e| ApiError::bad_request(format!("the body is not a tool call: {e}")))?;
    let session = match text(&headers, "plexus-session")? {
        Some(name) => SessionKey::new("named", &[name], None),
        None => SessionKey::new("rest", &[caller.principal.name()], None),
    };
    let call = Call {
        tool: name,
        arguments: params.arguments,
        session,
        idempotency_key: text(&headers, "idempotency-key")?.map(str::to_owned),
        via: Via::Rest,
        cancel: CancellationToken::new(),
        progress: None,
        trace: Incoming { call: None, request: trace_context(&headers) },
        until_end: None,
    };
    let reply = caller.services.dispatcher.call(caller.principal, call).await;
    let (success, text, structured) = match reply.result {
        Ok(output) => (true, output.text, output.structured),
        Err(error) if is_the_tools_own(error.code) => (false, error.text(), None),
        Err(error) => return Err(error.into()),
    };
    let session_id = reply.session_id.ok_or_else(|| ApiError::bad_request("the call has no session"))?;
    Ok(Json(CallToolResponse {
        call_id: reply.call_id,
        session_id,
        tool: reply.tool,
        success,
        replayed: reply.replayed,
        text,
        structured,
    }))
}

fn is_the_tools_own(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotFound | ErrorCode::Conflict | ErrorCode::TooLarge | ErrorCode::ToolFailed)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let (value, more) = (values.next(), values.next());
    if more.is_some() || value.is_some_and(http::HeaderValue::is_empty) {
        return Err(ApiError::bad_request(format!("the header {name} must be there once, and not be empty")));
    }
    value
        .map(|value| {
            value.to_str().map_err(|_| ApiError::bad_request(format!("the header {name} is not plain text")))
        })
        .transpose()
}
