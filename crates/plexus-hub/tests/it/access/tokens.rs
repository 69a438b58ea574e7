//! The columns of the table: every kind of token that a request may carry.

use plexus_proto::api::{CreateTokenParams, CreatedToken, NodeCredential, NodeInvite, TokenKind};
use plexus_testkit::{TestHub, forge_token};
use serde_json::json;

/// All scopes, so that a token can have all but one.
const SCOPES: [&str; 17] = [
    "call:scratchpad",
    "call:todo",
    "manage:nodes",
    "node:*",
    "read:agents",
    "read:audit",
    "read:config",
    "read:metrics",
    "read:nodes",
    "read:profiles",
    "read:sessions",
    "read:status",
    "read:tokens",
    "read:upstreams",
    "token:create",
    "token:revoke",
    "write:sessions",
];

/// An invalid token, and the expected error message.
pub(super) struct InvalidToken(Option<String>, &'static str);

impl InvalidToken {
    pub(super) fn token(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub(super) fn message(&self) -> &'static str {
        self.1
    }
}

pub(super) struct Tokens<'h> {
    hub: &'h TestHub,
    expired: String,
    revoked: String,
    other_audience: String,
    unknown_kind: String,
    stronger_kind: String,
    other_key: String,
    pub(super) node: NodeCredential,
}

const INVALID: &str = "the token is not valid for this hub";

impl<'h> Tokens<'h> {
    pub(super) async fn of(hub: &'h TestHub) -> Self {
        let good = mint(hub, TokenKind::Agent, "cut", &SCOPES).await.token;
        let revoked = mint(hub, TokenKind::Agent, "gone", &SCOPES).await;
        hub.revoke(revoked.jti).await;
        let claims = |name: &str, value: serde_json::Value| {
            forge_token(hub.data_dir(), &good, |claims| claims[name] = value)
        };
        // The forging itself must not be the reason for a refusal.
        let forged = claims("scopes", json!(["read:status"]));
        let status = hub.http().get(hub.url("/api/v1/status")).bearer_auth(&forged).send().await.unwrap();
        assert_eq!(status.status(), 200, "a forged token must be valid except for the change");
        let other = TestHub::start().await;
        Self {
            hub,
            expired: claims("exp", json!(1_700_000_000)),
            revoked: revoked.token,
            other_audience: claims("aud", json!("elsewhere")),
            unknown_kind: claims("kind", json!("robot")),
            stronger_kind: claims("kind", json!("admin")),
            other_key: other.admin_token(),
            node: node(hub).await,
        }
    }

    /// Tokens that are refused by every route.
    pub(super) fn bad(&self) -> Vec<(&'static str, InvalidToken)> {
        let some = |token: &str, message| InvalidToken(Some(token.to_owned()), message);
        vec![
            ("no token", InvalidToken(None, "the token is missing: send it as `Authorization: Bearer …`")),
            ("garbage", some("garbage", INVALID)),
            ("expired", some(&self.expired, "the token has expired")),
            ("revoked", some(&self.revoked, "the token has been revoked")),
            ("wrong audience", some(&self.other_audience, INVALID)),
            ("unknown kind", some(&self.unknown_kind, INVALID)),
            ("another kind than its name", some(&self.stronger_kind, INVALID)),
            ("of another hub", some(&self.other_key, INVALID)),
        ]
    }

    /// A token with only these scopes.
    pub(super) async fn only(&self, scopes: &[&str]) -> String {
        match scopes {
            ["admin"] => self.hub.admin_token(),
            // A scope that no route requires.
            [] => mint(self.hub, TokenKind::Agent, "bare", &["node:nowhere"]).await.token,
            _ => mint(self.hub, TokenKind::Agent, "only", scopes).await.token,
        }
    }

    /// The credential of a node.
    pub(super) fn node(&self) -> &str {
        self.node.token.as_deref().unwrap()
    }

    /// The credential of another node.
    pub(super) async fn other_node(&self) -> String {
        node(self.hub).await.token.unwrap()
    }

    /// A token with every scope except this one.
    pub(super) async fn all_but(&self, scope: &str) -> String {
        let other_scopes: Vec<&str> = SCOPES.iter().copied().filter(|one| *one != scope).collect();
        mint(self.hub, TokenKind::User, "most", &other_scopes).await.token
    }
}

/// A node that has just joined.
async fn node(hub: &TestHub) -> NodeCredential {
    let name = format!("n{}", plexus_proto::CallId::new());
    let invite = hub.http().post(hub.url("/api/v1/nodes/invites")).bearer_auth(hub.admin_token());
    let invite: NodeInvite =
        invite.json(&json!({ "name": name })).send().await.unwrap().json().await.unwrap();
    let join = hub.http().post(hub.url("/api/v1/nodes/join")).json(&json!({ "code": invite.code }));
    join.send().await.unwrap().json().await.unwrap()
}

pub(super) async fn mint(hub: &TestHub, kind: TokenKind, name: &str, scopes: &[&str]) -> CreatedToken {
    let params = CreateTokenParams {
        kind,
        name: name.to_owned(),
        profile: None,
        node: None,
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        ttl_seconds: None,
        renew_seconds: None,
    };
    let request = hub.http().post(hub.url("/api/v1/tokens")).bearer_auth(hub.admin_token()).json(&params);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 201, "token refused");
    answer.json().await.expect("a token")
}
