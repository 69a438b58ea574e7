use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Clock, Durability, Supervisor};
use plexus_proto::Timestamp;
use plexus_proto::api::{CreateTokenParams, TokenKind};
use plexus_store::{Store, StoreOptions};

use super::Authenticator;
use crate::{AuthError, Principal, SigningKey};

struct Fixture {
    authenticator: Authenticator,
    clock: Clock,
    store: Store,
    key: Arc<SigningKey>,
    admin: Arc<Principal>,
    _dir: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        data_dir: dir.path().to_owned(),
        database_url: None,
        durability: Durability::Process,
        instance_id: "main".to_owned(),
    };
    let store = Store::open(&options, &Supervisor::new()).await.unwrap();
    let clock = Clock::manual("2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let key = Arc::new(SigningKey::load_or_create(&dir.path().join("signing-key")).unwrap());
    let authenticator = Authenticator::new(key.clone(), store.clone(), clock.clone()).await.unwrap();
    let path = dir.path().join("admin-token");
    authenticator.ensure_admin_token(&path).await.unwrap();
    let token = std::fs::read_to_string(path).unwrap();
    let admin = authenticator.authenticate(token.trim()).unwrap();
    Fixture { authenticator, clock, store, key, admin, _dir: dir }
}

fn params(kind: TokenKind, name: &str, scopes: &[&str]) -> CreateTokenParams {
    CreateTokenParams {
        kind,
        name: name.to_owned(),
        profile: None,
        scopes: scopes.iter().map(|s| (*s).to_owned()).collect(),
        ttl_seconds: None,
    }
}

#[tokio::test]
async fn a_token_mints_only_a_subset_of_itself() {
    let f = fixture().await;
    let scopes = ["call:todo", "token:create"];
    let parent = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &scopes)).await.unwrap();
    let parent = f.authenticator.authenticate(&parent.token).unwrap();

    let refused = [
        ("more scope", params(TokenKind::Agent, "ann/a", &["call:*"])),
        ("stronger kind", params(TokenKind::Admin, "ann/a", &["call:todo"])),
        ("admin scope", params(TokenKind::User, "ann/a", &["admin"])),
        ("another's name", params(TokenKind::User, "bob", &["call:todo"])),
        ("its own name in another kind", params(TokenKind::Agent, "ann", &["call:todo"])),
        ("a default it has no part of", params(TokenKind::Agent, "ann/a", &[])),
        ("a name that only begins alike", params(TokenKind::User, "anna", &["call:todo"])),
        (
            "longer life",
            CreateTokenParams {
                ttl_seconds: Some(91 * 86_400),
                ..params(TokenKind::Agent, "ann/a", &["call:todo"])
            },
        ),
    ];
    for (what, params) in refused {
        assert!(f.authenticator.mint(&parent, params).await.is_err(), "{what} was granted");
    }
    let child =
        f.authenticator.mint(&parent, params(TokenKind::Agent, "ann/a", &["call:todo.list"])).await.unwrap();
    assert!(child.expires_at <= parent.expires_at());
    // Without token:create, none at all.
    let child = f.authenticator.authenticate(&child.token).unwrap();
    let again = f.authenticator.mint(&child, params(TokenKind::Agent, "ann/a", &["call:todo.list"])).await;
    assert!(matches!(again, Err(AuthError::Forbidden(_))));
}

#[tokio::test]
async fn revocation_reaches_a_second_hub_by_its_poll_and_takes_children_along() {
    let f = fixture().await;
    let other = Authenticator::new(f.key.clone(), f.store.clone(), f.clock.clone()).await.unwrap();
    let parent = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &[])).await.unwrap();
    let principal = f.authenticator.authenticate(&parent.token).unwrap();
    let child = f.authenticator.mint(&principal, params(TokenKind::Agent, "ann/a", &[])).await.unwrap();
    for token in [&parent.token, &child.token] {
        other.authenticate(token).unwrap();
    }

    f.authenticator.revoke(&f.admin, parent.jti).await.unwrap();

    assert!(matches!(f.authenticator.authenticate(&child.token), Err(AuthError::Revoked)));
    assert_eq!(f.authenticator.time_left(&principal), None);
    other.refresh_revocations().await.unwrap();
    for token in [&parent.token, &child.token] {
        assert!(matches!(other.authenticate(token), Err(AuthError::Revoked)));
    }
}

#[tokio::test]
async fn a_token_that_was_revoked_while_it_asked_mints_nothing() {
    let f = fixture().await;
    let parent = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &[])).await.unwrap();
    // The principal was made before the revocation, as for a request whose body is still on its way.
    let principal = f.authenticator.authenticate(&parent.token).unwrap();
    f.authenticator.revoke(&f.admin, parent.jti).await.unwrap();
    let child = f.authenticator.mint(&principal, params(TokenKind::Agent, "ann/a", &[])).await;
    assert!(matches!(child, Err(AuthError::Revoked)));
}

#[tokio::test]
async fn a_cached_token_still_expires() {
    let f = fixture().await;
    let short = CreateTokenParams { ttl_seconds: Some(60), ..params(TokenKind::Agent, "a", &[]) };
    let token = f.authenticator.mint(&f.admin, short).await.unwrap().token;
    f.authenticator.authenticate(&token).unwrap();
    f.clock.advance(Duration::from_secs(61));
    assert!(matches!(f.authenticator.authenticate(&token), Err(AuthError::Expired)));
}

#[tokio::test]
async fn a_forged_token_is_refused() {
    let f = fixture().await;
    let token = f.authenticator.mint(&f.admin, params(TokenKind::Agent, "a", &[])).await.unwrap().token;
    let mut parts: Vec<&str> = token.split('.').collect();
    let other = f.authenticator.mint(&f.admin, params(TokenKind::Agent, "b", &[])).await.unwrap().token;
    parts[1] = other.split('.').nth(1).unwrap();
    let spliced = parts.join(".");
    // "alg": "none"
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", token.split('.').nth(1).unwrap());
    let stranger = SigningKey::load_or_create(&f._dir.path().join("other-key")).unwrap();
    let stranger = Authenticator::new(Arc::new(stranger), f.store.clone(), f.clock.clone()).await.unwrap();
    assert!(matches!(stranger.authenticate(&token), Err(AuthError::InvalidToken)));
    for forged in [spliced.as_str(), &unsigned, "", "a.b.c", &"x".repeat(100_000)] {
        assert!(matches!(f.authenticator.authenticate(forged), Err(AuthError::InvalidToken)));
    }
}
