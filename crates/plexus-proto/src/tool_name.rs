//! Tool names of upstream servers: `mcp__<server>__<tool>`, built and parsed only here.
//!
//! Clients prepend their own `mcp__plexus__` and models allow 64 characters, so a name has at most [`MAX`]. A
//! part that was shortened carries a hash of its original text, so that different originals stay distinct. A
//! name depends only on the server and the tool, and so is stable across restarts.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Prefix of every upstream tool name.
pub const PREFIX: &str = "mcp__";
/// Separates the server from the tool; never occurs in a slug.
pub const SEPARATOR: &str = "__";
/// Maximum length of a name: 64 minus the prefix added by clients.
pub const MAX: usize = 51;
/// Maximum length of a server slug, which leaves room for the tool.
pub const MAX_SLUG: usize = 24;
/// The hub tool that searches for tools; [`CALL`] calls tools that are not listed.
pub const SEARCH: &str = "tool_search";
pub const CALL: &str = "tool_call";
/// The hub's own name in clients, so not allowed as a server slug.
pub const RESERVED_SLUG: &str = "plexus";

/// A server's part of a name: letters and digits unchanged, one `_` for every run of other characters, none
/// at either end. `None` if nothing is left.
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
        // Cutting after a word leaves its `_`, and a slug must not contain two in a row. The hash covers the
        // normalized words, so that the same server written with other separators gets the same slug.
        _ => Some(cut(slug[..MAX_SLUG - HASH - 1].trim_end_matches('_'), MAX_SLUG, &slug)),
    }
}

/// A tool's part of a name: characters other than letters, digits, `_` and `-` become `_`.
#[must_use]
pub fn sanitized(tool: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    tool.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

/// The canonical name of a server's tool.
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

/// The name of a tool whose canonical name collides with that of another tool of the same server.
#[must_use]
pub fn distinct(slug: &str, tool: &str) -> String {
    let name = format!("{PREFIX}{slug}{SEPARATOR}{}", sanitized(tool));
    let room = (name.len() + 1 + HASH).min(MAX);
    cut(&name, room, tool)
}

/// Splits a name into server and tool at the first separator after the prefix.
#[must_use]
pub fn split(name: &str) -> Option<(&str, &str)> {
    let (slug, tool) = name.strip_prefix(PREFIX)?.split_once(SEPARATOR)?;
    (!slug.is_empty() && !tool.is_empty()).then_some((slug, tool))
}

/// Whether a text contains only characters allowed in names: ASCII letters, digits and `_ - . : /`. This
/// excludes confusable letters, zero-width characters and spaces.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:/".contains(&b))
}

/// Canonicalizes a name, or a pattern of names, for use in rules: converts `mcp:<server>:<tool>` and other
/// spellings of the server to the canonical name, and strips the prefix that clients add.
///
/// A name of one tool maps to that same tool, never to more. Stars are matched against canonical names, so a
/// server part that contains a star, and any unrecognized form, is returned unchanged.
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
    let own_name = ["mcp__plexus__", "mcp:plexus:"].iter().find_map(|prefix| name.strip_prefix(prefix));
    // With a star, the stripped pattern would match tools that the original does not.
    let name = own_name.filter(|rest| !stars && !rest.is_empty()).unwrap_or(name);
    let colons = || name.strip_prefix("mcp:")?.split_once(':').filter(|(_, tool)| !tool.is_empty());
    let Some((server, tool)) = split(name).or_else(colons) else { return name.into() };
    if server.contains('*') || !is_plain(server) || !is_plain(&tool.replace('*', "")) {
        return name.into();
    }
    match slug(server) {
        None => name.into(),
        Some(slug) if tool.contains('*') => {
            // The parts between stars are sanitized like names; otherwise they would match none.
            let parts: Vec<String> = tool.split('*').map(sanitized).collect();
            format!("{PREFIX}{slug}{SEPARATOR}{}", parts.join("*")).into()
        }
        Some(slug) => canonical(&slug, tool).into(),
    }
}

const HASH: usize = 6;

/// The beginning of `text` and a hash of `full_name`, in at most `length` characters.
fn cut(text: &str, length: usize, full_name: &str) -> String {
    let mut name = text[..(length - HASH - 1).min(text.len())].to_owned();
    name.push('_');
    // FNV-1a: the hash only has to distinguish names and stay stable.
    let hash = full_name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let _ = write!(name, "{:06x}", (hash ^ (hash >> 32)) & 0xff_ffff);
    name
}

#[cfg(test)]
mod tests;
