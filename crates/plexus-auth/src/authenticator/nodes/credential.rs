//! What a node proves itself with.
//!
//! A credential is a token that only this file makes: of kind `node`, in the name of the id of the node, with one scope. It
//! has no parent, so that a node outlives the token of whoever invited it; what ends it is the removal of the node, another
//! machine that joins in its place, or its own successor.

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

/// Name of this operation in the audit.
const RENEW: &str = "node_renew";
/// Long enough for a machine that is switched off over the holidays.
const TTL: u64 = 90 * DAY;
/// How long the former credential goes on after a renewal, whose answer may have been lost.
const GRACE: Duration = Duration::from_secs(60 * 60);
/// Credentials of one node that are accepted at the same time.
const MOST: i64 = 10;

impl Authenticator {
    /// A credential of a node and the row that goes with it; nothing is stored yet.
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

    /// Another credential for the node that shows one; all that it had end an hour later. So of two who have the same
    /// credential one is shut out, and a theft is noticed.
    pub async fn renew_node(&self, by: &Principal, id: NodeId) -> Result<NodeCredential, AuthError> {
        let asked = json!({ "node": id });
        if !by.is_node(id) {
            let error = AuthError::Forbidden("this credential is that of another node".to_owned());
            return self.refused(by, RENEW, error, &asked).await;
        }
        let (created, row) = self.sign_node(id)?;
        let detail = json!({ "node": id, "jti": created.jti });
        let records = self.records(by, RENEW, "ok", &detail);
        let (shown, now, ends_at) = (by.token_id(), self.clock.now(), self.after(GRACE));
        let renewed = self
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        let revoked = |token: &Token| token.revoked_at.is_some_and(|at| at <= now);
                        if conn.token(shown).await?.is_none_or(|token| revoked(&token)) {
                            return Err(AuthError::Revoked);
                        }
                        let Some(node) = conn.node(id).await? else { return Err(AuthError::Revoked) };
                        if conn.live_tokens_of(TokenKind::Node, &row.name, now).await? >= MOST {
                            return Err(AuthError::Conflict {
                                message: format!("this node has {MOST} credentials, the most allowed"),
                                hint: "Use the newest; the others end within the hour.",
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
            Err(error) => self.refused(by, RENEW, error, &asked).await,
        }
    }
}
