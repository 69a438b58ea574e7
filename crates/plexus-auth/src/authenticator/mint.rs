//! Minting: a token creates another one with at most its own rights.

use plexus_proto::api::{CreateTokenParams, CreatedToken, Token, TokenKind};
use plexus_proto::{Timestamp, TokenId};
use plexus_store::{Conn, Records};
use serde_json::json;

use super::{AUDIENCE, Authenticator, Claims, MAX_TOKEN_BYTES, log};
use crate::policy::{check_name, check_seconds, default_renewal, default_ttl, plan_scopes};
use crate::profiles::Profiles;
use crate::{AuthError, Principal};

/// Name of this operation in the audit log.
const CREATE: &str = "token_create";

/// The properties of a token that may be issued.
pub(super) struct Plan {
    pub(super) kind: TokenKind,
    pub(super) name: String,
    pub(super) scopes: Vec<String>,
    pub(super) profile: Option<String>,
    pub(super) node: Option<String>,
    pub(super) expires_at: Timestamp,
    pub(super) renew_until: Option<Timestamp>,
}

impl Authenticator {
    /// Mints a token with at most the rights of the requesting one. Grants and refusals are recorded in the
    /// audit log.
    pub async fn mint(&self, by: &Principal, params: CreateTokenParams) -> Result<CreatedToken, AuthError> {
        let requested = json!({
            "kind": params.kind, "name": params.name, "scopes": params.scopes, "profile": params.profile,
            "node": params.node,
        });
        let profile = params.profile.clone();
        // The renewal limit is the only property that the token itself does not contain.
        let creator = match by.is_admin() {
            true => None,
            false => self.store.read_committed().await?.token(by.token_id()).await?,
        };
        let renewable_until = creator.and_then(|creator| creator.renew_until);
        let plan = self.plan(by, params, renewable_until);
        let (created, row) = match plan.and_then(|plan| self.check_profile(profile.as_deref()).map(|()| plan))
        {
            Ok(plan) => self.sign(plan, Some(by.token_id()))?,
            Err(error) => return self.refused(by, CREATE, error, &requested).await,
        };
        let detail = json!({
            "jti": created.jti, "kind": created.kind, "name": created.name, "scopes": created.scopes,
            "profile": created.profile, "node": created.node,
        });
        if let Err(error) = self.insert(row, self.records(by, CREATE, "ok", &detail)).await {
            return self.refused(by, CREATE, error, &requested).await;
        }
        log(by, CREATE, "ok", &detail);
        Ok(created)
    }

    /// Rejects unknown profiles: a token with one would see no tools. If a profile is removed later, its
    /// tokens see no tools.
    fn check_profile(&self, requested: Option<&str>) -> Result<(), AuthError> {
        let Some(id) = requested else { return Ok(()) };
        let followed = self.profiles.load_full();
        let profiles = followed.map_or_else(|| Profiles::shipped().into(), |followed| followed.load());
        profiles.find(id).map(drop).map_err(AuthError::Invalid)
    }

    /// Validates a request for a token.
    pub(super) fn plan(
        &self,
        by: &Principal,
        params: CreateTokenParams,
        renewable_until: Option<Timestamp>,
    ) -> Result<Plan, AuthError> {
        if !by.allows("token:create") {
            return Err(AuthError::Forbidden(format!(
                "{} may not create tokens: its token lacks the scope token:create",
                by.subject()
            )));
        }
        if params.kind == TokenKind::Node {
            let message = "nodes get their credential when they join: run `plexus node invite NAME`";
            return Err(AuthError::Invalid(message.to_owned()));
        }
        check_name("token name", &params.name)?;
        if let Some(profile) = &params.profile {
            check_name("profile name", profile)?;
        }
        if params.kind < by.kind() || (params.kind == TokenKind::Admin && !by.is_admin()) {
            let message = format!("a token of kind {} cannot create one of kind {}", by.kind(), params.kind);
            return Err(AuthError::Forbidden(message));
        }
        // Sessions and keys belong to a kind and name: only an admin may use those of another holder.
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
            (Some(own), Some(requested)) if own != requested => {
                let message = format!("a token of profile {own} cannot create one of profile {requested}");
                return Err(AuthError::Forbidden(message));
            }
            (own, requested) => requested.or_else(|| own.map(str::to_owned)),
        };
        if let Some(node) = &params.node {
            plexus_proto::node_name::check(node).map_err(AuthError::Invalid)?;
        }
        // The node is only a default; which nodes are reachable depends on the scopes.
        let node = params.node.or_else(|| by.node().map(str::to_owned));
        let ttl = params.ttl_seconds.unwrap_or_else(|| default_ttl(params.kind));
        let expires_at = self.in_seconds(check_seconds("lifetime", ttl, 1)?);
        if expires_at > by.expires_at() && params.ttl_seconds.is_some() && !by.is_admin() {
            let message = format!("a token cannot outlive the one that creates it ({})", by.expires_at());
            return Err(AuthError::Forbidden(message));
        }
        let expires_at = if by.is_admin() { expires_at } else { expires_at.min(by.expires_at()) };
        let renew_until = self.plan_renewal(by, params.kind, params.renew_seconds, renewable_until)?;
        Ok(Plan { kind: params.kind, name: params.name, scopes, profile, node, expires_at, renew_until })
    }

    /// The renewal limit of the token: not beyond the expiry and the renewal limit of its creator.
    fn plan_renewal(
        &self,
        by: &Principal,
        kind: TokenKind,
        requested: Option<u64>,
        renewable_until: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, AuthError> {
        let seconds = requested.unwrap_or_else(|| default_renewal(kind));
        if check_seconds("time for renewals", seconds, 0)? == 0 {
            return Ok(None);
        }
        let until = self.in_seconds(seconds);
        if by.is_admin() {
            return Ok(Some(until));
        }
        let end = renewable_until.map_or(by.expires_at(), |renewable| renewable.max(by.expires_at()));
        if until > end && requested.is_some() {
            let message = format!("a token cannot be renewed beyond the one that creates it ({end})");
            return Err(AuthError::Forbidden(message));
        }
        Ok(Some(until.min(end)))
    }

    /// Signs the token of a plan; the returned row is not stored yet.
    pub(super) fn sign(
        &self,
        plan: Plan,
        parent: Option<TokenId>,
    ) -> Result<(CreatedToken, Token), AuthError> {
        let Plan { kind, name, scopes, profile, node, expires_at, renew_until } = plan;
        let (jti, created_at) = (TokenId::new(), self.clock.now());
        let claims = Claims {
            jti,
            kind,
            sub: format!("{kind}:{name}"),
            scopes: scopes.clone(),
            profile: profile.clone(),
            node: node.clone(),
            aud: AUDIENCE.to_owned(),
            iat: created_at.as_second(),
            exp: expires_at.as_second(),
        };
        let key = self.keys.current();
        let token = jsonwebtoken::encode(&key.header(), &claims, &key.encoding)
            .map_err(|e| AuthError::DamagedKey(e.to_string()))?;
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::Invalid("too many scopes for one token; use globs".to_owned()));
        }
        let row = Token {
            jti,
            kind,
            name: name.clone(),
            scopes: scopes.clone(),
            profile: profile.clone(),
            parent,
            created_at,
            expires_at,
            revoked_at: None,
            renew_until,
            last_used_at: None,
            node: node.clone(),
        };
        Ok((CreatedToken { token, jti, expires_at, renew_until, kind, name, scopes, profile, node }, row))
    }

    /// Stores a token with its audit record. If the creator was revoked or replaced in the meantime, nothing
    /// is stored.
    pub(super) async fn insert(&self, row: Token, records: Records) -> Result<(), AuthError> {
        self.store
            .transact(
                move |conn| Box::pin(async move { insert(conn, &row).await }),
                move |outcome| if outcome.is_ok() { records } else { Records::default() },
            )
            .await?
    }
}

/// Stores a token, unless its creator has been revoked or replaced.
pub(super) async fn insert(conn: &mut Conn, row: &Token) -> Result<(), AuthError> {
    if conn.insert_token(row).await? {
        return Ok(());
    }
    let creator = match row.parent {
        Some(parent) => conn.token(parent).await?,
        None => None,
    };
    let ends_at = creator.and_then(|creator| creator.revoked_at).filter(|ends_at| *ends_at > row.created_at);
    Err(ends_at.map_or(AuthError::Revoked, |ends_at| {
        AuthError::Forbidden(format!(
            "this token has been replaced and cannot create others during its grace period, until {ends_at}; \
             use the one that replaced it"
        ))
    }))
}
