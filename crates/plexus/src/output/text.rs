//! Text from elsewhere made safe to show: no control characters, so no terminal escapes.

/// A character that does something to a terminal or to the order of what is shown, instead of
/// being shown: C0, DEL and C1 controls, line separators, overrides of the writing direction.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// On one line: breaks and tabs become spaces, other control characters go.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\n' | '\t' | '\u{2028}' | '\u{2029}' => Some(' '),
            c if is_unsafe(c) => None,
            c => Some(c),
        })
        .collect()
}

/// Line breaks and tabs stay, other control characters go.
pub(super) fn lines(text: &str) -> String {
    text.chars().filter(|&c| matches!(c, '\n' | '\t') || !is_unsafe(c)).collect()
}

/// At most `max` characters, with a sign where some are missing.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(max.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// The same JSON value on one line and without a control character.
///
/// Raw breaks stand only between tokens, any other unsafe character only inside strings, where an
/// escape means the same.
pub(super) fn json_on_one_line(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => safe.push(' '),
            // All of these are in the basic plane: one escape each.
            c if is_unsafe(c) => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}
