//! Short ids: the end of a UUID, which is random, while its beginning is the time at which it was made.

use std::collections::HashSet;

use crate::failure::{Exit, Failure};

/// Characters of an id that are shown, unless it takes more to tell two ids apart.
const SHOWN: usize = 8;
/// Fewer characters are not taken for an id.
const LEAST: usize = 4;
/// Characters of a whole id.
const WHOLE: usize = 36;

/// Candidates that are named in an error.
pub(crate) const CANDIDATES: usize = 20;

/// The end of an id, as hubs compare it, where a text can be one.
pub(crate) fn ending(text: &str) -> Option<String> {
    let fits =
        (LEAST..WHOLE).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    fits.then(|| text.to_ascii_lowercase())
}

/// How many characters of the ends tell these ids apart.
pub(crate) fn distinct<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    // One id may stand in several rows.
    let ids: HashSet<&str> = ids.collect();
    (SHOWN..WHOLE)
        .find(|length| ids.iter().map(|id| end(id, *length)).collect::<HashSet<_>>().len() == ids.len())
        .unwrap_or(WHOLE)
}

/// The last `length` characters of a UUID; any other text as it is.
pub(crate) fn end(id: &str, length: usize) -> &str {
    let is_id = id.len() == WHOLE && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_id { &id[WHOLE - length.min(WHOLE)..] } else { id }
}

/// An id as it is shown on its own.
pub(crate) fn short(id: &str) -> &str {
    end(id, SHOWN)
}

/// Several things have an id that ends like this; each candidate is a line.
pub(crate) fn ambiguous(what: &str, text: &str, candidates: &[String]) -> Failure {
    let mut message = format!("the ids of several {what} end with {text:?}:");
    for candidate in candidates.iter().take(CANDIDATES) {
        message.push_str("\n  ");
        message.push_str(candidate);
    }
    if candidates.len() > CANDIDATES {
        message.push_str("\n  and more");
    }
    Failure::new(Exit::Usage, message).hint("give more of the id")
}

#[cfg(test)]
mod tests;
