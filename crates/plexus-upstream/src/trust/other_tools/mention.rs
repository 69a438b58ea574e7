//! Whether a word of a text is the name of a tool there, although it is a word like any other.
//!
//! Tools are called `todo`, `echo` or `search`, and so are many other things. A word counts only where the text itself says
//! that a tool is meant by it.

/// What a text makes of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mention {
    /// A word.
    None,
    /// A tool.
    Tool,
    /// A tool that is not to be used, or with which something else is to be done.
    Order,
}

/// How a word is meant that begins and ends at these places of a text in small letters.
pub(super) fn mention(text: &str, start: usize, end: usize) -> Mention {
    let (before, after) = (&text[..start], &text[end..]);
    let is_quoted = before.ends_with(QUOTES) && after.starts_with(QUOTES);
    let before = before.trim_end_matches(QUOTES).trim_end();
    let after = after.trim_start_matches(QUOTES).trim_start();
    let comes_after = |words: &[&str]| words.iter().any(|word| ends_with_word(before, word));
    let goes_on = |words: &[&str]| words.iter().any(|word| after.starts_with(word));
    if comes_after(&["instead of", "instead of the", "instead of the tool", "instead of the function"])
        || comes_after(&["never use", "never call", "do not use", "do not call", "don't use", "don't call"])
        || comes_after(&["when", "whenever"]) && goes_on(&["is called", "is used", "is invoked", "is run"])
    {
        return Mention::Order;
    }
    let is_tool = comes_after(&["tool", "tools", "function"])
        || comes_after(&["the"]) && goes_on(&["tool", "function"])
        || is_quoted && comes_after(&["call", "calling", "invoke", "invoking", "run", "running"]);
    if is_tool { Mention::Tool } else { Mention::None }
}

const QUOTES: [char; 3] = ['`', '\'', '"'];

/// Whether a text ends with these words, and not only with letters of them.
fn ends_with_word(text: &str, words: &str) -> bool {
    text.strip_suffix(words).is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}
