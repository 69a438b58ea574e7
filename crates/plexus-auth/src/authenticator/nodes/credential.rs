//! Credentials of nodes.
//!
//! A credential is a token of kind `node`, named after the node's id, with a single scope; only this file
//! creates it. It has no parent, so that a node outlives the token of its inviter. It ends when the node is
//! removed, when another machine joins in its place, or when it is renewed.

use std::time::Duration;

use plexus_proto::NodeId;
use plexus_proto::api::{CreatedToken, NodeCredential, Token, TokenKind};
use plexus_store::Records;
use serde_json::json;

use super::Authenticator;
use crate::authenticator::{log, mint};
use crate::policy::DAY;
use crate::principal::link_scope;
use crate::{AuthError, Principal};

/// Name of this operation in the audit log.
const RENEW: &str = "node_renew";
/// Covers a machine that is switched off for weeks.
const TTL: u64 = 90 * DAY;
/// How long the previous credential stays valid after a renewal, whose answer may have been lost.
const GRACE: Duration = Duration::from_secs(60 * 60);
/// Maximum number of concurrently valid credentials of one node.
const MOST: i64 = 10;

impl Authenticator {
    /// Signs a credential of a node; the returned row is not stored yet.
    pub(super) fn sign_node(&self, id: NodeId) -> Result<(CreatedToken, Token), AuthError> {
        let plan = mint::Plan {
            kind: TokenKind::Node,
            name: id.to_string(),
            scopes: vec![link_scope(id)],
            profile: None,
            node: None,
            expires_at: self.in_seconds(TTL),
            renew_until: None,
        };
        self.sign(plan, None)
    }

    /// Issues another credential to a node that presents one; all its previous ones end an hour later. If two
    /// machines use the same credential, one is locked out and the theft is noticed.
    pub async fn renew_node(&self, by: &Principal, id: NodeId) -> Result<NodeCredential, AuthError> {
        let requested = json!({ "node": id });
        if !by.is_node(id) {
            let error = AuthError::Forbidden("this credential belongs to another node".to_owned());
            return self.refused(by, RENEW, error, &requested).await;
        }
        let (created, row) = self.sign_node(id)?;
        let detail = json!({ "node": id, "jti": created.jti });
        let records = self.records(by, RENEW, "ok", &detail);
        let (presented, now, ends_at) = (by.token_id(), self.clock.now(), self.after(GRACE));
        let renewed = self
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        let revoked = |token: &Token| token.revoked_at.is_some_and(|at| at <= now);
                        if conn.token(presented).await?.is_none_or(|token| revoked(&token)) {
                            return Err(AuthError::Revoked);
                        }
                        let Some(node) = conn.node(id).await? else { return Err(AuthError::Revoked) };
                        if conn.live_tokens_of(TokenKind::Node, &row.name, now).await? >= MOST {
                            return Err(AuthError::Conflict {
                                message: format!("this node has reached the limit of {MOST} credentials"),
                                hint: "Use the newest; the others expire within an hour.",
                            });
                        }
                        conn.end_tokens_of(TokenKind::Node, &row.name, ends_at).await?;
                        mint::insert(conn, &row).await?;
                        Ok(node.name)
                    })
                },
                move |outcome| if outcome.is_ok() { records } else { Records::default() },
            )
            .await?;
        match renewed {
            Ok(name) => {
                log(by, RENEW, "ok", &detail);
                self.refresh_revocations().await?;
                Ok(NodeCredential {
                    node_id: id,
                    name,
                    token: Some(created.token),
                    expires_at: created.expires_at,
                })
            }
            Err(error) => self.refused(by, RENEW, error, &requested).await,
        }
    }
}
