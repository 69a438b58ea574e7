//! Name patterns: `*` matches any run of characters.

/// Whether `pattern` matches all of `text`.
///
/// A star in `text` is an ordinary character that only a star matches. Therefore the same function also
/// decides whether one pattern is contained in another: the outer star matches whatever the inner one does.
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
