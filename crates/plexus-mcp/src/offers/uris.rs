//! Finds the server that a URI belongs to.
//!
//! URIs are passed on unchanged, so that links in servers' content work. If two servers that a caller sees have the
//! same URI, or a server has one in the qualified form, it is listed in the qualified form
//! `plexus+mcp://<server>/<uri>`, which works for every resource. Only the servers that the caller sees have an
//! influence.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::ServerOffer;

/// The prefix of a qualified URI.
const SCHEME: &str = "plexus+mcp://";

/// The qualified form of a server's URI.
pub(super) fn qualified(server: &str, uri: &str) -> String {
    format!("{SCHEME}{server}/{uri}")
}

/// Whether a URI has the qualified form.
pub(super) fn is_qualified(uri: &str) -> bool {
    uri.len() >= SCHEME.len() && uri.is_char_boundary(SCHEME.len()) && {
        uri[..SCHEME.len()].eq_ignore_ascii_case(SCHEME)
    }
}

/// The server and the URI in a qualified URI.
fn split(uri: &str) -> Option<(&str, &str)> {
    is_qualified(uri).then(|| uri[SCHEME.len()..].split_once('/')).flatten()
}

/// The server's own URI in a qualified URI.
pub(crate) fn server_uri(uri: &str) -> Option<&str> {
    split(uri).map(|(_, rest)| rest)
}

/// A server whose resources the caller sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResourceServer<'o> {
    pub(super) server: &'o str,
    pub(super) offer: &'o ServerOffer,
}

/// The server that a URI belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceOwner {
    pub(crate) server: String,
    /// The server's own URI.
    pub(crate) uri: String,
}

/// A URI belongs to no server, or it is ambiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownOwner {
    /// The qualified URIs of the possible servers.
    pub(crate) candidates: Vec<String>,
}

/// The server that a URI or a template belongs to: the one it names, else the only one that lists it, else the one
/// with the most specific matching template, else the only server.
pub(super) fn owner(servers: &[ResourceServer<'_>], uri: &str) -> Result<ResourceOwner, UnknownOwner> {
    let owned = |owner: &ResourceServer<'_>, uri: &str| {
        Ok(ResourceOwner { server: owner.server.to_owned(), uri: uri.to_owned() })
    };
    if is_qualified(uri) {
        let named = split(uri).filter(|(_, rest)| !rest.is_empty()).and_then(|(server, rest)| {
            servers.iter().find(|candidate| candidate.server == server).map(|server| (server, rest))
        });
        // A URI in the qualified form is never interpreted differently.
        return named
            .map_or(Err(UnknownOwner { candidates: Vec::new() }), |(server, rest)| owned(server, rest));
    }
    let listing: Vec<_> = servers.iter().filter(|server| server.offer.lists_uri(uri)).collect();
    let matches = match listing.is_empty() {
        false => listing,
        true => best_matches(servers, uri),
    };
    match (matches.as_slice(), servers) {
        ([server], _) => owned(server, uri),
        ([], [only]) => owned(only, uri),
        ([], several) => Err(UnknownOwner { candidates: candidates(several.iter(), uri) }),
        (several, _) => Err(UnknownOwner { candidates: candidates(several.iter().copied(), uri) }),
    }
}

/// The servers with the most specific matching template.
fn best_matches<'s, 'o>(servers: &'s [ResourceServer<'o>], uri: &str) -> Vec<&'s ResourceServer<'o>> {
    let matches: Vec<_> =
        servers.iter().filter_map(|server| Some((server.offer.best_match(uri)?, server))).collect();
    let longest = matches.iter().map(|(length, _)| *length).max();
    matches.into_iter().filter(|(length, _)| Some(*length) == longest).map(|(_, server)| server).collect()
}

/// Most candidates in an error message.
const MAX_CANDIDATES: usize = 5;

fn candidates<'s, 'o: 's>(servers: impl Iterator<Item = &'s ResourceServer<'o>>, uri: &str) -> Vec<String> {
    servers.take(MAX_CANDIDATES).map(|server| qualified(server.server, uri)).collect()
}

/// The URI under which a server's resource is listed: unchanged, or qualified if others have it too.
pub(super) fn listed_uri<'u>(server: &str, uri: &'u str, shared: &BTreeSet<&str>) -> Cow<'u, str> {
    match shared.contains(uri) || is_qualified(uri) {
        true => qualified(server, uri).into(),
        false => uri.into(),
    }
}

#[cfg(test)]
mod tests;
