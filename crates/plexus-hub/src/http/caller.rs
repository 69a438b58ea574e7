//! The authenticated caller of a request, as an extractor so that no route can forget the check.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use plexus_auth::Principal;
use plexus_proto::ErrorCode;
use plexus_proto::api::TokenKind;

use super::ApiError;
use super::observe::record_subject;
use crate::App;
use crate::services::Services;

/// An authenticated request to a hub that is ready.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) services: Arc<Services>,
    pub(crate) principal: Arc<Principal>,
}

impl Caller {
    /// Succeeds only if the caller's token has the scope.
    pub(crate) fn require_scope(&self, scope: &str) -> Result<(), ApiError> {
        if self.principal.allows(scope) { Ok(()) } else { Err(ApiError::lacks(scope)) }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let services = app.services()?;
        let principal = authenticate(app, &services, parts)?;
        record_subject(principal.subject());
        // A node credential is for the node's link only. It can neither call tools nor read logs.
        if principal.kind() == TokenKind::Node {
            let message = "the credential of a node is valid for its link only";
            return Err(ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message)
                .hint("Use a token of a user or an agent: `plexus token create`."));
        }
        Ok(Self { services, principal })
    }
}

impl App {
    /// The services behind the routes, while the hub is ready.
    pub(crate) fn services(&self) -> Result<Arc<Services>, ApiError> {
        match self.ready.get() {
            Some(services) => Ok(services.clone()),
            None => Err(ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::Unavailable,
                "the hub is starting",
            )
            .hint("Try again in a moment.")),
        }
    }
}

/// The principal of the bearer token. Tokens are accepted in the header `Authorization` only.
pub(super) fn authenticate(
    app: &App,
    services: &Services,
    parts: &Parts,
) -> Result<Arc<Principal>, ApiError> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (values.next(), values.next());
    let token = value.and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let token = token.filter(|_| more.is_none());
    let (message, reason) = match token.map(|token| services.authenticator.authenticate(token)) {
        Some(Ok(principal)) => return Ok(principal),
        Some(Err(error)) => (error.to_string(), error.reason()),
        None => ("the token is missing: send it as `Authorization: Bearer …`".to_owned(), "missing"),
    };
    app.http.auth_failed(reason);
    // Only failures reach this point: valid tokens are never throttled because of invalid ones.
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let too_many = note_failed_attempt(services, peer, token, &message);
    Err(too_many.unwrap_or_else(|| unauthenticated(app, message, token.is_some())))
}

/// Counts a failed authentication; after too many from one address, returns a throttling error instead.
pub(crate) fn note_failed_attempt(
    services: &Services,
    peer: Option<IpAddr>,
    shown: Option<&str>,
    message: &str,
) -> Option<ApiError> {
    services.failed_attempts.note(peer, shown).err().map(|wait| too_many(message, wait))
}

fn too_many(message: &str, wait: Duration) -> ApiError {
    let seconds = wait.as_millis().div_ceil(1000);
    let message = format!("{message}; too many requests without a valid token came from your address");
    let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message).hint(
        format!("Get a valid token; requests with a valid token are not delayed. Others can be retried in {seconds} s."),
    );
    error.retry_after = u64::try_from(seconds).ok();
    error
}

fn unauthenticated(app: &App, message: String, had_token: bool) -> ApiError {
    let mut challenge = String::from("Bearer");
    let mut separator = " ";
    if had_token {
        challenge.push_str(" error=\"invalid_token\"");
        separator = ", ";
    }
    if !app.config.load().authorization_servers.is_empty() {
        let url = format!("{}/.well-known/oauth-protected-resource/mcp", app.public_url());
        challenge.push_str(&format!("{separator}resource_metadata=\"{url}\""));
    }
    let mut error = ApiError::new(StatusCode::UNAUTHORIZED, ErrorCode::Unauthenticated, message)
        .hint("Create a token with `plexus token create --kind agent --name NAME` on the hub's machine.");
    error.challenge = HeaderValue::from_str(&challenge).ok();
    error
}
