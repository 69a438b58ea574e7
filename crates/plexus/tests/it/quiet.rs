//! What a hub does when nothing happens.

use std::time::{Duration, Instant};

use plexus_testkit::SseEvent;

use crate::stopping::streams;

/// The period is part of the contract, so this test waits for it: proxies cut what is silent longer.
#[tokio::test]
async fn a_quiet_stream_carries_a_comment_every_25_seconds() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (mut own, mut listening) = streams(&hub).await;
    let began = Instant::now();
    let limit = Duration::from_secs(45);
    let heard = tokio::join!(own.next_within(limit), listening.next_within(limit));
    let comment = || Some(SseEvent::Comment(" ".to_owned()));
    assert_eq!(heard, (comment(), comment()));
    let waited = began.elapsed().as_secs();
    assert!((23..=40).contains(&waited), "a comment after {waited} s");
}
