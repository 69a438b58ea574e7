//! Finds near misses of a text that was not found, and describes the differences.

use std::fmt;

use super::smart::{self, Lines};

/// The maximum number of reported near misses.
const TOLD: usize = 3;
/// The maximum number of lines compared.
const COMPARED: usize = 50_000;
/// The maximum number of bytes of a line that are compared and shown.
const WIDTH: usize = 160;
/// The minimum similarity of a line.
const ALIKE: f64 = 0.6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NearMiss {
    /// The line it starts on.
    pub(super) line: usize,
    differs: Differs,
    /// The text in the file.
    there: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Differs {
    /// Describes the difference.
    Whitespace(String),
    Case,
    /// The wanted line.
    Text(String),
}

impl NearMiss {
    pub(super) fn is_whitespace(&self) -> bool {
        matches!(self.differs, Differs::Whitespace(_))
    }
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.differs {
            Differs::Whitespace(what) => write!(f, "line {}: the same except for {what}", self.line)?,
            Differs::Case => write!(f, "line {}: the same except for upper and lower case", self.line)?,
            Differs::Text(wanted) => {
                return write!(
                    f,
                    "line {} is similar:\n    wanted: {wanted}\n    found:  {}",
                    self.line, self.there
                );
            }
        }
        write!(f, ":\n{}", self.there)
    }
}

/// The nearest matches; empty if nothing is similar.
pub(super) fn misses(content: &[u8], old: &str) -> Vec<NearMiss> {
    let loose = smart::find(content, old);
    if !loose.is_empty() {
        let miss = |found: &smart::Window| NearMiss {
            line: found.first + 1,
            differs: Differs::Whitespace(found.differs.clone()),
            there: around(content, &[found.first + 1]),
        };
        return loose.iter().take(TOLD).map(miss).collect();
    }
    let case = without_case(content, old);
    if !case.is_empty() {
        return case;
    }
    alike(content, old)
}

fn without_case(content: &[u8], old: &str) -> Vec<NearMiss> {
    let (lower, wanted) = (content.to_ascii_lowercase(), old.to_ascii_lowercase());
    let places = super::edit::occurrences(&lower, wanted.as_bytes());
    let miss = |at: &usize| {
        let line = super::edit::line_of(content, *at);
        NearMiss { line, differs: Differs::Case, there: around(content, &[line]) }
    };
    places.iter().take(TOLD).map(miss).collect()
}

/// The lines most similar to the longest line of the wanted text.
fn alike(content: &[u8], old: &str) -> Vec<NearMiss> {
    let Some((place, wanted)) = old
        .lines()
        .enumerate()
        .max_by_key(|(_, line)| line.trim().len())
        .filter(|(_, line)| line.trim().len() > 3)
    else {
        return Vec::new();
    };
    let wanted = shown(wanted.trim());
    let lines = Lines::of(content);
    let mut found: Vec<(f64, usize, String)> = lines
        .iter()
        .take(COMPARED)
        .enumerate()
        .filter_map(|(number, line)| {
            let text = shown(String::from_utf8_lossy(line.text).trim());
            let (short, long) = (text.len().min(wanted.len()), text.len().max(wanted.len()));
            if short * 2 < long {
                return None;
            }
            let alike = strsim::sorensen_dice(&text, &wanted);
            (alike >= ALIKE).then_some((alike, number, text))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let miss = |(_, number, there): (f64, usize, String)| NearMiss {
        line: number + 1,
        differs: match there == wanted {
            // The line itself matches, so the difference is in its neighbours.
            true => Differs::Text(context_of(old, place)),
            false => Differs::Text(wanted.clone()),
        },
        there,
    };
    found.into_iter().take(TOLD).map(miss).collect()
}

fn context_of(old: &str, place: usize) -> String {
    let line = old.lines().nth(place + 1).or_else(|| old.lines().nth(place.saturating_sub(1)));
    format!("(this line, next to) {}", shown(line.unwrap_or_default().trim()))
}

fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(WIDTH)].to_owned()
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
        let visible = shown(&String::from_utf8_lossy(line.text)).replace('\t', "→");
        let spaces = visible.len() - visible.trim_end_matches(' ').len();
        let ends = format!("{}{}", "·".repeat(spaces), if line.end == b"\r\n" { "␍" } else { "" });
        text.push_str(&format!("{number:>6}  {}{ends}\n", visible.trim_end_matches(' ')));
    }
    text
}
