//! `transfer`: copies files to and from this machine, in parts. It serves programs (`plexus cp`) and is not listed.
//!
//! Every action can be repeated: writing a part twice has no further effect, and a file that is already at its path
//! is recognised. So a caller repeats a lost call, and nothing has to be stored on the way. All paths go through
//! [`Files`] in each call, and so through the current policy. A file appears at its path as a whole, after its hash
//! was verified; until then it is stored next to its path.

mod args;
mod hashing;
mod listing;
mod received;
#[cfg(test)]
mod tests;
mod uploads;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_proto::ErrorCode;
use plexus_tools::{
    Access, Action, CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool, arguments,
};

use crate::Machine;
use crate::files::{FileError, FileLocation, Files};
use args::{Args, MAX_CHUNK, Output, TransferAction};
use hashing::{Hashes, Progress};
use uploads::{Announced, Upload, Uploads, partial_name};

const NAME: &str = "transfer";
/// Disk space that is left free.
const RESERVED_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct Transfer {
    machine: Machine,
    uploads: Arc<Uploads>,
    hashes: Hashes,
}

/// The tool's specification without its schemas.
pub(super) fn spec() -> ToolSpec {
    let action = |action: TransferAction, access: Access| Action::new(action.name(), access);
    ToolSpec::node(
        NAME,
        "Transfer",
        "Copies files to and from a machine, in parts. For programs: `plexus cp` uses it.",
        Access::READ,
    )
    .with_actions(vec![
        action(TransferAction::Stat, Access::READ),
        action(TransferAction::List, Access::READ),
        action(TransferAction::Read, Access::READ),
        action(TransferAction::Hash, Access::READ),
        action(TransferAction::Begin, Access::SET.repeated()),
        action(TransferAction::Write, Access::SET.repeated()),
        action(TransferAction::Finish, Access::REMOVE.repeated()),
        action(TransferAction::Abort, Access::REMOVE.repeated()),
        action(TransferAction::MakeFolder, Access::SET.repeated()),
    ])
    .for_programs()
    .without_record_of(&["data"])
}

impl TypedTool for Transfer {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, _: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let files = Files::for_machine(&self.machine);
        let path = files.path(&args.path)?;
        let output = match args.action {
            TransferAction::Hash => self.hash(files, path, args).await,
            TransferAction::Finish => self.finish(files, path, args).await,
            TransferAction::Stat => blocking(move || Ok(listing::stat(&files, &path)?)).await,
            TransferAction::List => {
                blocking(move || Ok(listing::list(&files, &path, args.after.as_deref())?)).await
            }
            TransferAction::Read => blocking(move || read(&files, &path, &args)).await,
            TransferAction::MakeFolder => {
                blocking(move || {
                    files.make_folder(&path)?;
                    Ok(Output { done: true, ..Output::default() })
                })
                .await
            }
            TransferAction::Begin => {
                self.with_uploads(move |uploads| begin(uploads, &files, &path, &args)).await
            }
            TransferAction::Write => {
                self.with_uploads(move |uploads| write(uploads, &files, &path, &args)).await
            }
            TransferAction::Abort => {
                self.with_uploads(move |uploads| abort(uploads, &files, &path, &args)).await
            }
        };
        let output = output.map_err(without_tool_hints)?;
        Ok(Outcome::Ready(ToolOutput::new("", &output)))
    }
}

impl Transfer {
    pub(super) fn open(machine: &Machine) -> io::Result<Self> {
        let uploads = Arc::new(Uploads::open(&machine.data_dir, machine.clock.clone())?);
        Ok(Self { machine: machine.clone(), uploads, hashes: Hashes::default() })
    }

    async fn with_uploads(
        &self,
        work: impl FnOnce(&Uploads) -> Result<Output, CallError> + Send + 'static,
    ) -> Result<Output, CallError> {
        let uploads = self.uploads.clone();
        blocking(move || work(&uploads)).await
    }

    /// The hash of a file for reading.
    async fn hash(&self, files: Files, path: PathBuf, args: Args) -> Result<Output, CallError> {
        let identity = required_argument(args.identity.as_ref(), &args, "identity")?.clone();
        let shown = path.clone();
        let opened = blocking(move || {
            let (handle, file) = files.read(&path)?;
            Ok((listing::identity(handle.stat()), file))
        });
        let (now, file) = opened.await?;
        if now != identity {
            return Ok(Output { changed: true, ..Output::default() });
        }
        let progress = self.hashes.of(&identity, move || Ok(file)).await;
        match progress.map_err(|error| FileError::io(&shown, error))? {
            Progress::Done(hash) => Ok(Output { sha256: Some(hash), ..Output::default() }),
            Progress::Going(looked_at) => Ok(Output { received: Some(looked_at), ..Output::default() }),
            Progress::Busy => Err(busy_error()),
        }
    }

    async fn finish(&self, files: Files, path: PathBuf, args: Args) -> Result<Output, CallError> {
        let announced = announced(&args)?;
        let uploads = self.uploads.clone();
        let requested = announced.clone();
        let found = blocking(move || {
            let location = files.write_target(&path)?;
            let upload = uploads.find(&location, &requested)?;
            let existing = match upload.is_none() {
                true => Some(files.read(&path)?),
                false => None,
            };
            Ok((location, upload, existing))
        });
        let (location, upload, existing) = found.await?;
        let shown = location.path();
        let Some(upload) = upload else {
            // An earlier call, whose answer was lost, completed the upload.
            let Some((handle, file)) = existing else { return Err(unknown_upload_error()) };
            let key = listing::identity(handle.stat());
            let progress = self.hashes.of(&key, move || Ok(file)).await;
            return match progress.map_err(|error| FileError::io(&shown, error))? {
                Progress::Done(hash) if hash == announced.sha256 => {
                    Ok(Output { done: true, sha256: Some(hash), ..Output::default() })
                }
                Progress::Done(_) => Err(unknown_upload_error()),
                Progress::Going(looked_at) => Ok(Output { received: Some(looked_at), ..Output::default() }),
                Progress::Busy => Err(busy_error()),
            };
        };
        if upload.complete() < announced.size {
            let message = format!(
                "{} is not complete: {} of {} bytes have arrived",
                shown.display(),
                upload.complete(),
                announced.size
            );
            return Err(CallError::new(ErrorCode::Conflict, message).hint("Send the missing parts first."));
        }
        upload.close();
        let to_hash = upload.clone();
        let progress = self.hashes.of(&upload.id, move || to_hash.file.try_clone()).await;
        match progress.map_err(|error| FileError::io(&shown, error))? {
            Progress::Going(looked_at) => Ok(Output { received: Some(looked_at), ..Output::default() }),
            Progress::Busy => Err(busy_error()),
            Progress::Done(hash) => {
                self.hashes.forget(&upload.id);
                let right = hash == announced.sha256;
                self.with_uploads(move |uploads| match right {
                    true => commit_upload(uploads, &location, &upload, &args),
                    false => {
                        location.remove_partial(&partial_name(&upload.id));
                        uploads.forget(&upload.id);
                        Ok(Output { damaged: true, sha256: Some(hash), ..Output::default() })
                    }
                })
                .await
            }
        }
    }
}

fn read(files: &Files, path: &std::path::Path, args: &Args) -> Result<Output, CallError> {
    let identity = required_argument(args.identity.as_ref(), args, "identity")?;
    let (handle, file) = files.read(path)?;
    let failed = |error: io::Error| FileError::io(handle.path(), error);
    if listing::identity(handle.stat()) != *identity {
        return Ok(Output { changed: true, ..Output::default() });
    }
    let offset = args.offset.unwrap_or(0);
    let size = u64::try_from(handle.stat().st_size).unwrap_or(0);
    let length = u64::from(args.length.unwrap_or(MAX_CHUNK).min(MAX_CHUNK)).min(size.saturating_sub(offset));
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Output { changed: true, ..Output::default() });
        }
        Err(error) => return Err(failed(error).into()),
    }
    // A part that changed during the read does not belong to the requested file.
    let after = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
    match listing::identity(&after) == *identity {
        true => Ok(Output { data: Some(STANDARD.encode(&bytes)), ..Output::default() }),
        false => Ok(Output { changed: true, ..Output::default() }),
    }
}

fn begin(uploads: &Uploads, files: &Files, path: &std::path::Path, args: &Args) -> Result<Output, CallError> {
    let announced = announced(args)?;
    let location = files.write_target(path)?;
    location.check_free()?;
    if location.stat().is_some() && !args.replace.unwrap_or(false) {
        return Ok(Output { exists: true, ..Output::default() });
    }
    let Some(upload) = uploads.begin(files, &location, &announced)? else {
        let message = "too many uploads to this machine are in progress";
        return Err(CallError::new(ErrorCode::Overloaded, message)
            .hint("Finish some of them first; uploads without progress are aborted after an hour.")
            .before_it_ran());
    };
    let missing = announced.size.saturating_sub(upload.complete());
    if let Some(free) = location.free_bytes().filter(|free| *free < missing.saturating_add(RESERVED_BYTES)) {
        let message = format!(
            "{}: the disk has {free} free bytes, but {missing} are needed",
            location.path().display()
        );
        // The received parts are retained for a day, in case space becomes available.
        return Err(CallError::new(ErrorCode::ToolFailed, message)
            .hint("Free some space and copy again: the copy resumes where it stopped."));
    }
    Ok(Output { received: Some(upload.complete()), ..Output::default() })
}

fn write(uploads: &Uploads, files: &Files, path: &std::path::Path, args: &Args) -> Result<Output, CallError> {
    let announced = announced(args)?;
    let offset = *required_argument(args.offset.as_ref(), args, "offset")?;
    let data = required_argument(args.data.as_ref(), args, "data")?;
    let bytes = STANDARD.decode(data).ok().filter(|bytes| bytes.len() <= MAX_CHUNK as usize);
    let Some(bytes) = bytes else {
        return Err(wrong("/data", format!("expected base64 of at most {MAX_CHUNK} bytes")));
    };
    let length = bytes.len() as u64;
    if offset.checked_add(length).is_none_or(|end| end > announced.size) {
        return Err(wrong("/offset", "the part exceeds the size of the file".to_owned()));
    }
    let location = files.write_target(path)?;
    let Some(upload) = uploads.find(&location, &announced)? else { return Err(unknown_upload_error()) };
    if !upload.accepts(offset) {
        let message = format!("{}: this part is out of order", location.path().display());
        return Err(CallError::new(ErrorCode::Conflict, message)
            .hint("Start the upload again, which returns the next offset."));
    }
    upload.file.write_all_at(&bytes, offset).map_err(|error| FileError::io(&location.path(), error))?;
    let received = uploads.part_received(&upload, offset, length)?;
    Ok(Output { received: Some(received), ..Output::default() })
}

fn commit_upload(
    uploads: &Uploads,
    location: &FileLocation,
    upload: &Upload,
    args: &Args,
) -> Result<Output, CallError> {
    let failed = |error: io::Error| FileError::io(&location.path(), error);
    location.check_free()?;
    if let Some(mode) = args.mode {
        set_mode(&upload.file, mode).map_err(failed)?;
    }
    if let Some(modified) = args.modified.as_deref().and_then(|text| text.parse::<u64>().ok()) {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(modified);
        upload.file.set_modified(modified).map_err(failed)?;
    }
    let put =
        location.commit_partial(&partial_name(&upload.id), &upload.file, args.replace.unwrap_or(false))?;
    if !put {
        return Ok(Output { exists: true, ..Output::default() });
    }
    uploads.forget(&upload.id);
    Ok(Output { done: true, sha256: args.sha256.clone(), ..Output::default() })
}

fn abort(uploads: &Uploads, files: &Files, path: &std::path::Path, args: &Args) -> Result<Output, CallError> {
    let announced = announced(args)?;
    let location = files.write_target(path)?;
    if let Some(upload) = uploads.find(&location, &announced)? {
        location.remove_partial(&partial_name(&upload.id));
        uploads.forget(&upload.id);
    }
    Ok(Output { done: true, ..Output::default() })
}

/// The setuid, setgid and sticky bits are never set over a link.
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(mode & 0o777))
}

fn announced(args: &Args) -> Result<Announced, CallError> {
    let size = *required_argument(args.size.as_ref(), args, "size")?;
    let sha256 = required_argument(args.sha256.as_ref(), args, "sha256")?;
    if sha256.len() != 64
        || !sha256.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    {
        return Err(wrong("/sha256", "expected 64 lowercase hexadecimal digits".to_owned()));
    }
    Ok(Announced { size, sha256: sha256.clone() })
}

fn required_argument<'a, T>(
    value: Option<&'a T>,
    args: &Args,
    name: &'static str,
) -> Result<&'a T, CallError> {
    value.ok_or_else(|| arguments::missing(NAME, name, args.action.name()))
}

fn wrong(path: &str, message: String) -> CallError {
    arguments::invalid(NAME, vec![serde_json::json!({ "path": path, "message": message })])
}

fn unknown_upload_error() -> CallError {
    CallError::new(ErrorCode::Conflict, "no part of this file has been received, or its upload was aborted")
        .hint("Start the copy again.")
}

fn busy_error() -> CallError {
    CallError::new(ErrorCode::Overloaded, "too many files are being hashed on this machine")
        .hint("Try again in a moment.")
}

/// Removes hints that refer to actions of tools for models, which a person who copies files does not know.
fn without_tool_hints(mut error: CallError) -> CallError {
    error.hint = error.hint.filter(|hint| !hint.contains("ction \""));
    error
}

/// Runs file operations on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(CallError::new(ErrorCode::Internal, "a file operation failed unexpectedly")))
}
