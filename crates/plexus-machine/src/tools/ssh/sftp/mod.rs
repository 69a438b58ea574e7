//! An SFTP client over an ssh connection.
//!
//! Written by hand, because a copy needs only ten request types, and the requirements around them matter: many
//! requests in flight, a size limit on packets, no spawned task, and cleanup on drop. A server may answer requests in
//! any order; an answer without a request ends the session.

mod wire;

use std::process::Stdio;
use std::time::Duration;

use plexus_kit::foreign_text::{clean, cut};
use plexus_kit::process::Group;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub(super) use wire::Attributes;
use wire::{MAX_PACKET, Reader, Writer};

/// The block size, which every server supports.
pub(super) const BLOCK: usize = 32 << 10;
/// The number of blocks in flight.
pub(super) const WINDOW: usize = 64;
/// A server that sends nothing for this time is considered lost, whatever the state of the connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

const POSIX_RENAME: &[u8] = b"posix-rename@openssh.com";
const FSYNC: &[u8] = b"fsync@openssh.com";

#[derive(Debug, thiserror::Error)]
pub(super) enum SftpError {
    #[error("the connection was lost")]
    Lost,
    #[error("{}", error_text(*.code, .message))]
    Refused { code: u32, message: String },
    #[error("the server violates the SFTP protocol: {0}")]
    Broken(&'static str),
}

const NO_SUCH_FILE: u32 = 2;
const PERMISSION_DENIED: u32 = 3;
const END_OF_FILE: u32 = 1;

impl SftpError {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: NO_SUCH_FILE, .. })
    }

    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: PERMISSION_DENIED, .. })
    }
}

fn error_text(code: u32, message: &str) -> String {
    match code {
        NO_SUCH_FILE => "no such file or folder".to_owned(),
        PERMISSION_DENIED => "the user lacks the permission on the host".to_owned(),
        _ if message.is_empty() => format!("the server refused the request (status {code})"),
        _ => message.to_owned(),
    }
}

/// An open file on the host.
#[derive(Debug, Clone)]
pub(super) struct Handle(Vec<u8>);

/// An SFTP session. Dropping it ends the session.
#[derive(Debug)]
pub(super) struct Sftp {
    _group: Group,
    _child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u32,
    can_replace: bool,
    can_sync: bool,
}

/// An answer of the server.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    EndOfFile,
    Refused(u32, String),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Attributes(Attributes),
}

impl Sftp {
    pub(super) async fn begin(mut command: Command) -> Result<Self, SftpError> {
        // Error output would have to be read by someone.
        let mut child = command.stderr(Stdio::null()).spawn().map_err(|_| SftpError::Lost)?;
        let (Some(pid), Some(to), Some(from)) = (child.id(), child.stdin.take(), child.stdout.take()) else {
            return Err(SftpError::Lost);
        };
        let mut sftp = Self {
            _group: Group::of(pid),
            _child: child,
            to,
            from: BufReader::with_capacity(BLOCK * 2, from),
            next: 0,
            can_replace: false,
            can_sync: false,
        };
        sftp.send(&Writer::new(wire::INIT).u32(3).packet()).await?;
        let packet = sftp.packet().await?;
        let mut reader = Reader(&packet);
        if reader.u8() != Some(wire::VERSION) || reader.u32().is_none_or(|version| version < 3) {
            return Err(SftpError::Broken("it did not start with its version"));
        }
        while let (Some(name), Some(_)) = (reader.bytes(), reader.bytes()) {
            sftp.can_replace |= name == POSIX_RENAME;
            sftp.can_sync |= name == FSYNC;
        }
        Ok(sftp)
    }

    /// Whether the server can rename atomically over an existing file.
    pub(super) fn can_replace(&self) -> bool {
        self.can_replace
    }

    pub(super) async fn stat(&mut self, path: &str) -> Result<Attributes, SftpError> {
        let id = self.request(wire::STAT, |packet| packet.bytes(path.as_bytes())).await?;
        attributes(self.answer_to(id).await?)
    }

    pub(super) async fn open_to_read(&mut self, path: &str) -> Result<Handle, SftpError> {
        self.open(path, wire::FOR_READING, None).await
    }

    /// Creates a new file; an existing file is an error.
    pub(super) async fn create(&mut self, path: &str, mode: u32) -> Result<Handle, SftpError> {
        self.open(path, wire::FOR_WRITING | wire::CREATE | wire::EXCLUSIVE, Some(mode)).await
    }

    /// Opens an existing file for writing.
    pub(super) async fn open_to_write(&mut self, path: &str) -> Result<Handle, SftpError> {
        self.open(path, wire::FOR_WRITING, None).await
    }

    async fn open(&mut self, path: &str, flags: u32, mode: Option<u32>) -> Result<Handle, SftpError> {
        let id =
            self.request(wire::OPEN, |packet| packet.bytes(path.as_bytes()).u32(flags).mode(mode)).await?;
        match self.answer_to(id).await? {
            Answer::Handle(handle) => Ok(Handle(handle)),
            other => Err(other.unexpected_error()),
        }
    }

    pub(super) async fn attributes(&mut self, handle: &Handle) -> Result<Attributes, SftpError> {
        let id = self.request(wire::FSTAT, |packet| packet.bytes(&handle.0)).await?;
        attributes(self.answer_to(id).await?)
    }

    pub(super) async fn set_mode(&mut self, handle: &Handle, mode: u32) -> Result<(), SftpError> {
        let id = self.request(wire::FSETSTAT, |packet| packet.bytes(&handle.0).mode(Some(mode))).await?;
        self.expect_done(id).await
    }

    /// Syncs a file to the disk, if the server supports it.
    pub(super) async fn sync(&mut self, handle: &Handle) -> Result<(), SftpError> {
        if !self.can_sync {
            return Ok(());
        }
        let id = self.request(wire::EXTENDED, |packet| packet.bytes(FSYNC).bytes(&handle.0)).await?;
        self.expect_done(id).await
    }

    pub(super) async fn close(&mut self, handle: Handle) -> Result<(), SftpError> {
        let id = self.request(wire::CLOSE, |packet| packet.bytes(&handle.0)).await?;
        self.expect_done(id).await
    }

    /// Renames atomically if the server supports it, otherwise only to a free name.
    pub(super) async fn rename(&mut self, from: &str, to: &str) -> Result<(), SftpError> {
        let names = |packet: Writer| packet.bytes(from.as_bytes()).bytes(to.as_bytes());
        let id = match self.can_replace {
            true => self.request(wire::EXTENDED, |packet| names(packet.bytes(POSIX_RENAME))).await?,
            false => self.request(wire::RENAME, names).await?,
        };
        self.expect_done(id).await
    }

    pub(super) async fn remove(&mut self, path: &str) -> Result<(), SftpError> {
        let id = self.request(wire::REMOVE, |packet| packet.bytes(path.as_bytes())).await?;
        self.expect_done(id).await
    }

    /// Requests a block; the answer comes later.
    pub(super) async fn ask_block(
        &mut self,
        handle: &Handle,
        at: u64,
        size: usize,
    ) -> Result<u32, SftpError> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.request(wire::READ, |packet| packet.bytes(&handle.0).u64(at).u32(size)).await
    }

    /// Sends a block; the answer comes later.
    pub(super) async fn send_block(
        &mut self,
        handle: &Handle,
        at: u64,
        block: &[u8],
    ) -> Result<u32, SftpError> {
        self.request(wire::WRITE, |packet| packet.bytes(&handle.0).u64(at).bytes(block)).await
    }

    /// The next answer, to any request.
    pub(super) async fn answer(&mut self) -> Result<(u32, Answer), SftpError> {
        let packet = self.packet().await?;
        let mut reader = Reader(&packet);
        let read = (|| {
            let (kind, id) = (reader.u8()?, reader.u32()?);
            let answer = match kind {
                wire::STATUS => match reader.u32()? {
                    0 => Answer::Done,
                    END_OF_FILE => Answer::EndOfFile,
                    code => {
                        let message = cut(&clean(reader.bytes().unwrap_or_default()), 300);
                        Answer::Refused(code, message)
                    }
                },
                wire::HANDLE => Answer::Handle(reader.bytes()?.to_vec()),
                wire::DATA => Answer::Data(reader.bytes()?.to_vec()),
                wire::ATTRS => Answer::Attributes(reader.attributes()?),
                _ => return None,
            };
            Some((id, answer))
        })();
        read.ok_or(SftpError::Broken("it sent an invalid packet"))
    }

    async fn expect_done(&mut self, id: u32) -> Result<(), SftpError> {
        match self.answer_to(id).await? {
            Answer::Done => Ok(()),
            other => Err(other.unexpected_error()),
        }
    }

    /// Waits for an answer while no other request is in flight.
    async fn answer_to(&mut self, id: u32) -> Result<Answer, SftpError> {
        match self.answer().await? {
            (of, answer) if of == id => Ok(answer),
            _ => Err(SftpError::Broken("it sent an answer without a request")),
        }
    }

    async fn request(&mut self, kind: u8, rest: impl FnOnce(Writer) -> Writer) -> Result<u32, SftpError> {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.send(&rest(Writer::new(kind).u32(id)).packet()).await?;
        Ok(id)
    }

    async fn send(&mut self, packet: &[u8]) -> Result<(), SftpError> {
        let sent = tokio::time::timeout(RESPONSE_TIMEOUT, self.to.write_all(packet)).await;
        sent.map_err(|_| SftpError::Lost)?.map_err(|_| SftpError::Lost)
    }

    async fn packet(&mut self) -> Result<Vec<u8>, SftpError> {
        let reading = async {
            let length = self.from.read_u32().await.map_err(|_| SftpError::Lost)? as usize;
            if !(5..=MAX_PACKET).contains(&length) {
                return Err(SftpError::Broken("the length of a packet is out of range"));
            }
            let mut packet = vec![0; length];
            self.from.read_exact(&mut packet).await.map_err(|_| SftpError::Lost)?;
            Ok(packet)
        };
        tokio::time::timeout(RESPONSE_TIMEOUT, reading).await.map_err(|_| SftpError::Lost)?
    }
}

impl Answer {
    /// Converts an unexpected answer into an error.
    pub(super) fn unexpected_error(self) -> SftpError {
        match self {
            Self::Refused(code, message) => SftpError::Refused { code, message },
            Self::EndOfFile => SftpError::Broken("a file ended too early"),
            _ => SftpError::Broken("it sent an answer of the wrong type"),
        }
    }
}

fn attributes(answer: Answer) -> Result<Attributes, SftpError> {
    match answer {
        Answer::Attributes(attributes) => Ok(attributes),
        other => Err(other.unexpected_error()),
    }
}
