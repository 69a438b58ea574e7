//! Verifies, mints and revokes tokens.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use jsonwebtoken::{Algorithm, Validation};
use moka::sync::Cache;
use plexus_kit::clock::from_millis;
use plexus_kit::{Clock, private_file};
use plexus_proto::api::{AuditPhase, CreateTokenParams, CreatedToken, Token, TokenKind};
use plexus_proto::{CallId, Timestamp, TokenId};
use plexus_store::{NewAudit, Records, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{AuthError, Principal, Scope, ScopeSet, SigningKey};

const AUDIENCE: &str = "plexus";
/// Verified tokens kept; beyond that the least used are verified again.
const CACHE: u64 = 10_000;
const CACHE_IDLE: Duration = Duration::from_secs(600);
const MAX_TOKEN_BYTES: usize = 8 * 1024;
const DAY: u64 = 24 * 60 * 60;
const MAX_TTL: u64 = 3650 * DAY;

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    jti: TokenId,
    kind: TokenKind,
    sub: String,
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    aud: String,
    iat: i64,
    exp: i64,
}

/// A token that may be issued.
struct Plan {
    kind: TokenKind,
    name: String,
    scopes: Vec<String>,
    profile: Option<String>,
    expires_at: Timestamp,
}

/// Names of these operations in the audit.
const CREATE: &str = "token_create";
const REVOKE: &str = "token_revoke";

pub struct Authenticator {
    key: Arc<SigningKey>,
    store: Store,
    clock: Clock,
    validation: Validation,
    /// By SHA-256 of the token: the token itself is not kept.
    verified: Cache<[u8; 32], Arc<Principal>>,
    revoked: ArcSwap<HashSet<TokenId>>,
    /// Epoch that `revoked` was read at.
    epoch: watch::Sender<i64>,
}

impl Authenticator {
    pub async fn new(key: Arc<SigningKey>, store: Store, clock: Clock) -> Result<Self, AuthError> {
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        // Expiry is compared with our own clock on every use, not only when the signature is checked.
        validation.validate_exp = false;
        let authenticator = Self {
            key,
            store,
            clock,
            validation,
            verified: Cache::builder().max_capacity(CACHE).time_to_idle(CACHE_IDLE).build(),
            revoked: ArcSwap::default(),
            epoch: watch::Sender::new(-1),
        };
        authenticator.refresh_revocations().await?;
        Ok(authenticator)
    }

    /// The principal of a token. No database read; the signature is checked once per token.
    pub fn authenticate(&self, token: &str) -> Result<Arc<Principal>, AuthError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::InvalidToken);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        let principal = match self.verified.get(&hash) {
            Some(principal) => principal,
            None => {
                let principal = Arc::new(self.verify(token)?);
                self.verified.insert(hash, principal.clone());
                principal
            }
        };
        if principal.expires_at() <= self.clock.now() {
            return Err(AuthError::Expired);
        }
        if self.revoked.load().contains(&principal.token_id()) {
            return Err(AuthError::Revoked);
        }
        Ok(principal)
    }

    /// How long a principal that was authenticated earlier, for a stream that lives on, remains one;
    /// none when its token has expired or was revoked.
    #[must_use]
    pub fn time_left(&self, principal: &Principal) -> Option<Duration> {
        if self.revoked.load().contains(&principal.token_id()) {
            return None;
        }
        let left = principal.expires_at().as_millisecond() - self.clock.now().as_millisecond();
        u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis)
    }

    /// Moves when tokens were revoked; whoever holds a stream open then asks [`Self::time_left`].
    #[must_use]
    pub fn revocations(&self) -> watch::Receiver<i64> {
        self.epoch.subscribe()
    }

    fn verify(&self, token: &str) -> Result<Principal, AuthError> {
        let claims = jsonwebtoken::decode::<Claims>(token, &self.key.decoding, &self.validation)
            .map_err(|_| AuthError::InvalidToken)?
            .claims;
        let name = claims.sub.strip_prefix(claims.kind.as_str()).and_then(|rest| rest.strip_prefix(':'));
        let name = name.ok_or(AuthError::InvalidToken)?;
        let scopes = ScopeSet::parse(&claims.scopes).map_err(|_| AuthError::InvalidToken)?;
        let expires_at = Timestamp::from_second(claims.exp).map_err(|_| AuthError::InvalidToken)?;
        Ok(Principal::new(claims.jti, claims.kind, name, scopes, claims.profile, expires_at))
    }

    /// Mints a token that can do no more than the one that asks. The record of it, also of a refusal,
    /// is part of the audit.
    pub async fn mint(&self, by: &Principal, params: CreateTokenParams) -> Result<CreatedToken, AuthError> {
        let asked = json!({ "kind": params.kind, "name": params.name, "scopes": params.scopes });
        match self.plan(by, params) {
            Ok(plan) => self.issue(plan, Some(by)).await,
            Err(error) => {
                let outcome =
                    if matches!(error, AuthError::Forbidden(_)) { "forbidden" } else { "invalid_request" };
                let records = self.records(by, CREATE, outcome, &asked);
                self.store.append(records).await?;
                Err(error)
            }
        }
    }

    /// What a request for a token comes to, if it may be granted.
    fn plan(&self, by: &Principal, params: CreateTokenParams) -> Result<Plan, AuthError> {
        if !by.allows("token:create") {
            return Err(AuthError::Forbidden(format!(
                "{} may not create tokens: its token lacks the scope token:create",
                by.subject()
            )));
        }
        check_name("token name", &params.name)?;
        if let Some(profile) = &params.profile {
            check_name("profile name", profile)?;
        }
        if params.kind < by.kind() || (params.kind == TokenKind::Admin && !by.is_admin()) {
            let message = format!("a token of kind {} cannot create one of kind {}", by.kind(), params.kind);
            return Err(AuthError::Forbidden(message));
        }
        // Sessions and keys belong to kind and name: nobody but an admin may take another's.
        let own = params.kind == by.kind() && params.name == by.name();
        if !by.is_admin() && !own && !params.name.starts_with(&format!("{}/", by.name())) {
            return Err(AuthError::Forbidden(format!(
                "{} may only create tokens of its own kind and name, or named {}/…",
                by.subject(),
                by.name(),
            )));
        }
        let scopes = plan_scopes(by, params.kind, params.scopes)?;
        let profile = match (by.profile(), params.profile) {
            (Some(own), Some(asked)) if own != asked => {
                let message = format!("a token of profile {own} cannot create one of profile {asked}");
                return Err(AuthError::Forbidden(message));
            }
            (own, asked) => asked.or_else(|| own.map(str::to_owned)),
        };
        let ttl = params.ttl_seconds.unwrap_or_else(|| default_ttl(params.kind));
        if ttl == 0 || ttl > MAX_TTL {
            let message = format!("the lifetime must be between 1 second and {} days", MAX_TTL / DAY);
            return Err(AuthError::Invalid(message));
        }
        let expires_at = self.in_seconds(ttl);
        if expires_at > by.expires_at() && params.ttl_seconds.is_some() && !by.is_admin() {
            let message = format!("a token cannot outlive the one that creates it ({})", by.expires_at());
            return Err(AuthError::Forbidden(message));
        }
        let expires_at = if by.is_admin() { expires_at } else { expires_at.min(by.expires_at()) };
        Ok(Plan { kind: params.kind, name: params.name, scopes, profile, expires_at })
    }

    async fn issue(&self, plan: Plan, by: Option<&Principal>) -> Result<CreatedToken, AuthError> {
        let Plan { kind, name, scopes, profile, expires_at } = plan;
        let jti = TokenId::new();
        let created_at = self.clock.now();
        let claims = Claims {
            jti,
            kind,
            sub: format!("{kind}:{name}"),
            scopes: scopes.clone(),
            profile: profile.clone(),
            aud: AUDIENCE.to_owned(),
            iat: created_at.as_second(),
            exp: expires_at.as_second(),
        };
        let token = jsonwebtoken::encode(&self.key.header(), &claims, &self.key.encoding)
            .map_err(|e| AuthError::DamagedKey(e.to_string()))?;
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::Invalid("the scopes are too many for one token; use globs".to_owned()));
        }
        let row = Token {
            jti,
            kind,
            name: name.clone(),
            scopes: scopes.clone(),
            profile: profile.clone(),
            parent: by.map(Principal::token_id),
            created_at,
            expires_at,
            revoked_at: None,
        };
        let detail = json!({ "jti": jti, "kind": kind, "name": name, "scopes": scopes });
        let records = by.map(|by| self.records(by, CREATE, "ok", &detail)).unwrap_or_default();
        let stored = self
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        // A token that was revoked while it asked must leave nothing behind.
                        if conn.insert_token(&row).await? { Ok(()) } else { Err(AuthError::Revoked) }
                    })
                },
                move |outcome| if outcome.is_ok() { records } else { Records::default() },
            )
            .await?;
        stored.map(|()| CreatedToken { token, jti, expires_at, kind, name, scopes, profile })
    }

    /// Revokes a token and all that were minted from it; here at once, elsewhere within a second.
    /// None: there is no such token.
    pub async fn revoke(&self, by: &Principal, jti: TokenId) -> Result<Option<Token>, AuthError> {
        let now = self.clock.now();
        let records = self.records(by, REVOKE, "ok", &json!({ "jti": jti }));
        let token = self
            .store
            .transact(
                move |conn| Box::pin(conn.revoke_token(jti, now)),
                move |outcome| if matches!(outcome, Ok(Some(_))) { records } else { Records::default() },
            )
            .await??;
        self.refresh_revocations().await?;
        Ok(token)
    }

    /// Who may do what is as much part of the record as what they did.
    fn records(&self, by: &Principal, what: &'static str, outcome: &'static str, detail: &Value) -> Records {
        tracing::info!(by = by.subject(), outcome, %detail, "{what}");
        let call_id = CallId::new();
        let entry = |phase, outcome| NewAudit {
            at: self.clock.now(),
            phase,
            call_id: Some(call_id),
            token_id: Some(by.token_id()),
            actor: by.subject().to_owned(),
            session_id: None,
            tool: what.to_owned(),
            via: "rest",
            outcome,
            detail: detail.to_string(),
        };
        let audit = vec![entry(AuditPhase::Started, ""), entry(AuditPhase::Finished, outcome)];
        Records { audit, events: vec![] }
    }

    /// Reads the revoked tokens again if any hub has revoked one since.
    pub async fn refresh_revocations(&self) -> Result<(), AuthError> {
        let mut reader = self.store.read().await?;
        let epoch = reader.revocation_epoch().await?;
        if epoch != *self.epoch.borrow() {
            let revoked = reader.revoked_tokens(self.clock.now()).await?;
            self.revoked.store(Arc::new(revoked.into_iter().collect()));
            self.epoch.send_replace(epoch);
        }
        Ok(())
    }

    /// Makes sure that the file holds an admin token that is good for a while yet.
    pub async fn ensure_admin_token(&self, path: &Path) -> Result<(), AuthError> {
        let failed = |source: std::io::Error| AuthError::Key { what: "cannot use the admin token", source };
        let current = private_file::read(path).map_err(failed)?;
        let good = current
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .and_then(|token| self.authenticate(token.trim()).ok())
            .is_some_and(|principal| {
                principal.is_admin() && principal.expires_at() > self.in_seconds(30 * DAY)
            });
        if good {
            return Ok(());
        }
        let expires_at = self.in_seconds(default_ttl(TokenKind::Admin));
        let plan = Plan {
            kind: TokenKind::Admin,
            name: "local".to_owned(),
            scopes: vec![Scope::ADMIN.to_owned()],
            profile: None,
            expires_at,
        };
        let created = self.issue(plan, None).await?;
        private_file::write(path, format!("{}\n", created.token).as_bytes()).map_err(failed)
    }

    /// Whole seconds, as in the token.
    fn in_seconds(&self, seconds: u64) -> Timestamp {
        let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        from_millis(self.clock.now().as_second().saturating_mul(1000).saturating_add(millis))
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("key", &self.key).finish_non_exhaustive()
    }
}

fn default_scopes(kind: TokenKind) -> &'static [&'static str] {
    match kind {
        TokenKind::Admin => &[Scope::ADMIN],
        TokenKind::User => &["call:*", "read:*", "token:create"],
        TokenKind::Agent | TokenKind::Session => &["call:*"],
        TokenKind::Node => &[],
    }
}

fn default_ttl(kind: TokenKind) -> u64 {
    match kind {
        TokenKind::Admin => 365 * DAY,
        TokenKind::User => 90 * DAY,
        TokenKind::Agent | TokenKind::Node => 30 * DAY,
        TokenKind::Session => DAY,
    }
}

fn check_name(what: &str, name: &str) -> Result<(), AuthError> {
    let ok = (1..=100).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/@-".contains(&b));
    if ok {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(AuthError::Invalid(format!("{shown:?} is not a {what}: use 1 to 100 letters, digits and . _ - / @")))
}

/// The scopes asked for, or the default ones cut to what the asking token has.
fn plan_scopes(by: &Principal, kind: TokenKind, asked: Vec<String>) -> Result<Vec<String>, AuthError> {
    let defaults = default_scopes(kind);
    let scopes = if asked.is_empty() { by.scopes().keep_allowed(defaults) } else { asked };
    if scopes.is_empty() && !defaults.is_empty() {
        let message =
            format!("{} has none of the default scopes of kind {kind}; name scopes it has", by.subject());
        return Err(AuthError::Invalid(message));
    }
    let set = ScopeSet::parse(&scopes).map_err(|e| AuthError::Invalid(e.to_string()))?;
    set.check_known().map_err(AuthError::Invalid)?;
    if set.is_admin() && kind != TokenKind::Admin {
        return Err(AuthError::Invalid(format!("the scope admin needs --kind admin, not {kind}")));
    }
    match by.scopes().first_beyond(&set) {
        Some(scope) => {
            Err(AuthError::Forbidden(format!("{} does not have the scope {scope} itself", by.subject())))
        }
        None => Ok(scopes),
    }
}

#[cfg(test)]
mod tests;
