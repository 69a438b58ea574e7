//! From a host to this machine.

use std::collections::VecDeque;
use std::io::Write as _;

use aws_lc_rs::digest;
use plexus_kit::hex;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext};
use tokio::sync::{mpsc, oneshot};

use super::{Attempt, Failed, Told, Way, remote_path};
use crate::files::{FileError, Files};
use crate::tools::ssh::report::Copied;
use crate::tools::ssh::sftp::{Answer, Attributes, BLOCK, Handle, Sftp, SftpError, WINDOW};

/// Blocks that wait for the disk.
const WAITING: usize = 16;

/// Copies a file from a host.
pub(in crate::tools::ssh) async fn download(
    way: &Way,
    files: Files,
    context: &ToolContext,
    remote: &str,
    local: &str,
) -> Result<Copied, CallError> {
    let path = remote_path(remote)?;
    let disk = Disk::open(files, local.to_owned()).await?;
    let mut download = Download { way, path: &path, disk, about: None, at: 0, told: Told::new(context, 0) };
    let resumed = way.through(&mut download).await;
    let Download { disk, at: file_bytes, .. } = download;
    let resumed = match resumed {
        Ok(resumed) => resumed,
        Err(error) => {
            disk.give_up().await;
            return Err(error);
        }
    };
    let (path, sha256) = disk.put().await?;
    Ok(Copied { path, remote_path: remote.to_owned(), file_bytes, sha256, resumed })
}

struct Download<'d> {
    way: &'d Way,
    path: &'d str,
    disk: Disk,
    /// What it was when it was first opened.
    about: Option<Attributes>,
    /// Bytes that are on this side.
    at: u64,
    told: Told<'d>,
}

/// A block that was asked for.
struct Asked {
    /// Of the request for what is still missing of it.
    id: u32,
    offset: u64,
    size: usize,
    data: Vec<u8>,
}

impl Asked {
    fn is_complete(&self) -> bool {
        self.data.len() == self.size
    }
}

impl Attempt for Download<'_> {
    async fn attempt(&mut self, sftp: &mut Sftp) -> Result<(), Failed> {
        let failed = |error| self.way.failed(self.path, error);
        let place = || format!("{}:{}", self.way.target.host, self.path);
        let handle = sftp.open_to_read(self.path).await.map_err(failed)?;
        let about = sftp.attributes(&handle).await.map_err(failed)?;
        if self.about.is_some_and(|before| before != about) {
            return Err(self.way.changed(&place()));
        }
        let (true, Some(size)) = (about.is_file(), about.size) else {
            return Err(Failed::For(
                CallError::new(ErrorCode::InvalidArguments, format!("{} is no plain file", place()))
                    .hint("Nothing was copied. Give the path of a file; a folder can be packed with tar by action \"run\" first.")
                    .before_it_ran(),
            ));
        };
        self.about = Some(about);
        self.told.total = size;
        self.receive(sftp, &handle, size).await?;
        let failed = |error| self.way.failed(self.path, error);
        if sftp.attributes(&handle).await.map_err(failed)? != about {
            return Err(self.way.changed(&format!("{}:{}", self.way.target.host, self.path)));
        }
        // All of it is here; a connection that breaks now takes nothing away.
        let _ = sftp.close(handle).await;
        Ok(())
    }
}

impl Download<'_> {
    async fn receive(&mut self, sftp: &mut Sftp, handle: &Handle, size: u64) -> Result<(), Failed> {
        let mut asked: VecDeque<Asked> = VecDeque::new();
        let mut next = self.at;
        while self.at < size {
            while asked.len() < WINDOW && next < size {
                let want = usize::try_from(size - next).unwrap_or(BLOCK).min(BLOCK);
                let id = sftp.ask_block(handle, next, want).await;
                let id = id.map_err(|error| self.way.failed(self.path, error))?;
                asked.push_back(Asked { id, offset: next, size: want, data: Vec::new() });
                next += want as u64;
            }
            let (id, answer) = sftp.answer().await.map_err(|error| self.way.failed(self.path, error))?;
            let data = match answer {
                Answer::Data(data) => data,
                // It is shorter than it was.
                Answer::EndOfFile => {
                    return Err(self.way.changed(&format!("{}:{}", self.way.target.host, self.path)));
                }
                other => return Err(self.way.failed(self.path, other.unwanted())),
            };
            let of = asked.iter_mut().find(|asked| asked.id == id && !asked.is_complete());
            let fits = of.filter(|of| !data.is_empty() && of.data.len() + data.len() <= of.size);
            let Some(of) = fits else {
                let broken = SftpError::Broken("it sent data that was not asked for");
                return Err(self.way.failed(self.path, broken));
            };
            of.data.extend_from_slice(&data);
            if !of.is_complete() {
                // Less than was asked for: the rest is asked for again.
                let (from, rest) = (of.offset + of.data.len() as u64, of.size - of.data.len());
                let again = sftp.ask_block(handle, from, rest).await;
                of.id = again.map_err(|error| self.way.failed(self.path, error))?;
            }
            while asked.front().is_some_and(Asked::is_complete) {
                let Some(block) = asked.pop_front() else { break };
                self.at += block.size as u64;
                self.disk.write(block.data).await.map_err(Failed::For)?;
            }
            self.told.tell(self.at);
        }
        Ok(())
    }
}

/// The file on this machine, in the hands of a thread that may wait for the disk. Dropped before it was put in its place,
/// nothing is left of it.
struct Disk {
    to: mpsc::Sender<Order>,
    ended: oneshot::Receiver<Result<(String, String), FileError>>,
}

enum Order {
    Write(Vec<u8>),
    Put,
}

impl Disk {
    /// Whether it may be written is known when this returns, and the host has not been asked for anything.
    async fn open(files: Files, local: String) -> Result<Self, CallError> {
        let (to, mut orders) = mpsc::channel(WAITING);
        let (opened, is_open) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let place = match files.path(&local).and_then(|path| files.place(&path)) {
                Ok(place) => place,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let mut draft = match place.draft() {
                Ok(draft) => draft,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let _ = opened.send(Ok(()));
            let mut hash = digest::Context::new(&digest::SHA256);
            loop {
                match orders.blocking_recv() {
                    Some(Order::Write(block)) => {
                        hash.update(&block);
                        if let Err(error) = draft.file.write_all(&block) {
                            return drop(end.send(Err(FileError::io(&place.path(), error))));
                        }
                    }
                    Some(Order::Put) => {
                        let put = draft.put();
                        let done =
                            || (place.path().display().to_string(), hex::encode(hash.finish().as_ref()));
                        return drop(end.send(put.map(|()| done())));
                    }
                    None => {
                        drop(draft);
                        return drop(end);
                    }
                }
            }
        });
        is_open.await.map_err(|_| stuck())??;
        Ok(Self { to, ended })
    }

    async fn write(&mut self, block: Vec<u8>) -> Result<(), CallError> {
        match self.to.send(Order::Write(block)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.why().await),
        }
    }

    async fn put(mut self) -> Result<(String, String), CallError> {
        if self.to.send(Order::Put).await.is_err() {
            return Err(self.why().await);
        }
        Ok(self.ended.await.map_err(|_| stuck())??)
    }

    /// Nothing is left of it when this returns.
    async fn give_up(self) {
        drop(self.to);
        let _ = self.ended.await;
    }

    /// Why nothing more is taken.
    async fn why(&mut self) -> CallError {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.into(),
            _ => stuck(),
        }
    }
}

fn stuck() -> CallError {
    CallError::new(ErrorCode::Internal, "the file could not be written")
        .hint("The node's log has the details.")
}
