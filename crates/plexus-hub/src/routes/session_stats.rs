//! `/api/v1/sessions/stats` and `/api/v1/sessions/{id}/stats`.

use axum::Json;
use plexus_proto::SessionId;
use plexus_proto::api::{Page, SessionStats};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Params, Segment};
use super::sessions::{self, ListParams};
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

/// Maximum number of events counted per session: for one session, and for each session of a list.
const EVENTS: i64 = 200_000;
const EVENTS_OF_MANY: i64 = 20_000;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// Show statistics of sessions
///
/// Newest first: the caller's sessions, or all with the scope `read:sessions`. At most the 20,000 newest events of
/// each session are counted.
#[utoipa::path(
    get,
    path = "/sessions/stats",
    operation_id = "listSessionStats",
    tag = tag::SESSIONS,
    params(ListParams),
    responses((status = 200, description = "A page of sessions.", body = Page<SessionStats>))
)]
pub(super) async fn list(
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<SessionStats>>, ApiError> {
    let Page { items, next } = sessions::page(&caller, params).await?;
    let _turn = turn(&caller).await?;
    let mut counted = Vec::with_capacity(items.len());
    for session in items {
        // A new reader for each session, so that other requests get a turn.
        let mut reader = caller.services.store.read_committed().await?;
        counted.push(reader.session_stats(session, EVENTS_OF_MANY).await?);
    }
    Ok(Json(Page { items: counted, next }))
}

/// Show statistics of a session
///
/// One of the caller's sessions, or any with the scope `read:sessions`. At most its 200,000 newest events are
/// counted.
#[utoipa::path(
    get,
    path = "/sessions/{id}/stats",
    operation_id = "getSessionStats",
    tag = tag::SESSIONS,
    params(("id" = SessionId, Path, description = "The session.")),
    responses(
        (status = 200, description = "The statistics.", body = SessionStats),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn show(caller: Caller, Segment(id): Segment) -> Result<Json<SessionStats>, ApiError> {
    let session = sessions::readable(&caller, query::id(&id)?).await?;
    let _turn = turn(&caller).await?;
    let mut reader = caller.services.store.read_committed().await?;
    Ok(Json(reader.session_stats(session, EVENTS).await?))
}

/// Limits the number of concurrent counts, because calls need the database readers too.
async fn turn(caller: &Caller) -> Result<tokio::sync::SemaphorePermit<'_>, ApiError> {
    let turn = caller.services.counting.acquire().await;
    turn.map_err(|error| ApiError::internal("counting what happened in a session", &error))
}
