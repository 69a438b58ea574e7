use http::StatusCode;
use plexus_kit::ExposeSecret;
use serde_json::json;

use super::*;

fn of(status: u16, body: Option<Value>) -> Result<Tokens, TokenError> {
    let answer = Answer { status: StatusCode::from_u16(status).unwrap(), body };
    read("https://a.example", answer, &SentSecrets::default())
}

#[test]
fn only_invalid_grant_ends_the_login() {
    let error = |code: &str| Some(json!({ "error": code, "error_description": "why\n so" }));
    assert!(
        matches!(of(400, error("invalid_grant")), Err(TokenError::InvalidGrant(why)) if why.contains("why  so"))
    );
    for code in ["invalid_client", "unauthorized_client", "invalid_scope", "invalid_target", "made_up"] {
        assert!(matches!(of(401, error(code)), Err(TokenError::Other(_))), "{code}");
    }
    for (status, body) in [
        (500, error("invalid_grant")),
        (503, None),
        (400, None),
        (400, Some(json!({}))),
        (400, error("temporarily_unavailable")),
        (429, error("invalid_request")),
        (200, None),
        (200, Some(json!({ "access_token": "a" }))),
        (200, Some(json!({ "access_token": "a", "token_type": "mac" }))),
        (200, Some(json!({ "access_token": "a b", "token_type": "bearer" }))),
        (200, Some(json!({ "access_token": "", "token_type": "bearer" }))),
        (302, None),
    ] {
        assert!(matches!(of(status, body.clone()), Err(TokenError::Transient(_))), "{status} {body:?}");
    }
}

#[test]
fn token_lifetime_is_read_in_every_form() {
    for (written, read) in [
        (json!(60), Some(60)),
        (json!("60"), Some(60)),
        (json!(60.5), Some(60)),
        (json!(null), None),
        // Ignored, so that the token is not renewed for every request.
        (json!(0), None),
        (json!("0"), None),
        (json!(-1), None),
        (json!(0.5), None),
    ] {
        let body = json!({
            "access_token": "a", "token_type": "BEARER", "refresh_token": "r", "expires_in": written,
        });
        let tokens = of(200, Some(body)).ok().unwrap();
        assert_eq!((tokens.access.expose_secret(), tokens.expires_in), ("a", read));
        assert_eq!(tokens.refresh.unwrap().expose_secret(), "r");
    }
}
