use super::{check, check_labels};

#[test]
fn node_names_exclude_ids_routes_and_scope_syntax() {
    for good in ["nas", "a", "9", "my-vps_2", &"x".repeat(63)] {
        check(good).unwrap();
    }
    let id = crate::NodeId::new().to_string();
    for bad in
        ["", "NAS", "nas.lan", "a b", "-a", "_a", "a=b", "n\u{e9}", "join", "invites", &id, &"x".repeat(64)]
    {
        assert!(check(bad).is_err(), "{bad}");
    }
}

#[test]
fn labels_consist_of_a_valid_key_and_value() {
    let one = |key: &str, value: &str| check_labels(&[(key.to_owned(), value.to_owned())].into());
    one("role", "nas").unwrap();
    one("example.com/zone", "A-1").unwrap();
    for (key, value) in [("", "a"), ("a", ""), ("a=b", "c"), ("a", "b c"), ("a", "b,c")] {
        assert!(one(key, value).is_err(), "{key}={value}");
    }
    assert!(check_labels(&(0..33).map(|n| (n.to_string(), "x".to_owned())).collect()).is_err());
}
