//! `copy`: files and folders, each opened through no link.
//!
//! A copy is made beside its place and put there when it is complete. What the policy denies is not in it, and nothing gets
//! to where the policy lets nothing be written.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::args::Args;
use super::report::{Answer, Change, Output};
use super::{FileCall, wrong};
use crate::files::{FileError, Folder, Kind, Place, temporary};
use crate::policy::{PathRefused, Want};

/// Things of one copy, or of one folder that is removed.
pub(super) const MOST: usize = 200_000;
/// Folders within folders.
pub(super) const DEEPEST: usize = 200;

/// What a copy has done so far.
#[derive(Debug, Default)]
struct Copied {
    entries: usize,
    bytes: u64,
    /// What was denied, special, or not to be written there.
    left_out: usize,
}

impl FileCall {
    pub(super) fn copy(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let to = self.to(args)?;
        let handle = self.files.look(path)?;
        let from = handle.path().to_owned();
        let mut notes = Vec::new();
        let target = self.target(&to, args, &mut notes)?;
        let real = target.path();
        if real.starts_with(&from) {
            return Err(wrong("to", "is the file or folder itself, or within it"));
        }
        let overwrite = args.overwrite.unwrap_or(false);
        if target.about().is_some() && (!overwrite || handle.kind() != Kind::File) {
            return Err(FileError::Exists(real).into());
        }
        let mut copied = Copied::default();
        match handle.kind() {
            Kind::File => {
                let mut file = handle.read()?;
                let mode = handle.about().st_mode & 0o777;
                let mut draft = target.draft_with(Some(mode))?;
                copied.bytes = self.copy_all(&real, &mut file, &mut draft.file)?;
                copied.entries = 1;
                if overwrite { draft.put()? } else { draft.put_new()? }
            }
            Kind::Folder => self.copy_folder(&handle.folder()?, &target, &mut copied)?,
            Kind::Link | Kind::Special => {
                let what = "a device, a pipe or a socket, which is not copied";
                return Err(FileError::NotThis { path: from, what }.into());
            }
        }
        if copied.left_out > 0 {
            notes.push(format!(
                "{} things in it were left out: denied by the policy, special files, or links to where none may be",
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

    /// Where something is to be put, by its own name: what is there is not followed.
    pub(super) fn target(&self, to: &Path, args: &Args, notes: &mut Vec<String>) -> Result<Place, CallError> {
        match self.files.entry(to) {
            Err(FileError::NotFound(_)) if args.create_dirs.unwrap_or(false) => {
                let (_, made) = self.files.make_folder(to.parent().unwrap_or(to))?;
                notes.extend(made.iter().map(|path| format!("folder {} made", path.display())));
                Ok(self.files.entry(to)?)
            }
            Err(FileError::NotFound(missing)) => Err(CallError::from(FileError::NotFound(missing))
                .hint("Make the folder with `create_dirs`, or correct the path.")),
            place => Ok(place?),
        }
    }

    fn copy_folder(&self, from: &Folder, target: &Place, copied: &mut Copied) -> Result<(), CallError> {
        let parent = target.folder();
        let name = temporary();
        let mut stage = Stage { parent, name: &name, done: false };
        rustix::fs::mkdirat(parent, &name, Mode::from_raw_mode(0o700))
            .map_err(|error| FileError::io(&target.path(), error))?;
        let into = parent.folder_below(Path::new(&name))?;
        self.copy_entries(from, &into, &target.path(), 1, copied)?;
        let staged = self.files.entry(&parent.path().join(&name))?;
        staged.move_to(target, false)?;
        stage.done = true;
        Ok(())
    }

    /// `real` is where `into` will be in the end.
    fn copy_entries(
        &self,
        from: &Folder,
        into: &Folder,
        real: &Path,
        depth: usize,
        copied: &mut Copied,
    ) -> Result<(), CallError> {
        if depth > DEEPEST {
            return Err(too_much(from.path()));
        }
        for (name, kind) in from.entries()? {
            self.go_on()?;
            copied.entries += 1;
            if copied.entries > MOST {
                return Err(too_much(from.path()));
            }
            let (source, target) = (from.path().join(&name), real.join(&name));
            let allowed = self.files.check(&source, Want::Read).is_ok()
                && self.files.check(&target, Want::Write).is_ok();
            let is_copied = allowed
                && match kind {
                    Kind::File => self.copy_file(from, into, &name, &source, copied)?,
                    Kind::Link => self.copy_link(from, into, &name, &target)?,
                    Kind::Special => false,
                    Kind::Folder => {
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
        copied: &mut Copied,
    ) -> Result<bool, CallError> {
        let mut file = match self.files.read_below(from, Path::new(name)) {
            Ok(file) => file,
            // Another name of a denied file; or it has become something else.
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

    /// A link as it is, unless it would lead those who look for what the policy protects to something else.
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

fn too_much(path: &Path) -> CallError {
    let message = format!("{}: there is more in it than is copied or removed at once", path.display());
    CallError::new(ErrorCode::TooLarge, message)
        .hint("Take the folders in it one by one, or use the terminal.")
}

/// A copy that is not complete yet. Dropped, it is gone.
struct Stage<'a> {
    parent: &'a Folder,
    name: &'a OsStr,
    done: bool,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if !self.done {
            let _ = remove_all(self.parent, self.name, &mut MOST.clone(), &|| false);
        }
    }
}

/// Removes a folder with all that is in it, through no link.
pub(super) fn remove_all(
    parent: &Folder,
    name: &OsStr,
    left: &mut usize,
    stop: &dyn Fn() -> bool,
) -> Result<(), FileError> {
    /// A folder that is open, and the one that it is in.
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
            if stop() || *left == 0 || depth > DEEPEST {
                return Err(FileError::Stopped);
            }
            *left -= 1;
            match kind {
                Kind::Folder => inner(&folder, &entry, left, depth + 1, stop)?,
                _ => rustix::fs::unlinkat(&folder, &entry, AtFlags::empty())
                    .map_err(|error| FileError::io(&path.join(&entry), error))?,
            }
        }
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(|error| FileError::io(&path, error))
    }
    inner(parent, name, left, 1, stop)
}

/// Whether a folder may be put at a place: nothing may be hidden in it that is protected there.
pub(super) fn check_target(call: &FileCall, target: &Place) -> Result<(), CallError> {
    let path = target.path();
    if call.files.policy().files.has_exceptions_below(&path) {
        return Err(FileError::Refused { path, why: PathRefused::HasExceptions }.into());
    }
    Ok(())
}
