//! Sanitizes untrusted text: removes control characters and thus terminal escape sequences.

/// Whether a character controls the terminal or the text direction: C0, DEL and C1 controls, line separators and
/// bidirectional overrides.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// Puts text on one line: line breaks and tabs become spaces, other control characters are removed.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\n' | '\t' | '\u{2028}' | '\u{2029}' => Some(' '),
            c if is_unsafe(c) => None,
            c => Some(c),
        })
        .collect()
}

/// Removes control characters except line breaks and tabs.
pub(super) fn lines(text: &str) -> String {
    text.chars().filter(|&c| matches!(c, '\n' | '\t') || !is_unsafe(c)).collect()
}

/// Shortens text to `max` characters, with an ellipsis at the end.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => {
            let start: String = text.chars().take(max.saturating_sub(1)).collect();
            format!("{}…", start.trim_end())
        }
    }
}

/// The same JSON value on one line, without control characters.
///
/// In valid JSON, unescaped line breaks occur only between tokens, and other unsafe characters only in strings, where
/// an escape sequence has the same meaning.
pub(super) fn json_on_one_line(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => safe.push(' '),
            // All of these are in the Basic Multilingual Plane, so each needs one escape sequence.
            c if is_unsafe(c) => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}
