//! Decides whether a word in a text denotes the tool of that name.
//!
//! Many tools are named by ordinary words such as `todo`, `echo` or `search`. Such a word counts only if the
//! text itself makes clear that it means a tool.

/// The meaning of a word in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mention {
    /// An ordinary word.
    None,
    /// A tool.
    Tool,
    /// A tool, with an instruction not to use it or to do something else with it.
    Order,
}

/// The meaning of the word at `start..end` of a lower-case text.
pub(super) fn mention(text: &str, start: usize, end: usize) -> Mention {
    let (before, after) = (&text[..start], &text[end..]);
    let is_quoted = before.ends_with(QUOTES) && after.starts_with(QUOTES);
    let before = before.trim_end_matches(QUOTES).trim_end();
    let after = after.trim_start_matches(QUOTES).trim_start();
    let comes_after = |words: &[&str]| words.iter().any(|word| ends_with_word(before, word));
    let continues = |words: &[&str]| words.iter().any(|word| after.starts_with(word));
    if comes_after(&["instead of", "instead of the", "instead of the tool", "instead of the function"])
        || comes_after(&["never use", "never call", "do not use", "do not call", "don't use", "don't call"])
        || comes_after(&["when", "whenever"]) && continues(&["is called", "is used", "is invoked", "is run"])
    {
        return Mention::Order;
    }
    let is_tool = comes_after(&["tool", "tools", "function"])
        || comes_after(&["the"]) && continues(&["tool", "function"])
        || is_quoted && comes_after(&["call", "calling", "invoke", "invoking", "run", "running"]);
    if is_tool { Mention::Tool } else { Mention::None }
}

const QUOTES: [char; 3] = ['`', '\'', '"'];

/// Whether a text ends with these whole words.
fn ends_with_word(text: &str, words: &str) -> bool {
    text.strip_suffix(words).is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}
