//! `read`: returns a part of a file, in lines or bytes, bounded by the size of an answer.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::args::{Args, Unit};
use super::content::{EDITABLE, Encoding, line_ending, sha256};
use super::listing::{kind_name, mode_text};
use super::report::{About, Answer, Content, Output};
use super::{FileCall, failed, wrong};
use crate::files::Handle;

/// The default number of lines and bytes.
const LINES: u64 = 2_000;
const BYTES: u64 = 64 << 10;
/// The maximum size of a part as JSON. An answer is limited to 1 MiB.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// The maximum number of bytes shown of one line.
const LINE: usize = 4_000;
/// The number of bytes in which lines are counted to find an offset, and the maximum size of a file whose lines are
/// all counted.
const COUNTED: u64 = 1 << 30;
const COUNTED_TO_END: u64 = 64 << 20;
/// The maximum size of a binary file that is hashed when it is described.
const HASHED: u64 = 64 << 20;

impl FileCall {
    pub(super) fn read(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let (handle, file) = self.files.read(path)?;
        let real = handle.path().to_owned();
        let size = file.metadata().map_err(failed(&real))?.len();
        let (encoding, _) = Encoding::sample(&file).map_err(failed(&real))?;
        let as_base64 = args.as_base64.unwrap_or(false);
        let unit = args.unit.unwrap_or(if as_base64 { Unit::Bytes } else { Unit::Lines });
        if as_base64 && unit == Unit::Lines {
            return Err(wrong("as_base64", "requires unit \"bytes\""));
        }
        let output = Output { path: real.display().to_string(), ..Output::default() };
        if let (Encoding::Binary(what), Unit::Lines) = (encoding, unit) {
            return self.binary(&handle, &file, what, output);
        }
        if unit == Unit::Bytes {
            return self.bytes(&real, &file, size, encoding, args, output);
        }
        let first = self.first_line(&real, &file, size, args)?;
        let limit = args.limit.unwrap_or(LINES);
        let numbered = args.line_numbers.unwrap_or(false);
        let page = match encoding {
            Encoding::Utf16Le | Encoding::Utf16Be => {
                let content = self.read_whole(&real, &file)?;
                self.lines(&real, Cursor::new(utf16(&content, encoding)), u64::MAX, first, limit, numbered)?
            }
            _ => {
                self.lines(&real, BufReader::with_capacity(64 << 10, &file), size, first, limit, numbered)?
            }
        };
        self.shown(page, size, encoding, output)
    }

    /// The first line to show, counted from the start of the file.
    fn first_line(&self, path: &Path, file: &File, size: u64, args: &Args) -> Result<u64, CallError> {
        let Ok(offset) = u64::try_from(args.offset.unwrap_or(1)) else {
            let back = args.offset.unwrap_or(0).unsigned_abs();
            if size > COUNTED_TO_END {
                return Err(wrong(
                    "offset",
                    format!(
                        "counts lines from the end only in files up to {COUNTED_TO_END} bytes; use unit \"bytes\" with a negative offset"
                    ),
                ));
            }
            let mut reader = BufReader::with_capacity(64 << 10, Shared(file, 0));
            let (mut lines, mut ended) = (0, true);
            loop {
                self.check_cancelled()?;
                let block = reader.fill_buf().map_err(failed(path))?;
                let Some(last) = block.last() else { break };
                lines += block.iter().filter(|byte| **byte == b'\n').count() as u64;
                ended = *last == b'\n';
                let length = block.len();
                reader.consume(length);
            }
            return Ok((lines + u64::from(!ended)).saturating_sub(back) + 1);
        };
        Ok(offset.max(1))
    }

    /// Reads lines from `first`, as many as fit.
    fn lines(
        &self,
        path: &Path,
        mut reader: impl BufRead,
        size: u64,
        first: u64,
        limit: u64,
        numbered: bool,
    ) -> Result<Page, CallError> {
        let mut page = Page { first, next: first, ..Page::default() };
        let (mut number, mut at, mut line, mut length) = (1_u64, 0_u64, Vec::new(), 0_usize);
        let mut full = false;
        loop {
            self.check_cancelled()?;
            let block = reader.fill_buf().map_err(failed(path))?;
            if block.is_empty() {
                break;
            }
            let end = block.iter().position(|byte| *byte == b'\n').map(|position| position + 1);
            let piece = &block[..end.unwrap_or(block.len())];
            let (consumed, in_range) = (piece.len(), number >= first && !full);
            if in_range {
                if length == 0 && page.bytes.is_empty() && page.shown == 0 {
                    page.offset = at;
                }
                let room = (LINE + 4).saturating_sub(line.len());
                line.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            length += consumed;
            at += consumed as u64;
            reader.consume(consumed);
            if end.is_some() {
                if in_range {
                    full = page.add(&line, length, number, numbered, at) || number - first + 1 >= limit;
                }
                (number, length) = (number + 1, 0);
                line.clear();
            }
            if full && size > COUNTED_TO_END {
                page.more = at < size;
                return Ok(page);
            }
            if !full && at > COUNTED && number < first {
                return Err(wrong(
                    "offset",
                    format!(
                        "this line is beyond the first {COUNTED} bytes, in which lines are counted; use unit \"bytes\""
                    ),
                ));
            }
        }
        if length > 0 {
            if number >= first && !full {
                page.add(&line, length, number, numbered, at);
            }
            number += 1;
        }
        page.all = Some(number - 1);
        page.more = page.next < number;
        Ok(page)
    }

    fn shown(
        &self,
        page: Page,
        size: u64,
        encoding: Encoding,
        mut output: Output,
    ) -> Result<Answer, CallError> {
        if page.shown == 0 && page.first > 1 {
            let message = format!("{} has {} lines", output.path, page.all.unwrap_or(0));
            return Err(CallError::new(ErrorCode::InvalidArguments, message)
                .hint("Give an `offset` within the file; a negative offset counts from the end."));
        }
        let is_whole = page.first == 1 && !page.more && page.cut.is_empty();
        let bom = encoding == Encoding::Utf8 { bom: true };
        let bytes: &[u8] = if bom && page.first == 1 {
            page.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&page.bytes)
        } else {
            &page.bytes
        };
        let (text, base64) = match std::str::from_utf8(bytes) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(STANDARD.encode(bytes))),
        };
        if base64.is_some() {
            output.notes.push(
                "the content is not valid UTF-8: invalid bytes are shown as \u{fffd}, `base64` has the original bytes".to_owned(),
            );
        }
        if matches!(encoding, Encoding::Utf16Le | Encoding::Utf16Be) {
            output.notes.push(format!("the file is {}; it can be read but not edited", encoding.name()));
        }
        let ending = line_ending(&page.raw_endings);
        if ending == "crlf" || ending == "mixed" {
            output.notes.push(format!("line endings: {ending}"));
        }
        if !page.cut.is_empty() {
            let shown: Vec<_> = page.cut.iter().take(20).map(u64::to_string).collect();
            let which = shown.join(", ");
            output.notes.push(format!(
                "long lines are cut after {LINE} bytes: {which}; unit \"bytes\" shows the rest"
            ));
        }
        let last = page.next.saturating_sub(1);
        if page.more {
            let of = page.all.map(|all| format!(" of {all}")).unwrap_or_default();
            output.notes.push(format!("lines {} to {last}{of}; more with offset {}", page.first, page.next));
        }
        if is_whole && base64.is_none() && !page.numbered && matches!(encoding, Encoding::Utf8 { .. }) {
            output.sha256 = Some(sha256(&page.bytes));
        }
        output.content = Some(Content {
            text: text.clone(),
            base64,
            encoding: encoding.name().to_owned(),
            line_ending: ending.to_owned(),
            bom,
            bytes: size,
            first_line: (page.shown > 0).then_some(page.first),
            last_line: (page.shown > 0).then_some(last),
            lines: page.all,
            offset: page.offset,
            next_offset: page.more.then_some(page.next),
            cut_lines: page.cut,
        });
        if size == 0 {
            output.notes.push("the file is empty".to_owned());
        }
        Ok(Answer::new(text, output))
    }

    fn bytes(
        &self,
        path: &Path,
        file: &File,
        size: u64,
        encoding: Encoding,
        args: &Args,
        mut output: Output,
    ) -> Result<Answer, CallError> {
        let as_base64 = args.as_base64.unwrap_or(false);
        let offset = match u64::try_from(args.offset.unwrap_or(0)) {
            Ok(offset) => offset,
            Err(_) => size.saturating_sub(args.offset.unwrap_or(0).unsigned_abs()),
        };
        let max_bytes = if as_base64 { MAX_ANSWER_BYTES / 2 } else { MAX_ANSWER_BYTES };
        let limit = args.limit.unwrap_or(BYTES).min(max_bytes as u64) as usize;
        let mut bytes = Vec::new();
        Shared(file, offset).take(limit as u64).read_to_end(&mut bytes).map_err(failed(path))?;
        bytes.truncate(fitting(&bytes));
        let text = match (as_base64, std::str::from_utf8(&bytes)) {
            (true, _) => None,
            (false, Ok(text)) => Some(text.to_owned()),
            (false, Err(error)) => {
                // The end may split a character, which then starts the next part.
                if error.error_len().is_none() && error.valid_up_to() > 0 {
                    bytes.truncate(error.valid_up_to());
                }
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
        };
        let next = offset + bytes.len() as u64;
        let is_text = std::str::from_utf8(&bytes).is_ok();
        let content = Content {
            base64: (as_base64 || !is_text).then(|| STANDARD.encode(&bytes)),
            text: text.unwrap_or_default(),
            encoding: encoding.name().to_owned(),
            line_ending: line_ending(&bytes).to_owned(),
            bom: encoding == Encoding::Utf8 { bom: true },
            bytes: size,
            offset,
            next_offset: (next < size && !bytes.is_empty()).then_some(next),
            ..Content::default()
        };
        output.notes.push(format!("bytes {offset} to {next} of {size}"));
        if let Some(next) = content.next_offset {
            output.notes.push(format!("more with unit \"bytes\" and offset {next}"));
        }
        let text = if as_base64 { content.base64.clone().unwrap_or_default() } else { content.text.clone() };
        output.content = Some(content);
        Ok(Answer::new(text, output))
    }

    /// Describes a binary file.
    fn binary(
        &self,
        handle: &Handle,
        file: &File,
        what: &'static str,
        mut output: Output,
    ) -> Result<Answer, CallError> {
        let about =
            About { looks_like: Some(what.to_owned()), ..About::of(handle.stat(), kind_name(handle.kind())) };
        if about.bytes <= HASHED {
            output.sha256 = Some(self.digest(handle.path(), file)?);
        }
        let hash = output.sha256.as_deref().map(|hash| format!(", sha256 {hash}")).unwrap_or_default();
        let text = format!("{} is {what}: {} bytes, {}{hash}\n", output.path, about.bytes, mode_text(&about));
        output.about = Some(about);
        output.notes.push(
            "binary: `as_base64` with `offset` and `limit` in bytes returns its bytes, `image_view` shows an image"
                .to_owned(),
        );
        Ok(Answer::new(text, output))
    }
}

/// The lines read so far.
#[derive(Debug, Default)]
struct Page {
    bytes: Vec<u8>,
    /// The line endings.
    raw_endings: Vec<u8>,
    first: u64,
    /// The line to continue at.
    next: u64,
    shown: u64,
    offset: u64,
    all: Option<u64>,
    more: bool,
    cut: Vec<u64>,
    consumed: usize,
    numbered: bool,
}

impl Page {
    /// Adds a line, of which `line` is the beginning. Returns whether the page is full.
    fn add(&mut self, line: &[u8], length: usize, number: u64, numbered: bool, _end: u64) -> bool {
        let number_text = if numbered { format!("{number:>6}\t") } else { String::new() };
        let is_cut = length > LINE + 2;
        let mut shown_bytes = &line[..line.len().min(if is_cut { LINE } else { line.len() })];
        if is_cut {
            while shown_bytes.last().is_some_and(|byte| byte & 0xC0 == 0x80) {
                shown_bytes = &shown_bytes[..shown_bytes.len() - 1];
            }
            if shown_bytes.last().is_some_and(|byte| *byte >= 0xC0) {
                shown_bytes = &shown_bytes[..shown_bytes.len() - 1];
            }
        }
        let cost = json_cost(shown_bytes) + number_text.len();
        if self.shown > 0 && self.consumed + cost > MAX_ANSWER_BYTES {
            return true;
        }
        self.numbered |= numbered;
        self.consumed += cost;
        self.bytes.extend_from_slice(number_text.as_bytes());
        self.bytes.extend_from_slice(shown_bytes);
        if is_cut {
            let notice = format!(" [… {} bytes more in this line …]\n", length - shown_bytes.len());
            self.bytes.extend_from_slice(notice.as_bytes());
            self.cut.push(number);
        }
        self.raw_endings.extend_from_slice(&line[line.len().saturating_sub(2)..]);
        self.shown += 1;
        self.next = number + 1;
        self.consumed > MAX_ANSWER_BYTES
    }
}

/// The minimum size of a text as JSON.
fn json_cost(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .map(|byte| match byte {
            b'\n' | b'\r' | b'\t' | b'"' | b'\\' => 2,
            0..0x20 | 0x7f => 6,
            // An invalid byte is shown as three bytes, and appears in base64 as well.
            0x80.. => 3,
            _ => 1,
        })
        .sum()
}

/// The number of bytes that fit into an answer.
fn fitting(bytes: &[u8]) -> usize {
    let mut cost = 0;
    let over = bytes.iter().position(|byte| {
        cost += json_cost(std::slice::from_ref(byte));
        cost > 2 * MAX_ANSWER_BYTES
    });
    over.unwrap_or(bytes.len())
}

fn utf16(content: &[u8], encoding: Encoding) -> Vec<u8> {
    let units = content.get(2..).unwrap_or_default().chunks_exact(2).map(|pair| match encoding {
        Encoding::Utf16Be => u16::from_be_bytes([pair[0], pair[1]]),
        _ => u16::from_le_bytes([pair[0], pair[1]]),
    });
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect::<String>()
        .into_bytes()
}

/// Reads from an offset without moving the file position.
struct Shared<'f>(&'f File, u64);

impl Read for Shared<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read_at(buffer, self.1)?;
        self.1 += read as u64;
        Ok(read)
    }
}

const _: () = assert!(EDITABLE < COUNTED_TO_END);
