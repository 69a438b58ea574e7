use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn url_texts(urls: Vec<Url>) -> Vec<String> {
    urls.iter().map(Url::to_string).collect()
}

#[test]
fn resource_metadata_is_at_the_named_or_well_known_urls() {
    let urls =
        |at: &str, challenge: &Challenge| url_texts(resource_metadata_urls(&url(at), challenge).unwrap());
    let silent = Challenge::default();
    let root = "https://a.example/.well-known/oauth-protected-resource";
    assert_eq!(urls("https://a.example/v1/mcp?x=1", &silent), [format!("{root}/v1/mcp"), root.to_owned()]);
    assert_eq!(urls("https://a.example/mcp/", &silent), [format!("{root}/mcp"), root.to_owned()]);
    assert_eq!(urls("https://a.example", &silent), [root]);
    let named = Challenge { resource_metadata: Some("https://b.example/d".to_owned()), ..silent };
    assert_eq!(urls("https://a.example/mcp", &named), ["https://b.example/d"]);
    let nonsense = Challenge { resource_metadata: Some("/relative".to_owned()), ..Challenge::default() };
    assert!(resource_metadata_urls(&url("https://a.example/mcp"), &nonsense).is_err());
}

#[test]
fn authority_metadata_urls_follow_the_specified_order() {
    let urls = |issuer: &str| url_texts(authority_metadata_urls(&url(issuer)));
    assert_eq!(
        urls("https://a.example/tenant1"),
        [
            "https://a.example/.well-known/oauth-authorization-server/tenant1",
            "https://a.example/.well-known/openid-configuration/tenant1",
            "https://a.example/tenant1/.well-known/openid-configuration",
        ]
    );
    for issuer in ["https://a.example", "https://a.example/"] {
        assert_eq!(
            urls(issuer),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration",
            ]
        );
    }
}

#[test]
fn resource_must_be_the_server_url_or_its_parent() {
    for (resource, at, accepted) in [
        ("https://a.example/mcp", "https://a.example/mcp", true),
        ("https://A.example:443/mcp/", "https://a.example/mcp", true),
        ("https://a.example", "https://a.example/v1/mcp", true),
        ("https://a.example/v1", "https://a.example/v1/mcp", true),
        ("https://a.example/v1/mcp", "https://a.example/v1", false),
        ("https://a.example/v", "https://a.example/v1/mcp", false),
        ("https://b.example/mcp", "https://a.example/mcp", false),
        ("http://a.example/mcp", "https://a.example/mcp", false),
        ("https://a.example:8443/mcp", "https://a.example/mcp", false),
        ("https://a.example/mcp#x", "https://a.example/mcp", false),
        ("https://a.example/mcp?tenant=1", "https://a.example/mcp", false),
        ("urn:mcp", "https://a.example/mcp", false),
    ] {
        assert_eq!(covers(resource, &url(at)), accepted, "{resource} {at}");
    }
    assert_eq!(canonical(&url("https://A.example/")), "https://a.example");
    assert_eq!(canonical(&url("https://a.example/mcp/#x")), "https://a.example/mcp/");
}

#[test]
fn unencrypted_endpoints_are_refused() {
    let document = |token: &str| {
        let issuer = "https://a.example";
        serde_json::from_value(serde_json::json!({ "issuer": issuer, "token_endpoint": token })).unwrap()
    };
    let issuer = url("https://a.example");
    assert!(usable(document("https://a.example/token"), &issuer).is_ok());
    assert!(usable(document("http://a.example/token"), &issuer).is_err());
}

#[test]
fn remote_issuer_may_not_name_local_endpoints() {
    let leads = |issuer: &str, endpoint: &str| {
        let token = format!("{issuer}/token");
        let document = serde_json::json!({
            "issuer": issuer, "token_endpoint": token, "authorization_endpoint": endpoint,
        });
        usable(serde_json::from_value(document).unwrap(), &url(issuer)).is_ok()
    };
    for (issuer, endpoint, accepted) in [
        ("https://a.example", "https://login.a.example/authorize", true),
        ("https://a.example", "http://127.0.0.1:8080/authorize", false),
        ("https://a.example", "http://localhost:8080/authorize", false),
        ("https://a.example", "https://[::1]/authorize", false),
        ("http://127.0.0.1:1", "http://127.0.0.1:1/authorize", true),
        ("http://localhost:1", "http://127.0.0.1:2/authorize", true),
        ("http://127.0.0.1:1", "https://a.example/authorize", true),
    ] {
        assert_eq!(leads(issuer, endpoint), accepted, "{issuer} {endpoint}");
    }
}

#[test]
fn invalid_metadata_is_quoted_shortened() {
    let document =
        serde_json::json!({ "issuer": "https://a.example", "scopes_supported": "\u{1b}x".repeat(9_000) });
    let issuer = url("https://a.example");
    let refused = read::<AuthorityDocument>(&issuer, document).err().unwrap().to_string();
    assert!(refused.len() < 400 && !refused.contains('\u{1b}'), "{refused}");
}
