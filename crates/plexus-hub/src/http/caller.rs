//! Who asks: a typed extractor, so that no route can forget to look.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use plexus_auth::Principal;
use plexus_proto::ErrorCode;

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
        let principal = authenticate(app, &services, &parts.headers)?;
        asked_by(principal.subject());
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
fn authenticate(app: &App, services: &Services, headers: &HeaderMap) -> Result<Arc<Principal>, ApiError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (values.next(), values.next());
    let token = value.and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let Some(token) = token.filter(|_| more.is_none()) else {
        let message = "no token: send it as `Authorization: Bearer …`";
        app.http.auth_failed("missing");
        return Err(unauthenticated(app, message.to_owned(), false));
    };
    services.authenticator.authenticate(token).map_err(|error| {
        app.http.auth_failed(error.reason());
        unauthenticated(app, error.to_string(), true)
    })
}

fn unauthenticated(app: &App, message: String, had_token: bool) -> ApiError {
    let mut challenge = String::from("Bearer");
    let mut separator = " ";
    if had_token {
        challenge.push_str(" error=\"invalid_token\"");
        separator = ", ";
    }
    if !app.config.authorization_servers.is_empty() {
        let url = format!("{}/.well-known/oauth-protected-resource/mcp", app.public_url());
        challenge.push_str(&format!("{separator}resource_metadata=\"{url}\""));
    }
    let mut error = ApiError::new(StatusCode::UNAUTHORIZED, ErrorCode::Unauthenticated, message)
        .hint("Make one with `plexus token create --kind agent --name NAME` on the hub's machine.");
    error.challenge = HeaderValue::from_str(&challenge).ok();
    error
}
