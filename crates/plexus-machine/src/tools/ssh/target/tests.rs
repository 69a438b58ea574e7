use super::*;

#[test]
fn names_and_addresses_are_valid_hosts() {
    for good in ["nas", "Nas.Example.NET", "10.0.0.7", "::1", "fe80::1", "build_2", "a-b"] {
        assert_eq!(host(good), Some(good.to_ascii_lowercase()), "{good}");
    }
}

#[test]
fn hosts_with_special_characters_are_rejected() {
    for bad in [
        "",
        "-oProxyCommand=x",
        "-F/tmp/x",
        "--",
        "root@nas",
        "ssh://nas",
        "nas:22",
        "[::1]",
        "fe80::1%eth0",
        "a b",
        "a\nb",
        "a\0b",
        "nas;id",
        "$(id)",
        "`id`",
        "%h",
        "a%n",
        "nas,other",
        "nas/x",
        "*",
        "?",
        "!nas",
        "näs",
        ".nas",
        "_nas",
        "a\tb",
        "a'b",
        "a\"b",
        "a\\b",
    ] {
        assert_eq!(host(bad), None, "{bad:?}");
    }
    assert_eq!(host(&"a".repeat(MAX_HOST + 1)), None);
}

#[test]
fn users_must_be_plain_names() {
    for good in ["root", "_apt", "first.last", "a-b", "x+y"] {
        assert_eq!(user(good).unwrap(), good);
    }
    for bad in ["", "-l", "-oProxyCommand=x", "a b", "a@b", "a;b", "$(id)", "a\nb", "%r", "a'b", "ä"] {
        assert!(user(bad).is_err(), "{bad:?}");
    }
}
