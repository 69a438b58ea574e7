//! `write` and `mkdir`: write a file atomically, or create a folder.

use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::PoisonError;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::{Args, Mode};
use super::content::sha256;
use super::report::{Answer, Change, Output};
use super::{FileCall, failed, required_argument, wrong};
use crate::files::{FileError, FileKind, FileLocation};

impl FileCall {
    pub(super) fn write(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let content = match (&args.text, &args.base64) {
            (Some(_), Some(_)) => {
                return Err(wrong("base64", "give either `text` or `base64`, not both"));
            }
            (text, None) => required_argument(args, "text", text.as_deref())?.as_bytes().to_vec(),
            (None, Some(base64)) => STANDARD
                .decode(base64.trim())
                .map_err(|error| wrong("base64", format!("is not valid base64: {error}")))?,
        };
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = Vec::new();
        let location = self.write_target(path, args.create_dirs.unwrap_or(false), &mut notes)?;
        let mode = args.mode.unwrap_or_default();
        let is_there = location.stat().is_some();
        if is_there && mode == Mode::Create {
            return Err(FileError::Exists(location.path()).into());
        }
        self.check_hash(&location, args)?;
        self.check_cancelled()?;
        if is_there && mode == Mode::Append {
            self.append(&location, &content)?;
        } else {
            let mut draft = location.new_draft()?;
            draft.file.write_all(&content).map_err(failed(&location.path()))?;
            match is_there {
                true => draft.commit()?,
                false => draft.commit_new()?,
            }
        }
        let what = if is_there { "changed" } else { "created" };
        let mut change = Change { bytes: Some(content.len() as u64), ..Change::new(&location.path(), what) };
        if mode != Mode::Append || !is_there {
            change.sha256 = Some(sha256(&content));
        }
        let text = match (mode, is_there) {
            (Mode::Append, true) => format!("{} bytes added to {}\n", content.len(), change.path),
            _ => format!("{} {what}, {} bytes\n", change.path, content.len()),
        };
        let output = Output {
            path: change.path.clone(),
            sha256: change.sha256.clone(),
            changes: Some(vec![change]),
            notes,
            ..Output::default()
        };
        Ok(Answer::new(text, output))
    }

    pub(super) fn mkdir(&self, path: &Path) -> Result<Answer, CallError> {
        let (folder, made) = self.files.make_folder(path)?;
        let path = folder.path().display().to_string();
        let text = match made.is_empty() {
            true => format!("{path} already exists\n"),
            false => format!("{path} created\n"),
        };
        let changes = made.iter().map(|path| Change::new(path, "created")).collect();
        Ok(Answer::new(text, Output { path, changes: Some(changes), ..Output::default() }))
    }

    /// The target of a write. With `create_dirs`, missing parent folders are created.
    pub(super) fn write_target(
        &self,
        path: &Path,
        create_dirs: bool,
        notes: &mut Vec<String>,
    ) -> Result<FileLocation, CallError> {
        match self.files.write_target(path) {
            Err(FileError::NotFound(_)) if create_dirs => {
                let parent = path.parent().unwrap_or(path);
                let (_, made) = self.files.make_folder(parent)?;
                notes.extend(made.iter().map(|path| format!("folder {} created", path.display())));
                Ok(self.files.write_target(path)?)
            }
            Err(FileError::NotFound(missing)) => Err(CallError::from(FileError::NotFound(missing))
                .hint("Create the folder with `create_dirs`, or correct the path.")),
            location => Ok(location?),
        }
    }

    /// Checks that the file still has the SHA-256 that the caller expects.
    pub(super) fn check_hash(&self, location: &FileLocation, args: &Args) -> Result<(), CallError> {
        let Some(expected) = &args.if_sha256 else { return Ok(()) };
        let path = location.path();
        if location.kind() != Some(FileKind::File) {
            return Err(FileError::NotFound(path).into());
        }
        let (_, file) = self.files.read(&path)?;
        let is = self.digest(&path, &file)?;
        if is.eq_ignore_ascii_case(expected.trim()) {
            return Ok(());
        }
        let message = format!("{} has changed: its sha256 is now {is}", path.display());
        Err(CallError::new(ErrorCode::Conflict, message)
            .hint("Nothing was done. Read it again and base the change on its current content."))
    }

    /// Appends atomically: a reader sees all of the addition or none of it.
    fn append(&self, location: &FileLocation, content: &[u8]) -> Result<(), CallError> {
        let path = location.path();
        let (_, mut file) = self.files.read(&path)?;
        let mut draft = location.new_draft()?;
        file.rewind().map_err(failed(&path))?;
        self.copy_all(&path, &mut file, &mut draft.file)?;
        draft.file.write_all(content).map_err(failed(&path))?;
        location.check_unchanged()?;
        Ok(draft.commit()?)
    }

    /// Copies until the end, checking regularly whether the call was cancelled.
    pub(super) fn copy_all(
        &self,
        path: &Path,
        from: &mut std::fs::File,
        to: &mut std::fs::File,
    ) -> Result<u64, CallError> {
        /// The number of bytes copied between two checks.
        const BYTES_PER_STEP: u64 = 16 << 20;
        let mut copied = 0;
        loop {
            self.check_cancelled()?;
            // The kernel copies, and shares extents if the file system supports it.
            let step_bytes = std::io::copy(&mut std::io::Read::take(&mut *from, BYTES_PER_STEP), to)
                .map_err(failed(path))?;
            copied += step_bytes;
            if step_bytes < BYTES_PER_STEP {
                return Ok(copied);
            }
        }
    }
}
