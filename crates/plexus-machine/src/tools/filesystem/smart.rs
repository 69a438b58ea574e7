//! Replacing lines whose whitespace is not quite as it was given.
//!
//! What was looked for is compared line by line. Lines may differ in what is at their ends; and, where that is not enough, in
//! their indentation, as long as the same indentation in one is always the same in the other. What takes their place is
//! indented by the same rule and has the line endings of the place.

use std::collections::BTreeMap;

use super::edit::{Replaced, Unreplaced, exact, line_of, occurrences};

/// A line and what ends it: nothing, `\n` or `\r\n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'c> {
    pub(super) text: &'c [u8],
    pub(super) end: &'c [u8],
}

pub(super) struct Lines;

impl Lines {
    pub(super) fn of(content: &[u8]) -> Vec<Line<'_>> {
        content
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| {
                let end = if line.ends_with(b"\r\n") { 2 } else { usize::from(line.ends_with(b"\n")) };
                let (text, end) = line.split_at(line.len() - end);
                Line { text, end }
            })
            .collect()
    }
}

/// Lines of a file that are what was looked for.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) first: usize,
    /// In words.
    pub(super) differs: String,
    /// Indentation of what was looked for, and of the file.
    indents: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All places, those that differ least; none where even whitespace does not explain it.
pub(super) fn find(content: &[u8], old: &str) -> Vec<Window> {
    let lines = Lines::of(content);
    let wanted = wanted(old);
    if wanted.iter().all(|line| line.trim_ascii().is_empty()) || wanted.len() > lines.len() {
        return Vec::new();
    }
    let all = |compare: fn(&[u8], &[u8]) -> bool| {
        (0..=lines.len() - wanted.len())
            .filter(|first| {
                wanted.iter().zip(&lines[*first..]).all(|(wanted, line)| compare(wanted, line.text))
            })
            .collect::<Vec<usize>>()
    };
    let ends = all(|wanted, line| wanted.trim_ascii_end() == line.trim_ascii_end());
    if !ends.is_empty() {
        let differs = |first: usize| match wanted
            .iter()
            .zip(&lines[first..])
            .all(|(wanted, line)| *wanted == line.text)
        {
            true => "line endings (the file has CRLF)".to_owned(),
            false => "spaces at the ends of lines".to_owned(),
        };
        let window = |first| Window { first, differs: differs(first), indents: BTreeMap::new() };
        return ends.into_iter().map(window).collect();
    }
    let inner = all(|wanted, line| wanted.trim_ascii() == line.trim_ascii());
    inner.into_iter().filter_map(|first| indented(&wanted, &lines[first..], first)).collect()
}

/// The lines of what was looked for; an end of line at its end is no further line.
fn wanted(old: &str) -> Vec<&[u8]> {
    Lines::of(old.as_bytes()).into_iter().map(|line| line.text).collect()
}

fn indent(line: &[u8]) -> &[u8] {
    &line[..line.len() - line.trim_ascii_start().len()]
}

fn indented(wanted: &[&[u8]], lines: &[Line<'_>], first: usize) -> Option<Window> {
    let mut indents: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (wanted, line) in wanted.iter().zip(lines) {
        if wanted.trim_ascii().is_empty() {
            continue;
        }
        let is = indents.entry(indent(wanted).to_vec()).or_insert_with(|| indent(line.text).to_vec());
        // The same must be the same everywhere, else the structure is another one.
        if is != indent(line.text) {
            return None;
        }
    }
    // And what is deeper must stay deeper.
    let widths: Vec<usize> = indents.values().map(|indent| width(indent)).collect();
    let mut by_wanted: Vec<(usize, usize)> = indents.keys().map(|indent| width(indent)).zip(widths).collect();
    by_wanted.sort_unstable();
    if by_wanted.windows(2).any(|pair| pair[0].1 >= pair[1].1 && pair[0].0 != pair[1].0) {
        return None;
    }
    let tab = |indent: &Vec<u8>| indent.contains(&b'\t');
    let differs = match indents.keys().any(tab) == indents.values().any(tab) {
        true => "indentation",
        false => "indentation (tabs and spaces)",
    };
    Some(Window { first, differs: differs.to_owned(), indents })
}

/// A tab is as wide as four spaces, for comparing only.
fn width(indent: &[u8]) -> usize {
    indent.iter().map(|byte| if *byte == b'\t' { 4 } else { 1 }).sum()
}

/// Replaces `old`: as it is, if it is there, else the lines that are it but for whitespace.
pub(super) fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Result<Replaced, Unreplaced> {
    match exact(content, old, new, all) {
        Err(Unreplaced::Nowhere) => {}
        // In a file with other line endings, one line can still be there as it is.
        Ok(replaced)
            if new.contains('\n')
                && content.windows(2).any(|pair| pair == b"\r\n")
                && !old.contains('\r') =>
        {
            return in_its_endings(content, old, new, &replaced);
        }
        exact => return exact,
    }
    let windows = find(content, old);
    match windows.as_slice() {
        [] => Err(Unreplaced::Nowhere),
        [_, _, ..] if !all => Err(Unreplaced::Several(windows.iter().map(|found| found.first + 1).collect())),
        _ => {
            let count = wanted(old).len();
            let lines = Lines::of(content);
            let (mut changed, mut from, mut times) = (Vec::with_capacity(content.len()), 0, 0);
            for window in windows.iter() {
                // One that overlaps with the last is of lines that are gone.
                if window.first < from {
                    continue;
                }
                push(&mut changed, &lines[from..window.first]);
                let place = &lines[window.first..window.first + count];
                replacement(&mut changed, new, window, place, ending(&lines, place));
                from = window.first + count;
                times += 1;
            }
            push(&mut changed, &lines[from..]);
            let note = format!("matched but for {}", windows[0].differs);
            Ok(Replaced { content: changed, times, note: Some(note) })
        }
    }
}

/// The lines of `new` get the endings that the file has.
fn in_its_endings(content: &[u8], old: &str, new: &str, replaced: &Replaced) -> Result<Replaced, Unreplaced> {
    let lines = Lines::of(content);
    let first = occurrences(content, old.as_bytes()).first().map_or(0, |at| line_of(content, *at) - 1);
    if ending(&lines, &lines[first..=first]) != b"\r\n" {
        return Ok(replaced.clone());
    }
    let new = new.replace("\r\n", "\n").replace('\n', "\r\n");
    exact(content, old, &new, true)
}

fn push(to: &mut Vec<u8>, lines: &[Line<'_>]) {
    for line in lines {
        to.extend_from_slice(line.text);
        to.extend_from_slice(line.end);
    }
}

/// How lines end there; where there is only a last line without an end, as in the rest of the file.
fn ending<'c>(lines: &[Line<'c>], place: &[Line<'c>]) -> &'c [u8] {
    let here = place.iter().chain(lines).map(|line| line.end).find(|end| !end.is_empty());
    here.unwrap_or(b"\n")
}

fn replacement(to: &mut Vec<u8>, new: &str, window: &Window, place: &[Line<'_>], end: &[u8]) {
    let new = Lines::of(new.as_bytes());
    let last = place.last().map_or(&b""[..], |line| line.end);
    for (number, line) in new.iter().enumerate() {
        if !line.text.trim_ascii().is_empty() {
            to.extend_from_slice(&reindented(indent(line.text), &window.indents));
            to.extend_from_slice(&line.text[indent(line.text).len()..]);
        } else if window.indents.is_empty() {
            to.extend_from_slice(line.text);
        }
        to.extend_from_slice(if number + 1 == new.len() { last } else { end });
    }
}

/// What an indentation of the replacement is at the place.
fn reindented(indent: &[u8], indents: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    if let Some(known) = indents.get(indent) {
        return known.clone();
    }
    // From the deepest that it is within: what is added is added there too, in steps of the file's own kind.
    let base =
        indents.iter().filter(|(given, _)| indent.starts_with(given)).max_by_key(|(given, _)| given.len());
    if let Some((given, there)) = base {
        return [there.as_slice(), &steps(&indent[given.len()..], indents)].concat();
    }
    // It is less deep than all that is known: as much less as it is there.
    let Some((given, there)) = indents.iter().min_by_key(|(given, _)| given.len()) else {
        return indent.to_vec();
    };
    let less = steps(given.strip_prefix(indent).unwrap_or(given), indents);
    there[..there.len().saturating_sub(less.len())].to_vec()
}

fn steps(added: &[u8], indents: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let tabs_there = indents.values().any(|indent| indent.contains(&b'\t'));
    let spaces_there = indents.values().any(|indent| indent.contains(&b' '));
    match (added.contains(&b'\t'), tabs_there) {
        (false, true) => {
            let step = step(indents.keys().chain([&added.to_vec()])).unwrap_or(4);
            vec![b'\t'; added.len().div_ceil(step)]
        }
        (true, false) if spaces_there => {
            let step = step(indents.values()).unwrap_or(4);
            vec![b' '; added.iter().filter(|byte| **byte == b'\t').count() * step]
        }
        _ => {
            // Both are spaces: two for two, or four where the file has four for two.
            let (given, there) = (step(indents.keys()), step(indents.values()));
            match (given, there) {
                (Some(given), Some(there))
                    if given != there && indents.len() > 1 && added.len().is_multiple_of(given) =>
                {
                    vec![b' '; added.len() / given * there]
                }
                _ => added.to_vec(),
            }
        }
    }
}

/// The smallest difference between indentations of spaces.
fn step<'i>(indents: impl Iterator<Item = &'i Vec<u8>>) -> Option<usize> {
    let mut widths: Vec<usize> = indents.filter(|indent| !indent.contains(&b'\t')).map(Vec::len).collect();
    widths.push(0);
    widths.sort_unstable();
    widths.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).min()
}
