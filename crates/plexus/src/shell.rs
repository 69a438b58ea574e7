//! Commands as a person can copy them into a shell.

use std::path::Path;

use plexus_kit::{Environment, env};

/// The path as a shell takes it, from whatever folder it is used.
pub(crate) fn word(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    name(&path.display().to_string())
}

/// A name or another word as a shell takes it; in quotes only where it needs them.
pub(crate) fn name(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+@%,:=".contains(&b);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// How this program is called: by its name where the shell finds it, else by its path.
pub(crate) fn plexus(environment: &Environment) -> String {
    let path = environment.get(env::PATH).unwrap_or_default();
    let found = std::env::split_paths(path).any(|folder| folder.join("plexus").is_file());
    match std::env::current_exe() {
        Ok(program) if !found => word(&program),
        _ => "plexus".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_word_is_quoted_only_where_a_shell_needs_it() {
        for (word, shown) in
            [("time", "time"), ("my server", "'my server'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(name(word), shown);
        }
    }
}
