//! Copies a file from this machine to a host.

use std::collections::HashMap;
use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use aws_lc_rs::digest;
use plexus_kit::hex;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, BufReader};

use super::{Attempt, AttemptError, CopyRoute, PartialRemoteFile, ProgressReporter, remote_path};
use crate::files::{FileError, Files};
use crate::tools::ssh::report::Copied;
use crate::tools::ssh::sftp::{Answer, BLOCK, Handle, Sftp, SftpError, WINDOW};

/// The read buffer size.
const READ_BUFFER: usize = 1 << 20;
/// The mode bits of a new remote file that are taken from the local file: not writable by others.
const NEW_FILE_MODE: u32 = 0o755;
/// The mode until the file is complete.
const PARTIAL_FILE_MODE: u32 = 0o600;

/// Copies a file to a host.
pub(in crate::tools::ssh) async fn upload(
    route: &CopyRoute,
    files: Files,
    context: &ToolContext,
    local: &str,
    remote: &str,
) -> Result<Copied, CallError> {
    let path = remote_path(remote)?;
    let given = local.to_owned();
    let opened = tokio::task::spawn_blocking(move || files.read(&files.path(&given)?)).await;
    let (handle, file) = opened.map_err(|error| unreadable(local, error))??;
    let attributes = file.metadata().map_err(|error| unreadable(local, error))?;
    let mut upload = Upload {
        route,
        local,
        path: &path,
        size: attributes.len(),
        changed_at: (attributes.mtime(), attributes.mtime_nsec()),
        mode: attributes.mode() & NEW_FILE_MODE,
        file: BufReader::with_capacity(READ_BUFFER, tokio::fs::File::from_std(file)),
        hash: digest::Context::new(&digest::SHA256),
        hashed: 0,
        begun: None,
        put: false,
        partial_file: PartialRemoteFile { route: route.clone(), path: None },
        progress: ProgressReporter::new(context, attributes.len()),
    };
    let resumed = route.run_attempts(&mut upload).await?;
    upload.partial_file.path = None;
    Ok(Copied {
        path: handle.path().display().to_string(),
        remote_path: remote.to_owned(),
        file_bytes: upload.size,
        sha256: hex::encode(upload.hash.finish().as_ref()),
        resumed,
    })
}

struct Upload<'u> {
    route: &'u CopyRoute,
    local: &'u str,
    /// The target path.
    path: &'u str,
    size: u64,
    changed_at: (i64, i64),
    /// The mode of the remote file.
    mode: u32,
    file: BufReader<tokio::fs::File>,
    hash: digest::Context,
    /// The number of hashed bytes.
    hashed: u64,
    /// The temporary path.
    begun: Option<String>,
    /// The file was complete and its rename was requested, but the result is not known yet.
    put: bool,
    partial_file: PartialRemoteFile,
    progress: ProgressReporter<'u>,
}

impl Attempt for Upload<'_> {
    async fn attempt(&mut self, sftp: &mut Sftp) -> Result<(), AttemptError> {
        let failed = |error| self.route.request_error(self.path, error);
        let (draft, handle) = match self.begun.clone() {
            None => self.begin(sftp).await?,
            Some(draft) => match sftp.open_to_write(&draft).await {
                Ok(handle) => (draft, handle),
                Err(error) if error.is_not_found() && self.put => {
                    let remote_attributes = sftp.stat(self.path).await.map_err(failed)?;
                    return match remote_attributes.size == Some(self.size) {
                        true => Ok(()),
                        false => Err(self
                            .route
                            .file_changed_error(&format!("{}:{}", self.route.target.host, self.path))),
                    };
                }
                Err(error) => return Err(failed(error)),
            },
        };
        // A server executes writes in order, so the existing bytes are a prefix of the file.
        let remote_attributes =
            sftp.attributes(&handle).await.map_err(failed)?.size.unwrap_or(0).min(self.size);
        self.send(sftp, &handle, remote_attributes).await?;
        let failed = |error| self.route.request_error(self.path, error);
        if sftp.attributes(&handle).await.map_err(failed)?.size.is_some_and(|size| size != self.size) {
            return Err(self.route.file_changed_error(&format!("the copy of {} on the host", self.local)));
        }
        sftp.set_mode(&handle, self.mode).await.map_err(failed)?;
        sftp.sync(&handle).await.map_err(failed)?;
        sftp.close(handle).await.map_err(failed)?;
        self.put = true;
        let failed = |error| self.route.request_error(self.path, error);
        sftp.rename(&draft, self.path).await.map_err(failed)
    }
}

impl Upload<'_> {
    /// Creates the temporary file next to the target.
    async fn begin(&mut self, sftp: &mut Sftp) -> Result<(String, Handle), AttemptError> {
        let refused = |code, message: String, hint: &str| {
            AttemptError::For(CallError::new(code, message).hint(hint).before_it_ran())
        };
        let remote_name = format!("{}:{}", self.route.target.host, self.path);
        match sftp.stat(self.path).await {
            Ok(remote_attributes) if !remote_attributes.is_file() => {
                let hint = "Nothing was copied. Give the path of a file, including its name.";
                return Err(refused(
                    ErrorCode::InvalidArguments,
                    format!("{remote_name} is not a file"),
                    hint,
                ));
            }
            Ok(_) if !sftp.can_replace() => {
                let hint = "Nothing was copied. Remove it first, or give another `remote_path`.";
                let message =
                    format!("{remote_name} already exists, and its server cannot replace a file atomically");
                return Err(refused(ErrorCode::Conflict, message, hint));
            }
            Ok(remote_attributes) => {
                self.mode = remote_attributes.mode.map_or(self.mode, |mode| mode & 0o7777)
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(self.route.request_error(self.path, error)),
        }
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let slash = if self.path.contains('/') { "/" } else { "" };
        let draft = format!("{folder}{slash}.plexus-{:016x}.tmp", rand::random::<u64>());
        let handle = sftp
            .create(&draft, PARTIAL_FILE_MODE)
            .await
            .map_err(|error| self.route.request_error(self.path, error))?;
        self.partial_file.path = Some(draft.clone());
        self.begun = Some(draft.clone());
        Ok((draft, handle))
    }

    /// Sends the file from `at`.
    async fn send(&mut self, sftp: &mut Sftp, handle: &Handle, mut at: u64) -> Result<(), AttemptError> {
        let unread = |error: io::Error| AttemptError::For(unreadable(self.local, error));
        self.file.seek(SeekFrom::Start(at)).await.map_err(unread)?;
        let mut under_way: HashMap<u32, usize> = HashMap::new();
        let mut block = vec![0; BLOCK];
        let mut confirmed = at;
        loop {
            while under_way.len() < WINDOW && at < self.size {
                let read = self.read(&mut block).await?;
                let bytes = &block[..read.min(usize::try_from(self.size - at).unwrap_or(usize::MAX))];
                if bytes.is_empty() {
                    return Err(self.route.file_changed_error(self.local));
                }
                // Bytes that are read again are already hashed.
                let known = usize::try_from(self.hashed.saturating_sub(at)).unwrap_or(usize::MAX);
                if let Some(fresh) = bytes.get(known..) {
                    self.hash.update(fresh);
                    self.hashed += fresh.len() as u64;
                }
                let sent = sftp.send_block(handle, at, bytes).await;
                let id = sent.map_err(|error| self.route.request_error(self.path, error))?;
                under_way.insert(id, bytes.len());
                at += bytes.len() as u64;
            }
            if under_way.is_empty() {
                break;
            }
            let (id, answer) =
                sftp.answer().await.map_err(|error| self.route.request_error(self.path, error))?;
            let size = under_way.remove(&id).ok_or(SftpError::Broken("it sent an answer without a request"));
            confirmed += size.map_err(|error| self.route.request_error(self.path, error))? as u64;
            match answer {
                Answer::Done => self.progress.report(confirmed),
                other => return Err(self.route.request_error(self.path, other.unexpected_error())),
            }
        }
        self.unchanged().await
    }

    /// Fills the block, unless the file ends.
    async fn read(&mut self, block: &mut [u8]) -> Result<usize, AttemptError> {
        let mut filled = 0;
        while filled < block.len() {
            match self.file.read(&mut block[filled..]).await {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => return Err(AttemptError::For(unreadable(self.local, error))),
            }
        }
        Ok(filled)
    }

    async fn unchanged(&self) -> Result<(), AttemptError> {
        let now = self.file.get_ref().metadata().await;
        let now = now.map_err(|error| AttemptError::For(unreadable(self.local, error)))?;
        match (now.len(), now.mtime(), now.mtime_nsec()) == (self.size, self.changed_at.0, self.changed_at.1)
        {
            true => Ok(()),
            false => Err(self.route.file_changed_error(self.local)),
        }
    }
}

fn unreadable(path: &str, error: impl Into<io::Error>) -> CallError {
    FileError::io(std::path::Path::new(path), error).into()
}
