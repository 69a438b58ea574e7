//! `patch`: applies a unified diff to one or more files, completely or not at all.
//!
//! All results are computed in memory, then written to temporary files, and finally renamed. If a rename fails, the
//! previous ones are rolled back. Existing crates handle a single file with exact matches only; they do not support
//! differing line endings, wrong counts, or created, removed and renamed files.

mod apply;
mod commit;
mod parse;

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::sync::PoisonError;

use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::Args;
use super::content::sha256;
use super::diff::unified;
use super::edit::{MAX_DIFF_BYTES, check_text};
use super::report::{Answer, Change, Output, bounded};
use super::{FileCall, required_argument};
use crate::files::{FileError, FileKind, FileLocation};
use apply::HunkMismatch;
use commit::{PatchWork, Step};
use parse::FilePatch;

/// The maximum number of files in a patch; all of them are open at the same time.
const MAX_PATCH_FILES: usize = 200;

impl FileCall {
    pub(super) fn patch(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let text = required_argument(args, "patch", args.patch.as_deref())?;
        let files =
            parse::parse(text).map_err(|wrong| refused(format!("the patch cannot be read: {}", wrong.0)))?;
        if files.len() > MAX_PATCH_FILES {
            return Err(refused(format!(
                "the patch changes {} files, the maximum is {MAX_PATCH_FILES}",
                files.len()
            )));
        }
        let base = self.files.open_handle(path)?;
        let only = (base.kind() == FileKind::File).then(|| base.path().to_owned());
        if only.is_some() && files.len() > 1 {
            return Err(refused(
                "`path` is a file, but the patch changes several: give their folder".to_owned(),
            ));
        }
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut work = PatchWork::default();
        let mut notes = Vec::new();
        let mut seen = HashSet::new();
        for file in &files {
            self.check_cancelled()?;
            let paths = match &only {
                Some(only) if !file.is_rename && file.old.is_some() && file.new.is_some() => {
                    (Some(only.clone()), Some(only.clone()))
                }
                _ => (within(base.path(), file.old.as_deref())?, within(base.path(), file.new.as_deref())?),
            };
            let twice = [&paths.0, &paths.1].into_iter().flatten().collect::<HashSet<_>>();
            if let Some(path) = twice.into_iter().find(|path| !seen.insert((*path).clone())) {
                let message = format!("the patch contains {} twice: merge its hunks", path.display());
                return Err(refused(message));
            }
            self.prepare(file, paths, &mut work, &mut notes)?;
        }
        let dry = args.dry_run.unwrap_or(false);
        if !dry {
            self.check_cancelled()?;
            work.commit(&self.files)?;
        }
        Ok(answer(base.path(), &work, notes, dry))
    }

    /// Prepares the change of one file.
    fn prepare(
        &self,
        file: &FilePatch,
        (old, new): (Option<PathBuf>, Option<PathBuf>),
        work: &mut PatchWork,
        notes: &mut Vec<String>,
    ) -> Result<(), CallError> {
        let mode = file.mode.map(|mode| mode & 0o777);
        let source =
            old.as_deref().map(|path| self.source(path, file.is_rename || new.is_none())).transpose()?;
        let before = source.as_ref().map(|(_, content)| content.as_slice()).unwrap_or_default();
        let applied = apply::apply(before, &file.hunks).map_err(|misfit| {
            let path = old.as_deref().or(new.as_deref()).unwrap_or(Path::new(""));
            misfitting(path, &misfit)
        })?;
        let name = new.as_deref().or(old.as_deref()).unwrap_or(Path::new("")).display();
        notes.extend(applied.notes.iter().map(|note| format!("{name}: {note}")));
        let replaced = file.hunks.len();
        match (source, new) {
            (Some((location, before)), None) => {
                if !applied.content.is_empty() && !file.hunks.is_empty() {
                    return Err(refused(format!(
                        "the patch removes {}, but the file has more content than the patch removes",
                        location.path().display()
                    )));
                }
                work.steps.push(Step {
                    location,
                    before: Some(before),
                    after: None,
                    mode: None,
                    from: None,
                    replaced,
                });
            }
            (Some((location, before)), Some(new)) if file.is_rename || file.is_copy => {
                let (from, mode) =
                    (location.path(), mode.or(location.stat().map(|about| about.st_mode & 0o7777)));
                let to = self.new_file(&new, work)?;
                let step = Step {
                    location: to,
                    before: None,
                    after: Some(applied.content),
                    mode,
                    from: Some(from),
                    replaced,
                };
                work.steps.push(step);
                if file.is_rename {
                    work.steps.push(Step {
                        location,
                        before: Some(before),
                        after: None,
                        mode: None,
                        from: None,
                        replaced: 0,
                    });
                }
            }
            (Some((location, before)), Some(_)) => {
                let mode =
                    mode.filter(|mode| location.stat().is_some_and(|about| about.st_mode & 0o777 != *mode));
                let step = Step {
                    location,
                    before: Some(before),
                    after: Some(applied.content),
                    mode,
                    from: None,
                    replaced,
                };
                work.steps.push(step);
            }
            (None, Some(new)) => {
                let location = self.new_file(&new, work)?;
                // Only the executable bit comes from the patch; the rest follows the user's umask.
                let mode = mode.filter(|mode| mode & 0o111 != 0);
                work.steps.push(Step {
                    location,
                    before: None,
                    after: Some(applied.content),
                    mode,
                    from: None,
                    replaced,
                });
            }
            (None, None) => return Err(refused("a file without a name".to_owned())),
        }
        Ok(())
    }

    /// An existing file and its content. A file that is moved or removed is opened by its own name and must not be a
    /// symlink.
    fn source(&self, path: &Path, goes: bool) -> Result<(FileLocation, Vec<u8>), CallError> {
        let location = if goes { self.files.movable_entry(path)? } else { self.files.write_target(path)? };
        if goes && location.kind() == Some(FileKind::Link) {
            let what = "a symlink, which a patch neither moves nor removes";
            return Err(FileError::NotThis { path: location.path(), what }.into());
        }
        let (handle, file) = self.files.read(&location.path())?;
        let content = self.read_whole(handle.path(), &file)?;
        check_text(handle.path(), &content)?;
        Ok((location, content))
    }

    /// The target of a new file. Missing folders are created and recorded.
    fn new_file(&self, path: &Path, work: &mut PatchWork) -> Result<FileLocation, CallError> {
        let parent = path.parent().unwrap_or(path);
        let (folder, made) = self.files.make_folder(parent)?;
        work.made.extend(made);
        work.files.get_or_insert_with(|| self.files.clone());
        let name = path.file_name().unwrap_or_default();
        let location = self.files.entry(&folder.path().join(name))?;
        match location.stat() {
            None => Ok(location),
            Some(_) => Err(FileError::Exists(location.path()).into()),
        }
    }
}

/// Resolves a file name of a patch, which must stay within the folder.
fn within(base: &Path, name: Option<&str>) -> Result<Option<PathBuf>, CallError> {
    let Some(name) = name else { return Ok(None) };
    let path = Path::new(name);
    let is_plain = !name.contains('\0') && path.components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() {
        return Err(refused("the patch names no file: give the file as `path`".to_owned()));
    }
    if !is_plain {
        return Err(refused(format!(
            "the patch names {name:?}: names must be relative to `path`, without `..`"
        )));
    }
    Ok(Some(base.join(path)))
}

fn refused(message: String) -> CallError {
    CallError::new(ErrorCode::InvalidArguments, message)
        .hint("Nothing was changed. Correct the patch and call again.")
}

fn misfitting(path: &Path, misfit: &HunkMismatch) -> CallError {
    let path = path.display();
    let (message, lines) = match misfit {
        HunkMismatch::Nowhere { hunk, written_at, nearest } => {
            let mut message = format!("hunk {hunk} (line {written_at} of the patch) does not fit {path}");
            if let Some((line, expected, found)) = nearest {
                let cut = |text: &str| text[..text.floor_char_boundary(160)].to_owned();
                message.push_str(&format!(
                    "\nthe closest match differs at line {line}:\n    patch: {:?}\n    file:  {:?}",
                    cut(expected),
                    cut(found)
                ));
            }
            (message, nearest.iter().map(|(line, ..)| *line).collect::<Vec<_>>())
        }
        HunkMismatch::Several { hunk, written_at, lines } => {
            let shown: Vec<String> = lines.iter().take(20).map(ToString::to_string).collect();
            let message = format!(
                "hunk {hunk} (line {written_at} of the patch) fits {path} at several lines: {}",
                shown.join(", ")
            );
            (message, lines.iter().take(20).copied().collect())
        }
    };
    CallError::new(ErrorCode::Conflict, message)
        .hint("No file was changed. Read the file, and copy more of the lines around the change from it.")
        .details(serde_json::json!({ "lines": lines }))
}

fn answer(base: &Path, work: &PatchWork, notes: Vec<String>, dry: bool) -> Answer {
    let (mut text, mut diff, mut changes) = (String::new(), String::new(), Vec::new());
    for step in &work.steps {
        let path = step.location.path();
        let what = match (&step.before, &step.after, &step.from) {
            _ if dry => "unchanged",
            (_, None, _) => "removed",
            (_, Some(_), Some(_)) => "renamed",
            (None, Some(_), None) => "created",
            (Some(_), Some(_), None) => "changed",
        };
        text.push_str(&format!("{what} {}\n", path.display()));
        let name = path.display().to_string();
        let after = step.after.as_deref().unwrap_or_default();
        diff.push_str(&unified(step.before.as_deref().unwrap_or_default(), after, &name, &name, 3));
        changes.push(Change {
            other: step.from.as_ref().map(|from| from.display().to_string()),
            bytes: step.after.as_ref().map(|after| after.len() as u64),
            sha256: step.after.as_ref().map(|after| sha256(after)),
            replaced: Some(step.replaced),
            ..Change::new(&path, what)
        });
    }
    if dry {
        text.push_str("Nothing was changed: this was a dry run.\n");
    }
    let diff = bounded(diff, 200 << 10);
    text.push_str(&bounded(diff.clone(), MAX_DIFF_BYTES));
    let output = Output {
        path: base.display().to_string(),
        changes: Some(changes),
        diff: Some(diff),
        notes,
        ..Output::default()
    };
    Answer::new(text, output)
}
