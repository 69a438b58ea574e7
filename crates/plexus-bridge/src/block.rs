//! A managed block between two markers in a file of the user. The text around it is not touched.

use std::path::Path;

use crate::confined_path::hash;
use crate::document::newline;
use crate::error::BridgeError;
use crate::ledger::Part;

const BEGIN: &str = "<!-- plexus:begin";
const END: &str = "<!-- plexus:end -->";
const ABOUT: &str = "<!-- plexus:begin (kept by Plexus; change its source, not this block) -->";

/// The size of a block without its content, in bytes.
pub(crate) const FRAME: usize = ABOUT.len() + END.len() + 3;

/// The range of the block, with its markers and the line end after it.
struct Found {
    start: usize,
    end: usize,
}

impl Found {
    /// A hash that detects changes to the block. It ignores line ends, which some programs normalize.
    fn hash(&self, text: &str) -> String {
        print(&text[self.start..self.end])
    }
}

fn print(block: &str) -> String {
    hash(block.replace("\r\n", "\n").trim_end().as_bytes())
}

fn find(path: &Path, text: &str) -> Result<Option<Found>, BridgeError> {
    let (begins, ends) = (text.matches(BEGIN).count(), text.matches(END).count());
    match (text.find(BEGIN), text.find(END), begins, ends) {
        (None, None, ..) => Ok(None),
        (Some(start), Some(close), 1, 1) if start < close => {
            let end = close + END.len();
            let rest = &text[end..];
            let newline = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
            Ok(Some(Found { start, end: end + newline }))
        }
        _ => Err(BridgeError::conflict(
            path,
            "has markers of Plexus that do not form one block",
            "remove the lines with `plexus:begin` and `plexus:end` and the text between them",
        )),
    }
}

/// Whether the text contains a marker.
pub(crate) fn has_marks(text: &str) -> bool {
    text.contains(BEGIN) || text.contains(END)
}

/// Renders the block for a file with these line ends.
fn framed(content: &str, text: &str) -> String {
    // The content cannot contain a marker, whoever wrote it.
    let content = content.replace("<!-- plexus:", "<!-- plexus :");
    let block = format!("{ABOUT}\n{}\n{END}\n", content.trim_end());
    if text.contains("\r\n") { block.replace("\r\n", "\n").replace('\n', "\r\n") } else { block }
}

/// Replaces the content of the block, or adds the block.
pub(crate) fn write(
    path: &Path,
    text: &str,
    content: &str,
    known: Option<&Part>,
    insist: bool,
) -> Result<(String, Part), BridgeError> {
    let block = framed(content, text);
    let newline = newline(text);
    let known = match known {
        Some(Part::Block { hash, lead }) => Some((hash, lead)),
        _ => None,
    };
    let new = |lead: &str| Part::Block { hash: print(&block), lead: lead.to_owned() };
    match (find(path, text)?, known) {
        (Some(found), Some((was, lead))) => {
            if found.hash(text) != *was && !insist {
                return Err(changed(path));
            }
            Ok((format!("{}{block}{}", &text[..found.start], &text[found.end..]), new(lead)))
        }
        // A block with exactly our content is treated as ours and not changed.
        (Some(found), None) if found.hash(text) == print(&block) => Ok((text.to_owned(), new(""))),
        (Some(found), None) if insist => {
            Ok((format!("{}{block}{}", &text[..found.start], &text[found.end..]), new("")))
        }
        (Some(_), None) => Err(BridgeError::conflict(
            path,
            "has a block of Plexus that is not in the ledger",
            "remove it, from `plexus:begin` to `plexus:end`, or replace it with `--policy replace`",
        )),
        (None, Some(_)) if !insist => Err(BridgeError::conflict(
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
pub(crate) fn erase(path: &Path, text: &str, part: &Part, insist: bool) -> Result<String, BridgeError> {
    let Part::Block { hash: was, lead } = part else { return Ok(text.to_owned()) };
    let Some(found) = find(path, text)? else { return Ok(text.to_owned()) };
    if found.hash(text) != *was && !insist {
        return Err(changed(path));
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
pub(crate) fn is_current(path: &Path, text: &str, part: &Part) -> Option<bool> {
    let Part::Block { hash: was, .. } = part else { return None };
    match find(path, text) {
        Ok(found) => found.map(|found| found.hash(text) == *was),
        Err(_) => Some(false),
    }
}

fn changed(path: &Path) -> BridgeError {
    BridgeError::conflict(
        path,
        "has a block of Plexus that was changed by hand",
        "move that change out of the block; `--policy replace` discards it",
    )
}
