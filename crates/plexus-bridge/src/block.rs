//! A managed block between two markers in a file of the user. The text around it is not touched.

use std::path::Path;

use crate::confined_path::hash;
use crate::document::newline;
use crate::error::BridgeError;
use crate::ledger::ManagedPart;

const BEGIN: &str = "<!-- plexus:begin";
const END: &str = "<!-- plexus:end -->";
const BEGIN_LINE: &str = "<!-- plexus:begin (kept by Plexus; change its source, not this block) -->";

/// The size of a block without its content, in bytes.
pub(crate) const MARKER_BYTES: usize = BEGIN_LINE.len() + END.len() + 3;

/// The range of the block, with its markers and the line end after it.
struct BlockRange {
    start: usize,
    end: usize,
}

impl BlockRange {
    /// A hash that detects changes to the block. It ignores line ends, which some programs normalize.
    fn hash(&self, text: &str) -> String {
        block_hash(&text[self.start..self.end])
    }
}

fn block_hash(block: &str) -> String {
    hash(block.replace("\r\n", "\n").trim_end().as_bytes())
}

fn find(path: &Path, text: &str) -> Result<Option<BlockRange>, BridgeError> {
    let (begins, ends) = (text.matches(BEGIN).count(), text.matches(END).count());
    match (text.find(BEGIN), text.find(END), begins, ends) {
        (None, None, ..) => Ok(None),
        (Some(start), Some(close), 1, 1) if start < close => {
            let end = close + END.len();
            let rest = &text[end..];
            let newline = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
            Ok(Some(BlockRange { start, end: end + newline }))
        }
        _ => Err(BridgeError::conflict(
            path,
            "has markers of Plexus that do not form one block",
            "remove the lines with `plexus:begin` and `plexus:end` and the text between them",
        )),
    }
}

/// Whether the text contains a marker.
pub(crate) fn has_markers(text: &str) -> bool {
    text.contains(BEGIN) || text.contains(END)
}

/// Renders the block for a file with these line ends.
fn render_block(content: &str, text: &str) -> String {
    // The content cannot contain a marker, whoever wrote it.
    let content = content.replace("<!-- plexus:", "<!-- plexus :");
    let block = format!("{BEGIN_LINE}\n{}\n{END}\n", content.trim_end());
    if text.contains("\r\n") { block.replace("\r\n", "\n").replace('\n', "\r\n") } else { block }
}

/// Replaces the content of the block, or adds the block.
pub(crate) fn write(
    path: &Path,
    text: &str,
    content: &str,
    recorded: Option<&ManagedPart>,
    overwrite: bool,
) -> Result<(String, ManagedPart), BridgeError> {
    let block = render_block(content, text);
    let newline = newline(text);
    let recorded = match recorded {
        Some(ManagedPart::Block { hash, lead }) => Some((hash, lead)),
        _ => None,
    };
    let new = |lead: &str| ManagedPart::Block { hash: block_hash(&block), lead: lead.to_owned() };
    match (find(path, text)?, recorded) {
        (Some(found), Some((recorded_hash, lead))) => {
            if found.hash(text) != *recorded_hash && !overwrite {
                return Err(changed_by_hand_error(path));
            }
            Ok((format!("{}{block}{}", &text[..found.start], &text[found.end..]), new(lead)))
        }
        // A block with exactly our content is treated as ours and not changed.
        (Some(found), None) if found.hash(text) == block_hash(&block) => Ok((text.to_owned(), new(""))),
        (Some(found), None) if overwrite => {
            Ok((format!("{}{block}{}", &text[..found.start], &text[found.end..]), new("")))
        }
        (Some(_), None) => Err(BridgeError::conflict(
            path,
            "has a block of Plexus that is not in the ledger",
            "remove it, from `plexus:begin` to `plexus:end`, or replace it with `--policy replace`",
        )),
        (None, Some(_)) if !overwrite => Err(BridgeError::conflict(
            path,
            "had a block of Plexus that was removed by hand",
            "`plexus connect` writes it again; `plexus disconnect` forgets it",
        )),
        (None, _) => {
            let lead = match text {
                "" => String::new(),
                _ if text.ends_with('\n') => newline.to_owned(),
                _ => newline.repeat(2),
            };
            Ok((format!("{text}{lead}{block}"), new(&lead)))
        }
    }
}

/// Removes the block.
pub(crate) fn erase(
    path: &Path,
    text: &str,
    part: &ManagedPart,
    overwrite: bool,
) -> Result<String, BridgeError> {
    let ManagedPart::Block { hash: recorded_hash, lead } = part else { return Ok(text.to_owned()) };
    let Some(found) = find(path, text)? else { return Ok(text.to_owned()) };
    if found.hash(text) != *recorded_hash && !overwrite {
        return Err(changed_by_hand_error(path));
    }
    let before = &text[..found.start];
    let before = before.strip_suffix(lead.as_str()).unwrap_or(before);
    let after = &text[found.end..];
    // Inserting the block added a missing line end, which is still needed if text follows.
    let end =
        if before.is_empty() || before.ends_with('\n') || after.is_empty() { "" } else { newline(text) };
    Ok(format!("{before}{end}{after}"))
}

/// Checks that the block is unchanged since our last write.
pub(crate) fn is_current(path: &Path, text: &str, part: &ManagedPart) -> Option<bool> {
    let ManagedPart::Block { hash: recorded_hash, .. } = part else { return None };
    match find(path, text) {
        Ok(found) => found.map(|found| found.hash(text) == *recorded_hash),
        Err(_) => Some(false),
    }
}

fn changed_by_hand_error(path: &Path) -> BridgeError {
    BridgeError::conflict(
        path,
        "has a block of Plexus that was changed by hand",
        "move that change out of the block; `--policy replace` discards it",
    )
}
