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
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::{ResourceOwner, ResourceServer, is_qualified, listed_uri, owner, qualified};
    use crate::offers::{OfferLists, ServerOffer};

    fn offer(uris: &[&str], templates: &[&str]) -> ServerOffer {
        let entry = |value: serde_json::Value| value.as_object().cloned().expect("an object");
        ServerOffer::new(OfferLists {
            resources: Some(uris.iter().map(|uri| entry(json!({ "uri": uri, "name": uri }))).collect()),
            templates: Some(
                templates.iter().map(|uri| entry(json!({ "uriTemplate": uri, "name": uri }))).collect(),
            ),
            ..OfferLists::default()
        })
    }

    fn owned_by(server: &str, uri: &str) -> Result<ResourceOwner, super::UnknownOwner> {
        Ok(ResourceOwner { server: server.to_owned(), uri: uri.to_owned() })
    }

    #[test]
    fn uri_belongs_to_the_server_that_lists_it() {
        let (docs, files) = (offer(&["docs://a"], &[]), offer(&["file:///a"], &["file:///{+path}"]));
        let servers = [
            ResourceServer { server: "docs", offer: &docs },
            ResourceServer { server: "files", offer: &files },
        ];
        assert_eq!(owner(&servers, "docs://a"), owned_by("docs", "docs://a"));
        assert_eq!(owner(&servers, "file:///b/c"), owned_by("files", "file:///b/c"));
        let unknown = owner(&servers, "other://x").unwrap_err();
        assert_eq!(unknown.candidates, ["plexus+mcp://docs/other://x", "plexus+mcp://files/other://x"]);
    }

    #[test]
    fn uri_of_two_servers_needs_a_qualifier() {
        let (a, b) = (offer(&["x://1"], &[]), offer(&["x://1"], &[]));
        let servers = [ResourceServer { server: "a", offer: &a }, ResourceServer { server: "b", offer: &b }];
        let unknown = owner(&servers, "x://1").unwrap_err();
        assert_eq!(unknown.candidates, ["plexus+mcp://a/x://1", "plexus+mcp://b/x://1"]);
        assert_eq!(owner(&servers, &unknown.candidates[1]), owned_by("b", "x://1"));
        assert_eq!(owner(&servers, "PLEXUS+mcp://b/x://1"), owned_by("b", "x://1"));
    }

    #[test]
    fn most_specific_template_wins_and_a_tie_is_ambiguous() {
        let (wide, narrow) = (offer(&[], &["file:///{+path}"]), offer(&[], &["file:///home/{+path}"]));
        let servers = [
            ResourceServer { server: "wide", offer: &wide },
            ResourceServer { server: "narrow", offer: &narrow },
        ];
        assert_eq!(owner(&servers, "file:///home/a"), owned_by("narrow", "file:///home/a"));
        assert_eq!(owner(&servers, "file:///etc/a"), owned_by("wide", "file:///etc/a"));
        let twice = [
            ResourceServer { server: "wide", offer: &wide },
            ResourceServer { server: "wider", offer: &wide },
        ];
        assert!(owner(&twice, "file:///etc/a").is_err());
    }

    #[test]
    fn unlisted_uri_belongs_to_the_only_server() {
        let only = offer(&[], &[]);
        let servers = [ResourceServer { server: "only", offer: &only }];
        assert_eq!(owner(&servers, "any://thing"), owned_by("only", "any://thing"));
        assert!(owner(&[], "any://thing").unwrap_err().candidates.is_empty());
    }

    #[test]
    fn qualifier_of_a_hidden_server_is_unknown() {
        let only = offer(&["plexus+mcp://hidden/x://1"], &["{+anything}"]);
        let servers = [ResourceServer { server: "only", offer: &only }];
        for uri in ["plexus+mcp://hidden/x://1", "plexus+mcp://only", "plexus+mcp://only/", "plexus+mcp:///x"]
        {
            assert!(owner(&servers, uri).is_err(), "{uri}");
        }
        let behind = qualified("only", "plexus+mcp://hidden/x://1");
        assert_eq!(owner(&servers, &behind), owned_by("only", "plexus+mcp://hidden/x://1"));
    }

    #[test]
    fn shared_uri_is_listed_qualified() {
        let shared = BTreeSet::from(["x://1"]);
        assert_eq!(listed_uri("a", "x://1", &shared), "plexus+mcp://a/x://1");
        assert_eq!(listed_uri("a", "x://2", &shared), "x://2");
        assert_eq!(listed_uri("a", "plexus+mcp://b/x", &shared), "plexus+mcp://a/plexus+mcp://b/x");
        assert!(!is_qualified("plexus+mcp:/"));
    }
}
