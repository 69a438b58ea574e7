//! `/api/v1/sessions/{id}/events`.

use axum::Json;
use axum::extract::Request;
use http::StatusCode;
use plexus_kit::Clock;
use plexus_proto::api::{AppendEvent, AppendEventsParams, AppendEventsResponse, MAX_EVENTS, Page, Session};
use plexus_proto::{ErrorCode, Event, EventKind, NewEvent, SessionId};
use plexus_store::{AppendError, Appended, Conn, Records, StoreError};
use serde::Deserialize;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, Params, Segment};
use super::{refusals, sessions, tag};
use crate::App;
use crate::events::SEE_ALL_SESSIONS;
use crate::http::{ApiError, Caller};

/// Lets a token append to sessions that are not its own.
const WRITE_ALL: &str = "write:sessions";
const CURSOR: Cursor = Cursor("events");
/// Maximum size of the payload of one event, as JSON.
const MAX_PAYLOAD: usize = 64 << 10;
/// How far the clock of another machine may be ahead of the hub's.
const MAX_CLOCK_SKEW_MS: i64 = 5 * 60 * 1000;
/// Kinds that only the hub records, so that readers can trust them.
const HUB_KINDS: [&str; 4] = ["tool_started", "tool_call", "approval_requested", "approval_decided"];

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, append))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Maximum number of items on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<i64>,
    /// `next` of the previous page.
    #[param(pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
    /// Only events after this number.
    #[param(minimum = 0, default = 0)]
    after: Option<i64>,
    /// Only events of this kind.
    #[param(pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$")]
    kind: Option<String>,
}

/// List the events of a session
///
/// Oldest first. To follow a session, request again with `after` set to the number of the newest event seen.
#[utoipa::path(
    get,
    path = "/sessions/{id}/events",
    operation_id = "listEvents",
    tag = tag::SESSIONS,
    params(("id" = SessionId, Path, description = "The session."), ListParams),
    responses(
        (status = 200, description = "A page of events.", body = Page<Event>),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn list(
    caller: Caller,
    Segment(id): Segment,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<Event>>, ApiError> {
    let id: SessionId = query::id(&id)?;
    let limit = query::limit(params.limit)?;
    let kind = query::text("kind", params.kind)?;
    let after = params.after.unwrap_or(0);
    if after < 0 {
        return Err(ApiError::bad_request(format!("after must be 0 or more, not {after}")));
    }
    let after = CURSOR.read(params.cursor.as_deref())?.map_or(after, |position: i64| position.max(after));
    sessions::readable(&caller, id).await?;
    let mut reader = caller.services.store.read().await?;
    let items = match kind {
        Some(kind) => reader.events_of_kind(id, &kind, after, limit + 1).await?,
        None => reader.events(id, after, limit + 1).await?,
    };
    Ok(Json(CURSOR.page(items, limit, |event| event.seq.to_string())))
}

/// Append events to a session
///
/// To one of the caller's sessions, or to any session with the scope `write:sessions`. No idempotency key is
/// needed: an event with an `external_id` is stored once, however often it is sent, and is returned as stored each
/// time.
#[utoipa::path(
    post,
    path = "/sessions/{id}/events",
    operation_id = "appendEvents",
    tag = tag::SESSIONS,
    params(("id" = SessionId, Path, description = "The session.")),
    request_body = AppendEventsParams,
    responses(
        (status = 200, description = "The events as stored.", body = AppendEventsResponse),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn append(
    caller: Caller,
    Segment(id): Segment,
    request: Request,
) -> Result<Json<AppendEventsResponse>, ApiError> {
    let id = writable(&caller, query::id(&id)?).await?.id;
    let AppendEventsParams { expected_seq, events } = caller.read_json(request, "events to append").await?;
    if !(1..=MAX_EVENTS).contains(&events.len()) {
        return Err(ApiError::bad_request(format!("append 1 to {MAX_EVENTS} events at a time")));
    }
    if expected_seq.is_some_and(|seq| seq < 0) {
        return Err(ApiError::bad_request("expected_seq must be 0 or more"));
    }
    let clock = &caller.services.clock;
    let events = events.into_iter().enumerate().map(|(index, event)| {
        check(event, caller.principal.subject(), clock)
            .map_err(|why| ApiError::bad_request(format!("events[{index}]: {why}")))
    });
    let events = events.collect::<Result<Vec<NewEvent>, ApiError>>()?;
    let appended = caller
        .services
        .store
        .transact(
            move |conn: &mut Conn| {
                Box::pin(async move { conn.append_events(id, expected_seq, events).await })
            },
            |_| Records::default(),
        )
        .await?;
    match appended {
        Ok(Appended { events, last_seq }) => {
            caller.services.store.hint_events();
            Ok(Json(AppendEventsResponse { events, last_seq }))
        }
        Err(AppendError::Conflict { last_seq }) => {
            let message = format!("the newest event of the session is {last_seq}, not the expected one");
            Err(ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, message)
                .hint("Read the newer events, then decide whether to append.")
                .details(json!({ "last_seq": last_seq })))
        }
        Err(AppendError::Store(StoreError::NoSuchSession(_))) => Err(ApiError::no_session()),
        Err(AppendError::Store(error)) => Err(error.into()),
    }
}

/// The session, if the caller may append to it.
async fn writable(caller: &Caller, id: SessionId) -> Result<Session, ApiError> {
    let session = caller.services.store.read().await?.session(id).await?.ok_or_else(ApiError::no_session)?;
    if sessions::owns(caller, &session) || caller.principal.allows(WRITE_ALL) {
        return Ok(session);
    }
    let can_see_all = caller.principal.allows(SEE_ALL_SESSIONS);
    Err(if can_see_all { ApiError::lacks(WRITE_ALL) } else { ApiError::no_session() })
}

/// Validates an event for storage, or returns the reason for its rejection.
fn check(event: AppendEvent, actor: &str, clock: &Clock) -> Result<NewEvent, String> {
    let AppendEvent { kind, payload, external_id, at } = event;
    if !is_kind(&kind) {
        return Err(
            "a kind must have 1 to 64 lower-case letters, digits and _, and begin with a letter".to_owned()
        );
    }
    if HUB_KINDS.contains(&kind.as_str()) {
        return Err(format!("events of kind {kind} are recorded by the hub only"));
    }
    let payload = serde_json::Value::Object(payload).to_string();
    if payload.len() > MAX_PAYLOAD {
        return Err(format!("the payload has {} bytes, and the limit is {MAX_PAYLOAD}", payload.len()));
    }
    let is_id = |id: &String| (1..=256).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    if external_id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err("an external_id must have 1 to 256 visible ASCII characters".to_owned());
    }
    let now = clock.now();
    let at = at.unwrap_or(now);
    if at.as_millisecond() - now.as_millisecond() > MAX_CLOCK_SKEW_MS {
        return Err(format!("{at} is in the future"));
    }
    Ok(NewEvent { at, kind: EventKind::Other(kind), actor: actor.to_owned(), payload, external_id })
}

fn is_kind(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
