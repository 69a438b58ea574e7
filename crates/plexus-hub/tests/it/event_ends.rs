//! How a stream ends: slow reader, revoked token, stopping hub, leaving client.

use std::time::{Duration, Instant};

use plexus_hub::{EventOptions, EventStats};
use plexus_testkit::{ReceivedMessage, TestHub, eventually};

use crate::agent::Agent;

/// More than the buffers between hub and client can hold.
const LARGE: usize = 30_000;
const CALLS: usize = 150;

/// Polls until the hub's statistics of its streams satisfy the condition.
async fn until_stats(hub: &TestHub, what: &str, condition: impl Fn(&EventStats) -> bool) {
    eventually(what, async || {
        let stats = hub.event_stats();
        if condition(&stats) { Ok(()) } else { Err(format!("{stats:?}")) }
    })
    .await;
}

async fn slow_hub() -> (TestHub, Agent) {
    let slow = Duration::from_millis(300);
    let hub = TestHub::start_streaming(EventOptions { slow, ..EventOptions::default() }).await;
    let agent = Agent::new(&hub, "a").await;
    for _ in 0..CALLS {
        agent.write("one", LARGE).await;
    }
    (hub, agent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_reader_is_closed_with_the_number_to_resume_from() {
    let (hub, agent) = slow_hub().await;
    let mut stream = hub.events("/ws/events?after=0", &agent.token.token).open().await;
    until_stats(&hub, "one reader is too slow", |stats| stats.too_slow == 1).await;
    // The reader wakes up: the data in flight arrives in order, followed by the close.
    let mut last = 0;
    let closed = loop {
        match stream.next().await {
            ReceivedMessage::Event(event) => {
                assert_eq!(event.pos, last + 1);
                last = event.pos;
            }
            ReceivedMessage::Control(_) => {}
            closed => break closed,
        }
    };
    assert_eq!(closed, ReceivedMessage::Closed { code: 4408, resume_after: Some(last) });
    assert!(last < 2 * CALLS as i64, "the buffers held everything");
    let mut again = hub.events(format!("/ws/events?after={last}"), &agent.token.token).open().await;
    for expected in last + 1..=2 * CALLS as i64 {
        assert_eq!(again.event().await.pos, expected);
    }
    // A slow reader that still makes progress stays connected.
    assert_eq!(hub.event_stats().too_slow, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_delay_neither_shutdown_nor_other_readers() {
    let (hub, agent) = slow_hub().await;
    let stuck = hub.events("/ws/events?after=0", &agent.token.token).open().await;
    let url = hub.url("/api/v1/events/stream?after=0");
    let silent = hub.http().get(url).bearer_auth(&agent.token.token).send().await.unwrap();
    let mut lively = hub.events("/ws/events?after=0", &agent.token.token).open().await;
    for expected in 1..=2 * CALLS as i64 {
        assert_eq!(lively.event().await.pos, expected);
    }
    let began = Instant::now();
    let (_dir, end) = tokio::join!(hub.stop(), lively.end());
    assert_eq!(end, ReceivedMessage::Closed { code: 1001, resume_after: Some(2 * CALLS as i64) });
    assert!(began.elapsed() < Duration::from_secs(8), "stopping took {:?}", began.elapsed());
    drop((stuck, silent));
}

#[tokio::test]
async fn stream_ends_within_a_second_of_revocation() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let id = agent.call("one").await;
    let mut all = hub.events("/ws/events", &agent.token.token).open().await;
    let mut one = hub.events(format!("/ws/sessions/{id}"), &agent.token.token).open().await;
    all.until_live().await;
    one.until_live().await;
    hub.revoke(agent.token.jti).await;
    let revoked = Instant::now();
    let unwelcome = ReceivedMessage::Closed { code: 4401, resume_after: Some(2) };
    assert_eq!((all.end().await, one.end().await), (unwelcome.clone(), unwelcome));
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    until_stats(&hub, "no stream is open", |stats| stats.open == 0).await;
}

#[tokio::test]
async fn closing_client_is_answered_and_removed() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let mut stream = hub.events("/ws/events", &agent.token.token).open().await;
    stream.until_live().await;
    assert_eq!(hub.event_stats().open, 1);
    stream.socket().close(None).await.unwrap();
    assert!(matches!(stream.end().await, ReceivedMessage::Closed { resume_after: None, .. }), "no answer");
    assert_eq!(stream.next().await, ReceivedMessage::Lost, "a message after the close");
    until_stats(&hub, "no stream is open", |stats| stats.open == 0).await;
}

#[tokio::test]
async fn client_without_pongs_is_dropped() {
    let keep_alive = Duration::from_millis(50);
    let silence = Duration::from_millis(500);
    let options = EventOptions { keep_alive, silence, ..EventOptions::default() };
    let hub = TestHub::start_streaming(options).await;
    let agent = Agent::new(&hub, "a").await;
    // Pongs are sent while the socket is read, so this client sends none.
    let _mute = hub.events("/ws/events", &agent.token.token).open().await;
    let mut reader = hub.events("/ws/events", &agent.token.token).open().await;
    let reader_end = async { reader.end().await };
    tokio::select! {
        () = until_stats(&hub, "the silent client is disconnected", |stats| stats.open == 1) => {}
        ended = reader_end => panic!("the client that answers was dropped: {ended:?}"),
    }
    assert_eq!(hub.event_stats().too_slow, 0);
}
