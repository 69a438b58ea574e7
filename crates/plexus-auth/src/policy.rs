//! Defaults and limits for tokens.

use plexus_proto::api::TokenKind;

use crate::{AuthError, Principal, Scope, ScopeSet};

pub(crate) const DAY: u64 = 24 * 60 * 60;
/// Maximum lifetime of a token, renewal time, and overlap of two keys, in seconds.
pub(crate) const LONGEST: u64 = 3650 * DAY;

fn default_scopes(kind: TokenKind) -> &'static [&'static str] {
    match kind {
        TokenKind::Admin => &[Scope::ADMIN],
        TokenKind::User => &["call:*", "read:*", "token:create"],
        TokenKind::Agent | TokenKind::Session => &["call:*"],
        TokenKind::Node => &[],
    }
}

pub(crate) fn default_ttl(kind: TokenKind) -> u64 {
    match kind {
        TokenKind::Admin => 365 * DAY,
        TokenKind::User => 90 * DAY,
        TokenKind::Agent | TokenKind::Node => 30 * DAY,
        TokenKind::Session => DAY,
    }
}

/// How long a token may be renewed, in seconds; 0 disables renewal. Programs renew their tokens, people do
/// not.
pub(crate) fn default_renewal(kind: TokenKind) -> u64 {
    match kind {
        TokenKind::Agent | TokenKind::Node => 90 * DAY,
        TokenKind::Admin | TokenKind::User | TokenKind::Session => 0,
    }
}

/// Accepts `least` to [`LONGEST`] seconds.
pub(crate) fn check_seconds(what: &str, seconds: u64, least: u64) -> Result<u64, AuthError> {
    if (least..=LONGEST).contains(&seconds) {
        return Ok(seconds);
    }
    let days = LONGEST / DAY;
    Err(AuthError::Invalid(format!("the {what} must be between {least} seconds and {days} days")))
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<(), AuthError> {
    let ok = (1..=100).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/@-".contains(&b));
    if ok {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(AuthError::Invalid(format!(
        "{shown:?} is not a valid {what}: use 1 to 100 letters, digits and . _ - / @"
    )))
}

/// The requested scopes, or the default ones limited to those of the requesting token.
pub(crate) fn plan_scopes(
    by: &Principal,
    kind: TokenKind,
    requested: Vec<String>,
) -> Result<Vec<String>, AuthError> {
    let defaults = default_scopes(kind);
    let scopes = if requested.is_empty() { by.scopes().keep_allowed(defaults) } else { requested };
    if scopes.is_empty() && !defaults.is_empty() {
        let message = format!(
            "{} has none of the default scopes of kind {kind}; specify scopes that it has",
            by.subject()
        );
        return Err(AuthError::Invalid(message));
    }
    let set = ScopeSet::parse(&scopes).map_err(|e| AuthError::Invalid(e.to_string()))?;
    set.check_known().map_err(AuthError::Invalid)?;
    if set.is_admin() && kind != TokenKind::Admin {
        return Err(AuthError::Invalid(format!("the scope admin needs --kind admin, not {kind}")));
    }
    match by.scopes().first_beyond(&set) {
        Some(scope) => Err(AuthError::Forbidden(format!("{} lacks the scope {scope} itself", by.subject()))),
        None => Ok(scopes),
    }
}
