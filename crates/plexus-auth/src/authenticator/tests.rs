use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_kit::{Clock, Durability, Supervisor};
use plexus_proto::Timestamp;
use plexus_proto::api::{CreateTokenParams, CreatedToken, KeyState, TokenKind};
use plexus_store::{Store, StoreOptions};

use super::Authenticator;
use crate::profiles::LiveProfiles;
use crate::{AuthError, KeyRing, Principal};

const DAY: u64 = 86_400;

pub(super) struct Fixture {
    pub(super) authenticator: Authenticator,
    pub(super) clock: Clock,
    pub(super) store: Store,
    keys: Arc<KeyRing>,
    pub(super) admin: Arc<Principal>,
    dir: tempfile::TempDir,
}

impl Fixture {
    fn admin_token(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("admin-token")).unwrap().trim().to_owned()
    }

    /// Another hub on the same folder and database.
    pub(super) async fn second(&self) -> Authenticator {
        let path = self.dir.path().join("admin-token");
        Authenticator::new(self.keys.clone(), self.store.clone(), self.clock.clone(), path).await.unwrap()
    }

    pub(super) async fn agent(&self, name: &str) -> (CreatedToken, Arc<Principal>) {
        // Reads the file: the fixture's own token may have been replaced.
        let admin = self.authenticator.authenticate(&self.admin_token()).unwrap();
        let created = self.authenticator.mint(&admin, params(TokenKind::Agent, name, &[])).await.unwrap();
        let principal = self.authenticator.authenticate(&created.token).unwrap();
        (created, principal)
    }

    pub(super) fn refusal(&self, token: &str) -> String {
        self.authenticator.authenticate(token).unwrap_err().to_string()
    }
}

pub(super) async fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        data_dir: dir.path().to_owned(),
        database_url: None,
        durability: Durability::Process,
        instance_id: "main".to_owned(),
    };
    let store = Store::open(&options, &Supervisor::new()).await.unwrap();
    let clock = Clock::manual("2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let keys = Arc::new(KeyRing::open(dir.path(), clock.clone()).unwrap());
    let path = dir.path().join("admin-token");
    let authenticator =
        Authenticator::new(keys.clone(), store.clone(), clock.clone(), path.clone()).await.unwrap();
    authenticator.ensure_admin_token().await.unwrap();
    let token = std::fs::read_to_string(path).unwrap();
    let admin = authenticator.authenticate(token.trim()).unwrap();
    Fixture { authenticator, clock, store, keys, admin, dir }
}

pub(super) fn params(kind: TokenKind, name: &str, scopes: &[&str]) -> CreateTokenParams {
    CreateTokenParams {
        kind,
        name: name.to_owned(),
        profile: None,
        node: None,
        scopes: scopes.iter().map(|s| (*s).to_owned()).collect(),
        ttl_seconds: None,
        renew_seconds: None,
    }
}

#[tokio::test]
async fn minted_token_is_a_subset_of_its_creator() {
    let f = fixture().await;
    let scopes = ["call:todo", "token:create"];
    let parent = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &scopes)).await.unwrap();
    let parent = f.authenticator.authenticate(&parent.token).unwrap();

    let refused = [
        ("more scope", params(TokenKind::Agent, "ann/a", &["call:*"])),
        ("stronger kind", params(TokenKind::Admin, "ann/a", &["call:todo"])),
        ("admin scope", params(TokenKind::User, "ann/a", &["admin"])),
        ("another holder's name", params(TokenKind::User, "bob", &["call:todo"])),
        ("own name with another kind", params(TokenKind::Agent, "ann", &["call:todo"])),
        ("default scopes beyond its own", params(TokenKind::Agent, "ann/a", &[])),
        ("name with a common prefix only", params(TokenKind::User, "anna", &["call:todo"])),
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
    // Without `token:create` it cannot mint at all.
    let child = f.authenticator.authenticate(&child.token).unwrap();
    let again = f.authenticator.mint(&child, params(TokenKind::Agent, "ann/a", &["call:todo.list"])).await;
    assert!(matches!(again, Err(AuthError::Forbidden(_))));
}

#[tokio::test]
async fn revocation_includes_children_and_reaches_other_hubs() {
    let f = fixture().await;
    let other = f.second().await;
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
async fn stale_revocation_snapshot_does_not_undo_a_later_one() {
    let f = fixture().await;
    let (token, _) = f.agent("a").await;
    // Simulates a poll that read its snapshot before the revocation.
    let mut reader = f.store.read().await.unwrap();
    let epoch = reader.revocation_epoch().await.unwrap();
    let revoked = reader.revoked_tokens(f.clock.now()).await.unwrap();
    drop(reader);
    f.authenticator.revoke(&f.admin, token.jti).await.unwrap();

    f.authenticator.apply_revocations(epoch, revoked);

    assert!(matches!(f.authenticator.authenticate(&token.token), Err(AuthError::Revoked)));
}

#[tokio::test]
async fn token_revoked_during_the_request_mints_nothing() {
    let f = fixture().await;
    let parent = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &[])).await.unwrap();
    // Authenticated before the revocation, like a request whose body is still being received.
    let principal = f.authenticator.authenticate(&parent.token).unwrap();
    f.authenticator.revoke(&f.admin, parent.jti).await.unwrap();
    let child = f.authenticator.mint(&principal, params(TokenKind::Agent, "ann/a", &[])).await;
    assert!(matches!(child, Err(AuthError::Revoked)));
}

/// Collects the logged outcomes of operations.
#[derive(Clone, Default)]
struct Outcomes(Arc<Mutex<Vec<String>>>);

impl tracing::field::Visit for Outcomes {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        if field.name() == "outcome" {
            self.0.lock().unwrap().push(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

impl tracing::Subscriber for Outcomes {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn log_contains_the_actual_outcome_of_a_request() {
    let f = fixture().await;
    let parent = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &[])).await.unwrap();
    let principal = f.authenticator.authenticate(&parent.token).unwrap();
    f.authenticator.revoke(&f.admin, parent.jti).await.unwrap();
    let outcomes = Outcomes::default();
    let _listening = tracing::subscriber::set_default(outcomes.clone());
    let logged = || std::mem::take(&mut *outcomes.0.lock().unwrap());

    f.authenticator.mint(&f.admin, params(TokenKind::User, "bob", &[])).await.unwrap();
    assert_eq!(logged(), ["ok"]);
    let refused = f.authenticator.mint(&principal, params(TokenKind::Agent, "ann/a", &[])).await;
    assert!(matches!(refused, Err(AuthError::Revoked)));
    assert_eq!(logged(), ["unauthenticated"]);
    let nobody = f.authenticator.revoke(&f.admin, plexus_proto::TokenId::new()).await.unwrap();
    assert_eq!((nobody, logged().len()), (None, 0), "nothing was changed");
}

#[tokio::test]
async fn cached_token_still_expires() {
    let f = fixture().await;
    let short = CreateTokenParams { ttl_seconds: Some(60), ..params(TokenKind::Agent, "a", &[]) };
    let token = f.authenticator.mint(&f.admin, short).await.unwrap().token;
    f.authenticator.authenticate(&token).unwrap();
    f.clock.advance(Duration::from_secs(61));
    assert!(matches!(f.authenticator.authenticate(&token), Err(AuthError::Expired)));
}

#[tokio::test]
async fn forged_token_is_rejected() {
    let f = fixture().await;
    let token = f.authenticator.mint(&f.admin, params(TokenKind::Agent, "a", &[])).await.unwrap().token;
    let mut parts: Vec<&str> = token.split('.').collect();
    let other = f.authenticator.mint(&f.admin, params(TokenKind::Agent, "b", &[])).await.unwrap().token;
    parts[1] = other.split('.').nth(1).unwrap();
    let spliced = parts.join(".");
    // "alg": "none"
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", token.split('.').nth(1).unwrap());
    let other_folder = tempfile::tempdir().unwrap();
    let keys = Arc::new(KeyRing::open(other_folder.path(), f.clock.clone()).unwrap());
    let path = other_folder.path().join("admin-token");
    let stranger = Authenticator::new(keys, f.store.clone(), f.clock.clone(), path).await.unwrap();
    assert!(matches!(stranger.authenticate(&token), Err(AuthError::InvalidToken)));
    for forged in [spliced.as_str(), &unsigned, "", "a.b.c", &"x".repeat(100_000)] {
        assert!(matches!(f.authenticator.authenticate(forged), Err(AuthError::InvalidToken)));
    }
}

#[tokio::test]
async fn tokens_of_a_rotated_key_are_valid_until_the_overlap_ends() {
    let f = fixture().await;
    let (old, principal) = f.agent("a").await;
    let admin_before = f.admin_token();
    let mut revocations = f.authenticator.revocations();
    revocations.mark_unchanged();

    f.authenticator.rotate_keys(&f.admin, Duration::from_secs(60)).await.unwrap();

    assert!(revocations.has_changed().unwrap(), "streams were not notified");
    assert_eq!(f.authenticator.time_left(&principal), Some(Duration::from_secs(60)));
    let (new, _) = f.agent("a").await;
    let admin_after = f.admin_token();
    assert_ne!(admin_before, admin_after);
    for token in [&old.token, &new.token, &admin_before, &admin_after] {
        f.authenticator.authenticate(token).unwrap();
    }
    f.clock.advance(Duration::from_millis(59_999));
    f.authenticator.authenticate(&old.token).unwrap();
    f.clock.advance(Duration::from_millis(1));
    // Including the token in the cache of verified tokens.
    assert!(f.refusal(&old.token).contains("retired"));
    assert!(f.authenticator.authenticate(&admin_before).is_err());
    assert_eq!(f.authenticator.time_left(&principal), None);
    for token in [&new.token, &admin_after] {
        f.authenticator.authenticate(token).unwrap();
    }
    // A hub that starts later reads it from the files.
    let keys = Arc::new(KeyRing::open(f.dir.path(), f.clock.clone()).unwrap());
    let path = f.dir.path().join("admin-token");
    let restarted = Authenticator::new(keys, f.store.clone(), f.clock.clone(), path).await.unwrap();
    assert!(matches!(restarted.authenticate(&old.token), Err(AuthError::KeyRetired)));
    restarted.authenticate(&new.token).unwrap();
}

#[tokio::test]
async fn retiring_or_zero_overlap_ends_a_key_immediately() {
    let f = fixture().await;
    let (old, principal) = f.agent("a").await;
    f.authenticator.rotate_keys(&f.admin, Duration::from_secs(60)).await.unwrap();
    let former = f.authenticator.keys()[1].kid.clone();
    f.authenticator.retire_key(&f.admin, &former).await.unwrap().unwrap();
    assert!(f.refusal(&old.token).contains("retired"));
    assert_eq!(f.authenticator.time_left(&principal), None);

    let (second, _) = f.agent("a").await;
    f.authenticator.rotate_keys(&f.admin, Duration::ZERO).await.unwrap();
    assert!(f.refusal(&second.token).contains("retired"));
    f.authenticator.authenticate(&f.admin_token()).unwrap();
    let states: Vec<KeyState> = f.authenticator.keys().iter().map(|key| key.state).collect();
    assert_eq!(states, [KeyState::Current, KeyState::Retired, KeyState::Retired]);
    let (_, agent) = f.agent("a").await;
    assert!(matches!(
        f.authenticator.rotate_keys(&agent, Duration::ZERO).await,
        Err(AuthError::Forbidden(_))
    ));
    assert!(f.authenticator.retire_key(&f.admin, "nothing").await.unwrap().is_none());
}

#[tokio::test]
async fn concurrent_key_rotations_are_serialized() {
    let f = fixture().await;
    let rotate = || f.authenticator.rotate_keys(&f.admin, Duration::from_secs(60));
    let (a, b, c) = tokio::join!(rotate(), rotate(), rotate());
    let mut made = [a, b, c].map(|rotated| rotated.unwrap().key.kid);
    made.sort();
    let keys = f.authenticator.keys();
    assert_eq!(keys.iter().filter(|key| key.state == KeyState::Current).count(), 1);
    assert_eq!(keys.len(), 4);
    assert!(made.iter().all(|kid| keys.iter().any(|key| key.kid == *kid)));
    f.authenticator.authenticate(&f.admin_token()).unwrap();
}

#[tokio::test]
async fn token_profile_must_exist_and_is_inherited() {
    let f = fixture().await;
    let of = |profile: Option<&str>, name: &str| CreateTokenParams {
        profile: profile.map(str::to_owned),
        ..params(TokenKind::User, name, &["call:todo", "token:create"])
    };
    let refused = f.authenticator.mint(&f.admin, of(Some("discus"), "ann")).await.unwrap_err();
    assert!(matches!(refused, AuthError::Invalid(_)));
    assert!(
        refused
            .to_string()
            .starts_with("there is no profile discus; available profiles: developer, discuss,"),
        "{refused}"
    );

    let parent = f.authenticator.mint(&f.admin, of(Some("discuss"), "ann")).await.unwrap();
    let parent = f.authenticator.authenticate(&parent.token).unwrap();
    for requested in [None, Some("discuss")] {
        let child = f.authenticator.mint(&parent, of(requested, "ann/a")).await.unwrap();
        assert_eq!(child.profile.as_deref(), Some("discuss"), "asked for {requested:?}");
    }
    let other = f.authenticator.mint(&parent, of(Some("developer"), "ann/a")).await;
    assert!(matches!(other, Err(AuthError::Forbidden(_))), "{other:?}");

    // Tokens of a profile that was removed later can still be renewed and replaced.
    let empty = f.dir.path().join("profiles");
    std::fs::create_dir_all(empty.join("discuss")).unwrap();
    f.authenticator.follow_profiles(LiveProfiles::open(empty));
    f.authenticator.mint(&f.admin, of(Some("discuss"), "bob")).await.unwrap_err();
    let rotated = f.authenticator.rotate(&f.admin, parent.token_id(), Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(rotated.profile.as_deref(), Some("discuss"));
}

#[tokio::test]
async fn renewed_token_equals_the_first_and_is_revoked_with_it() {
    let f = fixture().await;
    let wanted = CreateTokenParams {
        ttl_seconds: Some(10 * DAY),
        profile: Some("discuss".to_owned()),
        ..params(TokenKind::Agent, "a", &["call:todo"])
    };
    let first = f.authenticator.mint(&f.admin, wanted).await.unwrap();
    let principal = f.authenticator.authenticate(&first.token).unwrap();
    f.clock.advance(Duration::from_secs(6 * DAY));
    let second = f.authenticator.renew(&principal).await.unwrap();
    let like = |token: &CreatedToken| {
        (token.kind, token.name.clone(), token.scopes.clone(), token.profile.clone(), token.renew_until)
    };
    assert_eq!(like(&second), like(&first));
    assert_eq!(second.expires_at.as_second() - f.clock.now().as_second(), 10 * 86_400);
    let renewed = f.authenticator.authenticate(&second.token).unwrap();
    f.authenticator.authenticate(&first.token).expect("the first stays valid");
    let third = f.authenticator.renew(&renewed).await.unwrap();

    f.authenticator.revoke(&f.admin, first.jti).await.unwrap();
    for token in [&second.token, &third.token] {
        assert!(matches!(f.authenticator.authenticate(token), Err(AuthError::Revoked)));
    }
    assert!(matches!(f.authenticator.renew(&renewed).await, Err(AuthError::Revoked)));
}

#[tokio::test]
async fn renewals_end_at_the_renewal_limit() {
    let f = fixture().await;
    let wanted = CreateTokenParams {
        ttl_seconds: Some(10 * DAY),
        renew_seconds: Some(15 * DAY),
        ..params(TokenKind::Agent, "a", &[])
    };
    let first = f.authenticator.mint(&f.admin, wanted).await.unwrap();
    let until = first.renew_until.unwrap();
    let principal = f.authenticator.authenticate(&first.token).unwrap();
    f.clock.advance(Duration::from_secs(9 * DAY));
    let second = f.authenticator.renew(&principal).await.unwrap();
    assert_eq!((second.expires_at, second.renew_until), (until, Some(until)));
    let second = f.authenticator.authenticate(&second.token).unwrap();
    f.clock.advance(Duration::from_secs(6 * DAY));
    assert!(matches!(f.authenticator.renew(&second).await, Err(AuthError::NotRenewable(_))));

    // By default only tokens of programs are renewable.
    for kind in TokenKind::ALL.into_iter().filter(|kind| *kind != TokenKind::Node) {
        let name = format!("{kind}");
        let made = f.authenticator.mint(&f.admin, params(kind, &name, &[])).await.unwrap();
        let renewable = kind == TokenKind::Agent;
        assert_eq!(made.renew_until.is_some(), renewable, "{kind}");
        let principal = f.authenticator.authenticate(&made.token).unwrap();
        assert_eq!(f.authenticator.renew(&principal).await.is_ok(), renewable, "{kind}");
    }
}

#[tokio::test]
async fn child_renewal_is_limited_by_its_creator() {
    let f = fixture().await;
    let user = |renew_seconds| CreateTokenParams {
        ttl_seconds: Some(10 * DAY),
        renew_seconds,
        ..params(TokenKind::User, "ann", &[])
    };
    for (renew, end) in [(None, 10), (Some(20 * DAY), 20)] {
        let creator = f.authenticator.mint(&f.admin, user(renew)).await.unwrap();
        let creator = f.authenticator.authenticate(&creator.token).unwrap();
        let child = f.authenticator.mint(&creator, params(TokenKind::Agent, "ann/a", &[])).await.unwrap();
        let days = (child.renew_until.unwrap().as_second() - f.clock.now().as_second()) / 86_400;
        assert_eq!(days, end, "{renew:?}");
        let requested =
            CreateTokenParams { renew_seconds: Some(30 * DAY), ..params(TokenKind::Agent, "ann/a", &[]) };
        assert!(matches!(f.authenticator.mint(&creator, requested).await, Err(AuthError::Forbidden(_))));
    }
}

#[tokio::test]
async fn rotated_token_ends_after_its_grace_and_children_survive() {
    let f = fixture().await;
    let old = f.authenticator.mint(&f.admin, params(TokenKind::User, "ann", &[])).await.unwrap();
    let principal = f.authenticator.authenticate(&old.token).unwrap();
    let child = f.authenticator.mint(&principal, params(TokenKind::Agent, "ann/a", &[])).await.unwrap();
    let grace = Duration::from_secs(60);
    let new = f.authenticator.rotate(&f.admin, old.jti, grace).await.unwrap().unwrap();
    assert_eq!((new.kind, &new.name, &new.scopes), (old.kind, &old.name, &old.scopes));
    assert_eq!(f.authenticator.time_left(&principal), Some(grace));
    for token in [&old.token, &new.token, &child.token] {
        f.authenticator.authenticate(token).unwrap();
    }
    let again = f.authenticator.rotate(&f.admin, old.jti, grace).await;
    assert!(matches!(again, Err(AuthError::Conflict { .. })), "replaced twice");
    let other = f.second().await;
    f.clock.advance(grace);
    for hub in [&f.authenticator, &other] {
        assert!(matches!(hub.authenticate(&old.token), Err(AuthError::Revoked)));
        hub.authenticate(&new.token).unwrap();
        hub.authenticate(&child.token).unwrap();
    }
    // The children now belong to the new token.
    f.authenticator.revoke(&f.admin, new.jti).await.unwrap();
    assert!(matches!(f.authenticator.authenticate(&child.token), Err(AuthError::Revoked)));
}

#[tokio::test]
async fn replaced_token_mints_nothing_during_its_grace() {
    let f = fixture().await;
    let wanted = CreateTokenParams { renew_seconds: Some(DAY), ..params(TokenKind::User, "ann", &[]) };
    let old = f.authenticator.mint(&f.admin, wanted).await.unwrap();
    let old = f.authenticator.authenticate(&old.token).unwrap();
    let grace = Duration::from_secs(60);
    let new = f.authenticator.rotate(&f.admin, old.token_id(), grace).await.unwrap().unwrap();

    f.authenticator.check(&old).expect("in its grace period");
    let child = f.authenticator.mint(&old, params(TokenKind::Agent, "ann/a", &[])).await;
    let like_itself = f.authenticator.mint(&old, params(TokenKind::User, "ann", &[])).await;
    let renewal = f.authenticator.renew(&old).await;
    for (what, made) in [("child", child), ("like itself", like_itself), ("renewal", renewal)] {
        let refusal = made.expect_err(what);
        assert!(matches!(refusal, AuthError::Forbidden(_)), "{what}: {refusal}");
        assert!(refusal.to_string().contains("has been replaced"), "{what}: {refusal}");
    }
    // The new token can do what the old one could.
    let new = f.authenticator.authenticate(&new.token).unwrap();
    f.authenticator.mint(&new, params(TokenKind::Agent, "ann/a", &[])).await.unwrap();
    f.authenticator.renew(&new).await.unwrap();
    f.clock.advance(grace);
    let late = f.authenticator.mint(&old, params(TokenKind::Agent, "ann/a", &[])).await;
    assert!(matches!(late, Err(AuthError::Revoked)));
}

#[tokio::test]
async fn one_of_concurrent_token_rotations_succeeds() {
    let f = fixture().await;
    let (old, _) = f.agent("a").await;
    let rotate = || f.authenticator.rotate(&f.admin, old.jti, Duration::ZERO);
    let (a, b, c) = tokio::join!(rotate(), rotate(), rotate());
    let done = [a, b, c].into_iter().filter(Result::is_ok).count();
    assert_eq!(done, 1);
    assert!(matches!(f.authenticator.authenticate(&old.token), Err(AuthError::Revoked)));
}

#[tokio::test]
async fn token_rotates_only_its_own_descendants() {
    let f = fixture().await;
    let mint = async |by: &Principal, kind, name: &str| {
        let made = f.authenticator.mint(by, params(kind, name, &[])).await.unwrap();
        (made.jti, f.authenticator.authenticate(&made.token).unwrap())
    };
    let (ann_jti, ann) = mint(&f.admin, TokenKind::User, "ann").await;
    let (own_jti, _) = mint(&ann, TokenKind::Agent, "ann/a").await;
    let (foreign_jti, _) = mint(&f.admin, TokenKind::Agent, "ann/b").await;
    let rotate = async |jti| f.authenticator.rotate(&ann, jti, Duration::ZERO).await.unwrap();
    assert!(rotate(own_jti).await.is_some());
    assert!(rotate(foreign_jti).await.is_none(), "name below its own, but minted by another");
    assert!(rotate(ann_jti).await.is_none(), "itself: the replacement would survive its revocation");
}

#[tokio::test]
async fn rotating_the_local_admin_token_rewrites_its_file() {
    let f = fixture().await;
    let before = f.admin_token();
    f.authenticator.rotate(&f.admin, f.admin.token_id(), Duration::ZERO).await.unwrap().unwrap();
    assert!(matches!(f.authenticator.authenticate(&before), Err(AuthError::Revoked)));
    assert!(f.authenticator.authenticate(&f.admin_token()).unwrap().is_admin());
}

#[tokio::test]
async fn ensure_admin_token_replaces_only_an_unusable_token() {
    let f = fixture().await;
    let file = f.dir.path().join("admin-token");
    let before = std::fs::read(&file).unwrap();
    f.authenticator.ensure_admin_token().await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before, "a valid token was replaced");
    let leave_old = || std::fs::write(&file, &before).unwrap();
    let healed = async |what: &str| {
        f.authenticator.ensure_admin_token().await.unwrap();
        assert_ne!(std::fs::read(&file).unwrap(), before, "{what}");
        let admin = f.authenticator.authenticate(&f.admin_token()).unwrap();
        f.authenticator.mint(&admin, params(TokenKind::Agent, "a", &[])).await.expect(what);
    };

    // Simulates a crash after the database commit and before the file was written.
    f.authenticator.rotate(&f.admin, f.admin.token_id(), Duration::from_secs(60)).await.unwrap();
    leave_old();
    healed("replaced, with time left").await;
    f.clock.advance(Duration::from_secs(60));
    leave_old();
    healed("replaced and over").await;
    f.authenticator.rotate_keys(&f.admin, Duration::ZERO).await.unwrap();
    leave_old();
    healed("of a key that was retired").await;
    std::fs::remove_file(&file).unwrap();
    healed("gone").await;
}

#[tokio::test]
async fn last_use_is_known_immediately_and_written_on_flush() {
    let f = fixture().await;
    let (token, principal) = f.agent("a").await;
    let jti = principal.token_id();
    let written = async || f.store.read().await.unwrap().token(jti).await.unwrap().unwrap().last_used_at;
    assert_eq!(f.authenticator.last_used(jti), Some(f.clock.now()));
    assert_eq!(written().await, None);
    f.authenticator.flush_usage().await.unwrap();
    assert_eq!((written().await, f.authenticator.last_used(jti)), (Some(f.clock.now()), None));
    f.clock.advance(Duration::from_secs(30));
    f.authenticator.authenticate(&token.token).unwrap();
    f.authenticator.flush_usage().await.unwrap();
    assert_eq!(written().await, Some(f.clock.now()));
    // A rejected token does not count as used.
    f.authenticator.revoke(&f.admin, jti).await.unwrap();
    f.clock.advance(Duration::from_secs(30));
    assert!(f.authenticator.authenticate(&token.token).is_err());
    assert_eq!(f.authenticator.last_used(jti), None);
}

#[tokio::test]
async fn token_without_a_known_key_id_is_rejected() {
    let f = fixture().await;
    let (token, _) = f.agent("a").await;
    let parts: Vec<&str> = token.token.split('.').collect();
    // Headers with "alg": "EdDSA": without a kid, and with an unknown kid; the rest is validly signed.
    for header in ["eyJhbGciOiJFZERTQSJ9", "eyJhbGciOiJFZERTQSIsImtpZCI6IjAwMDAwMDAwMDAwMDAwMDAifQ"] {
        let forged = format!("{header}.{}.{}", parts[1], parts[2]);
        assert!(matches!(f.authenticator.authenticate(&forged), Err(AuthError::InvalidToken)));
    }
}
