//! `edit` and `smart_edit`: text in a file replaced by other text, all of the edits or none.
//!
//! Files are changed as bytes: what is not replaced stays as it is, whatever its encoding and its line endings.

use std::path::Path;
use std::sync::PoisonError;

use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::{Args, Edit, FileAction};
use super::content::{Encoding, sha256};
use super::diff::unified;
use super::report::{Answer, Change, Output, bounded};
use super::{FileCall, near, needed, smart, wrong};
use crate::files::Place;

/// Of a diff, what is shown in the text of an answer.
pub(super) const SHOWN: usize = 16 << 10;
/// Places that are named when there are too many.
pub(super) const PLACES: usize = 20;

/// How a replacement went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) content: Vec<u8>,
    pub(super) times: usize,
    /// What was different from what was asked for.
    pub(super) note: Option<String>,
}

/// Why nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreplaced {
    /// `old` is nothing, or the same as `new`.
    Useless(&'static str),
    Nowhere,
    /// On these lines.
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
        let place = self.files.place(path)?;
        let Edited { before, after, times, notes } = self.edited(&place, args, &edits)?;
        let real = place.path();
        let name = real.display().to_string();
        let diff = unified(&before, &after, &name, &name, 3);
        let dry = args.dry_run.unwrap_or(false);
        if !dry {
            self.go_on()?;
            place.check_unchanged()?;
            place.write(&after)?;
        }
        let text = format!(
            "{name}: {times} {}{}\n{}",
            if times == 1 { "replacement" } else { "replacements" },
            if dry { ", not made" } else { "" },
            bounded(diff.clone(), SHOWN),
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

    /// What a file becomes.
    fn edited(&self, place: &Place, args: &Args, edits: &[Edit]) -> Result<Edited, CallError> {
        let (handle, file) = self.files.read(&place.path())?;
        self.check_hash(place, args)?;
        let before = self.whole(handle.path(), &file)?;
        check_text(handle.path(), &before)?;
        let (mut content, mut times, mut notes) = (before.clone(), 0, Vec::new());
        for (number, edit) in edits.iter().enumerate() {
            self.go_on()?;
            let all = edit.replace_all.unwrap_or(false);
            let replaced = match args.action {
                FileAction::SmartEdit => smart::replace(&content, &edit.old, &edit.new, all),
                _ => exact(&content, &edit.old, &edit.new, all),
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
        (Some(_), Some(_)) => Err(wrong("edits", "give either `edits` or `old` and `new`, and not both")),
        (Some(edits), None) => Ok(edits.clone()),
        (None, _) => Ok(vec![Edit {
            old: needed(args, "old", args.old.as_deref())?.to_owned(),
            new: needed(args, "new", args.new.as_deref())?.to_owned(),
            replace_all: args.replace_all,
        }]),
    }
}

/// Only text can be changed by text.
pub(super) fn check_text(path: &Path, content: &[u8]) -> Result<(), CallError> {
    let what = match Encoding::of(&content[..content.len().min(8 << 10)]) {
        Encoding::Utf8 { .. } | Encoding::Unknown => return Ok(()),
        Encoding::Utf16Le | Encoding::Utf16Be => "UTF-16 text",
        Encoding::Binary(what) => what,
    };
    let message = format!("{} is {what}, which cannot be edited as text", path.display());
    Err(CallError::new(ErrorCode::InvalidArguments, message)
        .hint("Nothing was done. Convert it first, for example with `iconv` in the terminal, or write it as a whole."))
}

/// Replaces `old` wherever it is, which has to be once unless `all` is said.
pub(super) fn exact(content: &[u8], old: &str, new: &str, all: bool) -> Result<Replaced, Unreplaced> {
    if old.is_empty() {
        return Err(Unreplaced::Useless("`old` is empty; to fill an empty file use action \"write\""));
    }
    if old == new {
        return Err(Unreplaced::Useless("`old` and `new` are the same"));
    }
    let places = occurrences(content, old.as_bytes());
    match places.as_slice() {
        [] => Err(Unreplaced::Nowhere),
        [_, _, ..] if !all => {
            Err(Unreplaced::Several(places.iter().map(|at| line_of(content, *at)).collect()))
        }
        _ => {
            let mut changed = Vec::with_capacity(content.len() + new.len());
            let mut from = 0;
            for at in &places {
                changed.extend_from_slice(&content[from..*at]);
                changed.extend_from_slice(new.as_bytes());
                from = at + old.len();
            }
            changed.extend_from_slice(&content[from..]);
            Ok(Replaced { content: changed, times: places.len(), note: None })
        }
    }
}

/// Where something begins, without overlaps.
pub(super) fn occurrences(content: &[u8], wanted: &[u8]) -> Vec<usize> {
    let (mut found, mut from) = (Vec::new(), 0);
    let Some(first) = wanted.first() else { return found };
    while let Some(next) = content[from..].iter().position(|byte| byte == first) {
        let at = from + next;
        if content[at..].starts_with(wanted) {
            found.push(at);
            from = at + wanted.len();
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
    why: &Unreplaced,
) -> CallError {
    let path = path.display();
    match why {
        Unreplaced::Useless(why) => {
            CallError::new(ErrorCode::InvalidArguments, format!("{which}{why}")).hint("Nothing was changed.")
        }
        Unreplaced::Several(lines) => {
            let shown: Vec<String> = lines.iter().take(PLACES).map(ToString::to_string).collect();
            let more = if lines.len() > PLACES { ", …" } else { "" };
            let message = format!(
                "{which}`old` is in {path} {} times, on lines {}{more}:\n{}",
                lines.len(),
                shown.join(", "),
                near::around(content, &lines[..lines.len().min(3)]),
            );
            CallError::new(ErrorCode::Conflict, message)
                .hint("Nothing was changed. Give more of the lines around the one you mean in `old`, or `replace_all`.")
                .details(serde_json::json!({ "lines": lines.iter().take(PLACES).collect::<Vec<_>>() }))
        }
        Unreplaced::Nowhere => {
            let misses = near::misses(content, &edit.old);
            let mut message = format!("{which}`old` is not in {path}");
            for miss in &misses {
                message.push_str(&format!("\n- {miss}"));
            }
            let hint = match (misses.iter().any(|miss| miss.is_whitespace()), action) {
                (true, FileAction::Edit) => {
                    "Nothing was changed. Take the text as it is in the file, or use \"smart_edit\", which sees no difference \
                     in whitespace."
                }
                _ => "Nothing was changed. Read the file, and give `old` as it is there.",
            };
            let lines: Vec<usize> = misses.iter().map(|miss| miss.line).collect();
            CallError::new(ErrorCode::Conflict, message)
                .hint(hint)
                .details(serde_json::json!({ "near_misses": lines }))
        }
    }
}
