//! Lists that come in pages.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::message::METHOD_NOT_FOUND;
use super::super::{ClientError, Definitions, Listed, Peer};
use super::{malformed, parsed};

/// Pages of a list that are asked for, and entries that are taken from them. A server with more tools is refused whole: a
/// part of them would look like all of them. Of anything else the first are listed.
const MAX_PAGES: usize = 200;
const MAX_ENTRIES: usize = 5_000;
/// Of an entry that is no tool, bytes; one that is longer is left out. What is said of tools is bounded by whoever judges it.
const MAX_ENTRY: usize = 64 << 10;

/// All that a server lists of a kind, however many pages it comes in. `page` asks for the one that begins at a cursor, the first at
/// none; `limit` is for the bytes of all of them, as many as one message may have.
pub(in crate::client) async fn listed<F>(
    peer: &Peer,
    what: Listed,
    limit: usize,
    page: impl Fn(Option<String>) -> F,
) -> Result<Definitions, ClientError>
where
    F: Future<Output = Result<Bytes, ClientError>>,
{
    let mut listing = Listing::new(what, limit);
    while !listing.is_whole() {
        match page(listing.cursor.clone()).await {
            Ok(result) => listing.add(&result)?,
            // It never said that it has any.
            Err(ClientError::Rpc { code: METHOD_NOT_FOUND, .. }) if !what.is_offered(&peer.offers) => {
                return Ok(Definitions::new());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(listing.entries)
}

#[derive(Debug)]
pub(super) struct Listing {
    what: Listed,
    entries: Definitions,
    pages: usize,
    /// Where the next page begins; none for the first.
    cursor: Option<String>,
    /// Bytes that the pages to come may have.
    room: usize,
}

impl Listing {
    pub(super) fn new(what: Listed, room: usize) -> Self {
        Self { what, entries: Definitions::new(), pages: 0, cursor: None, room }
    }

    fn is_whole(&self) -> bool {
        self.pages > 0 && self.cursor.is_none()
    }

    /// Takes the page that begins at the cursor.
    fn add(&mut self, result: &Bytes) -> Result<(), ClientError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            next_cursor: Option<String>,
            #[serde(flatten)]
            members: Map<String, Value>,
        }
        let method = self.what.method();
        let (member, key) = self.what.members();
        let Some(room) = self.room.checked_sub(result.len()) else {
            let why = format!(
                "the server's result of {method} is longer, with all its pages, than one message may be"
            );
            return Err(ClientError::Protocol(why));
        };
        self.room = room;
        let Page { next_cursor, mut members } = parsed(result, method)?;
        let Some(Value::Array(entries)) = members.remove(member) else {
            return Err(malformed(method, &format_args!("it has no list of `{member}`")));
        };
        for entry in entries {
            match entry {
                Value::Object(entry)
                    if entry.get(key).is_some_and(Value::is_string) && self.takes(&entry) =>
                {
                    self.entries.push(entry)
                }
                // One that nobody could ask for takes the others not with it.
                _ => tracing::warn!(
                    "an entry without a `{key}`, or far too long, is left out of the server's {method}"
                ),
            }
        }
        self.pages += 1;
        // An empty cursor is what some servers write for none.
        let next_cursor = next_cursor.filter(|cursor| !cursor.is_empty());
        if self.entries.len() > MAX_ENTRIES || (self.pages == MAX_PAGES && next_cursor.is_some()) {
            if self.what != Listed::Tools {
                tracing::warn!(
                    "of the server's {method} only the first {MAX_ENTRIES} entries are listed, or {MAX_PAGES} pages"
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

    fn takes(&self, entry: &Map<String, Value>) -> bool {
        self.what == Listed::Tools || serde_json::to_vec(entry).is_ok_and(|entry| entry.len() <= MAX_ENTRY)
    }
}

#[cfg(test)]
mod tests;
