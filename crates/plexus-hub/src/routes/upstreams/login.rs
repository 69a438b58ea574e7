//! Access to a server that wants one: given to the hub by a person, and taken away.
//!
//! Whoever asks is where the browser is: the hub says what to open, the browser comes back to an address that the asker
//! listens on, and the asker hands over what it brought. What that is worth stays in the hub.

use axum::Json;
use axum::extract::{Path, Request};
use http::StatusCode;
use plexus_proto::ErrorCode;
use plexus_proto::api::{BeginLoginParams, FinishLoginParams, Upstream, UpstreamLogin, UpstreamLogout};
use plexus_upstream::oauth::LoginError;
use serde_json::json;

use super::record::recorded;
use super::unknown;
use crate::http::{ApiError, Caller};
use crate::routes::query::Segment;
use crate::routes::{refusals, tag};

/// Names of these operations in the audit.
const BEGIN: &str = "upstream_login_begin";
const FINISH: &str = "upstream_login";
const LOGOUT: &str = "upstream_logout";

/// Begin to log in to a server
///
/// Finds out who gives access to it, and says what a person is to open in a browser. The browser is then sent to
/// `redirect_uri`; what it brings there goes to the login's own address. It is waited for 10 minutes. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/login",
    operation_id = "beginUpstreamLogin",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = BeginLoginParams,
    responses(
        (status = 200, description = "The login, which waits for a person.", body = UpstreamLogin),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        refusals::ForBody,
        refusals::Always,
    )
)]
pub(in crate::routes) async fn begin(
    caller: Caller,
    Segment(name): Segment,
    request: Request,
) -> Result<Json<UpstreamLogin>, ApiError> {
    let params: BeginLoginParams = caller.read_json(request, "where the browser is sent back to").await?;
    let begun = recorded(caller, BEGIN, json!({ "name": name }), async move |services| {
        let login = services.upstreams.begin_login(&name, &params.redirect_uri).await.map_err(refused)?;
        Ok((json!({ "name": name, "issuer": login.issuer }), login))
    });
    Ok(Json(begun.await?))
}

/// Finish to log in to a server
///
/// Takes what the browser brought back, keeps the access that it is worth, and starts the server with it. Needs the scope
/// `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/login/{login}",
    operation_id = "finishUpstreamLogin",
    tag = tag::UPSTREAMS,
    params(
        ("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        ("login" = String, Path, description = "`id` of the login.", pattern = "^[A-Za-z0-9_-]+$"),
    ),
    request_body = FinishLoginParams,
    responses(
        (status = 200, description = "The server.", body = Upstream),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        refusals::ForBody,
        refusals::Always,
    )
)]
pub(in crate::routes) async fn finish(
    caller: Caller,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    request: Request,
) -> Result<Json<Upstream>, ApiError> {
    let Path((name, login)) = path.map_err(|_| ApiError::bad_request("the path is not UTF-8"))?;
    let params: FinishLoginParams = caller.read_json(request, "what the browser brought back").await?;
    if [&name, &login].iter().any(|part| part.contains(char::is_control)) {
        return Err(ApiError::bad_request("the path has control characters in it"));
    }
    let finished = recorded(caller, FINISH, json!({ "name": name }), async move |services| {
        let upstream = services.upstreams.finish_login(&name, &login, &params).await.map_err(refused)?;
        Ok((json!({ "name": name, "state": upstream.state }), upstream))
    });
    Ok(Json(finished.await?))
}

/// Log out of a server
///
/// Forgets the access to it and, where its authorization server can be told, has that ended too. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/logout",
    operation_id = "logoutUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "What came of it.", body = UpstreamLogout),
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        refusals::Always,
    )
)]
pub(in crate::routes) async fn logout(
    caller: Caller,
    Segment(name): Segment,
) -> Result<Json<UpstreamLogout>, ApiError> {
    let ended = recorded(caller, LOGOUT, json!({ "name": name }), async move |services| {
        let logout = services.upstreams.logout(&name).await.map_err(refused)?;
        Ok((json!({ "name": name, "forgotten": logout.forgotten, "revoked": logout.revoked }), logout))
    });
    Ok(Json(ended.await?))
}

fn refused(error: LoginError) -> ApiError {
    let message = error.to_string();
    let conflict = |message| ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, message);
    match error {
        LoginError::NoServer(name) => unknown(&name),
        LoginError::NoLogin => ApiError::not_found(message).hint("Begin anew: `plexus upstream login NAME`."),
        LoginError::Unsuitable(_) => conflict(message),
        LoginError::Refused(_) => conflict(message).hint("Nothing was changed."),
        LoginError::Unreachable(_) => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message)
                .hint("Nothing was changed. Try again.")
        }
        LoginError::Full(_) => ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
            .hint("Try again when they have ended, which they do after 10 minutes."),
    }
}
