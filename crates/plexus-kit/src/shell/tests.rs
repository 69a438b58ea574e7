use super::word;

#[test]
fn word_is_quoted_only_if_necessary() {
    for (plain, shown) in [("time", "time"), ("my server", "'my server'"), ("it's", r"'it'\''s'"), ("", "''")]
    {
        assert_eq!(word(plain), shown);
    }
}
