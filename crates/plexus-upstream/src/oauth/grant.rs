//! A grant of access, in memory and in its stored form.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::HeaderValue;
use plexus_kit::clock::from_millis;
use plexus_kit::{ExposeSecret, Secret};
use plexus_proto::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

use super::client::{Client, Method};
use super::token::Tokens;

/// Tokens are renewed this long before they expire, or when a fifth of their lifetime is left if that is
/// less.
const RENEW_AHEAD: Duration = Duration::from_secs(60);

/// The origin of a grant: everything needed to renew or revoke it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The terms under which it was granted.
    pub(super) binding: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: Url,
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) client: Client,
    /// The resource that it gives access to.
    pub(super) resource: String,
}

pub(super) struct Grant {
    pub(super) source: Source,
    pub(super) header: HeaderValue,
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    obtained_at: Timestamp,
    expires_at: Option<Timestamp>,
    scope: Option<String>,
    /// It was requested because the server rejected its predecessor.
    pub(super) after_refusal: bool,
    accepted: AtomicBool,
}

impl Grant {
    /// None: the token is not a valid header value.
    pub(super) fn new(source: Source, tokens: Tokens, now: Timestamp) -> Option<Self> {
        let later = |seconds: u64| {
            let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
            from_millis(now.as_millisecond().saturating_add(millis))
        };
        Some(Self {
            source,
            header: bearer(&tokens.access)?,
            access: tokens.access,
            refresh: tokens.refresh,
            obtained_at: now,
            expires_at: tokens.expires_in.map(later),
            scope: tokens.scope,
            after_refusal: false,
            accepted: AtomicBool::new(false),
        })
    }

    /// The grant with new tokens. If the authorization server sends no new refresh token, the old one stays
    /// valid.
    pub(super) fn renewed(&self, tokens: Tokens, now: Timestamp) -> Option<Self> {
        let refresh = tokens.refresh.or_else(|| self.refresh.clone());
        let scope = tokens.scope.clone().or_else(|| self.scope.clone());
        Self::new(self.source.clone(), Tokens { refresh, scope, ..tokens }, now)
    }

    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether it should be renewed now.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let Some(end) = self.expires_at else { return false };
        let lifetime = end.as_millisecond().saturating_sub(self.obtained_at.as_millisecond());
        let ahead = i64::try_from(RENEW_AHEAD.as_millis()).unwrap_or(i64::MAX).min(lifetime / 5);
        now.as_millisecond() >= end.as_millisecond().saturating_sub(ahead)
    }

    /// Records that the server accepted the token.
    pub(super) fn mark_accepted(&self) {
        if !self.accepted.load(Ordering::Relaxed) {
            self.accepted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a renewal may help against a rejection. A token that was itself requested after a rejection
    /// and was never accepted is rejected for another reason; after `pause` a renewal is allowed again.
    pub(super) fn renewal_may_help(&self, now: Timestamp, pause: Duration) -> bool {
        let age = now.as_millisecond().saturating_sub(self.obtained_at.as_millisecond());
        !self.after_refusal
            || self.accepted.load(Ordering::Relaxed)
            || u128::try_from(age).is_ok_and(|age| age >= pause.as_millis())
    }

    pub(super) fn stored(&self) -> SealedGrant {
        let Source { binding, issuer, token_endpoint, revocation_endpoint, client, resource } = &self.source;
        let exposed = |secret: &Secret| secret.expose_secret().to_owned();
        SealedGrant {
            binding: binding.clone(),
            issuer: issuer.clone(),
            token_endpoint: token_endpoint.to_string(),
            revocation_endpoint: revocation_endpoint.as_ref().map(Url::to_string),
            client_id: client.id.clone(),
            client_secret: client.secret.as_ref().map(exposed),
            client_method: client.method,
            resource: resource.clone(),
            access_token: exposed(&self.access),
            refresh_token: self.refresh.as_ref().map(exposed),
            obtained_at: self.obtained_at,
            expires_at: self.expires_at,
            scope: self.scope.clone(),
        }
    }
}

fn bearer(access: &Secret) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {}", access.expose_secret())).ok()?;
    header.set_sensitive(true);
    Some(header)
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("issuer", &self.source.issuer)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A grant in the form that is sealed.
// No `Debug`: it contains only credentials.
#[derive(Serialize, Deserialize)]
pub(super) struct SealedGrant {
    pub(super) binding: String,
    issuer: String,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    client_id: String,
    client_secret: Option<String>,
    client_method: Method,
    resource: String,
    access_token: String,
    refresh_token: Option<String>,
    obtained_at: Timestamp,
    expires_at: Option<Timestamp>,
    scope: Option<String>,
}

impl SealedGrant {
    /// Whether this is the stored form of this grant, not of an earlier or later one.
    pub(super) fn is_sealed_form_of(&self, grant: &Grant) -> bool {
        let refresh = grant.refresh.as_ref().map(|secret| secret.expose_secret());
        self.binding == grant.source.binding
            && self.access_token == grant.access.expose_secret()
            && self.refresh_token.as_deref() == refresh
    }

    pub(super) fn grant(self) -> Option<Grant> {
        let client = Client {
            id: self.client_id,
            secret: self.client_secret.map(Secret::from),
            method: self.client_method,
        };
        let access = Secret::from(self.access_token);
        Some(Grant {
            source: Source {
                binding: self.binding,
                issuer: self.issuer,
                token_endpoint: Url::parse(&self.token_endpoint).ok()?,
                revocation_endpoint: self.revocation_endpoint.and_then(|url| Url::parse(&url).ok()),
                client,
                resource: self.resource,
            },
            header: bearer(&access)?,
            access,
            refresh: self.refresh_token.map(Secret::from),
            obtained_at: self.obtained_at,
            expires_at: self.expires_at,
            scope: self.scope,
            after_refusal: false,
            accepted: AtomicBool::new(false),
        })
    }
}
