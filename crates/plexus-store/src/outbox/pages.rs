//! Extracts rows from a file that SQLite can no longer read.
//!
//! Scans the pages of the file and its log one by one, without the structures that refer to them: a table
//! page lists its rows, and a row is accepted if its checksum matches. Thus each row is as safe as its own
//! page, regardless of other losses. Deleted rows do not reappear: freed pages are overwritten, and a moved
//! row is listed on one page only.
//!
//! All input comes from a damaged file: no number is trusted, and every loop terminates.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::row::Row;
use super::schema::COLUMNS;
use crate::dialect::sqlite::{SMALL_PAGE, log_of};

const PAGE: usize = SMALL_PAGE as usize;
/// Type of a table's leaf page.
const LEAF: u8 = 0x0d;
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: usize = 24;
/// Longer rows are never created.
const LONGEST_ROW: u64 = 256 << 20;

/// Maps each page to its newest content.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    log: Option<File>,
    /// Offsets of committed pages in the log.
    in_log: HashMap<u32, u64>,
    count: u32,
}

/// A row found in a page, with a rank to choose the newest row of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundRow {
    pub(super) id: i64,
    key: String,
    rank: (i64, bool, i64),
    page: u32,
    cell: usize,
}

impl Pages {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let log = match File::open(log_of(path)) {
            Ok(log) => Some(log),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let in_log = log.as_ref().map(committed).transpose()?.unwrap_or_default();
        // A partial page at the end of a truncated file counts too.
        let in_file = file.metadata()?.len().div_ceil(PAGE as u64);
        let last = in_log.keys().copied().max().unwrap_or_default();
        let count = u32::try_from(in_file).unwrap_or(u32::MAX).max(last);
        Ok(Self { file, log, in_log, count })
    }

    /// Page `number`, counted from one; missing parts are zero.
    fn page(&self, number: u32) -> io::Result<Vec<u8>> {
        let (file, at) = match (self.in_log.get(&number), &self.log) {
            (Some(at), Some(log)) => (log, *at),
            _ => (&self.file, u64::from(number.saturating_sub(1)) * PAGE as u64),
        };
        let mut page = vec![0; PAGE];
        let mut filled = 0;
        while filled < PAGE {
            match file.read_at(&mut page[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An unreadable sector: the other pages are still needed.
                Err(_) => break,
            }
        }
        Ok(page)
    }

    /// All rows with a valid checksum, one per key, ordered by id.
    pub(super) fn rows(&self) -> io::Result<Vec<FoundRow>> {
        let mut newest: HashMap<String, FoundRow> = HashMap::new();
        for number in 1..=self.count {
            let page = self.page(number)?;
            for cell in 0..cells(&page) {
                let Some(row) = self.row_of(&page, cell) else { continue };
                let rank = (row.epoch, row.died_at.is_some(), row.id);
                let found = FoundRow { id: row.id, key: row.key, rank, page: number, cell };
                match newest.get(&found.key) {
                    Some(other) if other.rank >= found.rank => {}
                    _ => drop(newest.insert(found.key.clone(), found)),
                }
            }
        }
        let mut rows: Vec<_> = newest.into_values().collect();
        rows.sort_unstable_by_key(|found| found.id);
        Ok(rows)
    }

    /// Reads a found row.
    pub(super) fn row(&self, found: &FoundRow) -> io::Result<Option<Row>> {
        Ok(self.row_of(&self.page(found.page)?, found.cell))
    }

    fn row_of(&self, page: &[u8], cell: usize) -> Option<Row> {
        let pointer = 8 + 2 * cell;
        let at = usize::from(u16::from_be_bytes(page.get(pointer..pointer + 2)?.try_into().ok()?));
        let mut rest = page.get(at..)?;
        let length = varint(&mut rest)?;
        let id = varint(&mut rest)?;
        let payload = self.payload(length, rest)?;
        record(id.cast_signed(), &payload)
    }

    /// The complete payload of a row; long rows continue on overflow pages.
    fn payload(&self, length: u64, here: &[u8]) -> Option<Vec<u8>> {
        if length > LONGEST_ROW {
            return None;
        }
        let length = usize::try_from(length).ok()?;
        let most = PAGE - 35;
        if length <= most {
            return here.get(..length).map(<[u8]>::to_vec);
        }
        let least = (PAGE - 12) * 32 / 255 - 23;
        let fitting = least + (length - least) % (PAGE - 4);
        let local = if fitting <= most { fitting } else { least };
        let mut payload = here.get(..local)?.to_vec();
        let mut next = u32::from_be_bytes(here.get(local..local + 4)?.try_into().ok()?);
        let mut seen = HashSet::new();
        while payload.len() < length {
            if next == 0 || next > self.count || !seen.insert(next) {
                return None;
            }
            let page = self.page(next).ok()?;
            next = u32::from_be_bytes(page.get(..4)?.try_into().ok()?);
            let wanted = (length - payload.len()).min(PAGE - 4);
            payload.extend_from_slice(page.get(4..4 + wanted)?);
        }
        Some(payload)
    }
}

/// The number of rows on a table page; 0 for other pages.
fn cells(page: &[u8]) -> usize {
    match page {
        [LEAF, _, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])).min(PAGE / 2),
        _ => 0,
    }
}

/// Reads a variable-length integer of one to nine bytes.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for at in 0..9 {
        let byte = *rest.get(at)?;
        if at == 8 {
            number = (number << 8) | u64::from(byte);
        } else {
            number = (number << 7) | u64::from(byte & 0x7f);
            if byte & 0x80 != 0 {
                continue;
            }
        }
        *rest = rest.get(at + 1..)?;
        return Some(number);
    }
    None
}

#[derive(Debug)]
enum Column<'a> {
    Null,
    Int(i64),
    Text(&'a str),
}

/// Parses a row of `writes` and verifies its checksum.
fn record(id: i64, payload: &[u8]) -> Option<Row> {
    let mut rest = payload;
    let header = usize::try_from(varint(&mut rest)?).ok()?;
    let mut kinds = payload.get(payload.len() - rest.len()..header)?;
    let mut body = payload.get(header..)?;
    let mut columns = Vec::with_capacity(COLUMNS);
    while !kinds.is_empty() {
        let kind = varint(&mut kinds)?;
        columns.push(column(kind, &mut body)?);
        if columns.len() > COLUMNS {
            return None;
        }
    }
    let mut columns = columns.into_iter();
    if columns.len() != COLUMNS || !matches!(columns.next(), Some(Column::Null)) {
        return None;
    }
    let mut next = || columns.next();
    let (key, session, tool, client) = (text(next())?, text(next())?, text(next())?, text(next())?);
    let (bytes, sum) = (int(next())?, int(next())?);
    let row = Row {
        id,
        key,
        session,
        tool,
        client,
        bytes,
        occurred_at: int(next())?,
        queued_at: int(next())?,
        not_before: int(next())?,
        attempts: int(next())?,
        owner: optional(next()?, text)?,
        lease_until: int(next())?,
        epoch: int(next())?,
        note: optional(next()?, text)?,
        died_at: optional(next()?, int)?,
        notified: int(next())?,
        params: text(next())?,
    };
    (row.sum() == sum && row.weight() == bytes).then_some(row)
}

fn text(column: Option<Column<'_>>) -> Option<String> {
    match column {
        Some(Column::Text(text)) => Some(text.to_owned()),
        _ => None,
    }
}

fn int(column: Option<Column<'_>>) -> Option<i64> {
    match column {
        Some(Column::Int(number)) => Some(number),
        _ => None,
    }
}

fn optional<'a, T>(
    column: Column<'a>,
    read: impl FnOnce(Option<Column<'a>>) -> Option<T>,
) -> Option<Option<T>> {
    match column {
        Column::Null => Some(None),
        column => read(Some(column)).map(Some),
    }
}

fn column<'a>(kind: u64, body: &mut &'a [u8]) -> Option<Column<'a>> {
    let length = match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind,
        5 => 6,
        6 => 8,
        13.. if kind % 2 == 1 => (kind - 13) / 2,
        // Floats and blobs, which no column contains.
        _ => return None,
    };
    let (value, rest) = body.split_at_checked(usize::try_from(length).ok()?)?;
    *body = rest;
    Some(match kind {
        0 => Column::Null,
        8 => Column::Int(0),
        9 => Column::Int(1),
        13.. => Column::Text(str::from_utf8(value).ok()?),
        _ => {
            let start = if value.first()? & 0x80 != 0 { -1_i64 } else { 0 };
            Column::Int(value.iter().fold(start, |number, byte| (number << 8) | i64::from(*byte)))
        }
    })
}

/// The committed pages in a log. A frame is valid while the cumulative checksum of all frames up to it
/// matches.
fn committed(log: &File) -> io::Result<HashMap<u32, u64>> {
    let (mut pages, mut pending) = (HashMap::new(), HashMap::new());
    let mut header = [0; LOG_HEADER as usize];
    if log.metadata()?.len() < LOG_HEADER || log.read_exact_at(&mut header, 0).is_err() {
        return Ok(pages);
    }
    let word = |bytes: &[u8], at: usize| -> u32 {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
    };
    let big_endian = match word(&header, 0) {
        0x377f_0682 => false,
        0x377f_0683 => true,
        _ => return Ok(pages),
    };
    let salts = (word(&header, 16), word(&header, 20));
    let mut sum = running((0, 0), &header[..24], big_endian);
    if sum != (word(&header, 24), word(&header, 28)) || word(&header, 8) as usize != PAGE {
        return Ok(pages);
    }
    let mut frame = vec![0; FRAME_HEADER + PAGE];
    let mut at = LOG_HEADER;
    while log.read_exact_at(&mut frame, at).is_ok() {
        sum = running(running(sum, &frame[..8], big_endian), &frame[FRAME_HEADER..], big_endian);
        let fits =
            sum == (word(&frame, 16), word(&frame, 20)) && salts == (word(&frame, 8), word(&frame, 12));
        if !fits {
            break;
        }
        pending.insert(word(&frame, 0), at + FRAME_HEADER as u64);
        if word(&frame, 4) != 0 {
            pages.extend(pending.drain());
        }
        at += frame.len() as u64;
    }
    Ok(pages)
}

/// Continues the cumulative checksum of a log over pairs of words.
fn running((mut first, mut second): (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| -> u32 {
        let word = bytes.try_into().unwrap_or_default();
        if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
    }
    (first, second)
}
