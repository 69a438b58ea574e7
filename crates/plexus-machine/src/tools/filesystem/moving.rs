//! `move`: renames a file or folder.

use std::path::Path;

use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::Args;
use super::copy::check_target;
use super::report::{Answer, Change, Output};
use super::{FileCall, wrong};
use crate::files::{FileError, FileKind};

impl FileCall {
    pub(super) fn move_to(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let to = self.to(args)?;
        let source = self.files.movable_entry(path)?;
        let from = source.path();
        let kind = source.kind().ok_or_else(|| FileError::NotFound(from.clone()))?;
        if kind == FileKind::Special {
            let what = "a device, a pipe or a socket, which is not moved";
            return Err(FileError::NotThis { path: from, what }.into());
        }
        let mut notes = Vec::new();
        let target = self.target(&to, args, &mut notes)?;
        // A file cannot bring content to protected paths below its name; a folder or a symlink can.
        if kind != FileKind::File {
            check_target(self, &target)?;
        }
        let real = target.path();
        if kind == FileKind::Folder && real.starts_with(&from) {
            return Err(wrong("to", "is the folder itself, or is inside it"));
        }
        let overwrite = args.overwrite.unwrap_or(false);
        if target
            .kind()
            .is_some_and(|existing| !overwrite || existing != FileKind::File || kind == FileKind::Folder)
        {
            return Err(FileError::Exists(real).into());
        }
        self.check_cancelled()?;
        source.check_unchanged()?;
        source.move_to(&target, overwrite).map_err(|error| move_error(error, &from, &real))?;
        let change = Change { other: Some(from.display().to_string()), ..Change::new(&real, "renamed") };
        let text = format!("{} moved to {}\n", from.display(), real.display());
        let output =
            Output { path: change.path.clone(), changes: Some(vec![change]), notes, ..Output::default() };
        Ok(Answer::new(text, output))
    }
}

fn move_error(error: FileError, from: &Path, to: &Path) -> CallError {
    match &error {
        FileError::Io { source, .. } if source.kind() == std::io::ErrorKind::CrossesDevices => {
            CallError::new(
                ErrorCode::ToolFailed,
                format!("{} and {} are on different file systems", from.display(), to.display()),
            )
            .hint("Nothing was done. Use \"copy\", then \"delete\" once that has succeeded.")
        }
        _ => error.into(),
    }
}
