//! `/api/v1/sessions`.

use axum::Json;
use plexus_proto::SessionId;
use plexus_proto::api::{Page, Session, SessionDetail};
use serde::Deserialize;

use super::query::{self, PageParams, Params, Segment};
use crate::http::{ApiError, Caller};

/// Lets a token see sessions that are not its own.
const READ_ALL: &str = "read:sessions";

pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
) -> Result<Json<Page<Session>>, ApiError> {
    let limit = query::limit(page.limit)?;
    let before = query::cursor::<SessionId>(page.cursor.as_deref())?;
    let owner = (!caller.principal.allows(READ_ALL)).then(|| caller.principal.subject());
    let items = caller.services.store.read().await?.sessions(owner, before, limit).await?;
    let next =
        (items.len() as i64 == limit).then(|| items.last().map(|session| session.id.to_string())).flatten();
    Ok(Json(Page { items, next }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventParams {
    limit: Option<i64>,
    /// Events after this `seq`.
    after: Option<i64>,
}

pub(super) async fn show(
    caller: Caller,
    Segment(id): Segment,
    Params(page): Params<EventParams>,
) -> Result<Json<SessionDetail>, ApiError> {
    let id: SessionId = query::id(&id)?;
    let limit = query::limit(page.limit)?;
    let mut reader = caller.services.store.read().await?;
    let session = reader.session(id).await?;
    let session = session
        .filter(|session| session.owner == caller.principal.subject() || caller.principal.allows(READ_ALL))
        .ok_or_else(|| {
            ApiError::not_found("there is no such session").hint("`plexus sessions list` shows them.")
        })?;
    let events = reader.events(id, page.after.unwrap_or(0), limit).await?;
    let last = events.last().map_or(0, |event| event.seq);
    let next = (last < session.last_seq && !events.is_empty()).then(|| last.to_string());
    Ok(Json(SessionDetail { session, events, next }))
}
