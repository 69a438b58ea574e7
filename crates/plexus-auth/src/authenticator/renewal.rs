//! Renewal: a token requests a successor, as programs do before it expires.
//!
//! The new token is a child of the presented one: revoking that token or one of its ancestors revokes the
//! renewals too.

use plexus_proto::api::{CreatedToken, Token};
use serde_json::json;

use super::mint::Plan;
use super::{Authenticator, log};
use crate::{AuthError, Principal};

/// Name of this operation in the audit log.
const RENEW: &str = "token_renew";
/// Maximum number of children of one token; beyond that the newest must be renewed.
const RENEWALS: i64 = 100;

impl Authenticator {
    /// Issues a token of the same kind, name, scopes, profile and lifetime; the presented one remains valid
    /// until it expires.
    pub async fn renew(&self, by: &Principal) -> Result<CreatedToken, AuthError> {
        let requested = json!({ "jti": by.token_id(), "kind": by.kind(), "name": by.name() });
        let mut reader = self.store.read_committed().await?;
        let token = reader.token(by.token_id()).await?.ok_or(AuthError::InvalidToken)?;
        let children = reader.token_children(by.token_id()).await?;
        drop(reader);
        let plan = match self.plan_renewed(token, children) {
            Ok(plan) => plan,
            Err(error) => return self.refused(by, RENEW, error, &requested).await,
        };
        let (created, row) = self.sign(plan, Some(by.token_id()))?;
        let detail = json!({ "jti": created.jti, "kind": created.kind, "name": created.name });
        if let Err(error) = self.insert(row, self.records(by, RENEW, "ok", &detail)).await {
            return self.refused(by, RENEW, error, &requested).await;
        }
        log(by, RENEW, "ok", &detail);
        Ok(created)
    }

    fn plan_renewed(&self, token: Token, children: i64) -> Result<Plan, AuthError> {
        let now = self.clock.now();
        let Some(renew_until) = token.renew_until else {
            return Err(AuthError::NotRenewable("this token cannot be renewed".to_owned()));
        };
        if renew_until <= now {
            let message = format!("this token could be renewed only until {renew_until}");
            return Err(AuthError::NotRenewable(message));
        }
        if children >= RENEWALS {
            return Err(AuthError::Conflict {
                message: format!("this token has reached the limit of {children} tokens created from it"),
                hint: "Renew the newest of them instead.",
            });
        }
        let lifetime = token.expires_at.as_second() - token.created_at.as_second();
        let expires_at = self.in_seconds(u64::try_from(lifetime).unwrap_or(0)).min(renew_until);
        Ok(Plan {
            kind: token.kind,
            name: token.name,
            scopes: token.scopes,
            profile: token.profile,
            node: token.node,
            expires_at,
            renew_until: Some(renew_until),
        })
    }
}
