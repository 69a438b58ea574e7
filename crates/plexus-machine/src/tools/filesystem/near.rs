//! Finds near misses of a text that was not found, and describes the differences.

use std::fmt;

use super::smart::{self, Lines};

/// The maximum number of reported near misses.
const MAX_REPORTED: usize = 3;
/// The maximum number of lines compared.
const MAX_COMPARED_LINES: usize = 50_000;
/// The maximum number of bytes of a line that are compared and shown.
const MAX_LINE_BYTES: usize = 160;
/// The minimum similarity of a line.
const MIN_SIMILARITY: f64 = 0.6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NearMiss {
    /// The line it starts on.
    pub(super) line: usize,
    differs: Difference,
    /// The text in the file.
    actual: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Difference {
    /// Describes the difference.
    Whitespace(String),
    Case,
    /// The wanted line.
    Text(String),
}

impl NearMiss {
    pub(super) fn is_whitespace(&self) -> bool {
        matches!(self.differs, Difference::Whitespace(_))
    }
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.differs {
            Difference::Whitespace(what) => write!(f, "line {}: the same except for {what}", self.line)?,
            Difference::Case => write!(f, "line {}: the same except for upper and lower case", self.line)?,
            Difference::Text(expected) => {
                return write!(
                    f,
                    "line {} is similar:\n    wanted: {expected}\n    found:  {}",
                    self.line, self.actual
                );
            }
        }
        write!(f, ":\n{}", self.actual)
    }
}

/// The nearest matches; empty if nothing is similar.
pub(super) fn near_misses(content: &[u8], old: &str) -> Vec<NearMiss> {
    let loose = smart::find(content, old);
    if !loose.is_empty() {
        let miss = |found: &smart::Window| NearMiss {
            line: found.first + 1,
            differs: Difference::Whitespace(found.differs.clone()),
            actual: around(content, &[found.first + 1]),
        };
        return loose.iter().take(MAX_REPORTED).map(miss).collect();
    }
    let case = case_insensitive_matches(content, old);
    if !case.is_empty() {
        return case;
    }
    similar_lines(content, old)
}

fn case_insensitive_matches(content: &[u8], old: &str) -> Vec<NearMiss> {
    let (lower, expected) = (content.to_ascii_lowercase(), old.to_ascii_lowercase());
    let positions = super::edit::occurrences(&lower, expected.as_bytes());
    let miss = |at: &usize| {
        let line = super::edit::line_of(content, *at);
        NearMiss { line, differs: Difference::Case, actual: around(content, &[line]) }
    };
    positions.iter().take(MAX_REPORTED).map(miss).collect()
}

/// The lines most similar to the longest line of the wanted text.
fn similar_lines(content: &[u8], old: &str) -> Vec<NearMiss> {
    let Some((line_index, expected)) = old
        .lines()
        .enumerate()
        .max_by_key(|(_, line)| line.trim().len())
        .filter(|(_, line)| line.trim().len() > 3)
    else {
        return Vec::new();
    };
    let expected = shorten(expected.trim());
    let lines = Lines::of(content);
    let mut found: Vec<(f64, usize, String)> = lines
        .iter()
        .take(MAX_COMPARED_LINES)
        .enumerate()
        .filter_map(|(number, line)| {
            let text = shorten(String::from_utf8_lossy(line.text).trim());
            let (short, long) = (text.len().min(expected.len()), text.len().max(expected.len()));
            if short * 2 < long {
                return None;
            }
            let similarity = strsim::sorensen_dice(&text, &expected);
            (similarity >= MIN_SIMILARITY).then_some((similarity, number, text))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let miss = |(_, number, actual): (f64, usize, String)| NearMiss {
        line: number + 1,
        differs: match actual == expected {
            // The line itself matches, so the difference is in its neighbours.
            true => Difference::Text(context_of(old, line_index)),
            false => Difference::Text(expected.clone()),
        },
        actual,
    };
    found.into_iter().take(MAX_REPORTED).map(miss).collect()
}

fn context_of(old: &str, line_index: usize) -> String {
    let line = old.lines().nth(line_index + 1).or_else(|| old.lines().nth(line_index.saturating_sub(1)));
    format!("(this line, next to) {}", shorten(line.unwrap_or_default().trim()))
}

fn shorten(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_LINE_BYTES)].to_owned()
}

/// Numbered lines of a file, each with its neighbours and with visible whitespace.
pub(super) fn around(content: &[u8], lines: &[usize]) -> String {
    let all = Lines::of(content);
    let mut numbers: Vec<usize> = lines
        .iter()
        .flat_map(|line| line.saturating_sub(1)..=line + 1)
        .filter(|n| (1..=all.len()).contains(n))
        .collect();
    numbers.dedup();
    let mut text = String::new();
    for number in numbers {
        let line = &all[number - 1];
        let visible = shorten(&String::from_utf8_lossy(line.text)).replace('\t', "→");
        let spaces = visible.len() - visible.trim_end_matches(' ').len();
        let ends = format!("{}{}", "·".repeat(spaces), if line.end == b"\r\n" { "␍" } else { "" });
        text.push_str(&format!("{number:>6}  {}{ends}\n", visible.trim_end_matches(' ')));
    }
    text
}
