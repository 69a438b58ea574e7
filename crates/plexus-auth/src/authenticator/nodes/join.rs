//! Admission of nodes: with a one-time code, with the key shared by unattended installations, or with a
//! certificate.

use std::collections::BTreeMap;
use std::pin::Pin;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use plexus_kit::{ExposeSecret, Secret};
use plexus_proto::api::{AuditPhase, CreatedToken, NodeCredential, TokenKind};
use plexus_proto::{CallId, NodeId, Timestamp, TokenId, node_name};
use plexus_store::{Conn, Enrolment, NewAudit, NodeRecord, Records};
use serde_json::{Value, json};

use super::{Authenticator, MAX_NODES, check_node_name, code_hash, is_void, name_taken, too_many};
use crate::AuthError;
use crate::authenticator::{fingerprint, mint};

/// A future that admits a node within a transaction.
type Admitting<'c> = Pin<Box<dyn Future<Output = Result<(), AuthError>> + Send + 'c>>;

/// Name of this operation in the audit log.
const JOIN: &str = "node_join";

impl Authenticator {
    /// Exchanges a code for a credential. Consuming the code, creating the node and storing the credential is
    /// one transaction: if several machines present the same code, exactly one is admitted.
    pub async fn join_with_code(&self, code: &str) -> Result<NodeCredential, AuthError> {
        let (hash, now) = (code_hash(code), self.clock.now());
        // Rejects wrong codes without involving the writer.
        let invite =
            self.store.read_committed().await?.node_invite(&hash, now).await?.ok_or_else(bad_code)?;
        let (created, row) = self.sign_node(invite.node_id)?;
        let node = NodeRecord {
            id: invite.node_id,
            name: invite.name,
            labels: invite.labels,
            enrolled_by: Enrolment::Code,
            created_by: invite.created_by,
            created_at: now,
            draining: false,
            epoch: 0,
            about: None,
            last_seen_at: None,
        };
        let records = self.join_records(Some(created.jti), &node, invite.rejoin);
        let joined = joined(&created, &node);
        self.admit(
            move |conn| {
                Box::pin(async move {
                    let invite = conn.take_node_invite(&hash, now).await?.ok_or_else(bad_code)?;
                    let inviter = conn.token(invite.token_id).await?;
                    if invite.node_id != node.id || is_void(inviter.as_ref(), now) {
                        return Err(bad_code());
                    }
                    match invite.rejoin {
                        true => rejoin(conn, node.id, now).await?,
                        false => enrol(conn, &node).await?,
                    }
                    mint::insert(conn, &row).await
                })
            },
            records,
        )
        .await?;
        Ok(joined)
    }

    /// Exchanges the shared key for a credential of the node with this name: a new node, or one that joined
    /// with the key before, whose previous credentials then end. The key never takes over an invited node.
    /// `occupied` tells whether the node with this id is connected or expected to reconnect, and so does not
    /// need to join.
    pub async fn join_with_key(
        &self,
        expected: Option<&Secret>,
        key: &str,
        name: &str,
        labels: BTreeMap<String, String>,
        occupied: impl Fn(NodeId) -> bool,
    ) -> Result<NodeCredential, AuthError> {
        let expected = expected.ok_or(AuthError::NotAdmitted(
            "this hub does not admit nodes with a key: it has no key configured (nodes.key)",
        ))?;
        let matches = |key: &str| {
            verify_slices_are_equal(&fingerprint(key), &fingerprint(expected.expose_secret())).is_ok()
        };
        if !matches(key) {
            return Err(AuthError::NotAdmitted("the key does not match this hub's key (nodes.key)"));
        }
        check_node_name(name)?;
        node_name::check_labels(&labels).map_err(AuthError::Invalid)?;
        let now = self.clock.now();
        let existing = self.store.read_committed().await?.node_named(name).await?;
        if let Some(existing) = &existing {
            check_rejoin(existing, occupied(existing.id))?;
        }
        let rejoin = existing.is_some();
        let node = existing.unwrap_or_else(|| self.new_node(name, labels, Enrolment::Key));
        let (created, row) = self.sign_node(node.id)?;
        let records = self.join_records(Some(created.jti), &node, rejoin);
        let joined = joined(&created, &node);
        self.admit(
            move |conn| {
                Box::pin(async move {
                    // The state may have changed since it was read.
                    match conn.node(node.id).await?.filter(|_| rejoin) {
                        Some(now_there) if now_there.name == node.name => {
                            check_rejoin(&now_there, false)?;
                            conn.revoke_tokens_of(TokenKind::Node, &row.name, now).await?;
                        }
                        Some(_) => return Err(name_taken(&node.name)),
                        None if is_invited(conn, &node.name, now).await? => {
                            return Err(name_taken(&node.name));
                        }
                        None => enrol(conn, &node).await?,
                    }
                    mint::insert(conn, &row).await
                })
            },
            records,
        )
        .await?;
        Ok(joined)
    }

    /// Finds or creates the node for a certificate signed by the CA of the hub's nodes: the node with one of
    /// the certificate's names or ids, or else a new one. The certificate remains the node's proof, so no
    /// credential is issued. Since it cannot be revoked, it does not create a node under a name that a
    /// certificate node has lost. `until` is the certificate's expiry.
    pub async fn join_with_certificate(
        &self,
        names: &[String],
        until: Timestamp,
    ) -> Result<NodeCredential, AuthError> {
        let mut reader = self.store.read_committed().await?;
        for name in names {
            let existing = match name.parse() {
                Ok(id) => reader.node(id).await?,
                Err(_) => reader.node_named(name).await?,
            };
            match existing {
                Some(node) if node.enrolled_by == Enrolment::Local => return Err(not_local()),
                Some(node) if node.enrolled_by == Enrolment::Certificate => {
                    return Ok(certified(&node, until));
                }
                Some(node) => return Err(not_certified(&node.name)),
                None => {}
            }
        }
        drop(reader);
        let name = names.iter().find(|name| node_name::check(name).is_ok()).ok_or_else(|| {
            AuthError::Forbidden(format!(
                "the certificate is for {}, which is neither an existing nor a valid node name; issue it for a single word, such as nas",
                quoted_names(names)
            ))
        })?;
        check_node_name(name)?;
        let node = self.new_node(name, BTreeMap::new(), Enrolment::Certificate);
        let (records, joined) = (self.join_records(None, &node, false), certified(&node, until));
        let (now, names) = (node.created_at, names.to_vec());
        self.admit(
            move |conn| {
                Box::pin(async move {
                    for name in &names {
                        if conn.is_node_certificate_barred(name).await? {
                            return Err(barred_name_error(&node.name));
                        }
                    }
                    if is_invited(conn, &node.name, now).await? {
                        return Err(name_taken(&node.name));
                    }
                    enrol(conn, &node).await
                })
            },
            records,
        )
        .await?;
        Ok(joined)
    }

    /// The record of a new node.
    fn new_node(&self, name: &str, labels: BTreeMap<String, String>, enrolled_by: Enrolment) -> NodeRecord {
        NodeRecord {
            id: NodeId::new(),
            name: name.to_owned(),
            labels,
            enrolled_by,
            created_by: enrolled_by.as_str().to_owned(),
            created_at: self.clock.now(),
            draining: false,
            epoch: 0,
            about: None,
            last_seen_at: None,
        }
    }

    /// Admits a node in one transaction.
    async fn admit<W>(&self, work: W, records: Records) -> Result<(), AuthError>
    where
        W: for<'c> FnOnce(&'c mut Conn) -> Admitting<'c> + Send + 'static,
    {
        let detail = records.audit.first().map(|entry| entry.detail.clone()).unwrap_or_default();
        let done = move |outcome: &Result<(), AuthError>| match outcome {
            Ok(()) => records,
            Err(_) => Records::default(),
        };
        self.store.transact(work, done).await??;
        tracing::info!(%detail, "{JOIN}");
        // Previous credentials may have been revoked.
        self.refresh_revocations().await
    }

    fn join_records(&self, token: Option<TokenId>, node: &NodeRecord, rejoin: bool) -> Records {
        let detail = json!({
            "node": node.id, "name": node.name, "labels": node.labels, "by": node.enrolled_by.as_str(),
            "invited_by": node.created_by, "rejoin": rejoin, "jti": token,
        });
        let (call_id, at) = (CallId::new(), self.clock.now());
        let entry = |phase, outcome: &'static str, detail: &Value| NewAudit {
            at,
            phase,
            call_id: Some(call_id),
            token_id: token,
            actor: format!("{}:{}", TokenKind::Node, node.id),
            session_id: None,
            tool: JOIN.to_owned(),
            via: "rest".into(),
            outcome: outcome.into(),
            detail: detail.to_string(),
        };
        let audit = vec![entry(AuditPhase::Started, "", &detail), entry(AuditPhase::Finished, "ok", &detail)];
        Records { audit, events: vec![] }
    }
}

/// Stores a new node.
async fn enrol(conn: &mut Conn, node: &NodeRecord) -> Result<(), AuthError> {
    if conn.node_count().await? >= MAX_NODES {
        return Err(too_many());
    }
    if conn.insert_node(node).await? { Ok(()) } else { Err(name_taken(&node.name)) }
}

/// Revokes the previous holder's access to the node, however it was obtained.
async fn rejoin(conn: &mut Conn, id: NodeId, now: Timestamp) -> Result<(), AuthError> {
    let former = conn.node(id).await?.ok_or_else(bad_code)?;
    conn.revoke_tokens_of(TokenKind::Node, &id.to_string(), now).await?;
    if former.enrolled_by == Enrolment::Certificate {
        conn.bar_node_certificate(&former.name, id, now).await?;
    }
    Ok(conn.set_node_enrolment(id, Enrolment::Code).await?)
}

/// Whether an existing node may be rejoined with the key.
fn check_rejoin(node: &NodeRecord, occupied: bool) -> Result<(), AuthError> {
    if node.enrolled_by != Enrolment::Key {
        return Err(AuthError::Forbidden(format!(
            "the node {} did not join with the key, so the key cannot take it over; choose another name, or invite it with --rejoin",
            node.name
        )));
    }
    if occupied {
        return Err(AuthError::Conflict {
            message: format!("the node {} is connected, or is expected to reconnect", node.name),
            hint: "Stop it on the other machine and try again later, or choose another name for this machine.",
        });
    }
    Ok(())
}

fn joined(created: &CreatedToken, node: &NodeRecord) -> NodeCredential {
    NodeCredential {
        node_id: node.id,
        name: node.name.clone(),
        token: Some(created.token.clone()),
        expires_at: created.expires_at,
    }
}

/// The credential of a certificate node, which has no token.
fn certified(node: &NodeRecord, until: Timestamp) -> NodeCredential {
    NodeCredential { node_id: node.id, name: node.name.clone(), token: None, expires_at: until }
}

/// Whether a name is reserved by an invitation.
async fn is_invited(conn: &mut Conn, name: &str, now: Timestamp) -> Result<bool, AuthError> {
    Ok(conn.node_invites(now).await?.iter().any(|invite| invite.name == name))
}

fn barred_name_error(name: &str) -> AuthError {
    AuthError::Forbidden(format!(
        "the node of this certificate was removed, renamed or joined with a code, so the certificate alone does not bring it \
         back; run `plexus node invite {name}` on the hub (with --rejoin if the node exists), and join with the code"
    ))
}

fn not_certified(name: &str) -> AuthError {
    AuthError::Forbidden(format!(
        "the node {name} did not join with a certificate, so a certificate cannot take it over; join with a code (`plexus node \
         invite {name} --rejoin` on the hub), or remove that node first"
    ))
}

fn not_local() -> AuthError {
    AuthError::Forbidden(
        "the hub's own machine does not use a certificate, and no other machine can take its place"
            .to_owned(),
    )
}

/// The names of a certificate, for display.
fn quoted_names(names: &[String]) -> String {
    let cut = |name: &String| format!("{:?}", name.chars().take(64).collect::<String>());
    match names {
        [] => "no name".to_owned(),
        names => names.iter().take(5).map(cut).collect::<Vec<_>>().join(", "),
    }
}

fn bad_code() -> AuthError {
    AuthError::NotAdmitted("the code is not valid: it was used, withdrawn or mistyped, or has expired")
}
