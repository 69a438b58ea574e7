//! Past events, then live events, without gaps and without duplicates.

use plexus_proto::StreamControl;
use plexus_testkit::{ReceivedMessage, TestHub};
use sqlx::{Connection, SqliteConnection};
use tokio::task::JoinSet;

use crate::agent::{Agent, positions, seqs};

/// Number of calls per writer.
const CALLS: usize = 60;

#[tokio::test]
async fn stream_sends_start_then_past_then_live_marker_then_new_events() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let id = agent.call("one").await;
    let mut stream = hub.events(format!("/ws/sessions/{id}?after=1"), &agent.token.token).open().await;
    assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Open { after: 1 }));
    let ReceivedMessage::Event(event) = stream.next().await else { panic!("no event") };
    assert_eq!((event.session_id, event.seq), (id, 2));
    let rest = hub.api(&format!("/api/v1/sessions/{id}/events?after=1")).await;
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        rest["items"][0],
        "differs from the event in the REST API"
    );
    assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Live { after: 2 }));
    agent.call("one").await;
    assert_eq!((stream.event().await.seq, stream.event().await.seq), (3, 4));
}

#[tokio::test]
async fn stream_without_a_start_sends_new_events_only() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let id = agent.call("one").await;
    agent.call("other").await;
    for (path, after) in [(format!("/ws/sessions/{id}"), 2), ("/ws/events".to_owned(), 4)] {
        let mut stream = hub.events(path, &hub.admin_token()).open().await;
        assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Open { after }));
        assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Live { after }));
    }
    let mut last = hub.events(format!("/ws/sessions/{id}?last=1"), &agent.token.token).open().await;
    assert_eq!(seqs(&last.until_live().await), [2]);
    let mut more = hub.events("/ws/events?last=100", &hub.admin_token()).open().await;
    assert_eq!(positions(&more.until_live().await), [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_opened_during_writes_have_no_gaps_or_duplicates() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let id = agent.call("shared").await;
    let total = 2 + 4 * CALLS as i64;
    let mut writers = JoinSet::new();
    for session in ["shared", "other"] {
        let agent = agent.clone();
        writers.spawn(async move {
            for _ in 0..CALLS {
                agent.call(session).await;
            }
        });
    }
    // Each stream starts as soon as the previous one has seen one more event.
    let mut readers = JoinSet::new();
    let mut watch = hub.events("/ws/events?after=0", &hub.admin_token()).open().await;
    for number in 0..30 {
        watch.event().await;
        let path = match number % 3 {
            0 => "/ws/events?after=0".to_owned(),
            1 => format!("/ws/events?after={number}"),
            // The first call has two events; the current number of this session's events is unknown.
            _ => format!("/ws/sessions/{id}?after={}", number / 3 % 3),
        };
        let request = hub.events(path.clone(), &hub.admin_token());
        readers.spawn(async move {
            let mut stream = request.open().await;
            let (first, last) = match number % 3 {
                0 => (1, total),
                1 => (number + 1, total),
                _ => (number / 3 % 3 + 1, 2 + 2 * CALLS as i64),
            };
            for expected in first..=last {
                let event = stream.event().await;
                let number = if path.contains("sessions") { event.seq } else { event.pos };
                assert_eq!(number, expected, "{path}");
            }
        });
    }
    writers.join_all().await;
    readers.join_all().await;
    // The ring is dropped without readers; the next reader must still find all events.
    drop(watch);
    agent.call("shared").await;
    let mut late = hub.events(format!("/ws/events?after={total}"), &hub.admin_token()).open().await;
    assert_eq!(positions(&late.until_live().await), [total + 1, total + 2]);
}

#[tokio::test]
async fn reconnecting_reader_resumes_even_after_a_restart() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    for _ in 0..5 {
        agent.call("one").await;
    }
    let mut stream = hub.events("/ws/events?after=0", &hub.admin_token()).open().await;
    for expected in 1..=3 {
        assert_eq!(stream.event().await.pos, expected);
    }
    drop(stream);
    let hub = hub.restart().await;
    let mut stream = hub.events("/ws/events?after=3", &hub.admin_token()).open().await;
    assert_eq!(positions(&stream.until_live().await), (4..=10).collect::<Vec<_>>());
}

/// Also if the stream starts with the ring, which may lag behind the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_before_the_open_precede_the_live_marker() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    // Keeps the ring filled.
    let mut watch = hub.events("/ws/events", &hub.admin_token()).open().await;
    watch.until_live().await;
    for calls in 1..=30 {
        agent.call("one").await;
        let newest = 2 * calls;
        for last in [1, 2, newest] {
            let mut stream = hub.events(format!("/ws/events?last={last}"), &agent.token.token).open().await;
            let expected: Vec<_> = (newest - last + 1..=newest).collect();
            assert_eq!(positions(&stream.until_live().await), expected, "the last {last}");
        }
    }
}

#[tokio::test]
async fn streams_can_be_filtered_by_session_owner_and_kind() {
    let hub = TestHub::start().await;
    let (ann, bob) = (Agent::new(&hub, "ann").await, Agent::new(&hub, "bob").await);
    let one = ann.call("one").await;
    ann.call("two").await;
    bob.call("one").await;
    // The query, its matches among the first six events, and among four more: two of ann's, two of bob's.
    let cases: [(String, &[i64], &[i64]); 6] = [
        (format!("session={one}"), &[1, 2], &[7, 8]),
        ("owner=agent:bob".to_owned(), &[5, 6], &[9, 10]),
        ("kind=tool_call".to_owned(), &[2, 4, 6], &[8, 10]),
        ("kind=tool_call,unheard_of&kind=tool_started".to_owned(), &[1, 2, 3, 4, 5, 6], &[7, 8, 9, 10]),
        (format!("session={one}&owner=agent:bob"), &[], &[]),
        (format!("session={one}&kind=tool_started"), &[1], &[7]),
    ];
    let mut streams = Vec::new();
    for (query, stored, _) in &cases {
        let path = format!("/ws/events?after=0&{query}");
        let mut stream = hub.events(path, &hub.admin_token()).open().await;
        assert_eq!(positions(&stream.until_live().await), *stored, "{query}");
        streams.push(stream);
    }
    ann.call("one").await;
    bob.call("one").await;
    for ((query, _, live), stream) in cases.iter().zip(&mut streams) {
        for position in *live {
            assert_eq!(stream.event().await.pos, *position, "{query}");
        }
    }
}

#[tokio::test]
async fn pruned_events_are_reported() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let id = agent.call("one").await;
    for _ in 0..4 {
        agent.call("one").await;
    }
    prune(&hub, "seq <= 4").await;
    let pruned = |after, through| ReceivedMessage::Control(StreamControl::Pruned { after, through });
    for path in [format!("/ws/sessions/{id}"), "/ws/events".to_owned()] {
        let mut stream = hub.events(format!("{path}?after=1"), &hub.admin_token()).open().await;
        assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Open { after: 1 }));
        assert_eq!(stream.next().await, pruned(1, 4), "{path}");
        assert_eq!(positions(&stream.until_live().await), [5, 6, 7, 8, 9, 10], "{path}");
        // A reader that already has the pruned events gets no report.
        let mut stream = hub.events(format!("{path}?after=4"), &hub.admin_token()).open().await;
        assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Open { after: 4 }));
        assert!(matches!(stream.next().await, ReceivedMessage::Event(_)), "{path}");
    }
    prune(&hub, "seq <= 10").await;
    for path in [format!("/ws/sessions/{id}"), "/ws/events".to_owned()] {
        let mut stream = hub.events(format!("{path}?after=0"), &hub.admin_token()).open().await;
        assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Open { after: 0 }));
        assert_eq!(stream.next().await, pruned(0, 10), "{path}");
        assert_eq!(stream.next().await, ReceivedMessage::Control(StreamControl::Live { after: 10 }));
    }
}

async fn prune(hub: &TestHub, which: &str) {
    // Reading the log first makes sure that it is stored.
    hub.api("/api/v1/audit").await;
    let file = format!("sqlite:{}", hub.data_dir().join("plexus.db").display());
    let mut connection = SqliteConnection::connect(&file).await.unwrap();
    let sql = sqlx::AssertSqlSafe(format!("DELETE FROM session_events WHERE {which}"));
    sqlx::query(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
