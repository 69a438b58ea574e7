//! `/api/v1/sessions`.

use axum::Json;
use axum::extract::Request;
use http::header::LOCATION;
use http::{HeaderMap, HeaderName, StatusCode};
use plexus_proto::api::{CreateSessionParams, Page, Session};
use plexus_proto::{SessionId, Timestamp};
use plexus_store::{Conn, SessionFilter};
use plexus_tools::SessionKey;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, Params, Segment};
use super::{openapi, refusals, tag};
use crate::App;
use crate::events::SEE_ALL_SESSIONS;
use crate::http::{ApiError, Caller, Tagged};

const CURSOR: Cursor = Cursor("sessions");
/// Maximum length of the name of a session or a client, in characters.
const MAX_NAME: usize = 256;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(show))
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
    /// Only sessions of this subject, such as `agent:codex`. Other subjects need the scope `read:sessions`.
    #[param(pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$")]
    owner: Option<String>,
    /// Only sessions whose key begins with this text, such as `codex:`.
    #[param(pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$")]
    key: Option<String>,
    /// Only sessions of this client.
    #[param(pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$")]
    client: Option<String>,
    /// Only sessions with an event after this time.
    updated_after: Option<Timestamp>,
    /// Only those whose id ends like this, such as `a099c8d3`: at least 4 characters of it.
    #[param(pattern = "^[0-9a-fA-F-]{4,36}$")]
    id: Option<String>,
}

/// List sessions
///
/// Newest first: the caller's sessions, or all with the scope `read:sessions`.
#[utoipa::path(
    get,
    path = "/sessions",
    operation_id = "listSessions",
    tag = tag::SESSIONS,
    params(ListParams),
    responses((status = 200, description = "A page of sessions.", body = Page<Session>))
)]
pub(super) async fn list(
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<Session>>, ApiError> {
    Ok(Json(page(&caller, params).await?))
}

/// A page of the sessions that the caller may read.
pub(super) async fn page(caller: &Caller, params: ListParams) -> Result<Page<Session>, ApiError> {
    let limit = query::limit(params.limit)?;
    let before = CURSOR.read::<SessionId>(params.cursor.as_deref())?;
    let own = caller.principal.subject();
    let owner = match query::text("owner", params.owner)? {
        requested if caller.principal.allows(SEE_ALL_SESSIONS) => requested,
        Some(other) if other != own => return Err(ApiError::lacks(SEE_ALL_SESSIONS)),
        _ => Some(own.to_owned()),
    };
    let filter = SessionFilter {
        owner,
        key_prefix: query::text("key", params.key)?,
        client: query::text("client", params.client)?,
        updated_after: params.updated_after,
        id_suffix: query::id_suffix(params.id)?,
        before,
    };
    let items = caller.services.store.read().await?.sessions(&filter, limit + 1).await?;
    Ok(CURSOR.page(items, limit, |session| session.id.to_string()))
}

/// Open a session
///
/// Creates the session with this name, or returns the caller's existing one. Calls with the same name in the header
/// `Plexus-Session` are recorded in it. With `client` and `conversation`, this is the session that records the MCP
/// calls of that conversation.
#[utoipa::path(
    post,
    path = "/sessions",
    operation_id = "createSession",
    tag = tag::SESSIONS,
    request_body = CreateSessionParams,
    responses(
        (status = 200, description = "The session exists already.", body = Session),
        (status = 201, description = "The session was created.", body = Session,
            headers(("Location" = String, description = "URL of the session.")),
            links(
                ("show" = (operation_id = "getSession", parameters(("id" = "$response.body#/id")))),
                ("events" = (operation_id = "listEvents", parameters(("id" = "$response.body#/id")))),
                ("append" = (operation_id = "appendEvents", parameters(("id" = "$response.body#/id")))),
            )),
    )
)]
pub(super) async fn create(
    caller: Caller,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Session>), ApiError> {
    let params: CreateSessionParams = caller.read_json(request, "a request for a session").await?;
    let given = [("name", &params.name), ("client", &params.client), ("conversation", &params.conversation)];
    for (what, given) in given {
        if given.as_ref().is_some_and(|text| !(1..=MAX_NAME).contains(&text.chars().count())) {
            return Err(ApiError::bad_request(format!("{what} must have 1 to {MAX_NAME} characters")));
        }
    }
    let key = key_of(params);
    let (owner, now) = (caller.principal.subject().to_owned(), caller.services.clock.now());
    let (session, made) = caller
        .services
        .store
        .write(move |conn: &mut Conn| {
            Box::pin(async move { conn.open_session(&owner, key.as_str(), key.client(), now).await })
        })
        .await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(LOCATION, format!("/api/v1/sessions/{}", session.id))], Json(session)))
}

/// The key of the requested session: a client's conversation, or a name.
fn key_of(params: CreateSessionParams) -> SessionKey {
    let CreateSessionParams { name, client, conversation } = params;
    if let Some(conversation) = conversation {
        return SessionKey::of_conversation(client.as_deref().unwrap_or("unknown"), &conversation);
    }
    let name = name.unwrap_or_else(|| SessionId::new().to_string());
    SessionKey::new("named", &[&name], client.as_deref())
}

/// Show a session
///
/// One of the caller's sessions, or any with the scope `read:sessions`.
#[utoipa::path(
    get,
    path = "/sessions/{id}",
    operation_id = "getSession",
    tag = tag::SESSIONS,
    params(("id" = SessionId, Path, description = "The session.")),
    responses(
        (status = 200, description = "The session.", body = Session),
        openapi::Cached,
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn show(
    caller: Caller,
    Segment(id): Segment,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    let session = readable(&caller, query::id(&id)?).await?;
    Tagged::json(&headers, &session)
}

/// The session, if the caller may read it.
pub(super) async fn readable(caller: &Caller, id: SessionId) -> Result<Session, ApiError> {
    let session = caller.services.store.read().await?.session(id).await?;
    session
        .filter(|session| owns(caller, session) || caller.principal.allows(SEE_ALL_SESSIONS))
        .ok_or_else(ApiError::no_session)
}

pub(super) fn owns(caller: &Caller, session: &Session) -> bool {
    session.owner == caller.principal.subject()
}
