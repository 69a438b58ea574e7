//! Replaces lines whose whitespace differs from the requested text.
//!
//! The text is compared line by line. Lines may differ in trailing whitespace, and if that is not enough, in their
//! indentation, as long as equal indentation in the one corresponds to equal indentation in the other. The
//! replacement is indented by the same mapping and gets the line endings of its surroundings.

use std::collections::BTreeMap;

use super::edit::{ReplaceError, Replacement, line_of, occurrences, replace_exact};

/// A line and its ending: empty, `\n` or `\r\n`.
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

/// Lines of a file that match the wanted text.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) first: usize,
    /// Describes the difference.
    pub(super) differs: String,
    /// Maps the indentation of the wanted text to that of the file.
    indents: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All matches with the smallest difference; empty if whitespace does not explain the difference.
pub(super) fn find(content: &[u8], old: &str) -> Vec<Window> {
    let lines = Lines::of(content);
    let expected = old_lines(old);
    if expected.iter().all(|line| line.trim_ascii().is_empty()) || expected.len() > lines.len() {
        return Vec::new();
    }
    let all = |compare: fn(&[u8], &[u8]) -> bool| {
        (0..=lines.len() - expected.len())
            .filter(|first| {
                expected.iter().zip(&lines[*first..]).all(|(expected, line)| compare(expected, line.text))
            })
            .collect::<Vec<usize>>()
    };
    let ends = all(|expected, line| expected.trim_ascii_end() == line.trim_ascii_end());
    if !ends.is_empty() {
        let differs = |first: usize| match expected
            .iter()
            .zip(&lines[first..])
            .all(|(expected, line)| *expected == line.text)
        {
            true => "line endings (the file has CRLF)".to_owned(),
            false => "trailing spaces".to_owned(),
        };
        let window = |first| Window { first, differs: differs(first), indents: BTreeMap::new() };
        return ends.into_iter().map(window).collect();
    }
    let inner = all(|expected, line| expected.trim_ascii() == line.trim_ascii());
    inner.into_iter().filter_map(|first| match_indented(&expected, &lines[first..], first)).collect()
}

/// The lines of the wanted text; a trailing line ending does not start another line.
fn old_lines(old: &str) -> Vec<&[u8]> {
    Lines::of(old.as_bytes()).into_iter().map(|line| line.text).collect()
}

fn indent(line: &[u8]) -> &[u8] {
    &line[..line.len() - line.trim_ascii_start().len()]
}

fn match_indented(expected: &[&[u8]], lines: &[Line<'_>], first: usize) -> Option<Window> {
    let mut indents: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (expected, line) in expected.iter().zip(lines) {
        if expected.trim_ascii().is_empty() {
            continue;
        }
        let is = indents.entry(indent(expected).to_vec()).or_insert_with(|| indent(line.text).to_vec());
        // Equal indentation must map to equal indentation, otherwise the structure differs.
        if is != indent(line.text) {
            return None;
        }
    }
    // Deeper indentation must stay deeper.
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

/// For comparison only, a tab counts as four spaces.
fn width(indent: &[u8]) -> usize {
    indent.iter().map(|byte| if *byte == b'\t' { 4 } else { 1 }).sum()
}

/// Replaces `old`: exact occurrences if there are any, otherwise the lines that match except for whitespace.
pub(super) fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Result<Replacement, ReplaceError> {
    match replace_exact(content, old, new, all) {
        Err(ReplaceError::Nowhere) => {}
        // In a file with different line endings, a single line can still match exactly.
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
        [] => Err(ReplaceError::Nowhere),
        [_, _, ..] if !all => {
            Err(ReplaceError::Several(windows.iter().map(|found| found.first + 1).collect()))
        }
        _ => {
            let count = old_lines(old).len();
            let lines = Lines::of(content);
            let (mut changed, mut from, mut times) = (Vec::with_capacity(content.len()), 0, 0);
            for window in windows.iter() {
                // It overlaps with the previous match, whose lines are already replaced.
                if window.first < from {
                    continue;
                }
                push(&mut changed, &lines[from..window.first]);
                let matched_lines = &lines[window.first..window.first + count];
                replacement(&mut changed, new, window, matched_lines, ending(&lines, matched_lines));
                from = window.first + count;
                times += 1;
            }
            push(&mut changed, &lines[from..]);
            let note = format!("matched except for {}", windows[0].differs);
            Ok(Replacement { content: changed, times, note: Some(note) })
        }
    }
}

/// Replaces exact occurrences, with the lines of `new` converted to the file's line endings.
fn in_its_endings(
    content: &[u8],
    old: &str,
    new: &str,
    replaced: &Replacement,
) -> Result<Replacement, ReplaceError> {
    let lines = Lines::of(content);
    let first = occurrences(content, old.as_bytes()).first().map_or(0, |at| line_of(content, *at) - 1);
    if ending(&lines, &lines[first..=first]) != b"\r\n" {
        return Ok(replaced.clone());
    }
    let new = new.replace("\r\n", "\n").replace('\n', "\r\n");
    replace_exact(content, old, &new, true)
}

fn push(to: &mut Vec<u8>, lines: &[Line<'_>]) {
    for line in lines {
        to.extend_from_slice(line.text);
        to.extend_from_slice(line.end);
    }
}

/// The line ending at a place; if it has only an unterminated last line, that of the rest of the file.
fn ending<'c>(lines: &[Line<'c>], matched_lines: &[Line<'c>]) -> &'c [u8] {
    let line_end = matched_lines.iter().chain(lines).map(|line| line.end).find(|end| !end.is_empty());
    line_end.unwrap_or(b"\n")
}

fn replacement(to: &mut Vec<u8>, new: &str, window: &Window, matched_lines: &[Line<'_>], end: &[u8]) {
    let new = Lines::of(new.as_bytes());
    let last = matched_lines.last().map_or(&b""[..], |line| line.end);
    for (number, line) in new.iter().enumerate() {
        if !line.text.trim_ascii().is_empty() {
            to.extend_from_slice(&reindent(indent(line.text), &window.indents));
            to.extend_from_slice(&line.text[indent(line.text).len()..]);
        } else if window.indents.is_empty() {
            to.extend_from_slice(line.text);
        }
        to.extend_from_slice(if number + 1 == new.len() { last } else { end });
    }
}

/// Maps an indentation of the replacement to the file.
fn reindent(indent: &[u8], indents: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    if let Some(known) = indents.get(indent) {
        return known.clone();
    }
    // Extend the deepest known indentation that contains it, in the file's own steps.
    let base = indents
        .iter()
        .filter(|(new_indent, _)| indent.starts_with(new_indent))
        .max_by_key(|(new_indent, _)| new_indent.len());
    if let Some((new_indent, there)) = base {
        return [there.as_slice(), &steps(&indent[new_indent.len()..], indents)].concat();
    }
    // It is shallower than all known indentations, so the file's indentation is reduced by the same amount.
    let Some((new_indent, there)) = indents.iter().min_by_key(|(new_indent, _)| new_indent.len()) else {
        return indent.to_vec();
    };
    let less = steps(new_indent.strip_prefix(indent).unwrap_or(new_indent), indents);
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
            // Both use spaces: convert the step width if it differs, for example from two to four.
            let (new_indent, there) = (step(indents.keys()), step(indents.values()));
            match (new_indent, there) {
                (Some(new_indent), Some(there))
                    if new_indent != there && indents.len() > 1 && added.len().is_multiple_of(new_indent) =>
                {
                    vec![b' '; added.len() / new_indent * there]
                }
                _ => added.to_vec(),
            }
        }
    }
}

/// The smallest difference between indentations that use spaces.
fn step<'i>(indents: impl Iterator<Item = &'i Vec<u8>>) -> Option<usize> {
    let mut widths: Vec<usize> = indents.filter(|indent| !indent.contains(&b'\t')).map(Vec::len).collect();
    widths.push(0);
    widths.sort_unstable();
    widths.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).min()
}
