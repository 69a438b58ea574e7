//! Requests to the token endpoint of an authorization server, and the meaning of its answers.
//!
//! There are four kinds of answers: tokens; an invalid grant (`invalid_grant`), which only a new login
//! resolves; another refusal, which needs a change of the file or of the registration; and a transient
//! failure, which is retried. Only an invalid grant ends the hub's login.

use http::header::HeaderValue;
use plexus_kit::Secret;
use plexus_mcp::http_client::origin_of;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::client::Client;
use super::http::{Answer, OauthHttp};
use super::quoted;
use super::redaction::SentSecrets;
use crate::config::OauthConfig;

/// Longest accepted token: request headers are limited everywhere.
const MAX_TOKEN: usize = 16 * 1024;

/// The tokens of a successful answer.
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// Lifetime in seconds.
    pub(super) expires_in: Option<u64>,
    pub(super) scope: Option<String>,
}

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenError {
    /// The code or refresh token is invalid.
    InvalidGrant(String),
    /// A permanent error that requires a change of the configuration.
    Other(String),
    /// A transient failure without a usable answer.
    Transient(String),
}

/// Requests tokens with this form.
pub(super) async fn ask(
    oauth_http: &OauthHttp,
    endpoint: &Url,
    client: &Client,
    oauth: &OauthConfig,
    pairs: &[(&str, &str)],
) -> Result<Tokens, TokenError> {
    let (form, authorization) = signed(client, oauth, pairs);
    let secrets = SentSecrets::of(pairs, client.secret(oauth), authorization.as_ref());
    let answer = oauth_http.submit(endpoint, form, authorization).await;
    let answer = answer.map_err(|error| TokenError::Transient(error.to_string()))?;
    read(&origin_of(endpoint), answer, &secrets)
}

/// A form with the client authentication in it or in a separate header.
pub(super) fn signed(
    client: &Client,
    oauth: &OauthConfig,
    pairs: &[(&str, &str)],
) -> (String, Option<HeaderValue>) {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(pairs);
    let authorization = client.sign(oauth, &mut form);
    (form.finish(), authorization)
}

fn read(origin: &str, answer: Answer, secrets: &SentSecrets) -> Result<Tokens, TokenError> {
    let Answer { status, body } = answer;
    let Some(body) = body else {
        return Err(TokenError::Transient(format!("{origin} answers {status} with an unreadable body")));
    };
    if status.is_success() {
        return tokens(&body)
            .ok_or_else(|| TokenError::Transient(format!("{origin} answers without a usable bearer token")));
    }
    let refused = format!("{origin} answers {status}{}", error_text(&body, secrets));
    match body["error"].as_str() {
        Some("invalid_grant") if status.is_client_error() => Err(TokenError::InvalidGrant(refused)),
        // These errors are transient regardless of the status.
        Some("temporarily_unavailable" | "server_error" | "slow_down") => Err(TokenError::Transient(refused)),
        Some(_) if status.is_client_error() && status.as_u16() != 429 => Err(TokenError::Other(refused)),
        _ => Err(TokenError::Transient(refused)),
    }
}

fn tokens(body: &Value) -> Option<Tokens> {
    let token = |name: &str| {
        let text = body[name].as_str()?;
        let plain = text.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
        (plain && !text.is_empty() && text.len() <= MAX_TOKEN).then(|| Secret::from(text))
    };
    if !body["token_type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return None;
    }
    // Some servers write the number as a string.
    let seconds = &body["expires_in"];
    let expires_in = seconds.as_u64().or_else(|| seconds.as_f64().map(|s| s as u64));
    let expires_in = expires_in.or_else(|| seconds.as_str()?.parse().ok());
    Some(Tokens {
        access: token("access_token")?,
        refresh: token("refresh_token"),
        // A lifetime of zero cannot be intended: the token would be renewed for every request.
        expires_in: expires_in.filter(|seconds| *seconds > 0),
        scope: body["scope"].as_str().map(str::to_owned),
    })
}

/// The text of an OAuth error, worded to follow the description of the request, with secrets redacted.
pub(super) fn error_text(body: &Value, secrets: &SentSecrets) -> String {
    let text = |name: &str| body[name].as_str().map(|text| quoted(&secrets.redact(text)));
    match (text("error"), text("error_description")) {
        (Some(error), Some(more)) => format!(": {error} ({more})"),
        (Some(error), None) => format!(": {error}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
