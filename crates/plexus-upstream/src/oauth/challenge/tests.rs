use super::*;

#[test]
fn bearer_challenge_is_parsed_among_other_schemes() {
    let of = |header: &str| {
        let Challenge { resource_metadata, scope, error } = Challenge::of(header);
        [resource_metadata, scope, error].map(Option::unwrap_or_default)
    };
    for (header, expected) in [
        ("", ["", "", ""]),
        ("Bearer", ["", "", ""]),
        (
            r#"Bearer resource_metadata="https://a.example/x", scope="a b""#,
            ["https://a.example/x", "a b", ""],
        ),
        (r#"bearer  realm="x" , ERROR=invalid_token,scope=one"#, ["", "one", "invalid_token"]),
        (r#"Basic realm="a, Bearer scope=no", Bearer scope="yes""#, ["", "yes", ""]),
        (r#"Bearer scope="one", DPoP scope="two", error="no""#, ["", "one", ""]),
        (r#"Bearer scope="a \"b\\" , error="e""#, ["", r#"a "b\"#, "e"]),
        (r#"Bearer scope="never ends"#, ["", "never ends", ""]),
        (r#"Negotiate abc==, Bearer error = "x""#, ["", "", "x"]),
        (r#"="" , "" Bearer error="x""#, ["", "", ""]),
    ] {
        assert_eq!(of(header), expected, "{header}");
    }
}
