//! 200 readers with random speeds and reconnects: each sees every event once and in order, and the hub's memory stays
//! bounded.

use std::time::{Duration, Instant};

use plexus_proto::SessionId;
use plexus_proto::api::CallToolResponse;
use plexus_testkit::faults::Seed;
use plexus_testkit::{EventRequest, HubProcess, ReceivedMessage};
use rand::RngExt;
use rand::rngs::StdRng;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

const READERS: u64 = 200;
const SESSIONS: usize = 8;
/// Memory limit of the hub for all readers together.
const GROWTH: u64 = 150 << 20;
/// No reader waits longer than this for its next message.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_readers_see_two_thousand_events_once_and_in_order() {
    read_all(2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_readers_see_twenty_thousand_events_once_and_in_order() {
    read_all(20_000).await;
}

async fn read_all(events: i64) {
    let seed = Seed::choose();
    eprintln!("repeat this run with {seed}");
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    // The writer owns all sessions, so it sees the same events as the admin.
    let writer = hub.token("writer").await.token;
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        sessions.push(call(&hub, &writer, number).await);
    }
    let (before, _) = hub.memory();
    let started = Instant::now();

    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let token = if number % 2 == 0 { hub.admin_token() } else { writer.clone() };
        let stream = Stream { log: Log::All, token, hub: hub.address() };
        readers.spawn(read(stream, seed.round(number), events, events / 10));
    }
    let per_session = events / SESSIONS as i64;
    for (number, id) in (READERS..).zip(&sessions) {
        let stream = Stream { log: Log::Session(*id), token: writer.clone(), hub: hub.address() };
        readers.spawn(read(stream, seed.round(number), per_session, per_session / 10));
    }

    // A call has two events; each session already has one call.
    let calls = events as usize / 2 / SESSIONS - 1;
    let mut writers = JoinSet::new();
    for number in 0..SESSIONS {
        let request = request(&hub, &writer, number);
        writers.spawn(async move {
            for _ in 0..calls {
                let response = request.try_clone().expect("a request").send().await.expect("an answer");
                assert_eq!(response.status(), 200);
                response.bytes().await.expect("a body");
            }
        });
    }
    writers.join_all().await;
    let written = started.elapsed();
    let tallies = readers.join_all().await;
    let (after, peak) = hub.memory();
    let reconnects: usize = tallies.iter().sum();
    let mib = |bytes: u64| bytes >> 20;
    eprintln!(
        "{} readers, {events} events, {reconnects} reconnects: written in {written:?}, read by all in {:?}; \
         RSS {} MiB before, {} MiB at most, {} MiB after",
        tallies.len(),
        started.elapsed(),
        mib(before),
        mib(peak),
        mib(after),
    );
    assert!(reconnects > tallies.len() / 2, "hardly any reconnects: {reconnects}");
    assert!(peak < before + GROWTH, "grew from {before} to {peak} bytes");
    assert!(hub.terminate().await.success());
}

#[derive(Debug, Clone, Copy)]
enum Log {
    All,
    Session(SessionId),
}

struct Stream {
    log: Log,
    token: String,
    hub: std::net::SocketAddr,
}

/// The position of an event; other messages of the stream have none.
#[derive(Deserialize)]
struct Position {
    seq: Option<i64>,
    pos: Option<i64>,
}

/// Reads events 1 to `last` with random pauses and reconnects; returns the number of reconnects.
async fn read(stream: Stream, mut rng: StdRng, last: i64, max_burst: i64) -> usize {
    let path = match stream.log {
        Log::All => "/ws/events".to_owned(),
        Log::Session(id) => format!("/ws/sessions/{id}"),
    };
    let speed = rng.random_range(0..4);
    tokio::time::sleep(Duration::from_millis(rng.random_range(0..1_000))).await;
    let (mut seen, mut reconnects) = (0, 0);
    loop {
        let request = EventRequest::new(stream.hub, format!("{path}?after={seen}")).bearer(&stream.token);
        let mut reader = request.open().await;
        let leave_at = seen + rng.random_range(1..=max_burst.max(2) * 4);
        while seen < last && seen < leave_at {
            let text = match tokio::time::timeout(TIMEOUT, reader.text()).await.expect("a message in time") {
                Ok(text) => text,
                // The reader was too slow; the hub says where to resume.
                Err(ReceivedMessage::Closed { code: 4408, resume_after }) => {
                    assert_eq!(resume_after, Some(seen));
                    break;
                }
                Err(ended) => panic!("{path}: ended at {seen} of {last}: {ended:?}"),
            };
            let position: Position = serde_json::from_str(&text).expect("a message");
            let number = match stream.log {
                Log::All => position.pos,
                Log::Session(_) => position.seq,
            };
            let Some(number) = number else {
                assert!(!text.contains("pruned"), "{path}: {text}");
                continue;
            };
            assert_eq!(number, seen + 1, "{path}");
            seen = number;
            pause(&mut rng, speed).await;
        }
        if seen == last {
            return reconnects;
        }
        reconnects += 1;
        // Half of the connections are closed properly, the others dropped.
        if rng.random_range(0..2) == 0 {
            let _ = reader.socket().close(None).await;
        }
    }
}

/// No pause, many short ones, or a few long ones, depending on the speed.
async fn pause(rng: &mut StdRng, speed: u32) {
    let millis = match speed {
        0 | 1 => return,
        2 if rng.random_range(0..50) == 0 => rng.random_range(1..10),
        3 if rng.random_range(0..1_000) == 0 => rng.random_range(100..800),
        _ => return,
    };
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

fn request(hub: &HubProcess, token: &str, session: usize) -> reqwest::RequestBuilder {
    let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("an HTTP client");
    http.post(hub.url("/api/v1/tools/todo/call"))
        .bearer_auth(token)
        .header("plexus-session", format!("session-{session}"))
        .json(&json!({ "arguments": { "action": "list" } }))
}

async fn call(hub: &HubProcess, token: &str, session: usize) -> SessionId {
    let response = request(hub, token, session).send().await.expect("an answer");
    response.json::<CallToolResponse>().await.expect("a result").session_id
}
