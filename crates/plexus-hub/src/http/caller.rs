//! Who asks: a typed extractor, so that no route can forget to look.

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
use super::observe::asked_by;
use crate::App;
use crate::services::Services;

/// An authenticated request to a hub that is ready.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) services: Arc<Services>,
    pub(crate) principal: Arc<Principal>,
}

impl Caller {
    /// Goes on only if the caller's token has the scope.
    pub(crate) fn needs(&self, scope: &str) -> Result<(), ApiError> {
        if self.principal.allows(scope) { Ok(()) } else { Err(ApiError::lacks(scope)) }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let services = app.services()?;
        let principal = authenticate(app, &services, parts)?;
        asked_by(principal.subject());
        // Whoever holds a machine's credential is that machine, and nobody who calls tools or reads logs.
        if principal.kind() == TokenKind::Node {
            let message = "the credential of a node is good for its link alone";
            return Err(ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message)
                .hint("Use a token of a user or an agent: `plexus token create`."));
        }
        Ok(Self { services, principal })
    }
}

impl App {
    /// What is behind the routes, once it is there and until it goes.
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

/// The principal of the bearer token. The header is the only place a token is taken from.
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
        None => ("no token: send it as `Authorization: Bearer …`".to_owned(), "missing"),
    };
    app.http.auth_failed(reason);
    // Only failures come this far: whoever has a valid token is not kept waiting for those who have none.
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let too_many = turned_down(services, peer, token, &message);
    Err(too_many.unwrap_or_else(|| unauthenticated(app, message, token.is_some())))
}

/// Counts one who was not let in with what they showed; a refusal of its own where that has happened too often.
pub(crate) fn turned_down(
    services: &Services,
    peer: Option<IpAddr>,
    shown: Option<&str>,
    message: &str,
) -> Option<ApiError> {
    services.failed_attempts.note(peer, shown).err().map(|wait| too_many(message, wait))
}

fn too_many(message: &str, wait: Duration) -> ApiError {
    let seconds = wait.as_millis().div_ceil(1000);
    let message = format!("{message}; too many requests without a valid token came from your side");
    let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message).hint(
        format!("Stop trying, get a valid token, and come back in {seconds} s; with one you need not wait."),
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
        .hint("Make one with `plexus token create --kind agent --name NAME` on the hub's machine.");
    error.challenge = HeaderValue::from_str(&challenge).ok();
    error
}
