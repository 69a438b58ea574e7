//! Patterns of names: `*` stands for any run of characters.

/// Whether `pattern` matches `text` as a whole.
///
/// A star in `text` is an ordinary character that only a star matches. That makes the same function
/// answer "is one pattern within another": whatever the inner star stands for, the outer one took.
///
/// ```
/// use plexus_kit::glob;
///
/// assert!(glob::matches("issue_*", "issue_create"));
/// assert!(!glob::matches("issue_*", "list_issue_types"));
/// ```
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            retry = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((star, from)) = retry {
            p = star + 1;
            t = from + 1;
            retry = Some((star, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}
