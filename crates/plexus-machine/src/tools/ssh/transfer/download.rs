//! Copies a file from a host to this machine.

use std::collections::VecDeque;
use std::io::Write as _;

use aws_lc_rs::digest;
use plexus_kit::hex;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext};
use tokio::sync::{mpsc, oneshot};

use super::{Attempt, AttemptError, CopyRoute, ProgressReporter, remote_path};
use crate::files::{FileError, Files};
use crate::tools::ssh::report::Copied;
use crate::tools::ssh::sftp::{Answer, Attributes, BLOCK, Handle, Sftp, SftpError, WINDOW};

/// The number of blocks queued for the disk.
const QUEUED_BLOCKS: usize = 16;

/// Copies a file from a host.
pub(in crate::tools::ssh) async fn download(
    route: &CopyRoute,
    files: Files,
    context: &ToolContext,
    remote: &str,
    local: &str,
) -> Result<Copied, CallError> {
    let path = remote_path(remote)?;
    let disk = Disk::open(files, local.to_owned()).await?;
    let mut download = Download {
        route,
        path: &path,
        disk,
        attributes: None,
        at: 0,
        progress: ProgressReporter::new(context, 0),
    };
    let resumed = route.run_attempts(&mut download).await;
    let Download { disk, at: file_bytes, .. } = download;
    let resumed = match resumed {
        Ok(resumed) => resumed,
        Err(error) => {
            disk.discard().await;
            return Err(error);
        }
    };
    let (path, sha256) = disk.commit().await?;
    Ok(Copied { path, remote_path: remote.to_owned(), file_bytes, sha256, resumed })
}

struct Download<'d> {
    route: &'d CopyRoute,
    path: &'d str,
    disk: Disk,
    /// The attributes when the file was first opened.
    attributes: Option<Attributes>,
    /// The number of bytes already written.
    at: u64,
    progress: ProgressReporter<'d>,
}

/// A requested block.
struct RequestedBlock {
    /// The id of the request for its missing part.
    id: u32,
    offset: u64,
    size: usize,
    data: Vec<u8>,
}

impl RequestedBlock {
    fn is_complete(&self) -> bool {
        self.data.len() == self.size
    }
}

impl Attempt for Download<'_> {
    async fn attempt(&mut self, sftp: &mut Sftp) -> Result<(), AttemptError> {
        let failed = |error| self.route.request_error(self.path, error);
        let remote_name = || format!("{}:{}", self.route.target.host, self.path);
        let handle = sftp.open_to_read(self.path).await.map_err(failed)?;
        let attributes = sftp.attributes(&handle).await.map_err(failed)?;
        if self.attributes.is_some_and(|before| before != attributes) {
            return Err(self.route.file_changed_error(&remote_name()));
        }
        let (true, Some(size)) = (attributes.is_file(), attributes.size) else {
            return Err(AttemptError::For(
                CallError::new(ErrorCode::InvalidArguments, format!("{} is not a regular file", remote_name()))
                    .hint("Nothing was copied. Give the path of a file; pack a folder with tar in action \"run\" first.")
                    .before_it_ran(),
            ));
        };
        self.attributes = Some(attributes);
        self.progress.total = size;
        self.receive(sftp, &handle, size).await?;
        let failed = |error| self.route.request_error(self.path, error);
        if sftp.attributes(&handle).await.map_err(failed)? != attributes {
            return Err(self.route.file_changed_error(&format!("{}:{}", self.route.target.host, self.path)));
        }
        // The file is complete, so an error no longer matters.
        let _ = sftp.close(handle).await;
        Ok(())
    }
}

impl Download<'_> {
    async fn receive(&mut self, sftp: &mut Sftp, handle: &Handle, size: u64) -> Result<(), AttemptError> {
        let mut requested: VecDeque<RequestedBlock> = VecDeque::new();
        let mut next = self.at;
        while self.at < size {
            while requested.len() < WINDOW && next < size {
                let want = usize::try_from(size - next).unwrap_or(BLOCK).min(BLOCK);
                let id = sftp.ask_block(handle, next, want).await;
                let id = id.map_err(|error| self.route.request_error(self.path, error))?;
                requested.push_back(RequestedBlock { id, offset: next, size: want, data: Vec::new() });
                next += want as u64;
            }
            let (id, answer) =
                sftp.answer().await.map_err(|error| self.route.request_error(self.path, error))?;
            let data = match answer {
                Answer::Data(data) => data,
                // The file is shorter than before.
                Answer::EndOfFile => {
                    return Err(self
                        .route
                        .file_changed_error(&format!("{}:{}", self.route.target.host, self.path)));
                }
                other => return Err(self.route.request_error(self.path, other.unexpected_error())),
            };
            let of = requested.iter_mut().find(|requested| requested.id == id && !requested.is_complete());
            let fits = of.filter(|of| !data.is_empty() && of.data.len() + data.len() <= of.size);
            let Some(of) = fits else {
                let broken = SftpError::Broken("it sent data that was not asked for");
                return Err(self.route.request_error(self.path, broken));
            };
            of.data.extend_from_slice(&data);
            if !of.is_complete() {
                // A short read: request the rest.
                let (from, rest) = (of.offset + of.data.len() as u64, of.size - of.data.len());
                let again = sftp.ask_block(handle, from, rest).await;
                of.id = again.map_err(|error| self.route.request_error(self.path, error))?;
            }
            while requested.front().is_some_and(RequestedBlock::is_complete) {
                let Some(block) = requested.pop_front() else { break };
                self.at += block.size as u64;
                self.disk.write(block.data).await.map_err(AttemptError::For)?;
            }
            self.progress.report(self.at);
        }
        Ok(())
    }
}

/// The local file, written by a blocking thread. Dropping it before it is complete leaves nothing behind.
struct Disk {
    to: mpsc::Sender<DiskRequest>,
    ended: oneshot::Receiver<Result<(String, String), FileError>>,
}

enum DiskRequest {
    Write(Vec<u8>),
    Put,
}

impl Disk {
    /// When this returns, the local path is known to be writable, and no request has been sent to the host.
    async fn open(files: Files, local: String) -> Result<Self, CallError> {
        let (to, mut orders) = mpsc::channel(QUEUED_BLOCKS);
        let (opened, is_open) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let location = match files.path(&local).and_then(|path| files.write_target(&path)) {
                Ok(location) => location,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let mut draft = match location.new_draft() {
                Ok(draft) => draft,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let _ = opened.send(Ok(()));
            let mut hash = digest::Context::new(&digest::SHA256);
            loop {
                match orders.blocking_recv() {
                    Some(DiskRequest::Write(block)) => {
                        hash.update(&block);
                        if let Err(error) = draft.file.write_all(&block) {
                            return drop(end.send(Err(FileError::io(&location.path(), error))));
                        }
                    }
                    Some(DiskRequest::Put) => {
                        let put = draft.commit();
                        let done =
                            || (location.path().display().to_string(), hex::encode(hash.finish().as_ref()));
                        return drop(end.send(put.map(|()| done())));
                    }
                    None => {
                        drop(draft);
                        return drop(end);
                    }
                }
            }
        });
        is_open.await.map_err(|_| stopped_error())??;
        Ok(Self { to, ended })
    }

    async fn write(&mut self, block: Vec<u8>) -> Result<(), CallError> {
        match self.to.send(DiskRequest::Write(block)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure().await),
        }
    }

    async fn commit(mut self) -> Result<(String, String), CallError> {
        if self.to.send(DiskRequest::Put).await.is_err() {
            return Err(self.failure().await);
        }
        Ok(self.ended.await.map_err(|_| stopped_error())??)
    }

    /// When this returns, nothing remains of the file.
    async fn discard(self) {
        drop(self.to);
        let _ = self.ended.await;
    }

    /// The reason no more blocks are accepted.
    async fn failure(&mut self) -> CallError {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.into(),
            _ => stopped_error(),
        }
    }
}

fn stopped_error() -> CallError {
    CallError::new(ErrorCode::Internal, "the file could not be written")
        .hint("The node's log has the details.")
}
