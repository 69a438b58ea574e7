use super::*;

#[test]
fn client_authenticates_with_the_configured_method() {
    let oauth = OauthConfig { client_secret: Some(Secret::from("from file")), ..OauthConfig::default() };
    let signed = |method, secret: Option<&str>| {
        let client = Client { id: "a:b".to_owned(), secret: secret.map(Secret::from), method };
        let mut form = form_urlencoded::Serializer::new(String::new());
        let header = client.sign(&oauth, &mut form);
        (form.finish(), header.map(|header| header.to_str().unwrap().to_owned()))
    };
    assert_eq!(signed(Method::None, Some("x")), ("client_id=a%3Ab".to_owned(), None));
    assert_eq!(
        signed(Method::ClientSecretPost, None),
        ("client_id=a%3Ab&client_secret=from+file".to_owned(), None)
    );
    let basic = format!("Basic {}", STANDARD.encode("a%3Ab:own"));
    assert_eq!(signed(Method::ClientSecretBasic, Some("own")), (String::new(), Some(basic)));
}

#[test]
fn registration_response_determines_the_method() {
    let method = |body: Value, requested| Client::registered(&body, requested).map(|client| client.method);
    let secret = json!({ "client_id": "a", "client_secret": "s" });
    assert_eq!(method(json!({ "client_id": "a" }), Method::ClientSecretBasic), Some(Method::None));
    assert_eq!(method(secret.clone(), Method::None), Some(Method::ClientSecretBasic));
    assert_eq!(method(secret, Method::ClientSecretPost), Some(Method::ClientSecretPost));
    assert_eq!(method(json!({ "client_secret": "s" }), Method::None), None);
}

#[test]
fn redirect_uri_must_be_on_this_machine() {
    for good in ["http://127.0.0.1:1/callback", "http://[::1]:1/x", "http://localhost:1/callback"] {
        assert_eq!(check_redirect(good, None), Ok(()), "{good}");
    }
    for bad in [
        "https://127.0.0.1:1/callback",
        "http://evil.example/callback",
        "http://127.0.0.1.evil.example:1/",
        "http://a@127.0.0.1:1/callback",
        "http://127.0.0.1:1/callback?x=1",
        "nonsense",
    ] {
        assert!(check_redirect(bad, None).is_err(), "{bad}");
    }
    assert!(check_redirect("http://127.0.0.1:1/callback", Some(2)).is_err());
    assert_eq!(check_redirect("http://127.0.0.1:2/callback", Some(2)), Ok(()));
}
