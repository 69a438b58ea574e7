use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn sealed_text_opens_only_in_its_location() {
    let folder = tempfile::tempdir().unwrap();
    let text = Secret::from("a refresh token");
    let sealed = SealingKey::open(folder.path()).unwrap().seal(&["docs", "grant"], &text).unwrap();
    assert!(!sealed.contains(&hex::encode(b"refresh")), "{sealed}");
    let key = SealingKey::open(folder.path()).unwrap();
    let opened = |context: &[&str], sealed: &str| {
        key.open_sealed(context, sealed).map(|text| text.expose_secret().to_owned())
    };
    assert_eq!(opened(&["docs", "grant"], &sealed).as_deref(), Some("a refresh token"));
    for context in [&["mail", "grant"][..], &["docs", "client"], &["docsgrant"], &["docs", "gran", "t"]] {
        assert_eq!(opened(context, &sealed), None, "{context:?}");
    }
    let mut damaged = sealed.clone().into_bytes();
    damaged[30] = if damaged[30] == b'0' { b'1' } else { b'0' };
    assert_eq!(opened(&["docs", "grant"], std::str::from_utf8(&damaged).unwrap()), None);
    assert_eq!(opened(&["docs", "grant"], "00"), None);
    assert_ne!(key.seal(&["docs", "grant"], &text).unwrap(), sealed, "uses a new nonce each time");

    let other = tempfile::tempdir().unwrap();
    let other_key = SealingKey::open(other.path()).unwrap();
    assert!(other_key.open_sealed(&["docs", "grant"], &sealed).is_none());
}

#[test]
fn key_file_is_private_and_damage_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    SealingKey::open(folder.path()).unwrap();
    let path = folder.path().join(SEALING_KEY);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    private_file::write(&path, b"short").unwrap();
    let error = SealingKey::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("sealing-key"), "{error}");
}
