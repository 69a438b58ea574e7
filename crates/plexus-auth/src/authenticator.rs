//! Verifies and revokes tokens.
//!
//! The submodules create tokens: minted by another token, renewed, or as the replacement of an old one.

mod mint;
mod nodes;
mod renewal;
mod replacement;
mod rotation;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use aws_lc_rs::digest;
use jsonwebtoken::{Algorithm, Validation};
use moka::sync::Cache;
use plexus_kit::Clock;
use plexus_kit::clock::from_millis;
use plexus_proto::api::{AuditPhase, Key, Token, TokenKind};
use plexus_proto::{CallId, Timestamp, TokenId};
use plexus_store::{NewAudit, Records, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::principal::Proof;
pub use nodes::Invited;

use crate::profiles::LiveProfiles;
use crate::usage::{LastUse, Usage};
use crate::{AuthError, KeyRing, Principal, ScopeSet};

const AUDIENCE: &str = "plexus";
/// Maximum number of cached verified tokens; evicted ones are verified again.
const CACHE: u64 = 10_000;
const CACHE_IDLE: Duration = Duration::from_secs(600);
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Maximum number of uses written in one transaction, which delays other writes.
const MAX_USES_PER_WRITE: usize = 500;

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    jti: TokenId,
    kind: TokenKind,
    sub: String,
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    aud: String,
    iat: i64,
    exp: i64,
}

/// Name of this operation in the audit log.
const REVOKE: &str = "token_revoke";

pub struct Authenticator {
    keys: Arc<KeyRing>,
    store: Store,
    clock: Clock,
    validation: Validation,
    /// Keyed by SHA-256 of the token; the token itself is not stored.
    verified: Cache<[u8; 32], Arc<Verified>>,
    /// Revocation times, which may be in the future.
    revoked: ArcSwap<HashMap<TokenId, Timestamp>>,
    /// The epoch at which `revoked` was read. Also signals that the retirement time of a key was set.
    epoch: watch::Sender<i64>,
    usage: Usage,
    /// The profiles that tokens may have; `None` allows the built-in ones.
    profiles: ArcSwapOption<LiveProfiles>,
    /// File of the admin token for commands on this machine.
    admin_token: PathBuf,
    /// Serializes changes of the keys and of the admin token file.
    changing: Semaphore,
}

/// A token with a verified signature.
struct Verified {
    principal: Arc<Principal>,
    last_use: LastUse,
}

impl Authenticator {
    pub async fn new(
        keys: Arc<KeyRing>,
        store: Store,
        clock: Clock,
        admin_token: PathBuf,
    ) -> Result<Self, AuthError> {
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        // Expiry is checked against the injected clock on every use, not only when the signature is verified.
        validation.validate_exp = false;
        let authenticator = Self {
            keys,
            store,
            clock,
            validation,
            verified: Cache::builder().max_capacity(CACHE).time_to_idle(CACHE_IDLE).build(),
            revoked: ArcSwap::default(),
            epoch: watch::Sender::new(-1),
            usage: Usage::default(),
            profiles: ArcSwapOption::empty(),
            admin_token,
            changing: Semaphore::new(1),
        };
        authenticator.refresh_revocations().await?;
        Ok(authenticator)
    }

    /// Allows tokens for these profiles instead of the built-in ones.
    pub fn follow_profiles(&self, profiles: LiveProfiles) {
        self.profiles.store(Some(Arc::new(profiles)));
    }

    /// The principal of a token. Does not read the database; the signature is verified once per token.
    pub fn authenticate(&self, token: &str) -> Result<Arc<Principal>, AuthError> {
        let verified = self.verified(token)?;
        let now = self.clock.now();
        self.check_at(&verified.principal, now)?;
        self.usage.note(verified.principal.token_id(), &verified.last_use, now);
        Ok(verified.principal.clone())
    }

    fn verified(&self, token: &str) -> Result<Arc<Verified>, AuthError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::InvalidToken);
        }
        let hash = fingerprint(token);
        if let Some(verified) = self.verified.get(&hash) {
            return Ok(verified);
        }
        let principal = Arc::new(self.verify(token)?);
        let verified = Arc::new(Verified { principal, last_use: LastUse::default() });
        self.verified.insert(hash, verified.clone());
        Ok(verified)
    }

    /// Whether a previously authenticated principal is still valid.
    pub fn check(&self, principal: &Principal) -> Result<(), AuthError> {
        self.check_at(principal, self.clock.now())
    }

    /// Checks the properties that may change after the signature was verified.
    fn check_at(&self, principal: &Principal, now: Timestamp) -> Result<(), AuthError> {
        if principal.expires_at() <= now {
            return Err(AuthError::Expired);
        }
        if !principal.key_accepts_at(now) {
            return Err(AuthError::KeyRetired);
        }
        if self.revoked.load().get(&principal.token_id()).is_some_and(|at| *at <= now) {
            return Err(AuthError::Revoked);
        }
        Ok(())
    }

    /// How long a previously authenticated principal, such as that of an open stream, remains valid; `None`
    /// if its token expired or was revoked, or its key was retired.
    #[must_use]
    pub fn time_left(&self, principal: &Principal) -> Option<Duration> {
        let revoked_at = self.revoked.load().get(&principal.token_id()).copied();
        let ends = [Some(principal.expires_at()), principal.key_until(), revoked_at];
        let end = ends.into_iter().flatten().min()?;
        let left = end.as_millisecond().saturating_sub(self.clock.now().as_millisecond());
        u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis)
    }

    /// Changes when tokens are revoked or keys rotated; holders of open streams must then check
    /// [`Self::time_left`].
    #[must_use]
    pub fn revocations(&self) -> watch::Receiver<i64> {
        self.epoch.subscribe()
    }

    /// All keys, the current one first.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.keys.list()
    }

    fn verify(&self, token: &str) -> Result<Principal, AuthError> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| AuthError::InvalidToken)?;
        let key = header.kid.and_then(|kid| self.keys.find(&kid)).ok_or(AuthError::InvalidToken)?;
        let claims = jsonwebtoken::decode::<Claims>(token, &key.decoding, &self.validation)
            .map_err(|_| AuthError::InvalidToken)?
            .claims;
        let name = claims.sub.strip_prefix(claims.kind.as_str()).and_then(|rest| rest.strip_prefix(':'));
        name.ok_or(AuthError::InvalidToken)?;
        let scopes = ScopeSet::parse(&claims.scopes).map_err(|_| AuthError::InvalidToken)?;
        let expires_at = Timestamp::from_second(claims.exp).map_err(|_| AuthError::InvalidToken)?;
        Ok(Principal {
            token_id: claims.jti,
            kind: claims.kind,
            subject: claims.sub,
            scopes,
            profile: claims.profile,
            node: claims.node,
            expires_at,
            proof: Proof::Token(key),
        })
    }

    /// Revokes a token and all tokens minted from it: immediately on this hub, within a second on others.
    /// `None` if there is no such token.
    pub async fn revoke(&self, by: &Principal, jti: TokenId) -> Result<Option<Token>, AuthError> {
        let now = self.clock.now();
        let detail = json!({ "jti": jti });
        let records = self.records(by, REVOKE, "ok", &detail);
        let revoked = self
            .store
            .transact(
                move |conn| Box::pin(conn.revoke_token(jti, now)),
                move |outcome| if matches!(outcome, Ok(Some(_))) { records } else { Records::default() },
            )
            .await
            .flatten();
        let token = match revoked {
            Ok(token) => token,
            Err(error) => return self.refused(by, REVOKE, error.into(), &detail).await,
        };
        if token.is_some() {
            log(by, REVOKE, "ok", &detail);
        }
        self.refresh_revocations().await?;
        Ok(token)
    }

    /// Reloads the revoked tokens if any hub has revoked one since the last time.
    pub async fn refresh_revocations(&self) -> Result<(), AuthError> {
        let mut reader = self.store.read_committed().await?;
        let epoch = reader.revocation_epoch().await?;
        if epoch != *self.epoch.borrow() {
            let revoked = reader.revoked_tokens(self.clock.now()).await?;
            self.apply_revocations(epoch, revoked);
        }
        Ok(())
    }

    /// Does nothing if a later snapshot was already applied, so that revocations are never undone.
    fn apply_revocations(&self, epoch: i64, revoked: Vec<(TokenId, Timestamp)>) {
        self.epoch.send_if_modified(|current_epoch| {
            if epoch <= *current_epoch {
                return false;
            }
            self.revoked.store(Arc::new(revoked.into_iter().collect()));
            *current_epoch = epoch;
            true
        });
    }

    /// The last use of a token that is not written yet.
    #[must_use]
    pub fn last_used(&self, jti: TokenId) -> Option<Timestamp> {
        self.usage.pending(jti)
    }

    /// Writes the last use of tokens, for other hubs and after a restart.
    pub async fn flush_usage(&self) -> Result<(), AuthError> {
        let mut used = self.usage.take();
        while !used.is_empty() {
            let some = used.split_off(used.len().saturating_sub(MAX_USES_PER_WRITE));
            let write = some.clone();
            let written =
                self.store.write(move |conn| Box::pin(async move { conn.touch_tokens(&write).await })).await;
            if let Err(error) = written {
                self.usage.put_back(some);
                self.usage.put_back(used);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Audit records of an operation on tokens or nodes; changes of permissions are audited like calls.
    fn records(&self, by: &Principal, what: &'static str, outcome: &'static str, detail: &Value) -> Records {
        let call_id = CallId::new();
        let started = self.entry(by, what, call_id, AuditPhase::Started, "", detail);
        let finished = self.entry(by, what, call_id, AuditPhase::Finished, outcome, detail);
        Records { audit: vec![started, finished], events: vec![] }
    }

    fn entry(
        &self,
        by: &Principal,
        what: &'static str,
        call_id: CallId,
        phase: AuditPhase,
        outcome: &'static str,
        detail: &Value,
    ) -> NewAudit {
        NewAudit {
            at: self.clock.now(),
            phase,
            call_id: Some(call_id),
            token_id: Some(by.token_id()),
            actor: by.subject().to_owned(),
            session_id: None,
            tool: what.to_owned(),
            via: "rest".into(),
            outcome: outcome.into(),
            detail: detail.to_string(),
        }
    }

    /// Records that a request was rejected, and returns the error. Database failures are only logged.
    async fn refused<T>(
        &self,
        by: &Principal,
        what: &'static str,
        error: AuthError,
        requested: &Value,
    ) -> Result<T, AuthError> {
        log(by, what, error.outcome(), requested);
        if !matches!(error, AuthError::Store(_)) {
            self.store.append(self.records(by, what, error.outcome(), requested)).await?;
        }
        Err(error)
    }

    /// The time after `seconds`, in whole seconds as in a token.
    fn in_seconds(&self, seconds: u64) -> Timestamp {
        let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        from_millis(self.clock.now().as_second().saturating_mul(1000).saturating_add(millis))
    }

    /// The time after `time`, to the millisecond: rounding up would extend a lifetime.
    fn after(&self, time: Duration) -> Timestamp {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        from_millis(self.clock.now().as_millisecond().saturating_add(millis))
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Logs the outcome of a request, once it is certain.
fn log(by: &Principal, what: &'static str, outcome: &'static str, detail: &Value) {
    tracing::info!(by = by.subject(), outcome, %detail, "{what}");
}

/// SHA-256 of a token, used where the token itself must not be stored.
pub(crate) fn fingerprint(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests;
