//! Files on a host, by SFTP over a connection of ssh.
//!
//! Written by hand: a copy needs ten kinds of request, and what matters is around them: many requests are under way at once,
//! every packet has a bound, no task is started, and what is dropped is closed. A server answers requests in any order; what
//! it answers to nobody is an end to the conversation.

mod wire;

use std::process::Stdio;
use std::time::Duration;

use plexus_kit::foreign_text::{clean, cut};
use plexus_kit::process::Group;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub(super) use wire::Attributes;
use wire::{MAX_PACKET, Reader, Writer};

/// Bytes of a block: every server takes so much.
pub(super) const BLOCK: usize = 32 << 10;
/// Blocks that are under way at once.
pub(super) const WINDOW: usize = 64;
/// A server that says nothing for so long is gone, whatever the connection says.
const SILENCE: Duration = Duration::from_secs(60);

const POSIX_RENAME: &[u8] = b"posix-rename@openssh.com";
const FSYNC: &[u8] = b"fsync@openssh.com";

#[derive(Debug, thiserror::Error)]
pub(super) enum SftpError {
    #[error("the connection was lost")]
    Lost,
    #[error("{}", words(*.code, .message))]
    Refused { code: u32, message: String },
    #[error("the server does not speak SFTP as it should: {0}")]
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

fn words(code: u32, message: &str) -> String {
    match code {
        NO_SUCH_FILE => "there is no such file or folder".to_owned(),
        PERMISSION_DENIED => "the user may not do this there".to_owned(),
        _ if message.is_empty() => format!("it was refused (status {code})"),
        _ => message.to_owned(),
    }
}

/// A file that is open on the host.
#[derive(Debug, Clone)]
pub(super) struct Handle(Vec<u8>);

/// A conversation. Dropped, it ends.
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

/// What a server answers.
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
        // What a server writes there would have to be read by somebody.
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
            return Err(SftpError::Broken("it began with something else than its version"));
        }
        while let (Some(name), Some(_)) = (reader.bytes(), reader.bytes()) {
            sftp.can_replace |= name == POSIX_RENAME;
            sftp.can_sync |= name == FSYNC;
        }
        Ok(sftp)
    }

    /// Whether a file can take the place of another in one step.
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

    /// A new file; one that is there already is refused.
    pub(super) async fn create(&mut self, path: &str, mode: u32) -> Result<Handle, SftpError> {
        self.open(path, wire::FOR_WRITING | wire::CREATE | wire::EXCLUSIVE, Some(mode)).await
    }

    /// A file that is there, to be written on.
    pub(super) async fn open_to_write(&mut self, path: &str) -> Result<Handle, SftpError> {
        self.open(path, wire::FOR_WRITING, None).await
    }

    async fn open(&mut self, path: &str, flags: u32, mode: Option<u32>) -> Result<Handle, SftpError> {
        let id =
            self.request(wire::OPEN, |packet| packet.bytes(path.as_bytes()).u32(flags).mode(mode)).await?;
        match self.answer_to(id).await? {
            Answer::Handle(handle) => Ok(Handle(handle)),
            other => Err(other.unwanted()),
        }
    }

    pub(super) async fn attributes(&mut self, handle: &Handle) -> Result<Attributes, SftpError> {
        let id = self.request(wire::FSTAT, |packet| packet.bytes(&handle.0)).await?;
        attributes(self.answer_to(id).await?)
    }

    pub(super) async fn set_mode(&mut self, handle: &Handle, mode: u32) -> Result<(), SftpError> {
        let id = self.request(wire::FSETSTAT, |packet| packet.bytes(&handle.0).mode(Some(mode))).await?;
        self.done(id).await
    }

    /// Puts it to the disk, where the server can.
    pub(super) async fn sync(&mut self, handle: &Handle) -> Result<(), SftpError> {
        if !self.can_sync {
            return Ok(());
        }
        let id = self.request(wire::EXTENDED, |packet| packet.bytes(FSYNC).bytes(&handle.0)).await?;
        self.done(id).await
    }

    pub(super) async fn close(&mut self, handle: Handle) -> Result<(), SftpError> {
        let id = self.request(wire::CLOSE, |packet| packet.bytes(&handle.0)).await?;
        self.done(id).await
    }

    /// In one step where the server can do it, and else only to a name that is free.
    pub(super) async fn rename(&mut self, from: &str, to: &str) -> Result<(), SftpError> {
        let names = |packet: Writer| packet.bytes(from.as_bytes()).bytes(to.as_bytes());
        let id = match self.can_replace {
            true => self.request(wire::EXTENDED, |packet| names(packet.bytes(POSIX_RENAME))).await?,
            false => self.request(wire::RENAME, names).await?,
        };
        self.done(id).await
    }

    pub(super) async fn remove(&mut self, path: &str) -> Result<(), SftpError> {
        let id = self.request(wire::REMOVE, |packet| packet.bytes(path.as_bytes())).await?;
        self.done(id).await
    }

    /// Asks for a block; its answer comes later.
    pub(super) async fn ask_block(
        &mut self,
        handle: &Handle,
        at: u64,
        size: usize,
    ) -> Result<u32, SftpError> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.request(wire::READ, |packet| packet.bytes(&handle.0).u64(at).u32(size)).await
    }

    /// Sends a block; its answer comes later.
    pub(super) async fn send_block(
        &mut self,
        handle: &Handle,
        at: u64,
        block: &[u8],
    ) -> Result<u32, SftpError> {
        self.request(wire::WRITE, |packet| packet.bytes(&handle.0).u64(at).bytes(block)).await
    }

    /// The next answer, to whatever it is.
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
        read.ok_or(SftpError::Broken("it sent a packet that is none of SFTP"))
    }

    async fn done(&mut self, id: u32) -> Result<(), SftpError> {
        match self.answer_to(id).await? {
            Answer::Done => Ok(()),
            other => Err(other.unwanted()),
        }
    }

    /// For when nothing else is under way.
    async fn answer_to(&mut self, id: u32) -> Result<Answer, SftpError> {
        match self.answer().await? {
            (of, answer) if of == id => Ok(answer),
            _ => Err(SftpError::Broken("it answered something that was not asked")),
        }
    }

    async fn request(&mut self, kind: u8, rest: impl FnOnce(Writer) -> Writer) -> Result<u32, SftpError> {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.send(&rest(Writer::new(kind).u32(id)).packet()).await?;
        Ok(id)
    }

    async fn send(&mut self, packet: &[u8]) -> Result<(), SftpError> {
        let sent = tokio::time::timeout(SILENCE, self.to.write_all(packet)).await;
        sent.map_err(|_| SftpError::Lost)?.map_err(|_| SftpError::Lost)
    }

    async fn packet(&mut self) -> Result<Vec<u8>, SftpError> {
        let reading = async {
            let length = self.from.read_u32().await.map_err(|_| SftpError::Lost)? as usize;
            if !(5..=MAX_PACKET).contains(&length) {
                return Err(SftpError::Broken("a packet is longer than any can be"));
            }
            let mut packet = vec![0; length];
            self.from.read_exact(&mut packet).await.map_err(|_| SftpError::Lost)?;
            Ok(packet)
        };
        tokio::time::timeout(SILENCE, reading).await.map_err(|_| SftpError::Lost)?
    }
}

impl Answer {
    /// The error that it is where something else was wanted.
    pub(super) fn unwanted(self) -> SftpError {
        match self {
            Self::Refused(code, message) => SftpError::Refused { code, message },
            Self::EndOfFile => SftpError::Broken("a file ended before its end"),
            _ => SftpError::Broken("it answered with something else than was asked for"),
        }
    }
}

fn attributes(answer: Answer) -> Result<Attributes, SftpError> {
    match answer {
        Answer::Attributes(attributes) => Ok(attributes),
        other => Err(other.unwanted()),
    }
}
