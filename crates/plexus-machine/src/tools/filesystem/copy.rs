//! `copy`: copies files and folders without following symlinks.
//!
//! A copy is made next to its target and renamed when it is complete. It leaves out paths that the policy denies,
//! and writes nothing to paths where the policy forbids writing.
//! to where the policy lets nothing be written.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::args::Args;
use super::report::{Answer, Change, Output};
use super::{FileCall, wrong};
use crate::files::{FileError, FileKind, FileLocation, Folder, temporary};
use crate::policy::{AccessKind, PathRefused};

/// The maximum number of entries of one copy or removal.
pub(super) const MAX_ENTRIES: usize = 200_000;
/// The maximum depth of nested folders.
pub(super) const MAX_DEPTH: usize = 200;

/// The progress of a copy.
#[derive(Debug, Default)]
struct CopyProgress {
    entries: usize,
    bytes: u64,
    /// Entries that are denied, special files, or not writable at the target.
    left_out: usize,
}

impl FileCall {
    pub(super) fn copy(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let to = self.to(args)?;
        let handle = self.files.open_handle(path)?;
        let from = handle.path().to_owned();
        let mut notes = Vec::new();
        let target = self.target(&to, args, &mut notes)?;
        let real = target.path();
        if real.starts_with(&from) {
            return Err(wrong("to", "is the file or folder itself, or is inside it"));
        }
        let overwrite = args.overwrite.unwrap_or(false);
        if target.stat().is_some() && (!overwrite || handle.kind() != FileKind::File) {
            return Err(FileError::Exists(real).into());
        }
        let mut copied = CopyProgress::default();
        match handle.kind() {
            FileKind::File => {
                let mut file = handle.read()?;
                let mode = handle.stat().st_mode & 0o777;
                let mut draft = target.new_draft_with(Some(mode))?;
                copied.bytes = self.copy_all(&real, &mut file, &mut draft.file)?;
                copied.entries = 1;
                if overwrite { draft.commit()? } else { draft.commit_new()? }
            }
            FileKind::Folder => self.copy_folder(&handle.folder()?, &target, &mut copied)?,
            FileKind::Link | FileKind::Special => {
                let what = "a device, a pipe or a socket, which is not copied";
                return Err(FileError::NotThis { path: from, what }.into());
            }
        }
        if copied.left_out > 0 {
            notes.push(format!(
                "{} entries were skipped: denied by the policy, special files, or symlinks that the policy does not allow at the target",
                copied.left_out
            ));
        }
        let text = format!(
            "{} copied to {}, {} bytes in {} entries\n",
            from.display(),
            real.display(),
            copied.bytes,
            copied.entries
        );
        let change = Change {
            other: Some(from.display().to_string()),
            bytes: Some(copied.bytes),
            ..Change::new(&real, "copied")
        };
        let output =
            Output { path: change.path.clone(), changes: Some(vec![change]), notes, ..Output::default() };
        Ok(Answer::new(text, output))
    }

    /// The target of a copy or move, by its own name: an existing symlink is not followed.
    pub(super) fn target(
        &self,
        to: &Path,
        args: &Args,
        notes: &mut Vec<String>,
    ) -> Result<FileLocation, CallError> {
        match self.files.entry(to) {
            Err(FileError::NotFound(_)) if args.create_dirs.unwrap_or(false) => {
                let (_, made) = self.files.make_folder(to.parent().unwrap_or(to))?;
                notes.extend(made.iter().map(|path| format!("folder {} created", path.display())));
                Ok(self.files.entry(to)?)
            }
            Err(FileError::NotFound(missing)) => Err(CallError::from(FileError::NotFound(missing))
                .hint("Create the folder with `create_dirs`, or correct the path.")),
            location => Ok(location?),
        }
    }

    fn copy_folder(
        &self,
        from: &Folder,
        target: &FileLocation,
        copied: &mut CopyProgress,
    ) -> Result<(), CallError> {
        let parent = target.folder();
        let name = temporary();
        let mut stage = PartialCopy { parent, name: &name, done: false };
        rustix::fs::mkdirat(parent, &name, Mode::from_raw_mode(0o700))
            .map_err(|error| FileError::io(&target.path(), error))?;
        let into = parent.folder_below(Path::new(&name))?;
        self.copy_entries(from, &into, &target.path(), 1, copied)?;
        let staged = self.files.entry(&parent.path().join(&name))?;
        staged.move_to(target, false)?;
        stage.done = true;
        Ok(())
    }

    /// `real` is the final path of `into`.
    fn copy_entries(
        &self,
        from: &Folder,
        into: &Folder,
        real: &Path,
        depth: usize,
        copied: &mut CopyProgress,
    ) -> Result<(), CallError> {
        if depth > MAX_DEPTH {
            return Err(too_many_entries(from.path()));
        }
        for (name, kind) in from.entries()? {
            self.check_cancelled()?;
            copied.entries += 1;
            if copied.entries > MAX_ENTRIES {
                return Err(too_many_entries(from.path()));
            }
            let (source, target) = (from.path().join(&name), real.join(&name));
            let allowed = self.files.check(&source, AccessKind::Read).is_ok()
                && self.files.check(&target, AccessKind::Write).is_ok();
            let is_copied = allowed
                && match kind {
                    FileKind::File => self.copy_file(from, into, &name, &source, copied)?,
                    FileKind::Link => self.copy_link(from, into, &name, &target)?,
                    FileKind::Special => false,
                    FileKind::Folder => {
                        let inner = from.folder_below(Path::new(&name))?;
                        rustix::fs::mkdirat(into, &name, Mode::from_raw_mode(0o777))
                            .map_err(|error| FileError::io(&target, error))?;
                        let made = into.folder_below(Path::new(&name))?;
                        self.copy_entries(&inner, &made, &target, depth + 1, copied)?;
                        true
                    }
                };
            copied.left_out += usize::from(!is_copied);
        }
        let mode = rustix::fs::fstat(from).map_or(0o755, |about| about.st_mode & 0o777);
        let _ = rustix::fs::fchmod(into, Mode::from_raw_mode(mode));
        Ok(())
    }

    fn copy_file(
        &self,
        from: &Folder,
        into: &Folder,
        name: &OsStr,
        source: &Path,
        copied: &mut CopyProgress,
    ) -> Result<bool, CallError> {
        let mut file = match self.files.read_below(from, Path::new(name)) {
            Ok(file) => file,
            // A hard link to a denied file, or an entry that was replaced meanwhile.
            Err(FileError::Refused { .. } | FileError::NotThis { .. } | FileError::NotFound(_)) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let mode = rustix::fs::fstat(&file).map_or(0o644, |about| about.st_mode & 0o777);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = rustix::fs::openat(into, name, flags, Mode::from_raw_mode(mode));
        let mut new = std::fs::File::from(new.map_err(|error| FileError::io(source, error))?);
        copied.bytes += self.copy_all(source, &mut file, &mut new)?;
        Ok(true)
    }

    /// Copies a symlink as it is, unless its name could replace a protected path.
    fn copy_link(
        &self,
        from: &Folder,
        into: &Folder,
        name: &OsStr,
        target: &Path,
    ) -> Result<bool, CallError> {
        if self.files.policy().files.has_exceptions_below(target) {
            return Ok(false);
        }
        let to =
            rustix::fs::readlinkat(from, name, Vec::new()).map_err(|error| FileError::io(target, error))?;
        rustix::fs::symlinkat(to, into, name).map_err(|error| FileError::io(target, error))?;
        Ok(true)
    }
}

fn too_many_entries(path: &Path) -> CallError {
    let message = format!("{} contains too many or too deeply nested entries for one call", path.display());
    CallError::new(ErrorCode::TooLarge, message)
        .hint("Process its subfolders one by one, or use the terminal.")
}

/// An incomplete copy. Dropping it removes it.
struct PartialCopy<'a> {
    parent: &'a Folder,
    name: &'a OsStr,
    done: bool,
}

impl Drop for PartialCopy<'_> {
    fn drop(&mut self) {
        if !self.done {
            let _ = remove_all(self.parent, self.name, &mut MAX_ENTRIES.clone(), &|| false);
        }
    }
}

/// Removes a folder and its content without following symlinks.
pub(super) fn remove_all(
    parent: &Folder,
    name: &OsStr,
    left: &mut usize,
    stop: &dyn Fn() -> bool,
) -> Result<(), FileError> {
    /// Removes the folder `name` of an open parent.
    fn inner(
        parent: &Folder,
        name: &OsStr,
        left: &mut usize,
        depth: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), FileError> {
        let path: PathBuf = parent.path().join(name);
        let folder = parent.folder_below(Path::new(name))?;
        for (entry, kind) in folder.entries()? {
            if stop() || *left == 0 || depth > MAX_DEPTH {
                return Err(FileError::Stopped);
            }
            *left -= 1;
            match kind {
                FileKind::Folder => inner(&folder, &entry, left, depth + 1, stop)?,
                _ => rustix::fs::unlinkat(&folder, &entry, AtFlags::empty())
                    .map_err(|error| FileError::io(&path.join(&entry), error))?,
            }
        }
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(|error| FileError::io(&path, error))
    }
    inner(parent, name, left, 1, stop)
}

/// Checks that a folder may be put at a target: it must not bring content to protected paths below it.
pub(super) fn check_target(call: &FileCall, target: &FileLocation) -> Result<(), CallError> {
    let path = target.path();
    if call.files.policy().files.has_exceptions_below(&path) {
        return Err(FileError::Refused { path, why: PathRefused::HasExceptions }.into());
    }
    Ok(())
}
