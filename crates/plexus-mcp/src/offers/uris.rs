//! Which server a URI is of.
//!
//! URIs are passed on as they are, so that links in what servers say work. Where two servers that a caller sees have the
//! same one, or a server has one of our own form, it is listed with the server in front: `plexus+mcp://<server>/<uri>`,
//! which may be used of any. Only servers that the caller sees are looked at: what others have changes nothing here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Offer;

/// Begins a URI that names its server.
const SCHEME: &str = "plexus+mcp://";

/// The server in front of one of its URIs.
pub(super) fn qualified(server: &str, uri: &str) -> String {
    format!("{SCHEME}{server}/{uri}")
}

/// Whether a URI looks as if it named its server, whoever says it.
pub(super) fn is_qualified(uri: &str) -> bool {
    uri.len() >= SCHEME.len() && uri.is_char_boundary(SCHEME.len()) && {
        uri[..SCHEME.len()].eq_ignore_ascii_case(SCHEME)
    }
}

/// Server and URI of one that names its server.
fn split(uri: &str) -> Option<(&str, &str)> {
    is_qualified(uri).then(|| uri[SCHEME.len()..].split_once('/')).flatten()
}

/// What a server itself calls a resource that goes by a URI which names the server.
pub(crate) fn server_uri(uri: &str) -> Option<&str> {
    split(uri).map(|(_, rest)| rest)
}

/// A server that a caller sees the resources of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder<'o> {
    pub(super) server: &'o str,
    pub(super) offer: &'o Offer,
}

/// Whose a URI is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceOwner {
    pub(crate) server: String,
    /// As the server knows it.
    pub(crate) uri: String,
}

/// No server, or nobody knows which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownOwner {
    /// How to say which, where several could be meant.
    pub(crate) could_be: Vec<String>,
}

/// The server that a URI, or a template, is of: the one that it names, else the only one that lists it, else the one with
/// the template that says most of it, else the only one there is.
pub(super) fn owner(holders: &[Holder<'_>], uri: &str) -> Result<ResourceOwner, UnknownOwner> {
    let owned = |holder: &Holder<'_>, uri: &str| {
        Ok(ResourceOwner { server: holder.server.to_owned(), uri: uri.to_owned() })
    };
    if is_qualified(uri) {
        let named = split(uri).filter(|(_, rest)| !rest.is_empty()).and_then(|(server, rest)| {
            holders.iter().find(|holder| holder.server == server).map(|holder| (holder, rest))
        });
        // Nothing that has our form is anything else.
        return named
            .map_or(Err(UnknownOwner { could_be: Vec::new() }), |(holder, rest)| owned(holder, rest));
    }
    let listing: Vec<_> = holders.iter().filter(|holder| holder.offer.lists_uri(uri)).collect();
    let found = match listing.is_empty() {
        false => listing,
        true => fitting(holders, uri),
    };
    match (found.as_slice(), holders) {
        ([holder], _) => owned(holder, uri),
        ([], [only]) => owned(only, uri),
        ([], several) => Err(UnknownOwner { could_be: named(several.iter(), uri) }),
        (several, _) => Err(UnknownOwner { could_be: named(several.iter().copied(), uri) }),
    }
}

/// Those with the template that says most of it.
fn fitting<'h, 'o>(holders: &'h [Holder<'o>], uri: &str) -> Vec<&'h Holder<'o>> {
    let fits: Vec<_> = holders.iter().filter_map(|holder| Some((holder.offer.fits(uri)?, holder))).collect();
    let most = fits.iter().map(|(fixed, _)| *fixed).max();
    fits.into_iter().filter(|(fixed, _)| Some(*fixed) == most).map(|(_, holder)| holder).collect()
}

/// Ways to name one that are told to a caller.
const NAMED: usize = 5;

fn named<'h, 'o: 'h>(holders: impl Iterator<Item = &'h Holder<'o>>, uri: &str) -> Vec<String> {
    holders.take(NAMED).map(|holder| qualified(holder.server, uri)).collect()
}

/// The URIs that one server's list is to have: its own, but for those that others have too.
pub(super) fn listed<'u>(server: &str, uri: &'u str, shared: &BTreeSet<&str>) -> Cow<'u, str> {
    match shared.contains(uri) || is_qualified(uri) {
        true => qualified(server, uri).into(),
        false => uri.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::{Holder, ResourceOwner, is_qualified, listed, owner, qualified};
    use crate::offers::{Lists, Offer};

    fn offer(uris: &[&str], templates: &[&str]) -> Offer {
        let entry = |value: serde_json::Value| value.as_object().cloned().expect("an object");
        Offer::new(Lists {
            resources: Some(uris.iter().map(|uri| entry(json!({ "uri": uri, "name": uri }))).collect()),
            templates: Some(
                templates.iter().map(|uri| entry(json!({ "uriTemplate": uri, "name": uri }))).collect(),
            ),
            ..Lists::default()
        })
    }

    fn found(server: &str, uri: &str) -> Result<ResourceOwner, super::UnknownOwner> {
        Ok(ResourceOwner { server: server.to_owned(), uri: uri.to_owned() })
    }

    #[test]
    fn a_uri_is_of_the_server_that_lists_it() {
        let (docs, files) = (offer(&["docs://a"], &[]), offer(&["file:///a"], &["file:///{+path}"]));
        let holders = [Holder { server: "docs", offer: &docs }, Holder { server: "files", offer: &files }];
        assert_eq!(owner(&holders, "docs://a"), found("docs", "docs://a"));
        assert_eq!(owner(&holders, "file:///b/c"), found("files", "file:///b/c"));
        let nobody = owner(&holders, "other://x").unwrap_err();
        assert_eq!(nobody.could_be, ["plexus+mcp://docs/other://x", "plexus+mcp://files/other://x"]);
    }

    #[test]
    fn a_uri_of_two_servers_is_of_neither_until_one_is_named() {
        let (a, b) = (offer(&["x://1"], &[]), offer(&["x://1"], &[]));
        let holders = [Holder { server: "a", offer: &a }, Holder { server: "b", offer: &b }];
        let unowned = owner(&holders, "x://1").unwrap_err();
        assert_eq!(unowned.could_be, ["plexus+mcp://a/x://1", "plexus+mcp://b/x://1"]);
        assert_eq!(owner(&holders, &unowned.could_be[1]), found("b", "x://1"));
        assert_eq!(owner(&holders, "PLEXUS+mcp://b/x://1"), found("b", "x://1"));
    }

    #[test]
    fn the_template_that_says_more_wins_and_a_tie_is_nobodys() {
        let (wide, narrow) = (offer(&[], &["file:///{+path}"]), offer(&[], &["file:///home/{+path}"]));
        let holders = [Holder { server: "wide", offer: &wide }, Holder { server: "narrow", offer: &narrow }];
        assert_eq!(owner(&holders, "file:///home/a"), found("narrow", "file:///home/a"));
        assert_eq!(owner(&holders, "file:///etc/a"), found("wide", "file:///etc/a"));
        let twice = [Holder { server: "wide", offer: &wide }, Holder { server: "wider", offer: &wide }];
        assert!(owner(&twice, "file:///etc/a").is_err());
    }

    #[test]
    fn a_uri_that_nobody_lists_is_of_the_only_server_there_is() {
        let only = offer(&[], &[]);
        let holders = [Holder { server: "only", offer: &only }];
        assert_eq!(owner(&holders, "any://thing"), found("only", "any://thing"));
        assert!(owner(&[], "any://thing").unwrap_err().could_be.is_empty());
    }

    #[test]
    fn naming_a_server_that_is_not_seen_leads_nowhere() {
        let only = offer(&["plexus+mcp://hidden/x://1"], &["{+anything}"]);
        let holders = [Holder { server: "only", offer: &only }];
        for uri in ["plexus+mcp://hidden/x://1", "plexus+mcp://only", "plexus+mcp://only/", "plexus+mcp:///x"]
        {
            assert!(owner(&holders, uri).is_err(), "{uri}");
        }
        let behind = qualified("only", "plexus+mcp://hidden/x://1");
        assert_eq!(owner(&holders, &behind), found("only", "plexus+mcp://hidden/x://1"));
    }

    #[test]
    fn what_two_servers_have_is_listed_with_the_server_in_front() {
        let shared = BTreeSet::from(["x://1"]);
        assert_eq!(listed("a", "x://1", &shared), "plexus+mcp://a/x://1");
        assert_eq!(listed("a", "x://2", &shared), "x://2");
        assert_eq!(listed("a", "plexus+mcp://b/x", &shared), "plexus+mcp://a/plexus+mcp://b/x");
        assert!(!is_qualified("plexus+mcp:/"));
    }
}
