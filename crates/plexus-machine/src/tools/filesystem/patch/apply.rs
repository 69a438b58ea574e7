//! Applies the hunks of a diff to the content of a file.
//!
//! A hunk applies at its stated line if its lines match there, and otherwise at the only place where they match. Up
//! to two context lines at each edge may differ. The hunk's own line endings are ignored: added lines get the endings
//! of the file.

use super::super::smart::{Line, Lines};
use super::parse::{Hunk, HunkLine, LineKind};

/// The maximum number of context lines that may differ at each edge of a hunk.
const MAX_FUZZ: usize = 2;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) content: Vec<u8>,
    /// How the match differs from the diff.
    pub(super) notes: Vec<String>,
}

/// The reason a hunk does not apply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HunkMismatch {
    /// The hunk's number, counted from 1, and the nearest lines of the file.
    Nowhere { hunk: usize, written_at: usize, nearest: Option<(usize, String, String)> },
    /// The hunk matches at each of these lines.
    Several { hunk: usize, written_at: usize, lines: Vec<usize> },
}

pub(super) fn apply(content: &[u8], hunks: &[Hunk]) -> Result<Applied, HunkMismatch> {
    let lines = Lines::of(content);
    let end = lines.iter().map(|line| line.end).find(|end| !end.is_empty()).unwrap_or(b"\n");
    let mut out = PatchedText { bytes: Vec::with_capacity(content.len()), open: false, end };
    let (mut from, mut shift, mut notes) = (0_usize, 0_isize, Vec::new());
    for (number, hunk) in hunks.iter().enumerate() {
        let position = locate(&lines, hunk, from, shift, number + 1)?;
        let matched = &hunk.lines[position.fuzz.0..hunk.lines.len() - position.fuzz.1];
        if let Some(stated) = hunk.at {
            let actual = position.at as isize - position.fuzz.0 as isize;
            let expected = stated.saturating_sub(usize::from(old_lines(hunk).next().is_some())) as isize;
            shift = actual - expected;
            if shift != 0 {
                notes.push(format!(
                    "hunk {} applied at line {}, with an offset of {shift:+} lines",
                    number + 1,
                    position.at + 1
                ));
            }
        }
        if position.fuzz != (0, 0) {
            notes.push(format!("hunk {} applied although its context lines differ", number + 1));
        }
        for line in &lines[from..position.at] {
            out.line(line.text, line.end);
        }
        let mut at = position.at;
        for line in matched {
            match line.kind {
                LineKind::Context => {
                    out.line(lines[at].text, lines[at].end);
                    at += 1;
                }
                LineKind::Remove => at += 1,
                LineKind::Add => {
                    // The replacement of an unterminated last line is unterminated only if the diff says so.
                    out.line(added(line).as_bytes(), if line.is_unended { b"" } else { end });
                }
            }
        }
        from = at;
    }
    for line in &lines[from..] {
        out.line(line.text, line.end);
    }
    Ok(Applied { content: out.bytes, notes })
}

/// The added text without the line ending of the diff.
fn added(line: &HunkLine) -> &str {
    line.text.strip_suffix('\r').unwrap_or(&line.text)
}

struct PatchedText<'c> {
    bytes: Vec<u8>,
    /// The last line is unterminated.
    open: bool,
    end: &'c [u8],
}

impl PatchedText<'_> {
    fn line(&mut self, text: &[u8], end: &[u8]) {
        if self.open {
            self.bytes.extend_from_slice(self.end);
        }
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(end);
        self.open = end.is_empty();
    }
}

fn old_lines(hunk: &Hunk) -> impl Iterator<Item = &HunkLine> {
    hunk.lines.iter().filter(|line| line.kind != LineKind::Add)
}

/// The position of a hunk: the file line of its first remaining line, and the number of context lines dropped at each
/// edge.
struct HunkPosition {
    at: usize,
    fuzz: (usize, usize),
}

fn locate(
    lines: &[Line<'_>],
    hunk: &Hunk,
    from: usize,
    shift: isize,
    number: usize,
) -> Result<HunkPosition, HunkMismatch> {
    let (leading, trailing) = (context(hunk.lines.iter()), context(hunk.lines.iter().rev()));
    for fuzz in 0..=MAX_FUZZ {
        let cut = (leading.min(fuzz), trailing.min(fuzz));
        if fuzz > 0 && (cut.0 < fuzz && cut.1 < fuzz || cut.0 + cut.1 >= old_lines(hunk).count()) {
            break;
        }
        let matched = &hunk.lines[cut.0..hunk.lines.len() - cut.1];
        let expected: Vec<&HunkLine> = matched.iter().filter(|line| line.kind != LineKind::Add).collect();
        if expected.is_empty() {
            // A hunk that only adds lines applies at its stated line, or at the end.
            let at =
                hunk.at.map_or(lines.len(), |at| at.saturating_add_signed(shift)).clamp(from, lines.len());
            return Ok(HunkPosition { at, fuzz: cut });
        }
        let fits = |at: &usize| {
            expected.iter().zip(&lines[*at..]).all(|(expected, line)| line_matches(&expected.text, line.text))
                && (!expected.last().is_some_and(|last| last.is_unended)
                    || at + expected.len() == lines.len() && lines[lines.len() - 1].end.is_empty())
        };
        let last = lines.len().checked_sub(expected.len());
        let stated = hunk.at.map(|at| (at.saturating_sub(1) + cut.0).saturating_add_signed(shift));
        if let (Some(stated), Some(last)) = (stated, last)
            && (from..=last).contains(&stated)
            && fits(&stated)
        {
            return Ok(HunkPosition { at: stated, fuzz: cut });
        }
        let found: Vec<usize> = last.map(|last| (from..=last).filter(fits).collect()).unwrap_or_default();
        match found.as_slice() {
            [] => {}
            [at] => return Ok(HunkPosition { at: *at, fuzz: cut }),
            several => {
                let lines = several.iter().map(|at| at + 1).collect();
                return Err(HunkMismatch::Several { hunk: number, written_at: hunk.written_at, lines });
            }
        }
    }
    Err(HunkMismatch::Nowhere {
        hunk: number,
        written_at: hunk.written_at,
        nearest: nearest(lines, hunk, from),
    })
}

fn context<'h>(lines: impl Iterator<Item = &'h HunkLine>) -> usize {
    lines.take_while(|line| line.kind == LineKind::Context).count()
}

fn line_matches(expected: &str, line: &[u8]) -> bool {
    expected.as_bytes() == line
        || expected.strip_suffix('\r').is_some_and(|expected| expected.as_bytes() == line)
}

/// The position where most lines match, with the first line that differs there.
fn nearest(lines: &[Line<'_>], hunk: &Hunk, from: usize) -> Option<(usize, String, String)> {
    let expected: Vec<&HunkLine> = old_lines(hunk).collect();
    let fitting = |at: usize| {
        expected
            .iter()
            .zip(&lines[at..])
            .filter(|(expected, line)| line_matches(&expected.text, line.text))
            .count()
    };
    let best = (from..lines.len()).map(|at| (fitting(at), at)).filter(|(count, _)| *count > 0);
    // The first of equally good positions.
    let (_, at) = best.max_by_key(|(count, at)| (*count, std::cmp::Reverse(*at)))?;
    let differing = expected.iter().enumerate().find(|(index, expected)| {
        lines.get(at + index).is_none_or(|line| !line_matches(&expected.text, line.text))
    });
    let (index, expected) = differing?;
    let actual =
        lines.get(at + index).map_or("(the file ends)".into(), |line| String::from_utf8_lossy(line.text));
    Some((at + index + 1, expected.text.clone(), actual.into_owned()))
}
