//! What a server's results say. Each function takes the text of a `result`, as a slice of the message it came in.

use std::borrow::Cow;

use bytes::Bytes;
use plexus_proto::api::UpstreamEra;
use plexus_tools::{ForeignOutput, RawJson};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::message::METHOD_NOT_FOUND;
use super::stderr::cut;
use super::{Called, ClientError, Definitions, Peer};
use crate::server::{MODERN, SUPPORTED, Version};

/// Errors that only a server of the stateless era gives.
const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_REVISION: i64 = -32022;

/// Pages of a list that are asked for, and tools that are taken from them. A server with more is refused whole: a
/// part of its tools would look like all of them.
const MAX_PAGES: usize = 200;
const MAX_TOOLS: usize = 5_000;

/// Of what a server says of itself, bytes that are kept. All of it is shown to people, and the instructions to models.
const MAX_NAME: usize = 200;
const MAX_VERSION: usize = 100;
const MAX_INSTRUCTIONS: usize = 16 << 10;
/// Of what it says where it should not have, bytes that an error repeats.
const MAX_REPEATED: usize = 300;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The result of a call. Its parts stay the text that came: nothing is copied or written anew.
pub(super) fn called(result: &Bytes) -> Called {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts<'a> {
        #[serde(borrow)]
        result_type: Option<Cow<'a, str>>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        // In the stateless era null is a value too. Servers of the other write it for nothing, and nobody misses it.
        #[serde(borrow)]
        structured_content: Option<&'a RawValue>,
        is_error: Option<bool>,
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    let parts: Parts<'_> = parsed(result, "tools/call")?;
    complete(parts.result_type.as_deref())?;
    let content = match parts.content {
        Some(content) if content.get().starts_with('[') => RawJson::within(result, content),
        Some(_) => return Err(malformed("tools/call", &"`content` is not an array")),
        // Required, but data alone says what there is to say.
        None if parts.structured_content.is_some() => RawJson::empty_array(),
        None => return Err(malformed("tools/call", &"it has no `content`")),
    };
    Ok(ForeignOutput {
        content,
        structured: parts.structured_content.map(|data| RawJson::within(result, data)),
        is_error: parts.is_error.unwrap_or(false),
        meta: parts.meta.filter(|meta| meta.get().starts_with('{')).map(|meta| RawJson::within(result, meta)),
    })
}

/// Whether a result is the whole answer.
fn complete(result_type: Option<&str>) -> Result<(), ClientError> {
    let why = match result_type {
        None | Some("complete") => return Ok(()),
        Some("input_required") => {
            "the tool asks a question back before it goes on (input_required), and the hub does not pass questions \
             on yet"
        }
        Some("task") => {
            "the tool goes on in the background and offers a task, and the hub does not follow tasks yet"
        }
        Some(other) => {
            let other = cut(other, MAX_REPEATED);
            return Err(ClientError::Protocol(format!("the result is of a kind unknown here: `{other}`")));
        }
    };
    Err(ClientError::Protocol(why.to_owned()))
}

/// All tools of a server, however many pages they come in. `page` asks for the one that begins at a cursor, the first at
/// none; `limit` is for the bytes of all of them, as many as one message may have.
pub(super) async fn listed<F>(
    peer: &Peer,
    limit: usize,
    page: impl Fn(Option<String>) -> F,
) -> Result<Definitions, ClientError>
where
    F: Future<Output = Result<Bytes, ClientError>>,
{
    let mut listing = Listing { room: limit, ..Listing::default() };
    while !listing.is_whole() {
        match page(listing.cursor.clone()).await {
            Ok(result) => listing.add(&result)?,
            // It never said that it has any.
            Err(ClientError::Rpc { code: METHOD_NOT_FOUND, .. }) if !peer.has_tools => {
                return Ok(Definitions::new());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(listing.tools)
}

/// A list of tools that comes in pages.
#[derive(Debug, Default)]
struct Listing {
    tools: Definitions,
    pages: usize,
    /// Where the next page begins; none for the first.
    cursor: Option<String>,
    /// Bytes that the pages to come may have.
    room: usize,
}

impl Listing {
    fn is_whole(&self) -> bool {
        self.pages > 0 && self.cursor.is_none()
    }

    /// Takes the page that begins at the cursor.
    fn add(&mut self, result: &Bytes) -> Result<(), ClientError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            tools: Vec<Value>,
            next_cursor: Option<String>,
        }
        let Some(room) = self.room.checked_sub(result.len()) else {
            let why = "the server's list of tools is longer, with all its pages, than one message may be";
            return Err(ClientError::Protocol(why.to_owned()));
        };
        self.room = room;
        let Page { tools, next_cursor } = parsed(result, "tools/list")?;
        for tool in tools {
            match tool {
                Value::Object(tool) if tool.get("name").is_some_and(Value::is_string) => {
                    self.tools.push(tool)
                }
                // One tool that nobody could call takes the others not with it.
                _ => tracing::warn!("a tool without a name is left out of the server's list"),
            }
        }
        self.pages += 1;
        // An empty cursor is what some servers write for none.
        let next_cursor = next_cursor.filter(|cursor| !cursor.is_empty());
        if self.tools.len() > MAX_TOOLS || (self.pages == MAX_PAGES && next_cursor.is_some()) {
            return Err(ClientError::Protocol(format!(
                "the server lists more than {MAX_TOOLS} tools, or more than {MAX_PAGES} pages of them"
            )));
        }
        if next_cursor.is_some() && next_cursor == self.cursor {
            return Err(malformed("tools/list", &"a page names itself as the next one"));
        }
        self.cursor = next_cursor;
        Ok(())
    }
}

/// Who answered `initialize`, and the revision it chose.
pub(super) fn initialized(result: &Bytes) -> Result<Peer, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts {
        protocol_version: String,
        #[serde(default)]
        capabilities: Capabilities,
        #[serde(default)]
        server_info: Implementation,
        instructions: Option<String>,
    }
    let parts: Parts = parsed(result, "initialize")?;
    if Version::parse(&parts.protocol_version).is_none() {
        return Err(no_common_revision(&[parts.protocol_version]));
    }
    let Parts { protocol_version, capabilities, server_info, instructions } = parts;
    Ok(peer(UpstreamEra::Session, protocol_version, server_info, instructions, &capabilities))
}

/// Who answered `server/discover`. An error where it does not speak the stateless revision of the hub.
pub(super) fn discovered(result: &Bytes) -> Result<Peer, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts {
        supported_versions: Vec<String>,
        #[serde(default)]
        capabilities: Capabilities,
        instructions: Option<String>,
        #[serde(default, rename = "_meta")]
        meta: Map<String, Value>,
    }
    let mut parts: Parts = parsed(result, "server/discover")?;
    if !parts.supported_versions.iter().any(|revision| revision == MODERN) {
        return Err(no_common_revision(&parts.supported_versions));
    }
    let server = parts.meta.remove(SERVER_INFO).map(serde_json::from_value::<Implementation>);
    let server = server.and_then(Result::ok).unwrap_or_default();
    let Parts { instructions, capabilities, .. } = parts;
    Ok(peer(UpstreamEra::Stateless, MODERN.to_owned(), server, instructions, &capabilities))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Implementation {
    name: String,
    version: String,
}

/// The one that the hub has a use for. What a server says of others is not kept.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Capabilities {
    tools: Option<Value>,
}

fn peer(
    era: UpstreamEra,
    revision: String,
    server: Implementation,
    instructions: Option<String>,
    capabilities: &Capabilities,
) -> Peer {
    let tools = capabilities.tools.as_ref();
    Peer {
        era,
        revision,
        name: cut(&server.name, MAX_NAME),
        version: cut(&server.version, MAX_VERSION),
        instructions: instructions.map(|instructions| cut(&instructions, MAX_INSTRUCTIONS)),
        has_tools: tools.is_some(),
        announces_changes: tools.and_then(|tools| tools.get("listChanged")) == Some(&Value::Bool(true)),
    }
}

/// What the failure of `server/discover` says about a server.
#[derive(Debug, PartialEq)]
pub(super) enum Undiscovered {
    /// It is of the session era, or speaks a revision of it: `initialize` is worth trying.
    TryInitialize,
    /// It knows the stateless era, and there is nothing to agree on.
    Refused(ClientError),
}

/// The specification keys the way back to `initialize` to no error of its own: everything but what only a server of
/// the stateless era says leads there.
pub(super) fn undiscovered(error: ClientError) -> Undiscovered {
    let ClientError::Rpc { code, data, .. } = &error else { return Undiscovered::TryInitialize };
    match *code {
        UNSUPPORTED_REVISION => {
            let supported = data.as_ref().and_then(|data| data.get("supported")).and_then(Value::as_array);
            let supported: Vec<String> =
                supported.into_iter().flatten().filter_map(|r| r.as_str().map(str::to_owned)).collect();
            if supported.iter().any(|revision| Version::parse(revision).is_some()) {
                return Undiscovered::TryInitialize;
            }
            Undiscovered::Refused(no_common_revision(&supported))
        }
        HEADER_MISMATCH | MISSING_CAPABILITY => Undiscovered::Refused(error),
        _ => Undiscovered::TryInitialize,
    }
}

fn no_common_revision(theirs: &[String]) -> ClientError {
    let (theirs, ours) = (cut(&theirs.join(", "), MAX_REPEATED), SUPPORTED.join(", "));
    ClientError::Protocol(format!("the server speaks MCP {theirs}, and the hub speaks {ours}"))
}

fn parsed<'a, T: Deserialize<'a>>(result: &'a Bytes, method: &str) -> Result<T, ClientError> {
    serde_json::from_slice(result).map_err(|error| malformed(method, &error))
}

fn malformed(method: &str, why: &dyn std::fmt::Display) -> ClientError {
    let why = cut(&why.to_string(), MAX_REPEATED);
    ClientError::Protocol(format!("the server's result of {method} cannot be used: {why}"))
}

#[cfg(test)]
mod tests;
