//! Commits several file changes at once: all are staged before the first is applied, and those applied are rolled
//! back if one fails.

use std::io::Write as _;
use std::path::PathBuf;

use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::super::failed;
use crate::files::{FileError, FileLocation, Files};

/// A change of one file.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) location: FileLocation,
    /// The current content; `None` if the file does not exist.
    pub(super) before: Option<Vec<u8>>,
    /// The new content; `None` if the file is removed.
    pub(super) after: Option<Vec<u8>>,
    pub(super) mode: Option<u32>,
    /// The source of a rename or copy.
    pub(super) from: Option<PathBuf>,
    pub(super) replaced: usize,
}

/// All changes of a patch. Folders created for it are removed again unless it is committed.
#[derive(Debug, Default)]
pub(super) struct PatchWork {
    pub(super) steps: Vec<Step>,
    pub(super) made: Vec<PathBuf>,
    pub(super) files: Option<Files>,
}

impl PatchWork {
    pub(super) fn commit(&mut self, files: &Files) -> Result<(), CallError> {
        // Writes come before removals, so the content of a renamed file already exists elsewhere.
        let mut drafts = Vec::new();
        for step in &self.steps {
            let draft = match &step.after {
                None => None,
                Some(after) => {
                    let mut draft = step.location.new_draft_with(step.mode)?;
                    draft.file.write_all(after).map_err(failed(&step.location.path()))?;
                    Some(draft)
                }
            };
            drafts.push(draft);
        }
        for step in &self.steps {
            step.location.check_unchanged()?;
        }
        for (number, (step, draft)) in self.steps.iter().zip(drafts).enumerate() {
            let done = match (draft, &step.before) {
                (Some(draft), Some(_)) => draft.commit(),
                (Some(draft), None) => draft.commit_new(),
                (None, _) => step.location.unlink(),
            };
            if let Err(error) = done {
                return Err(undo(&self.steps[..number], error));
            }
        }
        let _ = files;
        self.made.clear();
        Ok(())
    }
}

impl Drop for PatchWork {
    fn drop(&mut self) {
        let Some(files) = &self.files else { return };
        for path in self.made.iter().rev() {
            // A folder that is in use by now is not empty and stays.
            let _ = files.entry(path).and_then(|location| location.remove_folder());
        }
    }
}

/// Restores the previous content in reverse order.
fn undo(steps: &[Step], error: FileError) -> CallError {
    let mut left = Vec::new();
    for step in steps.iter().rev() {
        let back = step.location.reload().and_then(|location| match &step.before {
            Some(before) => {
                let mode = step.location.stat().map(|stat| stat.st_mode & 0o7777);
                let mut draft = location.new_draft_with(mode)?;
                draft.file.write_all(before).map_err(|error| FileError::io(&location.path(), error))?;
                draft.commit()
            }
            None => location.unlink(),
        });
        if back.is_err() {
            left.push(step.location.path().display().to_string());
        }
    }
    if left.is_empty() {
        return CallError::from(error)
            .hint("The changes made before the error were rolled back: nothing has changed.");
    }
    CallError::new(
        ErrorCode::ToolFailed,
        format!("{error}; these files could not be rolled back: {}", left.join(", ")),
    )
    .hint("Check these files: they contain the patched content. All other files are unchanged.")
}
