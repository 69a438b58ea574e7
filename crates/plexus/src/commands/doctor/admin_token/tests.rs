use super::super::Level;
use super::{MONTH, URL_SAFE_NO_PAD, expiry, judge};
use base64::Engine as _;

#[test]
fn token_that_expires_soon_is_reported() {
    let level = |left| judge(left, String::new()).level;
    assert_eq!(
        [0, 1, MONTH, MONTH + 1].map(level),
        [Level::Problem, Level::Warning, Level::Warning, Level::Ok]
    );
}

#[test]
fn expiry_is_read_from_token() {
    let token = format!("e30.{}.c2ln\n", URL_SAFE_NO_PAD.encode(r#"{"exp":1767225600}"#));
    assert_eq!(expiry(token.as_bytes()), Some(1_767_225_600));
    for damaged in ["", "x", "a.b.c", "e30.e30.x"] {
        assert_eq!(expiry(damaged.as_bytes()), None, "{damaged}");
    }
}
