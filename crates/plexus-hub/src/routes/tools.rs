//! `/api/v1/tools`.

use std::borrow::Cow;

use axum::Json;
use axum::extract::Request;
use http::HeaderMap;
use plexus_kit::trace::ReceivedContexts;
use plexus_proto::ErrorCode;
use plexus_proto::api::{CallToolParams, CallToolResponse, Page, Tool, ToolAction};
use plexus_tools::{Call, SessionKey, ToolOutput, Via};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, PageParams, Params, Segment};
use super::{openapi, refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller, Tagged, trace_context};

const CURSOR: Cursor = Cursor("tools");

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(call))
}

/// List tools
///
/// The tools that the token may call, sorted by name.
#[utoipa::path(
    get,
    path = "/tools",
    operation_id = "listTools",
    tag = tag::TOOLS,
    params(PageParams),
    responses(
        (status = 200, description = "A page of tools.", body = Page<Tool>),
        openapi::Cached,
    )
)]
pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    let limit = query::limit(page.limit)?;
    let after: String = CURSOR.read(page.cursor.as_deref())?.unwrap_or_default();
    let visible = caller.services.dispatcher.registry().visible_to(&caller.principal);
    let rest = visible.tools().filter(|tool| tool.name() > after.as_str());
    let one_more = usize::try_from(limit).unwrap_or_default() + 1;
    let items: Vec<Tool> = rest.take(one_more).map(|tool| describe(tool)).collect();
    let page: Page<Tool> = CURSOR.page(items, limit, |tool| tool.name.clone());
    Tagged::json(&headers, &page)
}

/// Show a tool
///
/// Includes its schemas.
#[utoipa::path(
    get,
    path = "/tools/{name}",
    operation_id = "getTool",
    tag = tag::TOOLS,
    params(("name" = String, Path, description = "The tool.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The tool.", body = Tool),
        openapi::Cached,
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn show(
    caller: Caller,
    Segment(name): Segment,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    let dispatcher = &caller.services.dispatcher;
    let visible = dispatcher.registry().visible_to(&caller.principal);
    let found = visible.resolve(&name);
    let tool = found.map_err(|error| dispatcher.explained(&caller.principal, &name, error))?;
    Tagged::json(&headers, &describe(tool))
}

fn describe(tool: &plexus_tools::Tool) -> Tool {
    let spec = tool.spec();
    Tool {
        name: tool.name().to_owned(),
        title: spec.title.to_string(),
        description: spec.description.to_string(),
        placement: spec.placement.describe().into_owned(),
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

/// Call a tool
///
/// The answer of the tool itself has the status 200, even if the tool failed; an error means that the tool did not
/// run. A call with an idempotency key runs once: a repeated request returns the first result.
#[utoipa::path(
    post,
    path = "/tools/{name}/call",
    operation_id = "callTool",
    tag = tag::TOOLS,
    params(
        ("name" = String, Path, description = "The tool.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        ("Idempotency-Key" = Option<String>, Header, nullable = false, description = "A key chosen by the caller, new for each call.",
            max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$"),
        ("Plexus-Session" = Option<String>, Header, nullable = false, description = "Name of the session that records the call.",
            pattern = "^[!-~]([ -~]*[!-~])?$"),
    ),
    request_body = CallToolParams,
    responses(
        (status = 200, description = "The answer of the tool.", body = CallToolResponse),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        (status = 504, response = refusals::DeadlineExceeded),
    )
)]
pub(super) async fn call(
    caller: Caller,
    Segment(name): Segment,
    headers: HeaderMap,
    request: Request,
) -> Result<Json<CallToolResponse>, ApiError> {
    let params: CallToolParams = caller.read_json(request, "a tool call").await?;
    let session = match text(&headers, "plexus-session")? {
        Some(name) => SessionKey::new("named", &[name], None),
        None => SessionKey::new("rest", &[caller.principal.name()], None),
    };
    let call = Call::new(name, params.arguments, session, Via::Rest)
        .with_idempotency_key(text(&headers, "idempotency-key")?.map(str::to_owned))
        .with_trace(ReceivedContexts { call: None, request: trace_context(&headers) });
    let reply = caller.services.dispatcher.call(caller.principal, call).await;
    let (success, text, structured, content) = match reply.result {
        Ok(output) => {
            let content = match &output {
                ToolOutput::Foreign(foreign) => foreign.content.parsed().ok(),
                ToolOutput::Own { .. } | ToolOutput::Passed(_) => None,
            };
            let structured = output.structured().map(Cow::into_owned);
            (!output.is_error(), output.text().into_owned(), structured, content)
        }
        Err(error) if is_the_tools_own(error.code) => (false, error.text(), None, None),
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
        content,
    }))
}

fn is_the_tools_own(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotFound | ErrorCode::Conflict | ErrorCode::TooLarge | ErrorCode::ToolFailed)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let (value, more) = (values.next(), values.next());
    if more.is_some() || value.is_some_and(http::HeaderValue::is_empty) {
        return Err(ApiError::bad_request(format!(
            "the header {name} must appear once and must not be empty"
        )));
    }
    value
        .map(|value| {
            value
                .to_str()
                .map_err(|_| ApiError::bad_request(format!("the header {name} is not visible ASCII text")))
        })
        .transpose()
}
