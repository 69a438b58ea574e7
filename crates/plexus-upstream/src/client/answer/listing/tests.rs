use bytes::Bytes;

use super::{Listing, MAX_ENTRIES, MAX_PAGES};
use crate::client::ListKind;

fn result(json: &str) -> Bytes {
    Bytes::from(json.to_owned())
}

/// A list with a large size limit.
fn listing() -> Listing {
    Listing::new(ListKind::Tools, 1 << 20)
}

#[test]
fn list_is_read_page_by_page() {
    let mut listing = listing();
    assert!(!listing.is_whole() && listing.cursor.is_none());
    listing.add(&result(r#"{"tools":[{"name":"a"},{"title":"no name"},7],"nextCursor":"2"}"#)).unwrap();
    assert_eq!((listing.is_whole(), listing.cursor.as_deref()), (false, Some("2")));
    listing.add(&result(r#"{"tools":[{"name":"b"}],"nextCursor":""}"#)).unwrap();
    assert!(listing.is_whole());
    let names: Vec<_> = listing.entries.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn endless_list_is_rejected() {
    let mut same = listing();
    same.add(&result(r#"{"tools":[],"nextCursor":"same"}"#)).unwrap();
    assert!(
        same.add(&result(r#"{"tools":[],"nextCursor":"same"}"#)).is_err(),
        "a page that names itself as the next one"
    );
    let mut pages = listing();
    for page in 1..MAX_PAGES {
        pages.add(&result(&format!(r#"{{"tools":[],"nextCursor":"{page}"}}"#))).unwrap();
    }
    assert!(pages.add(&result(r#"{"tools":[],"nextCursor":"more"}"#)).is_err());
    let many = vec![r#"{"name":"a"}"#; 5_001].join(",");
    assert!(listing().add(&result(&format!(r#"{{"tools":[{many}]}}"#))).is_err());
}

#[test]
fn all_pages_share_the_size_limit_of_a_message() {
    let page = |number: usize| {
        let text = "x".repeat(1000);
        result(&format!(
            r#"{{"tools":[{{"name":"a{number}","description":"{text}"}}],"nextCursor":"{number}"}}"#
        ))
    };
    let mut listing = Listing::new(ListKind::Tools, 5_500);
    let accepted = (1..=10).take_while(|number| listing.add(&page(*number)).is_ok()).count();
    assert_eq!(accepted, 5);
}

#[test]
fn each_list_has_its_own_entry_member() {
    let mut templates = Listing::new(ListKind::Templates, 1 << 20);
    let long = "x".repeat(70_000);
    let page = format!(
        r#"{{"resourceTemplates":[{{"uriTemplate":"a://{{b}}"}},{{"name":"no template"}},{{"uriTemplate":"{long}"}}],"ttlMs":0}}"#
    );
    templates.add(&result(&page)).unwrap();
    assert_eq!(templates.entries.len(), 1);
    assert!(Listing::new(ListKind::Prompts, 1 << 20).add(&result(r#"{"tools":[]}"#)).is_err());
}

#[test]
fn excess_resources_are_truncated() {
    let entries = |count: usize| vec![r#"{"uri":"a://1"}"#; count].join(",");
    let mut many = Listing::new(ListKind::Resources, 1 << 20);
    many.add(&result(&format!(r#"{{"resources":[{}],"nextCursor":"2"}}"#, entries(5_000)))).unwrap();
    assert!(!many.is_whole(), "the next page may be empty");
    many.add(&result(&format!(r#"{{"resources":[{}],"nextCursor":"3"}}"#, entries(2)))).unwrap();
    assert_eq!((many.is_whole(), many.entries.len()), (true, MAX_ENTRIES));
    let mut pages = Listing::new(ListKind::Resources, 1 << 20);
    for page in 1..=MAX_PAGES {
        let page = format!(r#"{{"resources":[{}],"nextCursor":"{page}"}}"#, entries(1));
        pages.add(&result(&page)).unwrap();
    }
    assert_eq!((pages.is_whole(), pages.entries.len()), (true, MAX_PAGES));
}
