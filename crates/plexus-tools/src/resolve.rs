//! Resolves a name as written by a caller to one tool.
//!
//! Models write inexact names: without the server, with other separators, with their client's prefix. Each
//! [step](STEPS) handles one such variant; the first step with a match decides. If several tools match it, the error
//! lists them: nothing is guessed, and later steps do not break the tie.
//!
//! Invariant: only tools visible to the caller are considered, so an invisible tool affects neither the result nor the
//! text of an error.

mod index;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use plexus_proto::{ErrorCode, tool_name};
use serde_json::json;

use crate::visible::nearest;
use crate::{CallError, Tool, UpstreamTool};
pub(crate) use index::Index;

/// Longest name that an error quotes.
const MAX_NAME_SHOWN: usize = 100;
/// Longest name that is compared with variants, not only with the listed names.
const MAX_COMPARED: usize = 256;
/// The most candidates that an ambiguity error lists.
const MAX_CANDIDATES: usize = 10;

/// Tools by their listed names.
type Tools = BTreeMap<String, Arc<Tool>>;

/// Resolves `name` among these tools.
pub(crate) fn resolve<'t>(
    tools: &'t Tools,
    index: &OnceLock<Index>,
    name: &str,
) -> Result<&'t Arc<Tool>, CallError> {
    // The common case.
    if let Some(tool) = tools.get(name) {
        return Ok(tool);
    }
    let matching = match tool_name::is_plain(name) && (1..=MAX_COMPARED).contains(&name.len()) {
        true => fitting(tools, index.get_or_init(|| Index::new(tools)), name),
        false => Vec::new(),
    };
    match matching[..] {
        [tool] => Ok(tool),
        [] => Err(unknown(tools, name)),
        _ => Err(ambiguous(name, &matching)),
    }
}

/// The matches of the first step that has any: as written, else ignoring case, else without the prefix of clients.
fn fitting<'t>(tools: &'t Tools, index: &Index, name: &str) -> Vec<&'t Arc<Tool>> {
    let spellings = [Some(name), without_client_prefix(name)];
    for name in spellings.into_iter().flatten() {
        for any_case in [false, true] {
            let written = WrittenName::new(name, any_case);
            let possible = index.possible(tools, &written);
            for step in STEPS {
                let matching: Vec<_> = possible.iter().copied().filter(|tool| step(&written, tool)).collect();
                if !matching.is_empty() {
                    return matching;
                }
            }
        }
    }
    Vec::new()
}

type Step = fn(&WrittenName<'_>, &Tool) -> bool;

/// The variants of a name, in the order in which they are tried.
const STEPS: [Step; 7] = [exact, bare, dashes, separated, joined, separated_without_mcp, joined_without_mcp];

/// The listed or the canonical name.
fn exact(written: &WrittenName<'_>, tool: &Tool) -> bool {
    written.is(tool.name()) || written.is(&tool.spec().name)
}

/// The tool's name without its server.
fn bare(written: &WrittenName<'_>, tool: &Tool) -> bool {
    own_names(tool).is_some_and(|(_, names)| names.iter().any(|name| written.is(name)))
}

/// One of these with `-` and `_` exchanged, or the canonical name with the server's own name.
fn dashes(written: &WrittenName<'_>, tool: &Tool) -> bool {
    let canonical = &tool.spec().name;
    let is = |name: &str| same(written.name, name, written.any_case, dash);
    is(tool.name())
        || is(canonical)
        || own_names(tool).is_some_and(|(_, names)| names.into_iter().any(is))
        || written.canonical.as_ref().is_some_and(|name| same(name, canonical, written.any_case, dash))
}

/// `mcp:<server>:<tool>`, also with `.` or `/`.
fn separated(written: &WrittenName<'_>, tool: &Tool) -> bool {
    is_any_of(&written.splits_after_mcp, written, tool)
}

/// `mcp_<server>_<tool>`, with separators of any kind and number.
fn joined(written: &WrittenName<'_>, tool: &Tool) -> bool {
    written.after_mcp.is_some_and(|rest| is_joined(rest, written, tool))
}

/// `<server>:<tool>`, also with `.` or `/`.
fn separated_without_mcp(written: &WrittenName<'_>, tool: &Tool) -> bool {
    is_any_of(&written.splits, written, tool)
}

/// `<server>_<tool>`, with separators of any kind and number.
fn joined_without_mcp(written: &WrittenName<'_>, tool: &Tool) -> bool {
    is_joined(written.name, written, tool)
}

/// The server of an upstream tool, the tool's name there, and the tool part of its canonical name.
fn own_names(tool: &Tool) -> Option<(&UpstreamTool, [&str; 2])> {
    let upstream = tool.spec().upstream()?;
    let canonical_name = tool_name::split(&tool.spec().name).map_or("", |(_, tool)| tool);
    Some((upstream, [upstream.tool.as_str(), canonical_name]))
}

fn is_any_of(splits: &[(String, &str)], written: &WrittenName<'_>, tool: &Tool) -> bool {
    let Some((upstream, names)) = own_names(tool) else { return false };
    splits.iter().any(|(server, tool)| {
        same(server, &upstream.server, written.any_case, as_is)
            && names.iter().any(|name| same(tool, name, written.any_case, separator))
    })
}

fn is_joined(text: &str, written: &WrittenName<'_>, tool: &Tool) -> bool {
    let Some((upstream, names)) = own_names(tool) else { return false };
    names.iter().any(|name| {
        let full_name = upstream.server.chars().chain(['_']).chain(name.chars());
        flat(text.chars(), written.any_case).eq(flat(full_name, written.any_case))
    })
}

/// A name as written by a caller, parsed once for all tools.
struct WrittenName<'n> {
    name: &'n str,
    any_case: bool,
    /// Its canonical form, if it has the form of a canonical name.
    canonical: Option<String>,
    after_mcp: Option<&'n str>,
    /// Every way to split it into a server, as a slug, and a tool.
    splits: Vec<(String, &'n str)>,
    splits_after_mcp: Vec<(String, &'n str)>,
}

impl<'n> WrittenName<'n> {
    fn new(name: &'n str, any_case: bool) -> Self {
        let parts = tool_name::split(name);
        let canonical = parts
            .and_then(|(server, tool)| tool_name::slug(server).map(|slug| tool_name::canonical(&slug, tool)));
        let after_mcp = strip_word(name, "mcp");
        // The separator after `mcp` also separates server and tool.
        let separator = name.chars().nth("mcp".len()).filter(|c| SEPARATORS.contains(c));
        let splits_after_mcp = after_mcp.zip(separator).map(|(rest, separator)| splits(rest, &[separator]));
        let splits_after_mcp = splits_after_mcp.unwrap_or_default();
        Self { name, any_case, canonical, after_mcp, splits: splits(name, &SEPARATORS), splits_after_mcp }
    }

    fn is(&self, name: &str) -> bool {
        same(self.name, name, self.any_case, as_is)
    }
}

/// Characters that cannot occur in a slug, so they may separate it from the tool.
const SEPARATORS: [char; 3] = [':', '.', '/'];

/// The splits into server and tool at each of these separators.
fn splits<'n>(text: &'n str, separators: &[char]) -> Vec<(String, &'n str)> {
    text.match_indices(separators)
        .filter_map(|(at, _)| Some((tool_name::slug(&text[..at])?, &text[at + 1..])))
        .collect()
}

/// Removes the prefix that clients add, `mcp__plexus__`, in any spelling.
fn without_client_prefix(name: &str) -> Option<&str> {
    let name = strip_word(name, "mcp").unwrap_or(name);
    strip_word(name, tool_name::RESERVED_SLUG).filter(|rest| !rest.is_empty())
}

/// The rest after a word and its separator.
fn strip_word<'n>(name: &'n str, word: &str) -> Option<&'n str> {
    let (head, rest) = name.split_at_checked(word.len())?;
    if !head.eq_ignore_ascii_case(word) {
        return None;
    }
    rest.strip_prefix(tool_name::SEPARATOR).or_else(|| rest.strip_prefix(['_', '-', ':', '.', '/']))
}

/// Whether two texts are equal after `fold`.
fn same(a: &str, b: &str, any_case: bool, fold: fn(char) -> char) -> bool {
    let folded = |c: char| letter(fold(c), any_case);
    a.chars().map(folded).eq(b.chars().map(folded))
}

fn as_is(c: char) -> char {
    c
}

fn dash(c: char) -> char {
    if c == '-' { '_' } else { c }
}

fn separator(c: char) -> char {
    if c.is_ascii_alphanumeric() { c } else { '_' }
}

fn letter(c: char, any_case: bool) -> char {
    if any_case { c.to_ascii_lowercase() } else { c }
}

/// Letters and digits, with one `_` for each run of other characters.
fn flat(text: impl Iterator<Item = char>, any_case: bool) -> impl Iterator<Item = char> {
    let mut before = ' ';
    text.map(move |c| letter(separator(c), any_case)).filter(move |c| {
        let again = *c == '_' && before == '_';
        before = *c;
        !again
    })
}

fn shown(name: &str) -> String {
    name.chars().take(MAX_NAME_SHOWN).collect()
}

fn ambiguous(name: &str, matching: &[&Arc<Tool>]) -> CallError {
    let names: Vec<&str> = matching.iter().take(MAX_CANDIDATES).map(|tool| tool.name()).collect();
    let more = match matching.len() - names.len() {
        0 => String::new(),
        more => format!(" or one of {more} more"),
    };
    let message = format!("{} matches {} tools", shown(name), matching.len());
    CallError::new(ErrorCode::UnknownTool, message)
        .hint(format!("Nothing was run. Call one of them by its full name: {}{more}.", names.join(", ")))
        .details(json!({ "candidates": names }))
}

/// Built from the name and from visible tools only, so a missing tool and an invisible one get the same error.
fn unknown(tools: &Tools, name: &str) -> CallError {
    let shown = shown(name);
    let mut hint = match likely(tools, &shown) {
        Some(nearest_name) => format!("Did you mean {nearest_name}?"),
        None => "List the tools to see which exist.".to_owned(),
    };
    // A confusable character may make it look like the right name.
    if let Some(odd) = name.chars().find(|c| !tool_name::is_plain(c.encode_utf8(&mut [0; 4]))) {
        hint.push_str(&format!(
            " The name contains the character U+{:04X}; names of tools have only the letters a to z, digits, _ and -.",
            u32::from(odd)
        ));
    }
    CallError::new(ErrorCode::UnknownTool, format!("Unknown tool: {shown}")).hint(hint)
}

/// The listed name of the closest tool, compared with full names and with names without the server.
fn likely<'t>(tools: &'t Tools, name: &str) -> Option<&'t str> {
    let name: String = name.chars().filter(char::is_ascii_graphic).collect();
    let without_server = |tool: &'t Arc<Tool>| tool_name::split(tool.name()).map(|(_, tool)| tool);
    // Of two equally close names the last wins, so a full name is preferred to a part.
    let names = tools.values().filter_map(without_server).chain(tools.keys().map(String::as_str));
    let nearest_name = nearest(&name, names)?;
    let matching = tools
        .get(nearest_name)
        .or_else(|| tools.values().find(|tool| without_server(tool) == Some(nearest_name)));
    matching.map(|tool| tool.name())
}
