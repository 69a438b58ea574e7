use super::*;

#[test]
fn remote_path_must_name_a_file() {
    for (given, path) in [("/tmp/x", "/tmp/x"), ("~/x", "x"), ("x", "x"), ("a b/'c", "a b/'c"), ("-x", "-x")]
    {
        assert_eq!(remote_path(given).unwrap(), path);
    }
    for bad in ["", "~/", "/", "/tmp/", "..", "/tmp/..", "~", "a\0b"] {
        assert!(remote_path(bad).is_err(), "{bad:?}");
    }
}
