//! `edit` and `smart_edit`: replace text in a file; all of the edits are applied or none.
//!
//! Files are edited as bytes, so everything outside of the replacements is preserved, including encoding and line
//! endings.

use std::path::Path;
use std::sync::PoisonError;

use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::{Args, Edit, FileAction};
use super::content::{Encoding, sha256};
use super::diff::unified;
use super::report::{Answer, Change, Output, bounded};
use super::{FileCall, near, required_argument, smart, wrong};
use crate::files::FileLocation;

/// The maximum size of a diff in the text of an answer.
pub(super) const MAX_DIFF_BYTES: usize = 16 << 10;
/// The maximum number of occurrences reported.
pub(super) const MAX_REPORTED: usize = 20;

/// The result of a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) content: Vec<u8>,
    pub(super) times: usize,
    /// How the match differs from the requested text.
    pub(super) note: Option<String>,
}

/// The reason nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplaceError {
    /// `old` is empty or equals `new`.
    Useless(&'static str),
    Nowhere,
    /// The lines of the occurrences.
    Several(Vec<usize>),
}

/// A file before and after all edits.
struct Edited {
    before: Vec<u8>,
    after: Vec<u8>,
    times: usize,
    notes: Vec<String>,
}

impl FileCall {
    pub(super) fn edit(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let edits = edits(args)?;
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let location = self.files.write_target(path)?;
        let Edited { before, after, times, notes } = self.apply_edits(&location, args, &edits)?;
        let real = location.path();
        let name = real.display().to_string();
        let diff = unified(&before, &after, &name, &name, 3);
        let dry = args.dry_run.unwrap_or(false);
        if !dry {
            self.check_cancelled()?;
            location.check_unchanged()?;
            location.write(&after)?;
        }
        let text = format!(
            "{name}: {times} {}{}\n{}",
            if times == 1 { "replacement" } else { "replacements" },
            if dry { ", not applied (dry run)" } else { "" },
            bounded(diff.clone(), MAX_DIFF_BYTES),
        );
        let change = Change {
            bytes: Some(after.len() as u64),
            sha256: Some(sha256(&after)),
            replaced: Some(times),
            ..Change::new(&real, if dry { "unchanged" } else { "changed" })
        };
        let output = Output {
            path: name,
            sha256: change.sha256.clone(),
            changes: Some(vec![change]),
            diff: Some(diff),
            notes,
            ..Output::default()
        };
        Ok(Answer::new(text, output))
    }

    /// Applies the edits in memory.
    fn apply_edits(&self, location: &FileLocation, args: &Args, edits: &[Edit]) -> Result<Edited, CallError> {
        let (handle, file) = self.files.read(&location.path())?;
        self.check_hash(location, args)?;
        let before = self.read_whole(handle.path(), &file)?;
        check_text(handle.path(), &before)?;
        let (mut content, mut times, mut notes) = (before.clone(), 0, Vec::new());
        for (number, edit) in edits.iter().enumerate() {
            self.check_cancelled()?;
            let all = edit.replace_all.unwrap_or(false);
            let replaced = match args.action {
                FileAction::SmartEdit => smart::replace(&content, &edit.old, &edit.new, all),
                _ => replace_exact(&content, &edit.old, &edit.new, all),
            };
            let replaced = replaced.map_err(|why| {
                let which = if edits.len() > 1 {
                    format!("edit {} of {}: ", number + 1, edits.len())
                } else {
                    String::new()
                };
                refused(&which, handle.path(), &content, edit, args.action, &why)
            })?;
            notes.extend(replaced.note);
            times += replaced.times;
            content = replaced.content;
        }
        Ok(Edited { before, after: content, times, notes })
    }
}

fn edits(args: &Args) -> Result<Vec<Edit>, CallError> {
    match (&args.edits, &args.old) {
        (Some(_), Some(_)) => Err(wrong("edits", "give either `edits` or `old` and `new`, not both")),
        (Some(edits), None) => Ok(edits.clone()),
        (None, _) => Ok(vec![Edit {
            old: required_argument(args, "old", args.old.as_deref())?.to_owned(),
            new: required_argument(args, "new", args.new.as_deref())?.to_owned(),
            replace_all: args.replace_all,
        }]),
    }
}

/// Refuses files that are not editable as text.
pub(super) fn check_text(path: &Path, content: &[u8]) -> Result<(), CallError> {
    let what = match Encoding::of(&content[..content.len().min(8 << 10)]) {
        Encoding::Utf8 { .. } | Encoding::Unknown => return Ok(()),
        Encoding::Utf16Le | Encoding::Utf16Be => "UTF-16 text",
        Encoding::Binary(what) => what,
    };
    let message = format!("{} is {what}, which cannot be edited as text", path.display());
    Err(CallError::new(ErrorCode::InvalidArguments, message)
        .hint("Nothing was done. Convert it first, for example with `iconv` in the terminal, or write the whole file."))
}

/// Replaces `old`, which must occur exactly once unless `all` is set.
pub(super) fn replace_exact(
    content: &[u8],
    old: &str,
    new: &str,
    all: bool,
) -> Result<Replacement, ReplaceError> {
    if old.is_empty() {
        return Err(ReplaceError::Useless("`old` is empty; to fill an empty file use action \"write\""));
    }
    if old == new {
        return Err(ReplaceError::Useless("`old` and `new` are the same"));
    }
    let positions = occurrences(content, old.as_bytes());
    match positions.as_slice() {
        [] => Err(ReplaceError::Nowhere),
        [_, _, ..] if !all => {
            Err(ReplaceError::Several(positions.iter().map(|at| line_of(content, *at)).collect()))
        }
        _ => {
            let mut changed = Vec::with_capacity(content.len() + new.len());
            let mut from = 0;
            for at in &positions {
                changed.extend_from_slice(&content[from..*at]);
                changed.extend_from_slice(new.as_bytes());
                from = at + old.len();
            }
            changed.extend_from_slice(&content[from..]);
            Ok(Replacement { content: changed, times: positions.len(), note: None })
        }
    }
}

/// The positions of all non-overlapping occurrences.
pub(super) fn occurrences(content: &[u8], needle: &[u8]) -> Vec<usize> {
    let (mut found, mut from) = (Vec::new(), 0);
    let Some(first) = needle.first() else { return found };
    while let Some(next) = content[from..].iter().position(|byte| byte == first) {
        let at = from + next;
        if content[at..].starts_with(needle) {
            found.push(at);
            from = at + needle.len();
        } else {
            from = at + 1;
        }
    }
    found
}

pub(super) fn line_of(content: &[u8], at: usize) -> usize {
    content[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn refused(
    which: &str,
    path: &Path,
    content: &[u8],
    edit: &Edit,
    action: FileAction,
    why: &ReplaceError,
) -> CallError {
    let path = path.display();
    match why {
        ReplaceError::Useless(why) => {
            CallError::new(ErrorCode::InvalidArguments, format!("{which}{why}")).hint("Nothing was changed.")
        }
        ReplaceError::Several(lines) => {
            let shown: Vec<String> = lines.iter().take(MAX_REPORTED).map(ToString::to_string).collect();
            let more = if lines.len() > MAX_REPORTED { ", …" } else { "" };
            let message = format!(
                "{which}`old` occurs {} times in {path}, on lines {}{more}:\n{}",
                lines.len(),
                shown.join(", "),
                near::around(content, &lines[..lines.len().min(3)]),
            );
            CallError::new(ErrorCode::Conflict, message)
                .hint("Nothing was changed. Include more of the surrounding lines in `old`, or set `replace_all`.")
                .details(serde_json::json!({ "lines": lines.iter().take(MAX_REPORTED).collect::<Vec<_>>() }))
        }
        ReplaceError::Nowhere => {
            let misses = near::near_misses(content, &edit.old);
            let mut message = format!("{which}`old` was not found in {path}");
            for miss in &misses {
                message.push_str(&format!("\n- {miss}"));
            }
            let hint = match (misses.iter().any(|miss| miss.is_whitespace()), action) {
                (true, FileAction::Edit) => {
                    "Nothing was changed. Copy the text exactly as it is in the file, or use \"smart_edit\", which \
                     ignores differences in whitespace."
                }
                _ => "Nothing was changed. Read the file, and copy `old` exactly from it.",
            };
            let lines: Vec<usize> = misses.iter().map(|miss| miss.line).collect();
            CallError::new(ErrorCode::Conflict, message)
                .hint(hint)
                .details(serde_json::json!({ "near_misses": lines }))
        }
    }
}
