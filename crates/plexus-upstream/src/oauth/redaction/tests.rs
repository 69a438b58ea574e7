use super::*;

#[test]
fn secrets_are_redacted_in_whole_and_in_part() {
    let secret = Secret::from("of+the robot");
    let header = HeaderValue::from_static("Basic cm9ib3Q6c2VjcmV0");
    let pairs =
        [("grant_type", "refresh_token"), ("refresh_token", "abcdef-123456.xyz"), ("resource", "https://a")];
    let secrets = SentSecrets::of(&pairs, Some(&secret), Some(&header));
    for (text, shown) in [
        ("the refresh_token is no good", "the refresh_token is no good"),
        ("token 'abcdef-123456.xyz' is unknown", "token '[redacted]' is unknown"),
        ("token abcdef-1... is unknown", "token [redacted]... is unknown"),
        ("(token=abcdef-123456)", "(token=[redacted])"),
        ("wrong secret of+the robot.", "wrong secret [redacted]."),
        ("client_secret=of%2Bthe+robot&x", "client_secret=[redacted]&x"),
        ("header cm9ib3Q6c2VjcmV0", "header [redacted]"),
        ("not for https://a", "not for https://a"),
    ] {
        assert_eq!(secrets.redact(text), shown);
    }
    let long = format!("{}abcdef-123456.xyz", " ".repeat(MAX_TEXT - 8));
    assert!(!secrets.redact(&long).contains("abcdef"), "also at the truncation point");
    assert_eq!(SentSecrets::default().redact("as it is"), "as it is");
}
