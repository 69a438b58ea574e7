//! What is asked of an authorization server's token endpoint, and what its answers mean.
//!
//! An answer is one of four: access; that what was shown is no longer good (`invalid_grant`), which only a person can
//! mend; another refusal, which a change of the file or of the registration can; or nothing that can be used, which
//! passes. Only the second ends what the hub has.

use http::header::HeaderValue;
use plexus_kit::Secret;
use plexus_mcp::http_client::shown;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::client::Client;
use super::http::{Answer, OauthHttp};
use super::quoted;
use super::redaction::Confided;
use crate::config::OauthConfig;

/// Longest token that is taken: headers of requests have bounds everywhere.
const MAX_TOKEN: usize = 16 * 1024;

/// Access, as it was given.
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// Seconds from now.
    pub(super) expires_in: Option<u64>,
    pub(super) scope: Option<String>,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// What was shown is no longer good, or never was.
    Grant(String),
    /// Something else is wrong, and stays so until somebody changes it.
    Other(String),
    /// Nothing that could be used came back. That passes.
    Passing(String),
}

/// Asks for access with what the form has.
pub(super) async fn ask(
    asking: &OauthHttp,
    endpoint: &Url,
    client: &Client,
    oauth: &OauthConfig,
    pairs: &[(&str, &str)],
) -> Result<Tokens, Refused> {
    let (form, authorization) = signed(client, oauth, pairs);
    let confided = Confided::of(pairs, client.secret(oauth), authorization.as_ref());
    let answer = asking.submit(endpoint, form, authorization).await;
    let answer = answer.map_err(|error| Refused::Passing(error.to_string()))?;
    read(&shown(endpoint), answer, &confided)
}

/// A form, with who sends it in it or in a header beside it.
pub(super) fn signed(
    client: &Client,
    oauth: &OauthConfig,
    pairs: &[(&str, &str)],
) -> (String, Option<HeaderValue>) {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(pairs);
    let authorization = client.sign(oauth, &mut form);
    (form.finish(), authorization)
}

fn read(place: &str, answer: Answer, confided: &Confided) -> Result<Tokens, Refused> {
    let Answer { status, body } = answer;
    let Some(body) = body else {
        return Err(Refused::Passing(format!("{place} answers {status} and nothing that can be read")));
    };
    if status.is_success() {
        return tokens(&body).ok_or_else(|| {
            Refused::Passing(format!("{place} answers without a bearer token that can be sent"))
        });
    }
    let refused = format!("{place} answers {status}{}", said(&body, confided));
    match body["error"].as_str() {
        Some("invalid_grant") if status.is_client_error() => Err(Refused::Grant(refused)),
        // What these servers say of themselves passes, whatever the status.
        Some("temporarily_unavailable" | "server_error" | "slow_down") => Err(Refused::Passing(refused)),
        Some(_) if status.is_client_error() && status.as_u16() != 429 => Err(Refused::Other(refused)),
        _ => Err(Refused::Passing(refused)),
    }
}

fn tokens(body: &Value) -> Option<Tokens> {
    let token = |name: &str| {
        let text = body[name].as_str()?;
        let plain = text.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
        (plain && !text.is_empty() && text.len() <= MAX_TOKEN).then(|| Secret::from(text))
    };
    if !body["token_type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return None;
    }
    // Some write the number as text.
    let seconds = &body["expires_in"];
    let expires_in = seconds.as_u64().or_else(|| seconds.as_f64().map(|s| s as u64));
    let expires_in = expires_in.or_else(|| seconds.as_str()?.parse().ok());
    Some(Tokens {
        access: token("access_token")?,
        refresh: token("refresh_token"),
        // Access that has ended when it is given cannot be meant: it would be renewed for every request.
        expires_in: expires_in.filter(|seconds| *seconds > 0),
        scope: body["scope"].as_str().map(str::to_owned),
    })
}

/// What an error of OAuth says, to go on after what happened; without what it was told in confidence.
pub(super) fn said(body: &Value, confided: &Confided) -> String {
    let text = |name: &str| body[name].as_str().map(|text| quoted(&confided.out_of(text)));
    match (text("error"), text("error_description")) {
        (Some(error), Some(more)) => format!(": {error} ({more})"),
        (Some(error), None) => format!(": {error}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use plexus_kit::ExposeSecret;
    use serde_json::json;

    use super::*;

    fn of(status: u16, body: Option<Value>) -> Result<Tokens, Refused> {
        let answer = Answer { status: StatusCode::from_u16(status).unwrap(), body };
        read("https://a.example", answer, &Confided::default())
    }

    #[test]
    fn only_invalid_grant_ends_what_the_hub_has() {
        let error = |code: &str| Some(json!({ "error": code, "error_description": "why\n so" }));
        assert!(
            matches!(of(400, error("invalid_grant")), Err(Refused::Grant(why)) if why.contains("why  so"))
        );
        for code in ["invalid_client", "unauthorized_client", "invalid_scope", "invalid_target", "made_up"] {
            assert!(matches!(of(401, error(code)), Err(Refused::Other(_))), "{code}");
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
            assert!(matches!(of(status, body.clone()), Err(Refused::Passing(_))), "{status} {body:?}");
        }
    }

    #[test]
    fn access_is_read_however_its_time_is_written() {
        for (written, read) in [
            (json!(60), Some(60)),
            (json!("60"), Some(60)),
            (json!(60.5), Some(60)),
            (json!(null), None),
            // It is not renewed for every request.
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
}
