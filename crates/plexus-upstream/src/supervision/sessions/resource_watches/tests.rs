use std::sync::Arc;

use futures_util::FutureExt;
use plexus_mcp::offers::Mailbox;

use super::{MAX_PER_OWNER, MAX_WATCHED, Watches};

#[test]
fn resource_is_watched_until_the_last_subscriber_leaves() {
    let watches = Arc::<Watches>::default();
    let changed = || watches.changed.notified().now_or_never().is_some();
    let mailbox = Arc::<Mailbox>::default();
    let watch = |client_uri: &str| watches.watch("a://1", "ann", &mailbox, client_uri);
    let (first, second) = (watch("one"), watch("two"));
    assert!(changed() && !changed(), "the server is notified once");
    drop(first);
    assert!(!changed() && watches.uris().contains("a://1"));
    drop(second);
    assert!(changed() && watches.uris().is_empty());
}

#[test]
fn number_of_watched_resources_is_limited() {
    let watches = Arc::<Watches>::default();
    let mailbox = Arc::<Mailbox>::default();
    let watch = |uri: &str, owner: &str| watches.watch(uri, owner, &mailbox, uri);
    let guards: Vec<_> = (0..MAX_WATCHED)
        .map(|n| watch(&format!("a://{n}"), &format!("agent:{}", n / MAX_PER_OWNER)))
        .collect();
    assert!(guards.iter().all(Option::is_some));
    assert!(watch("a://one-more", "ann").is_none());
    assert!(watch("a://1", "ann").is_some(), "an additional subscriber needs no room");
}

#[test]
fn watches_per_owner_are_limited() {
    let watches = Arc::<Watches>::default();
    let mailbox = Arc::<Mailbox>::default();
    let watch = |uri: &str, owner: &str| watches.watch(uri, owner, &mailbox, uri);
    let mut guards: Vec<_> = (0..MAX_PER_OWNER).map(|n| watch(&format!("a://{n}"), "ann").unwrap()).collect();
    assert!(watch("a://one-more", "ann").is_none());
    assert!(watch("a://one-more", "bob").is_some());
    guards.pop();
    assert!(watch("a://one-more", "ann").is_some(), "there is room again");
}

#[test]
fn change_is_queued_once_per_subscriber() {
    let (watches, ann, bob) =
        (Arc::<Watches>::default(), Arc::<Mailbox>::default(), Arc::<Mailbox>::default());
    let _anns = watches.watch("a://1", "ann", &ann, "hers");
    let bobs = watches.watch("a://1", "bob", &bob, "his");
    for _ in 0..1_000 {
        watches.notify("a://1");
        watches.notify("a://2");
    }
    let drain =
        |mailbox: &Mailbox| mailbox.take().now_or_never().map(|all| all.into_iter().collect::<Vec<_>>());
    assert_eq!(drain(&ann), Some(vec!["hers".to_owned()]));
    assert_eq!(drain(&ann), None, "it was delivered once");
    drop(bobs);
    watches.notify("a://1");
    assert_eq!(drain(&bob), Some(vec!["his".to_owned()]), "the change before the drop");
    assert_eq!(drain(&bob), None, "and nothing after");
    assert_eq!(drain(&ann), Some(vec!["hers".to_owned()]));
}
