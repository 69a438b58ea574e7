//! Keep-alives of idle streams.

use std::time::{Duration, Instant};

use plexus_testkit::SseEvent;

use crate::shutdown::open_streams;

/// The interval is documented, because proxies cut connections that are idle for longer, so this test waits for it.
#[tokio::test]
async fn idle_stream_sends_a_comment_every_25_seconds() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let (mut session_stream, mut subscription) = open_streams(&hub).await;
    let started = Instant::now();
    let limit = Duration::from_secs(45);
    let received = tokio::join!(session_stream.next_within(limit), subscription.next_within(limit));
    let comment = || Some(SseEvent::Comment(" ".to_owned()));
    assert_eq!(received, (comment(), comment()));
    let waited = started.elapsed().as_secs();
    assert!((23..=40).contains(&waited), "a comment after {waited} s");
}
