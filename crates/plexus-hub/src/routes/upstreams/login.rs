//! OAuth logins to servers: authorizing the hub, and ending the authorization.
//!
//! The browser is on the client's machine: the hub returns the URL to open, the authorization server redirects the
//! browser to an address that the client listens on, and the client forwards the redirect's parameters. The tokens
//! obtained with them stay in the hub.

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

/// Names of these operations in the audit log.
const BEGIN: &str = "upstream_login_begin";
const FINISH: &str = "upstream_login";
const LOGOUT: &str = "upstream_logout";

/// Begin a login to a server
///
/// Discovers the server's authorization server and returns the URL that a person must open in a browser. The
/// browser is then redirected to `redirect_uri`; its parameters must be sent to the login's own URL. A login
/// expires after 10 minutes. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/login",
    operation_id = "beginUpstreamLogin",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = BeginLoginParams,
    responses(
        (status = 200, description = "The login, which awaits a person's decision.", body = UpstreamLogin),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn begin(
    caller: Caller,
    Segment(name): Segment,
    request: Request,
) -> Result<Json<UpstreamLogin>, ApiError> {
    let params: BeginLoginParams = caller.read_json(request, "a login request").await?;
    let begun = recorded(caller, BEGIN, json!({ "name": name }), async move |services| {
        let login = services.upstreams.begin_login(&name, &params.redirect_uri).await.map_err(refused)?;
        Ok((json!({ "name": name, "issuer": login.issuer }), login))
    });
    Ok(Json(begun.await?))
}

/// Finish a login to a server
///
/// Accepts the parameters of the browser's redirect, stores the access obtained with them, and starts the server
/// with it. Needs the scope `admin`.
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
    )
)]
pub(in crate::routes) async fn finish(
    caller: Caller,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    request: Request,
) -> Result<Json<Upstream>, ApiError> {
    let Path((name, login)) = path.map_err(|_| ApiError::bad_request("the path is not valid UTF-8"))?;
    let params: FinishLoginParams = caller.read_json(request, "the parameters of a redirect").await?;
    if [&name, &login].iter().any(|part| part.contains(char::is_control)) {
        return Err(ApiError::bad_request("the path contains control characters"));
    }
    let finished = recorded(caller, FINISH, json!({ "name": name }), async move |services| {
        let upstream = services.upstreams.finish_login(&name, &login, &params).await.map_err(refused)?;
        Ok((json!({ "name": name, "state": upstream.state }), upstream))
    });
    Ok(Json(finished.await?))
}

/// Log out of a server
///
/// Deletes the stored access and, if the authorization server supports it, revokes it there too. Needs the scope
/// `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/logout",
    operation_id = "logoutUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The result of the logout.", body = UpstreamLogout),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
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
        LoginError::NoLogin => {
            ApiError::not_found(message).hint("Begin a new login: `plexus upstream login NAME`.")
        }
        LoginError::Unsuitable(_) => conflict(message),
        LoginError::Refused(_) => conflict(message).hint("Nothing was changed."),
        LoginError::Unreachable(_) => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message)
                .hint("Nothing was changed. Try again.")
        }
        LoginError::Full(_) => ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
            .hint("Try again when they have expired, at most 10 minutes from now."),
    }
}
