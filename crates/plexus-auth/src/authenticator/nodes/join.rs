//! A machine becomes a node: with a code, once, with the key that unattended installations share, or with a certificate.

use std::collections::BTreeMap;
use std::pin::Pin;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use plexus_kit::{ExposeSecret, Secret};
use plexus_proto::api::{AuditPhase, CreatedToken, NodeCredential, TokenKind};
use plexus_proto::{CallId, NodeId, Timestamp, TokenId, node_name};
use plexus_store::{Conn, Enrolment, NewAudit, NodeRecord, Records};
use serde_json::{Value, json};

use super::{Authenticator, MOST_NODES, check_node_name, code_hash, is_void, name_taken, too_many};
use crate::AuthError;
use crate::authenticator::{fingerprint, mint};

/// Work that lets a node in.
type Admitting<'c> = Pin<Box<dyn Future<Output = Result<(), AuthError>> + Send + 'c>>;

/// Name of this operation in the audit.
const JOIN: &str = "node_join";

impl Authenticator {
    /// Trades a code for a credential. The code is used up, the node is there and its credential is stored in one transaction:
    /// of any number who come with the same code, one is let in.
    pub async fn join_with_code(&self, code: &str) -> Result<NodeCredential, AuthError> {
        let (hash, now) = (code_hash(code), self.clock.now());
        // Who guesses does not get as far as the writer.
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
                    let taken = conn.take_node_invite(&hash, now).await?.ok_or_else(bad_code)?;
                    let inviter = conn.token(taken.token_id).await?;
                    if taken.node_id != node.id || is_void(inviter.as_ref(), now) {
                        return Err(bad_code());
                    }
                    match taken.rejoin {
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

    /// Trades the shared key for a credential of a node of this name: a new one, or one that came with the key before, whose
    /// former credentials then end. A node that was invited is never given away for the key. `occupied`: whether the
    /// node of this id is connected or about to be again, and so has no need to join.
    pub async fn join_with_key(
        &self,
        expected: Option<&Secret>,
        key: &str,
        name: &str,
        labels: BTreeMap<String, String>,
        occupied: impl Fn(NodeId) -> bool,
    ) -> Result<NodeCredential, AuthError> {
        let expected = expected.ok_or(AuthError::NotAdmitted(
            "this hub lets no node in with a key: it has none itself (nodes.key)",
        ))?;
        let matches = |key: &str| {
            verify_slices_are_equal(&fingerprint(key), &fingerprint(expected.expose_secret())).is_ok()
        };
        if !matches(key) {
            return Err(AuthError::NotAdmitted("the key is not that of this hub"));
        }
        check_node_name(name)?;
        node_name::check_labels(&labels).map_err(AuthError::Invalid)?;
        let now = self.clock.now();
        let known = self.store.read_committed().await?.node_named(name).await?;
        if let Some(known) = &known {
            check_rejoin(known, occupied(known.id))?;
        }
        let rejoin = known.is_some();
        let node = known.unwrap_or_else(|| self.newcomer(name, labels, Enrolment::Key));
        let (created, row) = self.sign_node(node.id)?;
        let records = self.join_records(Some(created.jti), &node, rejoin);
        let joined = joined(&created, &node);
        self.admit(
            move |conn| {
                Box::pin(async move {
                    // What was read before may have changed since.
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

    /// Which node a certificate is for, that the authority of the hub's nodes has signed: the one that has its name or id,
    /// else a new one. It is its own proof from then on, so nothing is handed out; and since nobody can take it back, it makes
    /// no node of a name that one who came so has lost. `until`: when it expires.
    pub async fn join_with_certificate(
        &self,
        names: &[String],
        until: Timestamp,
    ) -> Result<NodeCredential, AuthError> {
        let mut reader = self.store.read_committed().await?;
        for name in names {
            let known = match name.parse() {
                Ok(id) => reader.node(id).await?,
                Err(_) => reader.node_named(name).await?,
            };
            match known {
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
                "the certificate is for {}, and no node is or can be called so; have it made for one word, such as nas",
                shown(names)
            ))
        })?;
        check_node_name(name)?;
        let node = self.newcomer(name, BTreeMap::new(), Enrolment::Certificate);
        let (records, joined) = (self.join_records(None, &node, false), certified(&node, until));
        let (now, names) = (node.created_at, names.to_vec());
        self.admit(
            move |conn| {
                Box::pin(async move {
                    for name in &names {
                        if conn.is_node_certificate_barred(name).await? {
                            return Err(barred(&node.name));
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

    /// A node that was not there before.
    fn newcomer(&self, name: &str, labels: BTreeMap<String, String>, enrolled_by: Enrolment) -> NodeRecord {
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

    /// Lets a node in, all or nothing.
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
        // Former credentials end with this.
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

/// Stores a node that was not there.
async fn enrol(conn: &mut Conn, node: &NodeRecord) -> Result<(), AuthError> {
    if conn.node_count().await? >= MOST_NODES {
        return Err(too_many());
    }
    if conn.insert_node(node).await? { Ok(()) } else { Err(name_taken(&node.name)) }
}

/// Whoever had this node until now has it no longer, however they came by it.
async fn rejoin(conn: &mut Conn, id: NodeId, now: Timestamp) -> Result<(), AuthError> {
    let former = conn.node(id).await?.ok_or_else(bad_code)?;
    conn.revoke_tokens_of(TokenKind::Node, &id.to_string(), now).await?;
    if former.enrolled_by == Enrolment::Certificate {
        conn.bar_node_certificate(&former.name, id, now).await?;
    }
    Ok(conn.set_node_enrolment(id, Enrolment::Code).await?)
}

/// Whether a node that is there may be joined again for the key.
fn check_rejoin(node: &NodeRecord, occupied: bool) -> Result<(), AuthError> {
    if node.enrolled_by != Enrolment::Key {
        return Err(AuthError::Forbidden(format!(
            "the node {} did not come with the key, and is not given away for it; take another name, or invite it with --rejoin",
            node.name
        )));
    }
    if occupied {
        return Err(AuthError::Conflict {
            message: format!("the node {} is connected, or was a moment ago and is waited for", node.name),
            hint: "Stop it there first and join again after a while, or give this machine another name.",
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

/// The node as it is by its certificate alone.
fn certified(node: &NodeRecord, until: Timestamp) -> NodeCredential {
    NodeCredential { node_id: node.id, name: node.name.clone(), token: None, expires_at: until }
}

/// Whether a name is kept for a machine that was invited.
async fn is_invited(conn: &mut Conn, name: &str, now: Timestamp) -> Result<bool, AuthError> {
    Ok(conn.node_invites(now).await?.iter().any(|invite| invite.name == name))
}

fn barred(name: &str) -> AuthError {
    AuthError::Forbidden(format!(
        "the node of this certificate was removed, renamed or joined with a code, and a certificate alone does not bring it \
         back; run `plexus node invite {name}` on the hub (with --rejoin where that node is there), and join with the code"
    ))
}

fn not_certified(name: &str) -> AuthError {
    AuthError::Forbidden(format!(
        "the node {name} did not come with a certificate, and is not given away for one; join with a code (`plexus node \
         invite {name} --rejoin` on the hub), or remove that node first"
    ))
}

fn not_local() -> AuthError {
    AuthError::Forbidden("the machine of the hub needs no certificate, and nobody else is it".to_owned())
}

/// Names as a certificate has them, for a person.
fn shown(names: &[String]) -> String {
    let cut = |name: &String| format!("{:?}", name.chars().take(64).collect::<String>());
    match names {
        [] => "nobody".to_owned(),
        names => names.iter().take(5).map(cut).collect::<Vec<_>>().join(", "),
    }
}

fn bad_code() -> AuthError {
    AuthError::NotAdmitted("the code is not valid: it was used, withdrawn, has expired, or never was one")
}
