//! Names of tools of upstream servers: `mcp__<server>__<tool>`, built and taken apart here only.
//!
//! A client puts its own `mcp__plexus__` in front and models allow 64 characters, so a name has at most
//! [`MAX`]. What had to be changed or cut in a way that could make two names one carries a hash of what it
//! was: a name is made from the server and the tool alone, and so is the same after every restart.

use std::fmt::Write as _;

/// What the name of every upstream tool begins with.
pub const PREFIX: &str = "mcp__";
/// Between the server and the tool; also what a slug never has in it.
pub const SEPARATOR: &str = "__";
/// Longest name: 64 less what clients put in front.
pub const MAX: usize = 51;
/// Longest slug of a server, so that there is room for the tool.
pub const MAX_SLUG: usize = 24;
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
        // A cut behind a word leaves its `_`, and there must not be two.
        _ => Some(cut(slug[..MAX_SLUG - HASH - 1].trim_end_matches('_'), MAX_SLUG, server)),
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
mod tests {
    use super::{MAX, MAX_SLUG, canonical, distinct, slug, split};

    #[test]
    fn names_fit_and_come_apart_again() {
        for (server, tool) in [
            ("github", "create_issue"),
            ("my server", "_private"),
            ("a-very-long-name-of-a-server-indeed", "and_a_tool_with_a_name_that_goes_on_and_on"),
            ("x", "ünïcode/töol"),
        ] {
            let slug = slug(server).unwrap();
            assert!(slug.len() <= MAX_SLUG && !slug.contains("__"), "{slug}");
            for name in [canonical(&slug, tool), distinct(&slug, tool)] {
                assert!(name.len() <= MAX, "{name}");
                assert_eq!(split(&name).unwrap().0, slug, "{name}");
            }
        }
    }

    #[test]
    fn long_names_with_one_beginning_stay_two() {
        let [a, b] = ["a", "b"].map(|end| canonical("s", &format!("{}{end}", "x".repeat(60))));
        assert_ne!(a, b);
        let [a, b] = ["a", "b"].map(|end| slug(&format!("{}{end}", "server".repeat(6))));
        assert_ne!(a, b);
    }
}
