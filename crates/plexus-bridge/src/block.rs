//! A block of text that is ours in a file of the person's: between two marks, with the person's text around it untouched.

use std::path::Path;

use crate::document::newline;
use crate::error::BridgeError;
use crate::ledger::Part;
use crate::place::hash;

const BEGIN: &str = "<!-- plexus:begin";
const END: &str = "<!-- plexus:end -->";
const ABOUT: &str = "<!-- plexus:begin (kept by Plexus; change its source, not this block) -->";

/// Bytes of a block besides its content.
pub(crate) const FRAME: usize = ABOUT.len() + END.len() + 3;

/// Where the block is: with its marks and the line end behind it.
struct Found {
    start: usize,
    end: usize,
}

impl Found {
    /// What tells it from one that somebody has changed: its words. Programs that put line ends right are none.
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
            "has marks of Plexus that do not form one block",
            "remove the lines with `plexus:begin` and `plexus:end`, and what is between them",
        )),
    }
}

/// Whether there is anything of a block.
pub(crate) fn has_marks(text: &str) -> bool {
    text.contains(BEGIN) || text.contains(END)
}

/// The block for a file with these line ends.
fn framed(content: &str, text: &str) -> String {
    // Nothing in it can be taken for one of our marks, whoever wrote it.
    let content = content.replace("<!-- plexus:", "<!-- plexus :");
    let block = format!("{ABOUT}\n{}\n{END}\n", content.trim_end());
    if text.contains("\r\n") { block.replace("\r\n", "\n").replace('\n', "\r\n") } else { block }
}

/// The text with this content in its block.
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
        // Exactly ours is ours; it stays as it is.
        (Some(found), None) if found.hash(text) == print(&block) => Ok((text.to_owned(), new(""))),
        (Some(found), None) if insist => {
            Ok((format!("{}{block}{}", &text[..found.start], &text[found.end..]), new("")))
        }
        (Some(_), None) => Err(BridgeError::conflict(
            path,
            "has a block of Plexus that is not known here",
            "remove it, from `plexus:begin` to `plexus:end`, or have it replaced: `--policy replace`",
        )),
        (None, Some(_)) if !insist => Err(BridgeError::conflict(
            path,
            "had a block of Plexus that somebody has removed",
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

/// The text without the block.
pub(crate) fn erase(path: &Path, text: &str, part: &Part, insist: bool) -> Result<String, BridgeError> {
    let Part::Block { hash: was, lead } = part else { return Ok(text.to_owned()) };
    let Some(found) = find(path, text)? else { return Ok(text.to_owned()) };
    if found.hash(text) != *was && !insist {
        return Err(changed(path));
    }
    let before = &text[..found.start];
    let before = before.strip_suffix(lead.as_str()).unwrap_or(before);
    let after = &text[found.end..];
    // A line that had no end got one by ours, and needs it for what was written below.
    let end =
        if before.is_empty() || before.ends_with('\n') || after.is_empty() { "" } else { newline(text) };
    Ok(format!("{before}{end}{after}"))
}

/// Whether the block is there as we left it.
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
        "move that change out of the block; `--policy replace` gives it up",
    )
}
