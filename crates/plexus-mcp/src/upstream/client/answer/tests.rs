use bytes::Bytes;
use plexus_proto::api::UpstreamEra;
use serde_json::json;

use super::{Listing, MAX_NAME, MAX_PAGES, Undiscovered, called, discovered, initialized, undiscovered};
use crate::upstream::client::ClientError;

fn result(json: &str) -> Bytes {
    Bytes::from(json.to_owned())
}

#[test]
fn the_parts_of_a_result_are_parts_of_the_message() {
    let message = result(
        r#"{"content": [ {"type":"text","text":"a"} ],"structuredContent":{"x":1.50},"isError":true,"_meta":{"k":"v"}}"#,
    );
    let output = called(&message).unwrap();
    assert_eq!(output.content.as_str(), r#"[ {"type":"text","text":"a"} ]"#);
    assert_eq!(output.structured.unwrap().as_str(), r#"{"x":1.50}"#);
    assert_eq!(output.meta.unwrap().as_str(), r#"{"k":"v"}"#);
    assert!(output.is_error);
    assert!(message.as_ptr_range().contains(&output.content.as_str().as_ptr()), "copied");
}

#[test]
fn a_result_without_all_parts_is_still_one() {
    let output =
        called(&result(r#"{"content":[],"structuredContent":null,"isError":null,"_meta":null}"#)).unwrap();
    assert_eq!((output.structured, output.is_error, output.meta), (None, false, None));
    let output = called(&result(r#"{"resultType":"complete","structuredContent":[1]}"#)).unwrap();
    assert_eq!(output.content.as_str(), "[]");
}

#[test]
fn what_cannot_be_passed_on_yet_is_refused_by_name() {
    let refused = |json: &str| match called(&result(json)) {
        Err(ClientError::Protocol(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(r#"{"resultType":"input_required","inputRequests":{}}"#).contains("input_required"));
    assert!(refused(r#"{"resultType":"task","task":{}}"#).contains("task"));
    assert!(refused(r#"{"resultType":"later"}"#).contains("`later`"));
    assert!(refused(r#"{"content":{}}"#).contains("not an array"));
    assert!(refused("{}").contains("no `content`"));
    assert!(refused("[]").contains("tools/call"));
}

/// A list that may be long.
fn listing() -> Listing {
    Listing { room: 1 << 20, ..Listing::default() }
}

#[test]
fn a_list_is_read_page_by_page() {
    let mut listing = listing();
    assert!(!listing.is_whole() && listing.cursor.is_none());
    listing.add(&result(r#"{"tools":[{"name":"a"},{"title":"no name"},7],"nextCursor":"2"}"#)).unwrap();
    assert_eq!((listing.is_whole(), listing.cursor.as_deref()), (false, Some("2")));
    listing.add(&result(r#"{"tools":[{"name":"b"}],"nextCursor":""}"#)).unwrap();
    assert!(listing.is_whole());
    let names: Vec<_> = listing.tools.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_list_without_an_end_is_given_up() {
    let mut same = listing();
    same.add(&result(r#"{"tools":[],"nextCursor":"same"}"#)).unwrap();
    assert!(same.add(&result(r#"{"tools":[],"nextCursor":"same"}"#)).is_err(), "a page that names itself");
    let mut pages = listing();
    for page in 1..MAX_PAGES {
        pages.add(&result(&format!(r#"{{"tools":[],"nextCursor":"{page}"}}"#))).unwrap();
    }
    assert!(pages.add(&result(r#"{"tools":[],"nextCursor":"more"}"#)).is_err());
    let many = vec![r#"{"name":"a"}"#; 5_001].join(",");
    assert!(listing().add(&result(&format!(r#"{{"tools":[{many}]}}"#))).is_err());
}

#[test]
fn all_pages_together_are_no_longer_than_a_message() {
    let page = |number: usize| {
        let text = "x".repeat(1000);
        result(&format!(
            r#"{{"tools":[{{"name":"a{number}","description":"{text}"}}],"nextCursor":"{number}"}}"#
        ))
    };
    let mut listing = Listing { room: 5_500, ..Listing::default() };
    let taken = (1..=10).take_while(|number| listing.add(&page(*number)).is_ok()).count();
    assert_eq!(taken, 5);
}

#[test]
fn what_a_server_says_of_itself_is_cut() {
    let long = "ü".repeat(100_000);
    let said = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": { "listChanged": true }, "experimental": { "x": long } },
        "serverInfo": { "name": long, "version": long },
        "instructions": long,
    });
    let peer = initialized(&result(&said.to_string())).unwrap();
    assert_eq!((peer.has_tools, peer.announces_changes), (true, true));
    assert!(peer.name.starts_with("üü") && peer.name.len() <= MAX_NAME + '…'.len_utf8());
    assert!(peer.version.len() < 200 && peer.instructions.is_some_and(|said| said.len() < 17 << 10));
    let said = json!({ "supportedVersions": vec!["2031-01-01"; 10_000] });
    assert!(discovered(&result(&said.to_string())).unwrap_err().to_string().len() < 1000);
    let why = called(&result(&json!({ "content": [], "isError": long }).to_string())).unwrap_err();
    assert!(why.to_string().len() < 1000);
}

#[test]
fn capabilities_may_be_anything() {
    for (capabilities, expected) in [
        (json!({}), (false, false)),
        (json!({ "tools": null }), (false, false)),
        (json!({ "tools": {} }), (true, false)),
        (json!({ "tools": { "listChanged": "yes" }, "logging": 7 }), (true, false)),
        (json!({ "tools": { "listChanged": true } }), (true, true)),
    ] {
        let said = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
        let peer = initialized(&result(&said.to_string())).unwrap();
        assert_eq!((peer.has_tools, peer.announces_changes), expected, "{said}");
    }
}

#[test]
fn a_server_says_who_it_is_in_either_era() {
    let peer = initialized(&result(
        r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"},"instructions":"hi"}"#,
    ))
    .unwrap();
    assert_eq!(
        (peer.era, &*peer.revision, &*peer.name, &*peer.version),
        (UpstreamEra::Session, "2024-11-05", "old", "1")
    );
    assert_eq!(peer.instructions.as_deref(), Some("hi"));
    let peer = discovered(&result(
        r#"{"resultType":"complete","supportedVersions":["2027-01-01","2026-07-28"],"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}"#,
    ))
    .unwrap();
    assert_eq!((peer.era, &*peer.revision, &*peer.name), (UpstreamEra::Stateless, "2026-07-28", "new"));
}

#[test]
fn a_revision_that_is_unknown_is_named() {
    let why = initialized(&result(r#"{"protocolVersion":"2031-01-01"}"#)).unwrap_err().to_string();
    assert!(why.contains("2031-01-01") && why.contains("2025-11-25"), "{why}");
    let why = discovered(&result(r#"{"supportedVersions":["2031-01-01"]}"#)).unwrap_err().to_string();
    assert!(why.contains("2031-01-01"), "{why}");
}

#[test]
fn only_errors_of_the_stateless_era_keep_from_initialize() {
    let rpc = |code, data| ClientError::Rpc { code, message: String::new(), data };
    for error in
        [rpc(-32601, None), rpc(-32602, None), rpc(-32000, None), ClientError::Protocol(String::new())]
    {
        assert_eq!(undiscovered(error), Undiscovered::TryInitialize);
    }
    let supported = |revision: &str| Some(json!({ "supported": [revision], "requested": "2026-07-28" }));
    assert_eq!(undiscovered(rpc(-32022, supported("2025-06-18"))), Undiscovered::TryInitialize);
    for error in [rpc(-32022, supported("2031-01-01")), rpc(-32022, None), rpc(-32021, None)] {
        assert!(matches!(undiscovered(error), Undiscovered::Refused(_)));
    }
}
