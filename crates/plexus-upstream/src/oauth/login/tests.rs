use super::super::client::Method;
use super::*;

fn pending(server: &str, names_itself: bool, at: i64) -> Pending {
    let issuer = "https://a.example".to_owned();
    let client = Client { id: "hub".to_owned(), secret: None, method: Method::None };
    Pending {
        id: random(),
        server: server.to_owned(),
        state: Secret::from("the state"),
        verifier: Secret::from("the verifier"),
        redirect: "http://127.0.0.1:1/callback".to_owned(),
        names_itself,
        source: Source {
            binding: String::new(),
            token_endpoint: Url::parse(&issuer).unwrap(),
            revocation_endpoint: None,
            client,
            resource: "https://b.example".to_owned(),
            issuer,
        },
        expires_at: from_millis(at),
    }
}

fn answer(state: &str, iss: Option<&str>) -> FinishLoginParams {
    FinishLoginParams {
        code: Some("the code".to_owned()),
        state: Some(state.to_owned()),
        iss: iss.map(str::to_owned),
        ..FinishLoginParams::default()
    }
}

#[test]
fn pkce_challenge_matches_the_rfc_example() {
    // RFC 7636, appendix B.
    let verifier = Secret::from("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert_eq!(challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    assert_eq!(random().len(), 43);
    assert_ne!(random(), random());
}

#[test]
fn answer_must_name_the_expected_issuer() {
    let accepted = |names_itself, iss| decided(&pending("docs", names_itself, 0), &answer("", iss)).is_ok();
    for (names_itself, iss, good) in [
        (true, Some("https://a.example"), true),
        (true, None, false),
        (true, Some("https://evil.example"), false),
        (false, Some("https://a.example"), true),
        (false, Some("https://a.example/"), false),
        (false, None, true),
    ] {
        assert_eq!(accepted(names_itself, iss), good, "{names_itself} {iss:?}");
    }
    // An answer from a different authorization server is not repeated.
    let mut foreign = answer("", Some("https://evil.example"));
    foreign.error = Some("call this number".to_owned());
    let error = decided(&pending("docs", true, 0), &foreign).unwrap_err().to_string();
    assert!(!error.contains("number") && !error.contains("evil"), "{error}");
    foreign.iss = Some("https://a.example".to_owned());
    let error = decided(&pending("docs", true, 0), &foreign).unwrap_err().to_string();
    assert!(error.contains("call this number"), "{error}");
}

#[test]
fn login_completes_once_with_its_own_state_in_time() {
    let logins = Logins::default();
    let (one, now) = (pending("docs", false, 1_000), from_millis(1));
    let id = one.id.clone();
    logins.add(one, now).unwrap();
    assert!(matches!(logins.take("docs", &id, &answer("another", None), now), Err(LoginError::Refused(_))));
    assert!(matches!(logins.take("mail", &id, &answer("the state", None), now), Err(LoginError::NoLogin)));
    assert!(logins.take("docs", &id, &answer("the state", None), now).is_ok(), "the login still exists");
    assert!(matches!(logins.take("docs", &id, &answer("the state", None), now), Err(LoginError::NoLogin)));
    let late = pending("docs", false, 1_000);
    let id = late.id.clone();
    logins.add(late, now).unwrap();
    let end = logins.take("docs", &id, &answer("the state", None), from_millis(1_000));
    assert!(matches!(end, Err(LoginError::NoLogin)));
}

#[test]
fn pending_logins_are_bounded() {
    let logins = Logins::default();
    let now = from_millis(0);
    let first = pending("docs", false, 1_000);
    let id = first.id.clone();
    logins.add(first, now).unwrap();
    for _ in 0..MAX_PENDING_PER_SERVER {
        logins.add(pending("docs", false, 1_000), now).unwrap();
    }
    let oldest = logins.take("docs", &id, &answer("the state", None), now);
    assert!(matches!(oldest, Err(LoginError::NoLogin)), "the oldest of a server goes first");
    let other_servers = (0..MAX_PENDING - MAX_PENDING_PER_SERVER)
        .map(|n| logins.add(pending(&format!("s{n}"), false, 1_000), now));
    assert!(other_servers.into_iter().all(|added| added.is_ok()));
    assert_eq!(logins.add(pending("more", false, 1_000), now), Err(LoginError::Full(MAX_PENDING)));
    assert_eq!(
        logins.add(pending("more", false, 2_000), from_millis(1_000)),
        Ok(()),
        "expired logins make room"
    );
}

#[test]
fn authorization_url_contains_no_verifier() {
    let verifier = Secret::from("the verifier");
    let url = address(&Decision {
        endpoint: Url::parse("https://a.example/authorize?tenant=1#x").unwrap(),
        client: "hub",
        redirect: "http://127.0.0.1:1/callback",
        state: &Secret::from("s"),
        verifier: &verifier,
        resource: "https://b.example/mcp",
        scopes: &["read".to_owned(), OFFLINE_SCOPE.to_owned()],
    });
    let text = url.to_string();
    for part in [
        "https://a.example/authorize?tenant=1&response_type=code&client_id=hub",
        "&resource=https%3A%2F%2Fb.example%2Fmcp",
        "&scope=read+offline_access&prompt=consent",
        "&code_challenge_method=S256",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("verifier") && !text.contains('#'), "{text}");
}
