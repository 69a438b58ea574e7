//! Detects the type, encoding and line endings of a file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use aws_lc_rs::digest;
use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::{FileCall, failed};

/// The number of bytes examined to detect the type of a file.
const SAMPLE: usize = 8 << 10;
/// The maximum size of a file that is edited or compared in memory.
pub(super) const EDITABLE: u64 = 16 << 20;

/// The text encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8 {
        bom: bool,
    },
    Utf16Le,
    Utf16Be,
    /// Bytes without a NUL that are not UTF-8.
    Unknown,
    Binary(&'static str),
}

impl Encoding {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Utf8 { .. } => "utf-8",
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Unknown | Self::Binary(_) => "unknown",
        }
    }

    /// Detects the encoding from the first bytes of a file.
    pub(super) fn of(sample: &[u8]) -> Self {
        match sample {
            [0xEF, 0xBB, 0xBF, ..] => return Self::Utf8 { bom: true },
            [0xFF, 0xFE, 0, 0, ..] => return Self::Binary("UTF-32 text"),
            [0xFF, 0xFE, ..] => return Self::Utf16Le,
            [0xFE, 0xFF, ..] => return Self::Utf16Be,
            _ => {}
        }
        if let Some(what) = by_magic(sample) {
            return Self::Binary(what);
        }
        if sample.contains(&0) {
            return Self::Binary("binary data");
        }
        match std::str::from_utf8(sample) {
            Ok(_) => Self::Utf8 { bom: false },
            // The sample may end in the middle of a character.
            Err(error) if error.error_len().is_none() => Self::Utf8 { bom: false },
            Err(_) => Self::Unknown,
        }
    }

    pub(super) fn sample(file: &File) -> std::io::Result<(Self, Vec<u8>)> {
        let mut sample = vec![0; SAMPLE];
        let mut length = 0;
        while length < SAMPLE {
            match file.read_at(&mut sample[length..], length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        sample.truncate(length);
        Ok((Self::of(&sample), sample))
    }
}

fn by_magic(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 16] = [
        (b"\x7fELF", "an ELF program or library"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive, or a document that is one"),
        (b"\x1f\x8b", "gzip data"),
        (b"BZh", "bzip2 data"),
        (b"\xfd7zXZ\0", "xz data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\0asm", "a WebAssembly module"),
        (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O file"),
        (b"OggS", "Ogg audio or video"),
        (b"ID3", "MP3 audio"),
    ];
    let found = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic));
    found
        .map(|(_, what)| *what)
        .or_else(|| (bytes.get(257..262) == Some(b"ustar")).then_some("a tar archive"))
}

/// Returns `lf`, `crlf`, `mixed` or `none`.
pub(super) fn line_ending(bytes: &[u8]) -> &'static str {
    let mut lf = false;
    let mut crlf = false;
    for (position, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        match position > 0 && bytes[position - 1] == b'\r' {
            true => crlf = true,
            false => lf = true,
        }
    }
    match (lf, crlf) {
        (false, false) => "none",
        (true, false) => "lf",
        (false, true) => "crlf",
        (true, true) => "mixed",
    }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl FileCall {
    /// Reads a whole file, if it is small enough to be held in memory.
    pub(super) fn read_whole(&self, path: &Path, file: &File) -> Result<Vec<u8>, CallError> {
        let size = file.metadata().map_err(failed(path))?.len();
        if size > EDITABLE {
            return Err(too_large(path, size));
        }
        let mut content = Vec::with_capacity(size as usize);
        // The file may grow while it is read.
        let mut limited = std::io::Read::take(file, EDITABLE + 1);
        std::io::Read::read_to_end(&mut limited, &mut content).map_err(failed(path))?;
        if content.len() as u64 > EDITABLE {
            return Err(too_large(path, content.len() as u64));
        }
        self.check_cancelled()?;
        Ok(content)
    }
}

fn too_large(path: &Path, size: u64) -> CallError {
    CallError::new(
        ErrorCode::TooLarge,
        format!(
            "{} has {size} bytes; files up to {EDITABLE} bytes can be changed or compared",
            path.display()
        ),
    )
    .hint("Nothing was done. Use `sed`, `split` or `cmp` in the terminal instead.")
    .before_it_ran()
}
