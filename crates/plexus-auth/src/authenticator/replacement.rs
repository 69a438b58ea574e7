//! Replacement of tokens, and the admin token for commands on this machine.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::private_file;
use plexus_proto::api::{CreateTokenParams, CreatedToken, Token, TokenKind};
use plexus_proto::{Timestamp, TokenId};
use plexus_store::Records;
use serde_json::json;

use super::mint::{Plan, insert};
use super::{Authenticator, log};
use crate::policy::{DAY, check_seconds, default_ttl};
use crate::{AuthError, Principal, Scope};

/// Name of this operation in the audit log.
const ROTATE: &str = "token_rotate";

impl Authenticator {
    /// Replaces a token, which ends after the grace period together with its renewals. Tokens minted by the
    /// old one become children of the new one. `None` if there is no such token, or if the requester did not
    /// create it.
    pub async fn rotate(
        &self,
        by: &Principal,
        jti: TokenId,
        grace: Duration,
    ) -> Result<Option<CreatedToken>, AuthError> {
        let _one = self.changing.acquire().await;
        let mut reader = self.store.read_committed().await?;
        let Some(old) = reader.token(jti).await? else { return Ok(None) };
        // Excludes the requester itself: its replacement would survive its revocation.
        if !by.is_admin() && !reader.token_descends_from(jti, by.token_id()).await? {
            return Ok(None);
        }
        drop(reader);
        let requested =
            json!({ "jti": jti, "kind": old.kind, "name": old.name, "grace_seconds": grace.as_secs() });
        let plan = match self.plan_replacement(by, &old, grace) {
            Ok(plan) => plan,
            Err(error) => return self.refused(by, ROTATE, error, &requested).await,
        };
        let is_local = self.local_admin().is_some_and(|local| local.token_id() == jti);
        let (created, row) = self.sign(plan, old.parent)?;
        let detail = json!({ "jti": created.jti, "replaces": requested });
        let records = self.records(by, ROTATE, "ok", &detail);
        if let Err(error) = self.replace(old, row, self.after(grace), records).await {
            return self.refused(by, ROTATE, error, &requested).await;
        }
        log(by, ROTATE, "ok", &detail);
        if is_local {
            self.write_admin_token(&created)?;
        }
        Ok(Some(created))
    }

    fn plan_replacement(&self, by: &Principal, old: &Token, grace: Duration) -> Result<Plan, AuthError> {
        check_seconds("grace", grace.as_secs(), 0)?;
        if !old.state(self.clock.now()).is_alive() {
            return Err(already_over(old));
        }
        let params = CreateTokenParams {
            kind: old.kind,
            name: old.name.clone(),
            profile: old.profile.clone(),
            node: old.node.clone(),
            scopes: old.scopes.clone(),
            ttl_seconds: None,
            renew_seconds: Some(0),
        };
        let plan = self.plan(by, params, None)?;
        let lifetime = old.expires_at.as_second() - old.created_at.as_second();
        let expires_at = self.in_seconds(u64::try_from(lifetime).unwrap_or(0));
        let expires_at = if by.is_admin() { expires_at } else { expires_at.min(by.expires_at()) };
        Ok(Plan { expires_at, renew_until: old.renew_until, ..plan })
    }

    /// Replaces atomically and at most once: a token that has ended or is being replaced cannot be replaced
    /// again.
    async fn replace(
        &self,
        old: Token,
        new: Token,
        ends_at: Timestamp,
        records: Records,
    ) -> Result<(), AuthError> {
        let now = self.clock.now();
        self.store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        if !conn.end_token(&old, ends_at, now).await? {
                            return Err(already_over(&old));
                        }
                        insert(conn, &new).await?;
                        conn.adopt_tokens(&old, new.jti).await?;
                        Ok(())
                    })
                },
                move |outcome| if outcome.is_ok() { records } else { Records::default() },
            )
            .await??;
        self.refresh_revocations().await
    }

    /// Ensures that the file contains an admin token that is signed with the current key and does not expire
    /// soon. Does not access the database if it does. Must be called repeatedly: a rotation that lost the
    /// database midway has ended the token without replacing it.
    pub async fn ensure_admin_token(&self) -> Result<(), AuthError> {
        let _one = self.changing.acquire().await;
        // A file readable by other users is an error that a person must resolve.
        private_file::read(&self.admin_token).map_err(unusable)?;
        let local = self.local_admin();
        let good = local.as_ref().is_some_and(|local| {
            local.expires_at() > self.in_seconds(30 * DAY)
                && local.key_until().is_none()
                && !self.revoked.load().contains_key(&local.token_id())
        });
        if good { Ok(()) } else { self.renew_admin_token(local.as_deref()).await }
    }

    /// The principal of the token in the file, while it is valid.
    pub(super) fn local_admin(&self) -> Option<Arc<Principal>> {
        let token = private_file::read(&self.admin_token).ok()??;
        let verified = self.verified(std::str::from_utf8(&token).ok()?.trim()).ok()?;
        let principal = verified.principal.clone();
        (principal.is_admin() && self.check(&principal).is_ok()).then_some(principal)
    }

    /// Writes a new token to the file. The previous one stays valid as long as its key.
    pub(super) async fn renew_admin_token(&self, old: Option<&Principal>) -> Result<(), AuthError> {
        let plan = Plan {
            kind: TokenKind::Admin,
            name: "local".to_owned(),
            scopes: vec![Scope::ADMIN.to_owned()],
            profile: None,
            node: None,
            expires_at: self.in_seconds(default_ttl(TokenKind::Admin)),
            renew_until: None,
        };
        let (created, row) = self.sign(plan, None)?;
        let ending = old.and_then(|old| Some((old.token_id(), old.key_until()?)));
        let row_of_old = match ending {
            Some((jti, _)) => {
                self.store.read_committed().await?.token(jti).await?.filter(|old| old.revoked_at.is_none())
            }
            None => None,
        };
        match (row_of_old, ending) {
            (Some(old), Some((_, ends_at))) => self.replace(old, row, ends_at, Records::default()).await?,
            _ => self.insert(row, Records::default()).await?,
        }
        self.write_admin_token(&created)
    }

    fn write_admin_token(&self, created: &CreatedToken) -> Result<(), AuthError> {
        private_file::write(&self.admin_token, format!("{}\n", created.token).as_bytes()).map_err(unusable)
    }
}

fn unusable(source: io::Error) -> AuthError {
    AuthError::Key { what: "cannot use the admin token", source }
}

fn already_over(old: &Token) -> AuthError {
    AuthError::Conflict {
        message: format!("the {} token {} has already ended or been replaced", old.kind, old.name),
        hint: "Create a new one with `plexus token create`.",
    }
}
