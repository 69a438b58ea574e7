//! Paginated lists.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::message::METHOD_NOT_FOUND;
use super::super::{ClientError, Definitions, ListKind, Peer};
use super::{malformed, parsed};

/// Limits of the pages and entries of a list. A server with more tools is rejected entirely, because a
/// partial list would look complete. Other lists are truncated.
const MAX_PAGES: usize = 200;
const MAX_ENTRIES: usize = 5_000;
/// Limit in bytes of an entry other than a tool; a longer one is left out. The size of tools is checked when
/// they are judged.
const MAX_ENTRY: usize = 64 << 10;

/// Fetches all pages of a list. `page` requests the page at a cursor, the first without one; `limit` bounds
/// the total size in bytes to that of one message.
pub(in crate::client) async fn fetch_list<F>(
    peer: &Peer,
    list_kind: ListKind,
    limit: usize,
    page: impl Fn(Option<String>) -> F,
) -> Result<Definitions, ClientError>
where
    F: Future<Output = Result<Bytes, ClientError>>,
{
    let mut listing = Listing::new(list_kind, limit);
    while !listing.is_whole() {
        match page(listing.cursor.clone()).await {
            Ok(result) => listing.add(&result)?,
            // The server did not announce this list.
            Err(ClientError::Rpc { code: METHOD_NOT_FOUND, .. }) if !list_kind.is_offered(&peer.offers) => {
                return Ok(Definitions::new());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(listing.entries)
}

#[derive(Debug)]
pub(super) struct Listing {
    list_kind: ListKind,
    entries: Definitions,
    pages: usize,
    /// The cursor of the next page; none for the first.
    cursor: Option<String>,
    /// Bytes that further pages may have.
    remaining: usize,
}

impl Listing {
    pub(super) fn new(list_kind: ListKind, remaining: usize) -> Self {
        Self { list_kind, entries: Definitions::new(), pages: 0, cursor: None, remaining }
    }

    fn is_whole(&self) -> bool {
        self.pages > 0 && self.cursor.is_none()
    }

    /// Adds the page at the current cursor.
    fn add(&mut self, result: &Bytes) -> Result<(), ClientError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            next_cursor: Option<String>,
            #[serde(flatten)]
            members: Map<String, Value>,
        }
        let method = self.list_kind.method();
        let (member, key) = self.list_kind.members();
        let Some(remaining) = self.remaining.checked_sub(result.len()) else {
            let why =
                format!("all pages of the server's {method} together exceed the size limit of one message");
            return Err(ClientError::Protocol(why));
        };
        self.remaining = remaining;
        let Page { next_cursor, mut members } = parsed(result, method)?;
        let Some(Value::Array(entries)) = members.remove(member) else {
            return Err(malformed(method, &format_args!("it has no list of `{member}`")));
        };
        for entry in entries {
            match entry {
                Value::Object(entry)
                    if entry.get(key).is_some_and(Value::is_string) && self.is_accepted(&entry) =>
                {
                    self.entries.push(entry)
                }
                // An entry without an identifier cannot be used; it does not invalidate the others.
                _ => tracing::warn!(
                    "left out an entry of the server's {method} that has no `{key}` or is too long"
                ),
            }
        }
        self.pages += 1;
        // Some servers write an empty cursor instead of none.
        let next_cursor = next_cursor.filter(|cursor| !cursor.is_empty());
        if self.entries.len() > MAX_ENTRIES || (self.pages == MAX_PAGES && next_cursor.is_some()) {
            if self.list_kind != ListKind::Tools {
                tracing::warn!(
                    "the server's {method} is truncated to {MAX_ENTRIES} entries or {MAX_PAGES} pages"
                );
                self.entries.truncate(MAX_ENTRIES);
                self.cursor = None;
                return Ok(());
            }
            return Err(ClientError::Protocol(format!(
                "the server lists more than {MAX_ENTRIES} {member}, or more than {MAX_PAGES} pages of them"
            )));
        }
        if next_cursor.is_some() && next_cursor == self.cursor {
            return Err(malformed(method, &"a page names itself as the next one"));
        }
        self.cursor = next_cursor;
        Ok(())
    }

    fn is_accepted(&self, entry: &Map<String, Value>) -> bool {
        self.list_kind == ListKind::Tools
            || serde_json::to_vec(entry).is_ok_and(|entry| entry.len() <= MAX_ENTRY)
    }
}

#[cfg(test)]
mod tests;
