use super::*;

fn remote(node: &str, path: &str) -> CopyEndpoint {
    CopyEndpoint::Remote { node: node.to_owned(), path: path.to_owned() }
}

#[test]
fn colon_before_any_slash_names_node() {
    for (text, expected) in [
        ("nas:/srv/a", remote("nas", "/srv/a")),
        ("nas:a b", remote("nas", "a b")),
        ("nas:", remote("nas", ".")),
        ("nas:~/x", remote("nas", "~/x")),
        ("nas:-rf", remote("nas", "-rf")),
        ("role=nas:a:b", remote("role=nas", "a:b")),
        ("/tmp/a:b", CopyEndpoint::Local("/tmp/a:b".into())),
    ] {
        assert_eq!(CopyEndpoint::parse(text).unwrap(), expected, "{text}");
    }
    let CopyEndpoint::Local(path) = CopyEndpoint::parse("./a:b").unwrap() else {
        panic!("expected a local path")
    };
    assert!(path.is_absolute() && path.ends_with("a:b"));
    assert!(CopyEndpoint::parse(":a").is_err() && CopyEndpoint::parse("").is_err());
}
