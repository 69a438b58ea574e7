use super::is_whole;

#[test]
fn only_key_with_whole_value_is_commented_out() {
    for line in ["lisen = 1", "listen = 127.0.0.1:1", "allowed_hosts = [\"a\"]", "a = { b = 1 }"] {
        assert!(is_whole(line), "{line}");
    }
    for line in ["[zebra]", "nonsense", "allowed_hosts = [", "about = \"\"\"text", "a = {"] {
        assert!(!is_whole(line), "{line}");
    }
}
