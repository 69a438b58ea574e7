//! Fits text into the width of a terminal: wraps it by words, or cuts it.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Minimum space for text beside its label. If there is less, following lines are indented by [`NARROW_INDENT`].
const MIN_TEXT_WIDTH: usize = 24;
const NARROW_INDENT: usize = 2;

/// Wraps `text` by words after `label`, with following lines indented to the end of the label. A word that is wider than
/// the line, such as a path, stays whole. Both must be on one line.
pub(super) fn hanging(label: &str, text: &str, terminal: usize) -> String {
    let indent = match label.width() {
        width if width + MIN_TEXT_WIDTH <= terminal => width,
        _ => NARROW_INDENT,
    };
    let mut wrapped = label.to_owned();
    let mut column = label.width();
    // Whether the line has only its label or indentation.
    let mut is_empty = true;
    for word in words(text, terminal.saturating_sub(indent)) {
        let width = word.width();
        let gap = usize::from(!is_empty);
        if column + gap + width > terminal && column > indent {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        } else {
            wrapped.push_str(&" ".repeat(gap));
            column += gap;
        }
        wrapped.push_str(word);
        column += width;
        is_empty = false;
    }
    wrapped.truncate(wrapped.trim_end().len());
    wrapped.push('\n');
    wrapped
}

/// Splits text at spaces. A command in backticks is one word if it fits into a line.
fn words(text: &str, width: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(' ').unwrap_or(rest.len());
        let end = match code_end(rest, end) {
            Some(code_end) if rest[..code_end].width() <= width => code_end,
            _ => end,
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// The end of the word whose first `end` bytes open a command in backticks without closing it.
fn code_end(text: &str, end: usize) -> Option<usize> {
    if text[..end].matches('`').count().is_multiple_of(2) {
        return None;
    }
    let close = end + text[end..].find('`')? + 1;
    Some(text[close..].find(' ').map_or(text.len(), |space| close + space))
}

/// Cuts text to `width`, with an ellipsis at the end.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let start: String = text.chars().take_while(fitting(width)).collect();
    format!("{}…", start.trim_end())
}

/// Cuts text to `width`, with an ellipsis at the start.
pub(super) fn cut_start(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let end: Vec<char> = text.chars().rev().take_while(fitting(width)).collect();
    format!("…{}", end.iter().rev().collect::<String>())
}

/// Whether a character still fits beside the ellipsis.
fn fitting(width: usize) -> impl FnMut(&char) -> bool {
    let mut left = width.saturating_sub(1);
    move |c| match left.checked_sub(c.width().unwrap_or(0)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    }
}
