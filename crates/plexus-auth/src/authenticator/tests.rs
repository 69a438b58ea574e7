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
        // The one of the file: that of the fixture may have been replaced.
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
async fn a_list_of_revocations_that_was_read_earlier_does_not_undo_a_later_one() {
    let f = fixture().await;
    let (token, _) = f.agent("a").await;
    // As a poll that read these and was then overtaken by the revocation.
    let mut reader = f.store.read().await.unwrap();
    let epoch = reader.revocation_epoch().await.unwrap();
    let revoked = reader.revoked_tokens(f.clock.now()).await.unwrap();
    drop(reader);
    f.authenticator.revoke(&f.admin, token.jti).await.unwrap();

    f.authenticator.take_revocations(epoch, revoked);

    assert!(matches!(f.authenticator.authenticate(&token.token), Err(AuthError::Revoked)));
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

/// What operations were logged with.
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
async fn the_log_tells_what_came_of_a_request_and_not_what_was_hoped_for() {
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
    assert_eq!((nobody, logged().len()), (None, 0), "nothing was done");
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
    let elsewhere = tempfile::tempdir().unwrap();
    let keys = Arc::new(KeyRing::open(elsewhere.path(), f.clock.clone()).unwrap());
    let path = elsewhere.path().join("admin-token");
    let stranger = Authenticator::new(keys, f.store.clone(), f.clock.clone(), path).await.unwrap();
    assert!(matches!(stranger.authenticate(&token), Err(AuthError::InvalidToken)));
    for forged in [spliced.as_str(), &unsigned, "", "a.b.c", &"x".repeat(100_000)] {
        assert!(matches!(f.authenticator.authenticate(forged), Err(AuthError::InvalidToken)));
    }
}

#[tokio::test]
async fn tokens_of_a_rotated_key_are_good_until_the_overlap_ends_and_not_a_moment_longer() {
    let f = fixture().await;
    let (old, principal) = f.agent("a").await;
    let admin_before = f.admin_token();
    let mut revocations = f.authenticator.revocations();
    revocations.mark_unchanged();

    f.authenticator.rotate_keys(&f.admin, Duration::from_secs(60)).await.unwrap();

    assert!(revocations.has_changed().unwrap(), "streams were not told");
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
    // Also the one that was verified before and is in the cache.
    assert!(f.refusal(&old.token).contains("retired"));
    assert!(f.authenticator.authenticate(&admin_before).is_err());
    assert_eq!(f.authenticator.time_left(&principal), None);
    for token in [&new.token, &admin_after] {
        f.authenticator.authenticate(token).unwrap();
    }
    // A hub that starts later has it from the files.
    let keys = Arc::new(KeyRing::open(f.dir.path(), f.clock.clone()).unwrap());
    let path = f.dir.path().join("admin-token");
    let restarted = Authenticator::new(keys, f.store.clone(), f.clock.clone(), path).await.unwrap();
    assert!(matches!(restarted.authenticate(&old.token), Err(AuthError::KeyRetired)));
    restarted.authenticate(&new.token).unwrap();
}

#[tokio::test]
async fn a_leaked_key_is_ended_at_once_by_retiring_it_or_by_no_overlap() {
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
async fn rotations_at_the_same_moment_come_one_after_the_other() {
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
async fn a_token_gets_a_profile_that_is_there_and_hands_on_no_other() {
    let f = fixture().await;
    let of = |profile: Option<&str>, name: &str| CreateTokenParams {
        profile: profile.map(str::to_owned),
        ..params(TokenKind::User, name, &["call:todo", "token:create"])
    };
    let refused = f.authenticator.mint(&f.admin, of(Some("discus"), "ann")).await.unwrap_err();
    assert!(matches!(refused, AuthError::Invalid(_)));
    assert!(
        refused.to_string().starts_with("there is no profile discus; there are developer, discuss,"),
        "{refused}"
    );

    let parent = f.authenticator.mint(&f.admin, of(Some("discuss"), "ann")).await.unwrap();
    let parent = f.authenticator.authenticate(&parent.token).unwrap();
    for asked in [None, Some("discuss")] {
        let child = f.authenticator.mint(&parent, of(asked, "ann/a")).await.unwrap();
        assert_eq!(child.profile.as_deref(), Some("discuss"), "asked for {asked:?}");
    }
    let other = f.authenticator.mint(&parent, of(Some("developer"), "ann/a")).await;
    assert!(matches!(other, Err(AuthError::Forbidden(_))), "{other:?}");

    // One that goes later leaves its tokens: they are renewed and replaced as they are.
    let empty = f.dir.path().join("profiles");
    std::fs::create_dir_all(empty.join("discuss")).unwrap();
    f.authenticator.follow_profiles(LiveProfiles::open(empty));
    f.authenticator.mint(&f.admin, of(Some("discuss"), "bob")).await.unwrap_err();
    let rotated = f.authenticator.rotate(&f.admin, parent.token_id(), Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(rotated.profile.as_deref(), Some("discuss"));
}

#[tokio::test]
async fn a_renewed_token_is_like_the_first_and_is_revoked_with_it() {
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
    f.authenticator.authenticate(&first.token).expect("the first goes on");
    let third = f.authenticator.renew(&renewed).await.unwrap();

    f.authenticator.revoke(&f.admin, first.jti).await.unwrap();
    for token in [&second.token, &third.token] {
        assert!(matches!(f.authenticator.authenticate(token), Err(AuthError::Revoked)));
    }
    assert!(matches!(f.authenticator.renew(&renewed).await, Err(AuthError::Revoked)));
}

#[tokio::test]
async fn renewals_end_where_they_were_to_end() {
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

    // Only programs' tokens are renewable where nothing is said.
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
async fn a_child_is_renewed_no_longer_than_its_maker() {
    let f = fixture().await;
    let user = |renew_seconds| CreateTokenParams {
        ttl_seconds: Some(10 * DAY),
        renew_seconds,
        ..params(TokenKind::User, "ann", &[])
    };
    for (renew, end) in [(None, 10), (Some(20 * DAY), 20)] {
        let maker = f.authenticator.mint(&f.admin, user(renew)).await.unwrap();
        let maker = f.authenticator.authenticate(&maker.token).unwrap();
        let child = f.authenticator.mint(&maker, params(TokenKind::Agent, "ann/a", &[])).await.unwrap();
        let days = (child.renew_until.unwrap().as_second() - f.clock.now().as_second()) / 86_400;
        assert_eq!(days, end, "{renew:?}");
        let asked =
            CreateTokenParams { renew_seconds: Some(30 * DAY), ..params(TokenKind::Agent, "ann/a", &[]) };
        assert!(matches!(f.authenticator.mint(&maker, asked).await, Err(AuthError::Forbidden(_))));
    }
}

#[tokio::test]
async fn a_rotated_token_ends_after_its_grace_and_what_it_made_lives_on() {
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
    // The children are the new one's now.
    f.authenticator.revoke(&f.admin, new.jti).await.unwrap();
    assert!(matches!(f.authenticator.authenticate(&child.token), Err(AuthError::Revoked)));
}

#[tokio::test]
async fn a_token_that_was_replaced_makes_none_in_its_grace() {
    let f = fixture().await;
    let wanted = CreateTokenParams { renew_seconds: Some(DAY), ..params(TokenKind::User, "ann", &[]) };
    let old = f.authenticator.mint(&f.admin, wanted).await.unwrap();
    let old = f.authenticator.authenticate(&old.token).unwrap();
    let grace = Duration::from_secs(60);
    let new = f.authenticator.rotate(&f.admin, old.token_id(), grace).await.unwrap().unwrap();

    f.authenticator.check(&old).expect("it has time left");
    let child = f.authenticator.mint(&old, params(TokenKind::Agent, "ann/a", &[])).await;
    let like_itself = f.authenticator.mint(&old, params(TokenKind::User, "ann", &[])).await;
    let renewal = f.authenticator.renew(&old).await;
    for (what, made) in [("child", child), ("like itself", like_itself), ("renewal", renewal)] {
        let refusal = made.expect_err(what);
        assert!(matches!(refusal, AuthError::Forbidden(_)), "{what}: {refusal}");
        assert!(refusal.to_string().contains("has been replaced"), "{what}: {refusal}");
    }
    // The new one makes what the old one did.
    let new = f.authenticator.authenticate(&new.token).unwrap();
    f.authenticator.mint(&new, params(TokenKind::Agent, "ann/a", &[])).await.unwrap();
    f.authenticator.renew(&new).await.unwrap();
    f.clock.advance(grace);
    let late = f.authenticator.mint(&old, params(TokenKind::Agent, "ann/a", &[])).await;
    assert!(matches!(late, Err(AuthError::Revoked)));
}

#[tokio::test]
async fn of_rotations_at_the_same_moment_one_succeeds() {
    let f = fixture().await;
    let (old, _) = f.agent("a").await;
    let rotate = || f.authenticator.rotate(&f.admin, old.jti, Duration::ZERO);
    let (a, b, c) = tokio::join!(rotate(), rotate(), rotate());
    let done = [a, b, c].into_iter().filter(Result::is_ok).count();
    assert_eq!(done, 1);
    assert!(matches!(f.authenticator.authenticate(&old.token), Err(AuthError::Revoked)));
}

#[tokio::test]
async fn a_token_rotates_what_it_made_and_nothing_else() {
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
    assert!(rotate(foreign_jti).await.is_none(), "one with a name below its own that another made");
    assert!(rotate(ann_jti).await.is_none(), "itself: that would outlive its revocation");
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
async fn an_admin_token_that_a_rotation_left_to_die_is_made_anew_and_a_good_one_is_left_alone() {
    let f = fixture().await;
    let file = f.dir.path().join("admin-token");
    let before = std::fs::read(&file).unwrap();
    f.authenticator.ensure_admin_token().await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before, "a good one was replaced");
    let leave_old = || std::fs::write(&file, &before).unwrap();
    let healed = async |what: &str| {
        f.authenticator.ensure_admin_token().await.unwrap();
        assert_ne!(std::fs::read(&file).unwrap(), before, "{what}");
        let admin = f.authenticator.authenticate(&f.admin_token()).unwrap();
        f.authenticator.mint(&admin, params(TokenKind::Agent, "a", &[])).await.expect(what);
    };

    // As if the database had been lost after it was told, and before the file was written.
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
async fn the_last_use_is_known_at_once_and_written_when_asked() {
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
    // A refused token is not used.
    f.authenticator.revoke(&f.admin, jti).await.unwrap();
    f.clock.advance(Duration::from_secs(30));
    assert!(f.authenticator.authenticate(&token.token).is_err());
    assert_eq!(f.authenticator.last_used(jti), None);
}

#[tokio::test]
async fn a_token_without_the_name_of_a_key_is_refused() {
    let f = fixture().await;
    let (token, _) = f.agent("a").await;
    let parts: Vec<&str> = token.token.split('.').collect();
    // "alg": "EdDSA" and no kid, and with a kid that nobody has; what follows is as it was signed.
    for header in ["eyJhbGciOiJFZERTQSJ9", "eyJhbGciOiJFZERTQSIsImtpZCI6IjAwMDAwMDAwMDAwMDAwMDAifQ"] {
        let forged = format!("{header}.{}.{}", parts[1], parts[2]);
        assert!(matches!(f.authenticator.authenticate(&forged), Err(AuthError::InvalidToken)));
    }
}
