//! Words of a command that a person can copy into a shell.

/// A name or a path as a shell takes it; in quotes only where it needs them.
#[must_use]
pub fn word(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+@%,:=".contains(&b);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_word_is_quoted_only_where_a_shell_needs_it() {
        for (plain, shown) in
            [("time", "time"), ("my server", "'my server'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(word(plain), shown);
        }
    }
}
