use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Secret;
use plexus_proto::NodeId;
use plexus_proto::api::{ChangeNodeParams, CreateTokenParams, InviteNodeParams, NodeCredential, TokenKind};
use plexus_store::{AuditFilter, Enrolment};
use tokio::task::JoinSet;

use super::super::tests::{Fixture, fixture, params};
use crate::{AuthError, Principal};

const KEY: &str = "a key of thirty-two characters..";

fn invitation(name: &str) -> InviteNodeParams {
    InviteNodeParams { name: name.to_owned(), labels: [].into(), ttl_seconds: None, rejoin: false }
}

fn again(name: &str) -> InviteNodeParams {
    InviteNodeParams { rejoin: true, ..invitation(name) }
}

impl Fixture {
    async fn code(&self, params: InviteNodeParams) -> String {
        self.authenticator.invite_node(&self.admin, params).await.unwrap().code
    }

    async fn joined(&self, name: &str) -> (NodeCredential, Arc<Principal>) {
        let credential = self.authenticator.join_with_code(&self.code(invitation(name)).await).await.unwrap();
        let principal = self.authenticator.authenticate(token_of(&credential)).unwrap();
        (credential, principal)
    }

    async fn by_key(&self, key: &str, name: &str) -> Result<NodeCredential, AuthError> {
        let expected = Secret::from(KEY);
        self.authenticator.join_with_key(Some(&expected), key, name, [].into(), |_| false).await
    }

    async fn by_certificate(&self, name: &str) -> Result<NodeCredential, AuthError> {
        self.authenticator.join_with_certificate(&[name.to_owned()], self.clock.now()).await
    }

    /// Recorded operations on nodes and their outcomes, oldest first.
    async fn recorded(&self) -> Vec<(String, String)> {
        let filter = AuditFilter::default();
        let mut calls = self.store.read().await.unwrap().audit_calls("main", &filter, 200).await.unwrap();
        calls.reverse();
        let about_nodes = calls.into_iter().filter(|call| call.tool.starts_with("node_"));
        about_nodes.map(|call| (call.tool, call.outcome)).collect()
    }
}

/// The token that a node presents when it dials.
fn token_of(credential: &NodeCredential) -> &str {
    credential.token.as_deref().unwrap()
}

fn not_admitted<T: std::fmt::Debug>(outcome: Result<T, AuthError>) {
    assert!(matches!(outcome, Err(AuthError::NotAdmitted(_))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_code_admits_exactly_one_of_many_machines() {
    let f = Arc::new(fixture().await);
    let code = f.code(invitation("nas")).await;
    let mut coming = JoinSet::new();
    for _ in 0..20 {
        let (f, code) = (f.clone(), code.clone());
        coming.spawn(async move { f.authenticator.join_with_code(&code).await });
    }
    let came = coming.join_all().await;
    assert_eq!(came.iter().filter(|joined| joined.is_ok()).count(), 1);
    came.into_iter().filter(Result::is_err).for_each(not_admitted);
    not_admitted(f.authenticator.join_with_code(&code).await);
    let nodes = f.store.read().await.unwrap().nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0].name.as_str(), nodes[0].enrolled_by), ("nas", Enrolment::Code));
    assert_eq!(nodes[0].created_by, "admin:local");
    let live = f.store.read().await.unwrap().tokens(None, 100).await.unwrap();
    assert_eq!(live.iter().filter(|token| token.kind == TokenKind::Node).count(), 1);
}

#[tokio::test]
async fn expired_withdrawn_and_replaced_codes_are_void() {
    let f = fixture().await;
    let join = async |code: &str| f.authenticator.join_with_code(code).await;
    not_admitted(join("0123456789abcdef0123456789abcdef").await);
    not_admitted(join("").await);

    let expired = f.code(InviteNodeParams { ttl_seconds: Some(60), ..invitation("a") }).await;
    f.clock.advance(Duration::from_secs(60));
    not_admitted(join(&expired).await);

    let withdrawn = f.code(invitation("b")).await;
    assert!(f.authenticator.withdraw_invite(&f.admin, "b").await.unwrap());
    assert!(!f.authenticator.withdraw_invite(&f.admin, "b").await.unwrap());
    not_admitted(join(&withdrawn).await);

    let replaced = f.code(invitation("c")).await;
    let newer = f.code(invitation("c")).await;
    not_admitted(join(&replaced).await);
    join(&newer).await.unwrap();
    assert_eq!(
        f.store.read().await.unwrap().nodes().await.unwrap().len(),
        1,
        "rejected joins create no node"
    );
}

#[tokio::test]
async fn code_is_void_when_the_inviter_is_revoked_or_expired() {
    let f = fixture().await;
    let scopes = ["manage:nodes", "token:create"];
    let creator = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &scopes)).await.unwrap();
    let ann = f.authenticator.authenticate(&creator.token).unwrap();
    let code = f.authenticator.invite_node(&ann, invitation("nas")).await.unwrap().code;
    f.authenticator.revoke(&f.admin, creator.jti).await.unwrap();
    not_admitted(f.authenticator.join_with_code(&code).await);
    assert!(f.store.read().await.unwrap().nodes().await.unwrap().is_empty());
    let short = CreateTokenParams { ttl_seconds: Some(60), ..params(TokenKind::User, "cid", &scopes) };
    let short = f.authenticator.mint(&f.admin, short).await.unwrap();
    let cid = f.authenticator.authenticate(&short.token).unwrap();
    let code = f.authenticator.invite_node(&cid, invitation("nas")).await.unwrap().code;
    f.clock.advance(Duration::from_secs(61));
    not_admitted(f.authenticator.join_with_code(&code).await);
    assert!(f.store.read().await.unwrap().nodes().await.unwrap().is_empty());
    // Joined nodes are not affected: they belong to the hub, not to the inviter.
    let creator = f.authenticator.mint(&f.admin, params(TokenKind::User, "bob", &scopes)).await.unwrap();
    let bob = f.authenticator.authenticate(&creator.token).unwrap();
    let code = f.authenticator.invite_node(&bob, invitation("vps")).await.unwrap().code;
    let vps = f.authenticator.join_with_code(&code).await.unwrap();
    f.authenticator.revoke(&f.admin, creator.jti).await.unwrap();
    f.authenticator.authenticate(token_of(&vps)).unwrap();
}

#[tokio::test]
async fn rejoining_keeps_the_node_and_revokes_the_former_credential() {
    let f = fixture().await;
    let (first, _) = f.joined("nas").await;
    assert!(matches!(
        f.authenticator.invite_node(&f.admin, invitation("nas")).await,
        Err(AuthError::Conflict { .. })
    ));
    assert!(matches!(
        f.authenticator.invite_node(&f.admin, again("vps")).await,
        Err(AuthError::Conflict { .. })
    ));
    let code = f.code(again("nas")).await;
    f.authenticator.authenticate(token_of(&first)).expect("valid until the code is used");
    let second = f.authenticator.join_with_code(&code).await.unwrap();
    assert_eq!((second.node_id, second.name.as_str()), (first.node_id, "nas"));
    assert_eq!(f.refusal(token_of(&first)), "the token has been revoked");
    f.authenticator.authenticate(token_of(&second)).unwrap();

    let code = f.code(again("nas")).await;
    f.authenticator.remove_node(&f.admin, first.node_id).await.unwrap().unwrap();
    not_admitted(f.authenticator.join_with_code(&code).await);
}

#[tokio::test]
async fn node_credential_grants_only_its_own_link() {
    let f = fixture().await;
    let ((nas, principal), (vps, _)) = (f.joined("nas").await, f.joined("vps").await);
    assert_eq!(principal.subject(), format!("node:{}", nas.node_id));
    assert!(principal.is_node(nas.node_id));
    assert!(!principal.is_node(vps.node_id) && !principal.is_node(NodeId::new()));
    for scope in ["call:todo", "read:status", "node:nas", "token:create", "manage:nodes", "admin"] {
        assert!(!principal.allows(scope), "{scope}");
    }
    let mint = f.authenticator.mint(&principal, params(TokenKind::Session, "x", &[])).await;
    assert!(matches!(mint, Err(AuthError::Forbidden(_))), "{mint:?}");
    assert!(matches!(f.authenticator.renew(&principal).await, Err(AuthError::NotRenewable(_))));
    let invite = f.authenticator.invite_node(&principal, invitation("x")).await;
    assert!(matches!(invite, Err(AuthError::Forbidden(_))), "{invite:?}");
    let renewed = f.authenticator.renew_node(&principal, vps.node_id).await;
    assert!(matches!(renewed, Err(AuthError::Forbidden(_))), "{renewed:?}");

    // No other token can be used as a node credential.
    let minted = f.authenticator.mint(&f.admin, params(TokenKind::Node, &nas.node_id.to_string(), &[])).await;
    assert!(matches!(minted, Err(AuthError::Invalid(_))), "{minted:?}");
    let scope = format!("link:{}", nas.node_id);
    let scoped = f.authenticator.mint(&f.admin, params(TokenKind::Agent, "a", &[&scope])).await;
    assert!(matches!(scoped, Err(AuthError::Invalid(_))), "{scoped:?}");
    let rotated = f.authenticator.rotate(&f.admin, principal.token_id(), Duration::ZERO).await;
    assert!(matches!(rotated, Err(AuthError::Invalid(_))), "{rotated:?}");
    assert!(!f.admin.is_node(nas.node_id), "regardless of its scopes");
}

#[tokio::test]
async fn renewal_ends_the_former_credential_after_an_hour() {
    let f = fixture().await;
    let (first, principal) = f.joined("nas").await;
    f.clock.advance(Duration::from_secs(60 * 86_400));
    let second = f.authenticator.renew_node(&principal, first.node_id).await.unwrap();
    assert_eq!((second.node_id, second.name.as_str()), (first.node_id, "nas"));
    assert_eq!(f.authenticator.time_left(&principal), Some(Duration::from_secs(3_600)));
    f.authenticator.authenticate(token_of(&first)).expect("the answer may have been lost");
    f.clock.advance(Duration::from_secs(3_600));
    assert_eq!(f.refusal(token_of(&first)), "the token has been revoked");
    assert!(matches!(f.authenticator.renew_node(&principal, first.node_id).await, Err(AuthError::Revoked)));
    let principal = f.authenticator.authenticate(token_of(&second)).unwrap();
    assert!(second.expires_at > first.expires_at);
    for _ in 0..9 {
        f.authenticator.renew_node(&principal, first.node_id).await.unwrap();
    }
    let one_more = f.authenticator.renew_node(&principal, first.node_id).await;
    assert!(matches!(one_more, Err(AuthError::Conflict { .. })), "{one_more:?}");
}

#[tokio::test]
async fn removed_node_is_rejected_on_every_hub() {
    let f = fixture().await;
    let other_hub = f.second().await;
    let ((nas, principal), (vps, _)) = (f.joined("nas").await, f.joined("vps").await);
    let renewed = f.authenticator.renew_node(&principal, nas.node_id).await.unwrap();
    assert!(f.authenticator.remove_node(&f.admin, nas.node_id).await.unwrap().is_some());
    assert!(f.authenticator.remove_node(&f.admin, nas.node_id).await.unwrap().is_none());
    other_hub.refresh_revocations().await.unwrap();
    for token in [token_of(&nas), token_of(&renewed)] {
        assert_eq!(f.refusal(token), "the token has been revoked");
        assert!(other_hub.authenticate(token).is_err());
    }
    assert_eq!(f.authenticator.time_left(&principal), None, "a link that is up is cut");
    f.authenticator.authenticate(token_of(&vps)).expect("other nodes are not affected");
    // The name is free for another machine.
    let (new, _) = f.joined("nas").await;
    assert_ne!(new.node_id, nas.node_id);
}

#[tokio::test]
async fn key_takes_over_only_nodes_that_joined_with_it() {
    let f = fixture().await;
    let first = f.by_key(KEY, "ci-1").await.unwrap();
    let second = f.by_key(KEY, "ci-1").await.unwrap();
    assert_eq!(second.node_id, first.node_id);
    assert_eq!(f.refusal(token_of(&first)), "the token has been revoked");
    assert!(f.authenticator.authenticate(token_of(&second)).unwrap().is_node(first.node_id));

    let (nas, _) = f.joined("nas").await;
    let refused = f.by_key(KEY, "nas").await;
    assert!(matches!(refused, Err(AuthError::Forbidden(_))), "{refused:?}");
    f.authenticator.authenticate(token_of(&nas)).expect("the node is not affected");
    f.code(invitation("vps")).await;
    let invited = f.by_key(KEY, "vps").await;
    assert!(matches!(invited, Err(AuthError::Conflict { .. })), "{invited:?}");
    for name in ["local", "Nas", "", "join"] {
        assert!(matches!(f.by_key(KEY, name).await, Err(AuthError::Invalid(_))), "{name}");
    }
    let expected = Secret::from(KEY);
    let connected =
        f.authenticator.join_with_key(Some(&expected), KEY, "ci-1", [].into(), |id| id == first.node_id);
    assert!(matches!(connected.await, Err(AuthError::Conflict { .. })));

    for wrong in ["", "a key", &KEY[1..], "A key of thirty-two characters.."] {
        not_admitted(f.by_key(wrong, "ci-2").await);
    }
    not_admitted(f.authenticator.join_with_key(None, KEY, "ci-2", [].into(), |_| false).await);
    not_admitted(f.authenticator.join_with_key(None, "", "ci-2", [].into(), |_| false).await);
}

fn forbidden(outcome: Result<NodeCredential, AuthError>, about: &str) {
    assert!(matches!(&outcome, Err(AuthError::Forbidden(why)) if why.contains(about)), "{outcome:?}");
}

#[tokio::test]
async fn certificate_does_not_restore_a_lost_node_name() {
    let f = fixture().await;
    let rename = |name: &str| ChangeNodeParams { name: Some(name.to_owned()), ..ChangeNodeParams::default() };
    let removed = f.by_certificate("removed").await.unwrap();
    assert_eq!(f.by_certificate("removed").await.unwrap().node_id, removed.node_id);
    f.authenticator.remove_node(&f.admin, removed.node_id).await.unwrap().unwrap();
    forbidden(f.by_certificate("removed").await, "plexus node invite removed");

    let renamed = f.by_certificate("renamed").await.unwrap();
    f.authenticator.change_node(&f.admin, renamed.node_id, rename("other")).await.unwrap().unwrap();
    forbidden(f.by_certificate("renamed").await, "does not bring it back");
    assert_eq!(f.by_certificate("other").await.unwrap().node_id, renamed.node_id);
    f.authenticator.change_node(&f.admin, renamed.node_id, rename("renamed")).await.unwrap().unwrap();
    assert_eq!(f.by_certificate("renamed").await.unwrap().node_id, renamed.node_id);

    let given = f.by_certificate("given").await.unwrap();
    let code = f.code(again("given")).await;
    assert_eq!(f.authenticator.join_with_code(&code).await.unwrap().node_id, given.node_id);
    forbidden(f.by_certificate("given").await, "did not join with a certificate");
    f.authenticator.remove_node(&f.admin, given.node_id).await.unwrap().unwrap();
    forbidden(f.by_certificate("given").await, "does not bring it back");

    // A new invitation admits a node under the barred name.
    let (back, _) = f.joined("removed").await;
    assert_ne!(back.node_id, removed.node_id);
    forbidden(f.by_certificate("removed").await, "did not join with a certificate");
}

#[tokio::test]
async fn certificate_takes_over_only_certificate_nodes() {
    let f = fixture().await;
    let (nas, _) = f.joined("nas").await;
    let ci = f.by_key(KEY, "ci-1").await.unwrap();
    for name in ["nas", "ci-1", &nas.node_id.to_string(), &ci.node_id.to_string()] {
        forbidden(f.by_certificate(name).await, "did not join with a certificate");
    }
    let own = f.by_certificate("vps").await.unwrap();
    let refused = f.by_key(KEY, "vps").await;
    assert!(matches!(refused, Err(AuthError::Forbidden(_))), "{refused:?}");
    assert_eq!(f.by_certificate("vps").await.unwrap().node_id, own.node_id);
}

#[tokio::test]
async fn key_does_not_take_over_a_node_that_rejoined_with_a_code() {
    let f = fixture().await;
    let first = f.by_key(KEY, "ci-1").await.unwrap();
    let second = f.authenticator.join_with_code(&f.code(again("ci-1")).await).await.unwrap();
    assert_eq!(second.node_id, first.node_id);
    forbidden(f.by_key(KEY, "ci-1").await, "did not join with the key");
    f.authenticator.authenticate(token_of(&second)).expect("the node is not affected");
}

#[tokio::test]
async fn node_changes_and_refusals_are_audited() {
    let f = fixture().await;
    let (nas, _) = f.joined("nas").await;
    let (vps, _) = f.joined("vps").await;
    let change = ChangeNodeParams {
        name: Some("store".to_owned()),
        draining: Some(true),
        ..ChangeNodeParams::default()
    };
    let changed = f.authenticator.change_node(&f.admin, nas.node_id, change).await.unwrap().unwrap();
    assert_eq!((changed.name.as_str(), changed.draining), ("store", true));
    let label = |changes: &[(&str, Option<&str>)]| ChangeNodeParams {
        change_labels: changes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)))
            .collect(),
        ..ChangeNodeParams::default()
    };
    for (changes, expected) in [
        (&[("role", Some("nas")), ("floor", Some("1"))][..], &["floor", "role"][..]),
        (&[("floor", None), ("absent", None), ("role", Some("attic"))], &["role"]),
    ] {
        let changed =
            f.authenticator.change_node(&f.admin, vps.node_id, label(changes)).await.unwrap().unwrap();
        assert_eq!(changed.labels.keys().collect::<Vec<_>>(), expected);
    }
    let invalid = f.authenticator.change_node(&f.admin, vps.node_id, label(&[("a b", Some("c"))])).await;
    assert!(matches!(invalid, Err(AuthError::Invalid(_))), "{invalid:?}");
    let refused = ChangeNodeParams { name: Some("store".to_owned()), ..ChangeNodeParams::default() };
    let refused = f.authenticator.change_node(&f.admin, vps.node_id, refused).await;
    assert!(matches!(refused, Err(AuthError::Conflict { .. })), "{refused:?}");
    let (_, agent) = f.agent("codex").await;
    let refused = f.authenticator.remove_node(&agent, nas.node_id).await;
    assert!(matches!(refused, Err(AuthError::Forbidden(_))), "{refused:?}");
    f.authenticator.remove_node(&f.admin, nas.node_id).await.unwrap();
    f.code(invitation("late")).await;
    f.authenticator.withdraw_invite(&f.admin, "late").await.unwrap();
    let recorded = f.recorded().await;
    let recorded: Vec<(&str, &str)> =
        recorded.iter().map(|(what, outcome)| (what.as_str(), outcome.as_str())).collect();
    assert_eq!(
        recorded,
        [
            ("node_invite", "ok"),
            ("node_join", "ok"),
            ("node_invite", "ok"),
            ("node_join", "ok"),
            ("node_change", "ok"),
            ("node_change", "ok"),
            ("node_change", "ok"),
            ("node_change", "invalid_request"),
            ("node_change", "conflict"),
            ("node_remove", "forbidden"),
            ("node_remove", "ok"),
            ("node_invite", "ok"),
            ("node_invite_withdraw", "ok"),
        ]
    );
}

#[test]
fn relayed_principal_may_only_call_tools() {
    let principal = Principal::relayed("agent:codex").unwrap();
    assert_eq!((principal.subject(), principal.kind()), ("agent:codex", TokenKind::Agent));
    assert!(principal.allows("call:terminal.run") && principal.allows("call:mcp__files__read"));
    let admin = Principal::relayed("admin:local").unwrap();
    for scope in ["admin", "token:create", "read:audit", "manage:nodes", "node:nas"] {
        assert!(!principal.allows(scope) && !admin.allows(scope), "{scope}");
    }
    assert!(!admin.is_admin());
    for nobody in ["", "codex", "robot:x", "agent:", "agent:a b", &format!("agent:{}", "x".repeat(101))] {
        assert!(Principal::relayed(nobody).is_none(), "{nobody}");
    }
}

#[tokio::test]
async fn authenticator_rejects_relayed_principals() {
    let f = fixture().await;
    let principal = Principal::relayed("admin:local").unwrap();
    assert!(f.authenticator.check(&principal).is_err());
    let minted = f.authenticator.mint(&principal, params(TokenKind::Agent, "a", &[])).await;
    assert!(matches!(minted, Err(AuthError::Forbidden(_))), "{minted:?}");
}

#[tokio::test]
async fn minted_and_rotated_tokens_inherit_the_node() {
    let f = fixture().await;
    let on = |node: Option<&str>, name: &str| CreateTokenParams {
        node: node.map(str::to_owned),
        ..params(TokenKind::User, name, &["call:todo", "token:create"])
    };
    let made = f.authenticator.mint(&f.admin, on(Some("nas"), "ann")).await.unwrap();
    let ann = f.authenticator.authenticate(&made.token).unwrap();
    assert_eq!((ann.node(), made.node.as_deref()), (Some("nas"), Some("nas")));
    let child = f.authenticator.mint(&ann, on(None, "ann/a")).await.unwrap();
    let other = f.authenticator.mint(&ann, on(Some("vps"), "ann/b")).await.unwrap();
    let rotated = f.authenticator.rotate(&f.admin, child.jti, Duration::ZERO).await.unwrap().unwrap();
    let nodes = [&child, &other, &rotated].map(|token| token.node.as_deref());
    assert_eq!(nodes, [Some("nas"), Some("vps"), Some("nas")]);
    let stored = f.store.read().await.unwrap().token(rotated.jti).await.unwrap().unwrap();
    assert_eq!(stored.node.as_deref(), Some("nas"));
    assert_eq!(f.admin.node(), None);
    let wrong = f.authenticator.mint(&f.admin, on(Some("role=nas"), "x")).await;
    assert!(matches!(wrong, Err(AuthError::Invalid(_))), "{wrong:?}");
}
