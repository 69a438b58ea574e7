//! A journal file: a header, followed by frames with one set of records each.
//!
//! | bytes | header | frame |
//! |---|---|---|
//! | 0..8 | [`MAGIC`] | length of the content (4), CRC-32 of everything after it (4) |
//! | 8..16 | id of the journal | number of the records, one more than the previous frame |
//! | 16.. | number of the first frame | content |
//!
//! A frame truncated by a crash is the last one and was not acknowledged: its existing part is a correct prefix.
//! Anything else that is invalid is damage, even at the end; valid frames after it are still found.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use plexus_kit::private_file;

use super::codec;
use crate::writer::Records;

/// Changes with the format of headers, frames or their content.
pub(super) const MAGIC: &[u8; 8] = b"PLXJRNL1";
const HEADER: usize = 24;
const FRAME: usize = 16;
/// Maximum size of a frame's content; a larger length is damage.
pub(super) const MAX_CONTENT: usize = 4 << 20;
/// Extension of segment files.
const EXTENSION: &str = "log";

/// A segment open for writing.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Segment {
    /// Creates the file for frames from number `first` on; removes it again on failure.
    pub(super) fn create(folder: &Path, journal: i64, first: i64) -> io::Result<Self> {
        let path = folder.join(name(first));
        let mut file = private_file::open(&path)?;
        match file.set_len(0).and_then(|()| file.write_all(&header(journal, first))) {
            Ok(()) => Ok(Self { file, path, bytes: HEADER as u64 }),
            Err(error) => {
                // If this fails too, the next start finds a segment without records.
                let _ = fs_err::remove_file(&path);
                Err(error)
            }
        }
    }

    /// A segment that rejects all writes.
    #[cfg(test)]
    pub(super) fn refusing(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let bytes = file.metadata().unwrap().len();
        Self { file, path: path.to_owned(), bytes }
    }

    /// Writes a frame with one system call; truncates the file again on failure.
    pub(super) fn write(&mut self, frame: &[u8]) -> Result<(), Unwritten> {
        match self.file.write_all(frame) {
            Ok(()) => {
                self.bytes += frame.len() as u64;
                Ok(())
            }
            Err(error) => {
                let undone = self
                    .file
                    .set_len(self.bytes)
                    .and_then(|()| io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.bytes)));
                Err(Unwritten { error, usable: undone.is_ok() })
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// An error while writing a frame.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) error: io::Error,
    /// Whether the segment still ends with the previous frame, so that writing can be retried.
    pub(super) usable: bool,
}

pub(super) fn name(first: i64) -> String {
    format!("{first:020}.{EXTENSION}")
}

/// Whether a file is a segment, by its extension; files that were set aside have another one.
pub(crate) fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

pub(super) fn header(journal: i64, first: i64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&journal.to_le_bytes());
    header[16..].copy_from_slice(&first.to_le_bytes());
    header
}

/// Encodes a frame into `out`, replacing its content. Returns false if the records are too large for a frame.
pub(super) fn frame(n: i64, records: &Records, out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend([0; 8]);
    out.extend(n.to_le_bytes());
    codec::encode(records, out);
    let content = out.len() - FRAME;
    let (Ok(length), true) = (u32::try_from(content), content <= MAX_CONTENT) else { return false };
    let crc = crc32fast::hash(&out[8..]);
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Content of a segment.
#[derive(Debug)]
pub(super) struct Scan {
    /// Id of the journal.
    pub(super) journal: i64,
    pub(super) frames: Vec<Frame>,
    /// Size in bytes of a truncated frame at the end.
    pub(super) torn: usize,
    /// Byte ranges of damaged frames.
    pub(super) damaged: Vec<Range<usize>>,
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) n: i64,
    pub(super) records: Records,
    /// Byte range in the segment.
    pub(super) range: Range<usize>,
}

/// Reads a segment; `None` if it is not one.
pub(super) fn scan(bytes: &[u8]) -> Option<Scan> {
    let (head, _) = bytes.split_at_checked(HEADER)?;
    let (magic, rest) = head.split_first_chunk::<8>()?;
    let (journal, first) = rest.split_first_chunk::<8>()?;
    let (magic, journal) = (*magic, i64::from_le_bytes(*journal));
    let first = i64::from_le_bytes(first.try_into().ok()?);
    if magic != *MAGIC {
        return None;
    }
    let mut scan = Scan { journal, frames: vec![], torn: 0, damaged: vec![] };
    let mut at = HEADER;
    while at < bytes.len() {
        let least = scan.frames.last().map_or(first, |frame| frame.n + 1);
        if let Some(frame) = read(bytes, at, least) {
            at = frame.range.end;
            scan.frames.push(frame);
            continue;
        }
        let Some(next) = (at + 1..bytes.len()).find(|start| read(bytes, *start, least).is_some()) else {
            match is_beginning(&bytes[at..]) {
                true => scan.torn = bytes.len() - at,
                false => scan.damaged.push(at..bytes.len()),
            }
            break;
        };
        scan.damaged.push(at..next);
        at = next;
    }
    Some(scan)
}

/// Whether this is a valid prefix of a truncated frame. A frame that is complete, or whose length alone is
/// wrong, was modified.
fn is_beginning(rest: &[u8]) -> bool {
    let Some((head, content)) = rest.split_first_chunk::<FRAME>() else { return true };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let fits = crc32fast::hash(&rest[8..]).to_le_bytes() == head[4..8];
    length > content.len() && length <= MAX_CONTENT && !fits
}

/// Parses the frame at an offset, if it is valid and has at least this number.
fn read(bytes: &[u8], at: usize, least: i64) -> Option<Frame> {
    let (head, rest) = bytes.get(at..)?.split_first_chunk::<FRAME>()?;
    let (length, sum) = head[..8].split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let n = i64::from_le_bytes(head[8..].try_into().ok()?);
    if length > MAX_CONTENT || n < least {
        return None;
    }
    let content = rest.get(..length)?;
    let end = at + FRAME + length;
    let crc = crc32fast::hash(&bytes[at + 8..end]);
    if crc.to_le_bytes() != *sum {
        return None;
    }
    Some(Frame { n, records: codec::decode(content)?, range: at..end })
}
