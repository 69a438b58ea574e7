//! Event streams: `/ws/…` for WebSockets, `/api/v1/…/stream` for server-sent events.

use std::collections::HashMap;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, FromRequestParts, Query};
use axum::response::Response;
use axum::routing::get;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use plexus_proto::{ErrorCode, EventKind, SessionId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Segment};
use super::{refusals, tag};
use crate::App;
use crate::events::{EventSelection, EventStream, Log, Start, sse};
use crate::http::{ApiError, Caller};
use crate::serve::ConnectionSlot;

/// Maximum number of kinds in the filter of one stream.
const MAX_KINDS: usize = 64;
/// Prefix of a token that is offered as a subprotocol.
const BEARER: &str = "bearer.";

pub(super) fn router() -> Router<App> {
    Router::new().route("/ws/events", get(ws_all)).route("/ws/sessions/{id}", get(ws_session))
}

/// The streams that OpenAPI can describe.
pub(super) fn describable_router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sse_all)).routes(routes!(sse_session))
}

/// The query parameters of an event stream.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `StreamParams` parses")]
struct StreamParamsDoc {
    /// Start after the event with this number; 0: all stored events; absent: new events only.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// Start with this many of the newest events. Cannot be combined with `after`.
    #[param(minimum = 0)]
    last: Option<i64>,
    /// Only events of this session.
    session: Option<SessionId>,
    /// Only events of sessions of this owner.
    owner: Option<String>,
    /// Only events of these kinds, separated by commas.
    kind: Option<String>,
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;
type SlotExtension = Extension<ConnectionSlot>;

async fn ws_all(
    WsCaller(caller): WsCaller,
    params: StreamParams,
    slot: SlotExtension,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let upgrade = websocket(upgrade, "/api/v1/events/stream")?;
    let stream = params.open(&caller, None).await?;
    Ok(caller.services.events.upgrade(upgrade, stream, slot))
}

async fn ws_session(
    WsCaller(caller): WsCaller,
    Segment(id): Segment,
    params: StreamParams,
    slot: SlotExtension,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let id = query::id(&id)?;
    let upgrade = websocket(upgrade, &format!("/api/v1/sessions/{id}/events/stream"))?;
    let stream = params.open(&caller, Some(id)).await?;
    Ok(caller.services.events.upgrade(upgrade, stream, slot))
}

/// Follow the events of all sessions
///
/// The caller's sessions, or all with the scope `read:sessions`, as server-sent events. The id of each event is its
/// `pos`.
#[utoipa::path(
    get,
    path = "/events/stream",
    operation_id = "streamEvents",
    tag = tag::SESSIONS,
    params(StreamParamsDoc),
    responses(
        (status = 200, description = "Events until one side ends the stream.", body = String,
            content_type = "text/event-stream"),
        (status = 404, response = refusals::NotFound),
    )
)]
async fn sse_all(
    caller: Caller,
    mut params: StreamParams,
    slot: SlotExtension,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    params.resume(&headers)?;
    Ok(sse::response(params.open(&caller, None).await?, slot))
}

/// Follow the events of a session
///
/// As server-sent events. The id of each event is its `seq`, and `Last-Event-ID` resumes.
#[utoipa::path(
    get,
    path = "/sessions/{id}/events/stream",
    operation_id = "streamSession",
    tag = tag::SESSIONS,
    params(("id" = SessionId, Path, description = "The session."), StreamParamsDoc),
    responses(
        (status = 200, description = "Events until one side ends the stream.", body = String,
            content_type = "text/event-stream"),
        (status = 404, response = refusals::NotFound),
    )
)]
async fn sse_session(
    caller: Caller,
    Segment(id): Segment,
    mut params: StreamParams,
    slot: SlotExtension,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    params.resume(&headers)?;
    Ok(sse::response(params.open(&caller, Some(query::id(&id)?)).await?, slot))
}

fn websocket(upgrade: Upgrade, instead: &str) -> Result<WebSocketUpgrade, ApiError> {
    upgrade.map_err(|_| {
        ApiError::new(
            StatusCode::UPGRADE_REQUIRED,
            ErrorCode::InvalidRequest,
            "this path accepts WebSocket (version 13) connections only",
        )
        .hint(format!("For server-sent events, use GET {instead}."))
    })
}

/// A caller whose token may also be among the offered subprotocols, because a browser cannot set the header
/// `Authorization` on a WebSocket.
#[derive(Debug)]
struct WsCaller(Caller);

impl FromRequestParts<App> for WsCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if !parts.headers.contains_key(AUTHORIZATION)
            && let Some(authorization) = offered_token(&parts.headers)
        {
            parts.headers.insert(AUTHORIZATION, authorization);
        }
        Caller::from_request_parts(parts, app).await.map(Self)
    }
}

/// `Sec-WebSocket-Protocol: plexus.v1, bearer.<token>` as the value of `Authorization`.
fn offered_token(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let token = offered.flat_map(|list| list.split(',')).find_map(|name| name.trim().strip_prefix(BEARER))?;
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The query of a stream: its start and its filter.
#[derive(Debug, Default)]
struct StreamParams {
    after: Option<i64>,
    last: Option<i64>,
    wanted: EventSelection,
}

impl<S: Send + Sync> FromRequestParts<S> for StreamParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|e| ApiError::bad_request(e.body_text()))?;
        Self::parse(pairs)
    }
}

impl StreamParams {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut params = Self::default();
        let mut once = HashMap::new();
        for (name, value) in pairs {
            match name.as_str() {
                "kind" => params.wanted.kinds.extend(kinds(&value)),
                "after" | "last" | "session" | "owner" => {
                    if once.insert(name.clone(), value).is_some() {
                        return Err(ApiError::bad_request(format!("the parameter {name} is given twice")));
                    }
                }
                _ => {
                    let message = format!("unknown parameter {name:?}");
                    return Err(ApiError::bad_request(message)
                        .hint("The parameters of a stream are after or last, session, owner and kind."));
                }
            }
        }
        if params.wanted.kinds.len() > MAX_KINDS {
            return Err(ApiError::bad_request(format!("at most {MAX_KINDS} kinds are allowed")));
        }
        params.after = once.get("after").map(|text| number("after", text)).transpose()?;
        params.last = once.get("last").map(|text| number("last", text)).transpose()?;
        if params.after.is_some() && params.last.is_some() {
            return Err(ApiError::bad_request("after and last cannot be combined"));
        }
        params.wanted.session = once.get("session").map(|id| query::id(id)).transpose()?;
        params.wanted.owner = once.remove("owner");
        Ok(params)
    }

    /// The header of a reconnecting `EventSource` takes precedence over its URL.
    fn resume(&mut self, headers: &HeaderMap) -> Result<(), ApiError> {
        if let Some(last) = headers.get("last-event-id") {
            self.after = Some(number("Last-Event-ID", last.to_str().unwrap_or_default())?);
            self.last = None;
        }
        Ok(())
    }

    async fn open(self, caller: &Caller, session: Option<SessionId>) -> Result<EventStream, ApiError> {
        let start = match (self.after, self.last) {
            (Some(after), _) => Start::After(after),
            (None, Some(last)) => Start::Last(last),
            (None, None) => Start::Now,
        };
        let log = session.map_or(Log::All, Log::Session);
        caller.services.events.open(caller.principal.clone(), log, start, self.wanted).await
    }
}

fn kinds(list: &str) -> impl Iterator<Item = EventKind> {
    list.split(',').filter(|kind| !kind.is_empty()).map(|kind| {
        let Ok(kind) = kind.parse();
        kind
    })
}

fn number(name: &str, text: &str) -> Result<i64, ApiError> {
    match text.parse() {
        Ok(number @ 0..) => Ok(number),
        _ => Err(ApiError::bad_request(format!("{name} must be the number of an event, or 0"))),
    }
}
