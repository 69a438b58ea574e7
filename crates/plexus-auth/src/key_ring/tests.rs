use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use plexus_kit::Clock;
use plexus_kit::clock::from_millis;
use plexus_proto::Timestamp;
use plexus_proto::api::KeyState;
use tempfile::TempDir;

use super::KeyRing;
use crate::AuthError;

struct Fixture {
    ring: KeyRing,
    clock: Clock,
    dir: TempDir,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual("2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap());
    Fixture { ring: KeyRing::open(dir.path(), clock.clone()).unwrap(), clock, dir }
}

impl Fixture {
    fn reopened(&self) -> KeyRing {
        KeyRing::open(self.dir.path(), self.clock.clone()).unwrap()
    }

    fn rotate(&self, overlap_seconds: i64) -> String {
        let until = from_millis(self.clock.now().as_millisecond() + overlap_seconds * 1000);
        self.ring.rotate(until).unwrap().key.kid
    }
}

fn states(ring: &KeyRing) -> Vec<(String, KeyState)> {
    ring.list().into_iter().map(|key| (key.kid, key.state)).collect()
}

#[test]
fn rotated_key_is_accepted_until_its_overlap_ends() {
    let f = fixture();
    let old = f.ring.current();
    let signature = old.sign(b"text");
    let new = f.rotate(60);
    assert_eq!(f.ring.current().kid(), new);
    for ring in [&f.ring, &f.reopened()] {
        let expected = [(new.clone(), KeyState::Current), (old.kid().to_owned(), KeyState::Retiring)];
        assert_eq!(states(ring), expected);
        let former = ring.find(old.kid()).unwrap();
        assert!(former.verify(b"text", &signature) && former.accepts_at(f.clock.now()));
    }
    f.clock.advance(Duration::from_secs(60));
    for ring in [&f.ring, &f.reopened()] {
        let former = ring.find(old.kid()).unwrap();
        assert!(!former.accepts_at(f.clock.now()), "its tokens are rejected");
        assert!(former.verify(b"text", &signature), "the audit head can still be verified");
        assert_eq!(states(ring)[1].1, KeyState::Retired);
    }
    // The end also applies to holders of the key object.
    assert!(!old.verifying.accepts_at(f.clock.now()));
}

#[test]
fn crash_during_rotation_keeps_the_old_key_current() {
    let f = fixture();
    let kid = f.ring.current().kid().to_owned();
    f.ring.record_retired(&f.ring.current().verifying, f.clock.now()).unwrap();
    let after = f.reopened();
    assert_eq!(states(&after), [(kid.clone(), KeyState::Current)]);
    assert!(after.current().verifying.accepts_at(f.clock.now()));
    assert!(!f.dir.path().join("retired-keys").join(kid).exists(), "the record was not removed");
}

#[test]
fn only_former_keys_can_be_retired() {
    let f = fixture();
    let old = f.ring.current().kid().to_owned();
    let new = f.rotate(3600);
    let retired = f.ring.retire(&old).unwrap().unwrap();
    assert_eq!((retired.state, retired.verifies_until), (KeyState::Retired, Some(f.clock.now())));
    let first = f.clock.now();
    f.clock.advance(Duration::from_secs(5));
    assert_eq!(
        f.ring.retire(&old).unwrap().unwrap().verifies_until,
        Some(first),
        "retiring twice has no effect"
    );
    assert_eq!(states(&f.reopened())[1], (old, KeyState::Retired));
    assert!(matches!(f.ring.retire(&new), Err(AuthError::Conflict { .. })));
    assert!(f.ring.retire("0000000000000000").unwrap().is_none());
}

#[test]
fn former_keys_keep_only_public_halves_in_private_files() {
    let f = fixture();
    let secret = std::fs::read(f.dir.path().join("signing-key")).unwrap();
    let kid = f.ring.current().kid().to_owned();
    f.rotate(60);
    let folder = f.dir.path().join("retired-keys");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join(&kid))), (0o700, 0o600));
    let stored = std::fs::read_to_string(folder.join(&kid)).unwrap();
    // The seed of the key is at a fixed offset in every PKCS#8 file of this kind.
    assert!(!stored.contains(&plexus_kit::hex::encode(&secret[16..48])), "{stored}");
}

#[test]
fn damaged_key_error_names_the_file_and_leftovers_are_ignored() {
    let f = fixture();
    let kid = f.ring.current().kid().to_owned();
    f.rotate(60);
    let folder = f.dir.path().join("retired-keys");
    std::fs::write(folder.join("0123456789abcdef.tmp17"), "half").unwrap();
    f.reopened();
    std::fs::write(folder.join(&kid), "{}").unwrap();
    let error = KeyRing::open(f.dir.path(), f.clock.clone()).unwrap_err();
    assert!(error.to_string().contains(&kid), "{error}");
}
