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
    let servers =
        [ResourceServer { server: "docs", offer: &docs }, ResourceServer { server: "files", offer: &files }];
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
    let twice =
        [ResourceServer { server: "wide", offer: &wide }, ResourceServer { server: "wider", offer: &wide }];
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
    for uri in ["plexus+mcp://hidden/x://1", "plexus+mcp://only", "plexus+mcp://only/", "plexus+mcp:///x"] {
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
