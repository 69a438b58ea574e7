//! Names of tools of upstream servers: `mcp__<server>__<tool>`, built and taken apart here only.
//!
//! A client puts its own `mcp__plexus__` in front and models allow 64 characters, so a name has at most
//! [`MAX`]. What had to be changed or cut in a way that could make two names one carries a hash of what it
//! was: a name is made from the server and the tool alone, and so is the same after every restart.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What the name of every upstream tool begins with.
pub const PREFIX: &str = "mcp__";
/// Between the server and the tool; also what a slug never has in it.
pub const SEPARATOR: &str = "__";
/// Longest name: 64 less what clients put in front.
pub const MAX: usize = 51;
/// Longest slug of a server, so that there is room for the tool.
pub const MAX_SLUG: usize = 24;
/// The hub's tool that finds tools, and the one that calls those that are not listed.
pub const SEARCH: &str = "tool_search";
pub const CALL: &str = "tool_call";
/// Our own name in a client, and so no name for a server.
pub const RESERVED_SLUG: &str = "plexus";

/// A server's part of a name: letters and digits as they are, one `_` for every run of anything else, none
/// at the ends. None when nothing is left.
///
/// ```
/// use plexus_proto::tool_name::slug;
///
/// assert_eq!(slug("my--server (2)").as_deref(), Some("my_server_2"));
/// assert_eq!(slug("--"), None);
/// ```
#[must_use]
pub fn slug(server: &str) -> Option<String> {
    let mut slug = String::new();
    for word in server.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if !slug.is_empty() {
            slug.push('_');
        }
        slug.push_str(word);
    }
    match slug.len() {
        0 => None,
        1..=MAX_SLUG => Some(slug),
        // A cut behind a word leaves its `_`, and there must not be two. The hash is one of the words, so that
        // the same server written with other characters between them is the same one.
        _ => Some(cut(slug[..MAX_SLUG - HASH - 1].trim_end_matches('_'), MAX_SLUG, &slug)),
    }
}

/// A tool's part of a name: anything but letters, digits, `_` and `-` becomes `_`.
#[must_use]
pub fn sanitized(tool: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    tool.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

/// The name of a server's tool.
///
/// ```
/// use plexus_proto::tool_name::canonical;
///
/// assert_eq!(canonical("github", "issues.create"), "mcp__github__issues_create");
/// assert!(canonical("github", &"x".repeat(80)).len() == 51);
/// ```
#[must_use]
pub fn canonical(slug: &str, tool: &str) -> String {
    let name = format!("{PREFIX}{slug}{SEPARATOR}{}", sanitized(tool));
    if name.len() <= MAX { name } else { cut(&name, MAX, tool) }
}

/// The name of a tool whose plain name another tool of the server has too.
#[must_use]
pub fn distinct(slug: &str, tool: &str) -> String {
    let name = format!("{PREFIX}{slug}{SEPARATOR}{}", sanitized(tool));
    let room = (name.len() + 1 + HASH).min(MAX);
    cut(&name, room, tool)
}

/// Server and tool of a name; the first separator after the prefix is the one.
#[must_use]
pub fn split(name: &str) -> Option<(&str, &str)> {
    let (slug, tool) = name.strip_prefix(PREFIX)?.split_once(SEPARATOR)?;
    (!slug.is_empty() && !tool.is_empty()).then_some((slug, tool))
}

/// Whether a text has only what a name can be written with: ASCII letters, digits and `_ - . : /`. Everything
/// else (look-alike letters, characters without a width, spaces) makes it no name at all.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:/".contains(&b))
}

/// A name or a pattern of names as rules are to have it: `mcp:<server>:<tool>` and other ways to write the
/// server become the canonical name, and what clients put in front of our names goes.
///
/// What stands for one tool stands for the same one tool, and never for more. A star is matched with canonical
/// names, so a server's part that has one, and everything this does not know, stays as it is written.
///
/// ```
/// use plexus_proto::tool_name::canonicalized;
///
/// assert_eq!(canonicalized("mcp:my-server:issues.create"), "mcp__my_server__issues_create");
/// assert_eq!(canonicalized("mcp__my.server__*"), "mcp__my_server__*");
/// assert_eq!(canonicalized("mcp__my.server__issues.*"), "mcp__my_server__issues_*");
/// assert_eq!(canonicalized("mcp__plexus__todo"), "todo");
/// assert_eq!(canonicalized("mcp__my-*"), "mcp__my-*");
/// ```
#[must_use]
pub fn canonicalized(name: &str) -> Cow<'_, str> {
    let stars = name.contains('*');
    let own = ["mcp__plexus__", "mcp:plexus:"].iter().find_map(|prefix| name.strip_prefix(prefix));
    // With a star it would stand for tools that it does not name.
    let name = own.filter(|rest| !stars && !rest.is_empty()).unwrap_or(name);
    let colons = || name.strip_prefix("mcp:")?.split_once(':').filter(|(_, tool)| !tool.is_empty());
    let Some((server, tool)) = split(name).or_else(colons) else { return name.into() };
    if server.contains('*') || !is_plain(server) || !is_plain(&tool.replace('*', "")) {
        return name.into();
    }
    match slug(server) {
        None => name.into(),
        Some(slug) if tool.contains('*') => {
            // Between the stars it is as in names, or it would fit none.
            let parts: Vec<String> = tool.split('*').map(sanitized).collect();
            format!("{PREFIX}{slug}{SEPARATOR}{}", parts.join("*")).into()
        }
        Some(slug) => canonical(&slug, tool).into(),
    }
}

const HASH: usize = 6;

/// The beginning of `text`, and a hash of `whole`, in at most `length` characters.
fn cut(text: &str, length: usize, whole: &str) -> String {
    let mut name = text[..(length - HASH - 1).min(text.len())].to_owned();
    name.push('_');
    // FNV-1a: it only has to tell names apart and to be the same for ever.
    let hash = whole.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let _ = write!(name, "{:06x}", (hash ^ (hash >> 32)) & 0xff_ffff);
    name
}

#[cfg(test)]
mod tests;
