//! Nodes: admission, changes and removal.
//!
//! - A machine becomes a node with an invitation code, or with the key shared by unattended installations
//!   ([`join`]). Either way it receives a credential that is valid only for its own link, and which it
//!   [renews](credential) automatically.
//! - An invitation is valid for one machine, one use and a limited time, and only while its creator is
//!   authorized: a token's invitations become void when it is revoked or expires.
//! - Removing a node revokes all its credentials in the same transaction. A certificate cannot be revoked
//!   here; instead its name is barred from creating a node again.

mod credential;
mod join;

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_kit::hex;
use plexus_proto::api::{ChangeNodeParams, InviteNodeParams};
use plexus_proto::{NodeId, Timestamp, node_name};
use plexus_store::{Enrolment, NodeInvite, NodeRecord, Records};
use serde_json::{Value, json};

use super::{Authenticator, fingerprint, log};
use crate::{AuthError, Principal};

/// Names of these operations in the audit log.
const INVITE: &str = "node_invite";
const WITHDRAW: &str = "node_invite_withdraw";
const CHANGE: &str = "node_change";
const REMOVE: &str = "node_remove";

/// Scope required for these operations.
const MANAGE: &str = "manage:nodes";
/// Name of the hub's own machine, reserved for it.
const LOCAL: &str = "local";

/// Default and maximum lifetime of a code in seconds.
const CODE_TTL: u64 = 15 * 60;
const MAX_CODE_TTL: u64 = 7 * 24 * 60 * 60;
/// Maximum number of nodes and of invitations.
const MAX_NODES: i64 = 10_000;
const MAX_INVITES: usize = 1_000;

/// An invitation and its code; only the hash of the code is stored.
pub struct Invited {
    pub code: String,
    pub invite: NodeInvite,
}

impl std::fmt::Debug for Invited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invited").field("name", &self.invite.name).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Creates a code that lets one machine join as this node. Voids an earlier code for the same name.
    pub async fn invite_node(&self, by: &Principal, params: InviteNodeParams) -> Result<Invited, AuthError> {
        let requested = json!({ "name": params.name, "labels": params.labels, "rejoin": params.rejoin });
        let planned = self.plan_invite(by, params);
        let invited = match planned {
            Ok(invited) => self.store_invite(by, invited).await,
            Err(error) => Err(error),
        };
        match invited {
            Ok(invited) => {
                log(by, INVITE, "ok", &requested);
                Ok(invited)
            }
            Err(error) => self.refused(by, INVITE, error, &requested).await,
        }
    }

    fn plan_invite(&self, by: &Principal, params: InviteNodeParams) -> Result<Invited, AuthError> {
        check_manager(by)?;
        check_node_name(&params.name)?;
        node_name::check_labels(&params.labels).map_err(AuthError::Invalid)?;
        let ttl = params.ttl_seconds.unwrap_or(CODE_TTL);
        if !(1..=MAX_CODE_TTL).contains(&ttl) {
            let days = MAX_CODE_TTL / 86_400;
            return Err(AuthError::Invalid(format!(
                "the lifetime of a code must be between 1 second and {days} days"
            )));
        }
        let code = new_code()?;
        let invite = NodeInvite {
            code_hash: code_hash(&code),
            node_id: NodeId::new(),
            name: params.name,
            labels: params.labels,
            rejoin: params.rejoin,
            token_id: by.token_id(),
            created_by: by.subject().to_owned(),
            created_at: self.clock.now(),
            expires_at: self.after(Duration::from_secs(ttl)),
        };
        Ok(Invited { code, invite })
    }

    async fn store_invite(&self, by: &Principal, invited: Invited) -> Result<Invited, AuthError> {
        let Invited { code, mut invite } = invited;
        let now = invite.created_at;
        let detail = json!({
            "node": invite.node_id, "name": invite.name, "labels": invite.labels, "rejoin": invite.rejoin,
            "expires_at": invite.expires_at,
        });
        let records = self.records(by, INVITE, "ok", &detail);
        let invite = self
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        match (conn.node_named(&invite.name).await?, invite.rejoin) {
                            (Some(node), true) => invite.node_id = node.id,
                            (None, true) => return Err(no_node(&invite.name)),
                            (Some(_), false) => return Err(name_taken(&invite.name)),
                            (None, false) if conn.node_count().await? >= MAX_NODES => return Err(too_many()),
                            (None, false) => {}
                        }
                        conn.purge_node_invites(now).await?;
                        if conn.node_invites(now).await?.len() >= MAX_INVITES {
                            return Err(too_many());
                        }
                        conn.insert_node_invite(&invite).await?;
                        Ok(invite)
                    })
                },
                move |outcome| if outcome.is_ok() { records } else { Records::default() },
            )
            .await??;
        Ok(Invited { code, invite })
    }

    /// Voids the code for a name. Returns false if there is none.
    pub async fn withdraw_invite(&self, by: &Principal, name: &str) -> Result<bool, AuthError> {
        let detail = json!({ "name": name });
        if let Err(error) = check_manager(by) {
            return self.refused(by, WITHDRAW, error, &detail).await;
        }
        let (name, records) = (name.to_owned(), self.records(by, WITHDRAW, "ok", &detail));
        let withdrawn = self
            .store
            .transact(
                move |conn| Box::pin(async move { conn.delete_node_invite(&name).await }),
                move |outcome| if matches!(outcome, Ok(true)) { records } else { Records::default() },
            )
            .await
            .flatten()?;
        if withdrawn {
            log(by, WITHDRAW, "ok", &detail);
        }
        Ok(withdrawn)
    }

    /// Changes a node's name, labels or draining state. `None` if there is no such node.
    pub async fn change_node(
        &self,
        by: &Principal,
        id: NodeId,
        params: ChangeNodeParams,
    ) -> Result<Option<NodeRecord>, AuthError> {
        let mut requested = json!({ "node": id });
        if let (Value::Object(requested), Ok(Value::Object(changes))) =
            (&mut requested, serde_json::to_value(&params))
        {
            requested.extend(changes);
        }
        let checked = check_manager(by).and_then(|()| check_change(&params));
        if let Err(error) = checked {
            return self.refused(by, CHANGE, error, &requested).await;
        }
        let records = self.records(by, CHANGE, "ok", &requested);
        let now = self.clock.now();
        let changed = self
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        let Some(node) = conn.node(id).await? else { return Ok(None) };
                        let former = node.name.clone();
                        let node = NodeRecord {
                            name: params.name.unwrap_or(node.name),
                            labels: changed_labels(
                                params.labels.unwrap_or(node.labels),
                                params.change_labels,
                            )?,
                            draining: params.draining.unwrap_or(node.draining),
                            ..node
                        };
                        let invited = conn.node_invites(now).await?;
                        let is_name_taken =
                            invited.iter().any(|other| other.name == node.name && other.node_id != id);
                        if is_name_taken || (node.enrolled_by == Enrolment::Local) != (node.name == LOCAL) {
                            return Err(name_taken(&node.name));
                        }
                        if node.enrolled_by == Enrolment::Certificate && node.name != former {
                            conn.bar_node_certificate(&former, id, now).await?;
                        }
                        match conn.update_node(id, &node.name, &node.labels, node.draining).await? {
                            true => Ok(Some(node)),
                            false => Err(name_taken(&node.name)),
                        }
                    })
                },
                move |outcome| if matches!(outcome, Ok(Some(_))) { records } else { Records::default() },
            )
            .await?;
        match changed {
            Ok(changed) => {
                log(by, CHANGE, "ok", &requested);
                Ok(changed)
            }
            Err(error) => self.refused(by, CHANGE, error, &requested).await,
        }
    }

    /// Removes a node and voids its credentials and invitations. `None` if there is no such node.
    pub async fn remove_node(&self, by: &Principal, id: NodeId) -> Result<Option<NodeRecord>, AuthError> {
        let requested = json!({ "node": id });
        if let Err(error) = check_manager(by) {
            return self.refused(by, REMOVE, error, &requested).await;
        }
        let (now, template) = (self.clock.now(), self.records(by, REMOVE, "ok", &requested));
        let removed = self
            .store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        let Some(node) = conn.node(id).await? else { return Ok(None) };
                        if node.enrolled_by == Enrolment::Local {
                            return Err(AuthError::Conflict {
                                message: "the hub's own machine cannot be removed".to_owned(),
                                hint: "Drain it, so that it receives no calls: `plexus node drain local`.",
                            });
                        }
                        conn.delete_node(id).await?;
                        if node.enrolled_by == Enrolment::Certificate {
                            conn.bar_node_certificate(&node.name, id, now).await?;
                        }
                        conn.revoke_tokens_of(plexus_proto::api::TokenKind::Node, &id.to_string(), now)
                            .await?;
                        Ok(Some(node))
                    })
                },
                move |outcome| match outcome {
                    Ok(Some(node)) => with_node_name(template, id, &node.name),
                    _ => Records::default(),
                },
            )
            .await?;
        match removed {
            Ok(removed) => {
                if removed.is_some() {
                    log(by, REMOVE, "ok", &requested);
                    self.refresh_revocations().await?;
                }
                Ok(removed)
            }
            Err(error) => self.refused(by, REMOVE, error, &requested).await,
        }
    }
}

/// Adds the name of the node to the records, since it is not stored anywhere else after the removal.
fn with_node_name(mut records: Records, id: NodeId, name: &str) -> Records {
    for entry in &mut records.audit {
        entry.detail = json!({ "node": id, "name": name }).to_string();
    }
    records
}

fn check_manager(by: &Principal) -> Result<(), AuthError> {
    if by.allows(MANAGE) {
        return Ok(());
    }
    Err(AuthError::Forbidden(format!(
        "{} may not manage nodes: its token lacks the scope {MANAGE}",
        by.subject()
    )))
}

/// Checks a name for a machine other than the hub's own.
fn check_node_name(name: &str) -> Result<(), AuthError> {
    node_name::check(name).map_err(AuthError::Invalid)?;
    if name == LOCAL {
        return Err(AuthError::Invalid(format!(
            "{LOCAL} is reserved for the hub's own machine; choose another name"
        )));
    }
    Ok(())
}

fn check_change(params: &ChangeNodeParams) -> Result<(), AuthError> {
    if let Some(name) = params.name.as_deref().filter(|name| *name != LOCAL) {
        check_node_name(name)?;
    }
    params.labels.as_ref().map_or(Ok(()), node_name::check_labels).map_err(AuthError::Invalid)
}

/// Applies changes and removals to labels.
fn changed_labels(
    mut labels: BTreeMap<String, String>,
    changes: BTreeMap<String, Option<String>>,
) -> Result<BTreeMap<String, String>, AuthError> {
    for (key, value) in changes {
        match value {
            Some(value) => labels.insert(key, value),
            None => labels.remove(&key),
        };
    }
    node_name::check_labels(&labels).map_err(AuthError::Invalid)?;
    Ok(labels)
}

fn no_node(name: &str) -> AuthError {
    AuthError::Conflict {
        message: format!("there is no node {name} to rejoin"),
        hint: "Invite it as a new node: omit --rejoin.",
    }
}

fn name_taken(name: &str) -> AuthError {
    AuthError::Conflict {
        message: format!("the name {name} is already used by a node or an invitation"),
        hint: "Choose another name; remove that node; or, if it lost its credential, invite it with --rejoin.",
    }
}

fn too_many() -> AuthError {
    AuthError::Conflict {
        message: format!("the limit of {MAX_NODES} nodes or {MAX_INVITES} invitations is reached"),
        hint: "Remove some first.",
    }
}

/// 128 random bits: infeasible to guess and short enough to paste.
fn new_code() -> Result<String, AuthError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| AuthError::DamagedKey("cannot generate a code: no randomness available".to_owned()))?;
    Ok(hex::encode(&bytes))
}

fn code_hash(code: &str) -> String {
    hex::encode(&fingerprint(code))
}

/// Whether the token that created the invitation was revoked or has expired.
fn is_void(inviter: Option<&plexus_proto::api::Token>, now: Timestamp) -> bool {
    inviter.is_none_or(|token| token.expires_at <= now || token.revoked_at.is_some_and(|at| at <= now))
}

#[cfg(test)]
mod tests;
