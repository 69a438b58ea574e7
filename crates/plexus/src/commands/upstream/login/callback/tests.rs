use super::parse;

#[test]
fn only_response_to_this_login_is_accepted() {
    let params = |query: &str| parse(&format!("http://127.0.0.1:1/callback?{query}\n"), Some("s"));
    let success = params("code=c%2F1&state=s&iss=https%3A%2F%2Fa.example").unwrap();
    assert_eq!(success.code.as_deref(), Some("c/1"));
    assert_eq!(success.iss.as_deref(), Some("https://a.example"));
    assert_eq!(params("error=access_denied&state=s").unwrap().error.as_deref(), Some("access_denied"));
    for other in ["code=c&state=another", "code=c", "state=s", "", "code=a&code=b&state=s"] {
        assert!(params(other).is_none(), "{other}");
    }
    assert!(parse("code=c&state=s", Some("s")).is_none());
}
