//! Short ids: the last characters of a UUIDv7. They are random, while the first ones are a timestamp.

use std::collections::HashSet;

use crate::failure::{Exit, Failure};

/// Default length of a short id. It is longer if two ids share these characters.
const DEFAULT_LEN: usize = 8;
/// Minimum length of a suffix that a user can give as an id.
const MIN_LEN: usize = 4;
const UUID_LEN: usize = 36;

/// Maximum number of candidates listed in an error.
pub(crate) const MAX_CANDIDATES: usize = 20;

/// The text as an id suffix, in the lowercase form that hubs compare. None if it cannot be one.
pub(crate) fn parse_suffix(text: &str) -> Option<String> {
    let is_suffix =
        (MIN_LEN..UUID_LEN).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    is_suffix.then(|| text.to_ascii_lowercase())
}

/// The shortest suffix length at which these ids differ from each other.
pub(crate) fn unique_suffix_len<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    // The same id can occur in several rows.
    let ids: HashSet<&str> = ids.collect();
    (DEFAULT_LEN..UUID_LEN)
        .find(|length| ids.iter().map(|id| suffix(id, *length)).collect::<HashSet<_>>().len() == ids.len())
        .unwrap_or(UUID_LEN)
}

/// The last `length` characters of a UUID. Other text is returned unchanged.
pub(crate) fn suffix(id: &str, length: usize) -> &str {
    let is_id = id.len() == UUID_LEN && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_id { &id[UUID_LEN - length.min(UUID_LEN)..] } else { id }
}

/// Shortens ids that are printed one after another: each new one differs from all before it.
#[derive(Debug)]
pub(crate) struct ShortIds {
    seen: HashSet<String>,
    length: usize,
}

impl ShortIds {
    pub(crate) fn new() -> Self {
        Self { seen: HashSet::new(), length: DEFAULT_LEN }
    }

    /// Adds ids that are printed next. The short form never gets shorter.
    pub(crate) fn add(&mut self, ids: &[String]) {
        let known = self.seen.len();
        self.seen.extend(ids.iter().cloned());
        if self.seen.len() > known {
            self.length = self.length.max(unique_suffix_len(self.seen.iter().map(String::as_str)));
        }
    }

    /// The short form of an added id.
    pub(crate) fn shorten<'a>(&self, id: &'a str) -> &'a str {
        suffix(id, self.length)
    }
}

/// The error for a suffix that several ids share. Each candidate is printed on a line.
pub(crate) fn ambiguous(what: &str, text: &str, candidates: &[String]) -> Failure {
    let mut message = format!("the ids of several {what} end with {text:?}:");
    for candidate in candidates.iter().take(MAX_CANDIDATES) {
        message.push_str("\n  ");
        message.push_str(candidate);
    }
    if candidates.len() > MAX_CANDIDATES {
        message.push_str("\n  and more");
    }
    Failure::new(Exit::Usage, message).hint("give more characters of the id")
}

#[cfg(test)]
mod tests;
