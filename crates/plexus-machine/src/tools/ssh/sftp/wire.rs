//! The wire format of SFTP version 3, which OpenSSH and most other servers use.
//!
//! Servers are not trusted: packets have a size limit, and every length field is checked against the remaining bytes.

/// The maximum accepted packet size: a data block and its header.
pub(super) const MAX_PACKET: usize = 256 << 10;

pub(super) const INIT: u8 = 1;
pub(super) const VERSION: u8 = 2;
pub(super) const OPEN: u8 = 3;
pub(super) const CLOSE: u8 = 4;
pub(super) const READ: u8 = 5;
pub(super) const WRITE: u8 = 6;
pub(super) const FSTAT: u8 = 8;
pub(super) const FSETSTAT: u8 = 10;
pub(super) const REMOVE: u8 = 13;
pub(super) const STAT: u8 = 17;
pub(super) const RENAME: u8 = 18;
pub(super) const STATUS: u8 = 101;
pub(super) const HANDLE: u8 = 102;
pub(super) const DATA: u8 = 103;
pub(super) const ATTRS: u8 = 105;
pub(super) const EXTENDED: u8 = 200;

pub(super) const FOR_READING: u32 = 0x01;
pub(super) const FOR_WRITING: u32 = 0x02;
pub(super) const CREATE: u32 = 0x08;
pub(super) const EXCLUSIVE: u32 = 0x20;

const WITH_SIZE: u32 = 0x1;
const WITH_OWNER: u32 = 0x2;
const WITH_MODE: u32 = 0x4;
const WITH_TIMES: u32 = 0x8;

/// A packet that is being written.
#[derive(Debug)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(kind: u8) -> Self {
        // The length is filled in at the end.
        Self(vec![0, 0, 0, 0, kind])
    }

    pub(super) fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        // Paths and blocks are far shorter than this limit.
        let mut with_length = self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        with_length.0.extend_from_slice(bytes);
        with_length
    }

    /// Attributes: none, or a mode.
    pub(super) fn mode(self, mode: Option<u32>) -> Self {
        match mode {
            Some(mode) => self.u32(WITH_MODE).u32(mode),
            None => self.u32(0),
        }
    }

    pub(super) fn packet(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// Reads a packet. Methods return `None` if it is too short.
#[derive(Debug)]
pub(super) struct Reader<'p>(pub(super) &'p [u8]);

impl<'p> Reader<'p> {
    pub(super) fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    pub(super) fn bytes(&mut self) -> Option<&'p [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn attributes(&mut self) -> Option<Attributes> {
        let flags = self.u32()?;
        let size = if flags & WITH_SIZE != 0 { Some(self.u64()?) } else { None };
        if flags & WITH_OWNER != 0 {
            self.u32()?;
            self.u32()?;
        }
        let mode = if flags & WITH_MODE != 0 { Some(self.u32()?) } else { None };
        let times = if flags & WITH_TIMES != 0 { Some((self.u32()?, self.u32()?)) } else { None };
        let modified = times.map(|(_, modified)| modified);
        Some(Attributes { size, mode, modified })
    }
}

/// The attributes of a remote file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools::ssh) struct Attributes {
    pub(in crate::tools::ssh) size: Option<u64>,
    pub(in crate::tools::ssh) mode: Option<u32>,
    /// In seconds.
    pub(in crate::tools::ssh) modified: Option<u32>,
}

impl Attributes {
    /// A server that does not report a type is assumed to mean a file; otherwise a later request fails.
    pub(in crate::tools::ssh) fn is_file(&self) -> bool {
        self.mode.is_none_or(|mode| mode & 0o170_000 == 0o100_000 || mode & 0o170_000 == 0)
    }
}

#[cfg(test)]
mod tests;
