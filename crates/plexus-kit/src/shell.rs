//! Quotes words for commands that a person can copy into a shell.

/// A word as shell syntax; quoted only if necessary.
#[must_use]
pub fn word(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+@%,:=".contains(&b);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests;
