//! Hostile requests to a hub process: each gets the answer documented in `docs/security.md`, memory stays bounded, and
//! the next request is served.

mod attacks;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Plexus, RawConnection};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use attacks::{Attack, BODY, ConnectionState, attacks};

/// Requests of a barrage, and how many of them are concurrent.
const BARRAGE: usize = 500;
const CONCURRENT: usize = 16;
/// Memory that a barrage may add to a hub: the bodies of concurrent requests and what the allocator retains.
const GROWTH: u64 = 16 << 20;
/// How long the hub waits for the head of a request.
const HEAD_SECONDS: u64 = 15;

/// A hub with small limits, so that requests need not be megabytes or take a minute.
fn with_small_limits() -> Plexus {
    crate::plexus()
        .with("PLEXUS_LIMITS_BODY_BYTES", BODY.to_string())
        .with("PLEXUS_LIMITS_REQUEST_SECONDS", "1".to_owned())
}

/// Sends an attack and checks the answer and the connection.
async fn run(hub: &HubProcess, attack: &Attack) {
    let name = &attack.name;
    let mut connection = RawConnection::open(hub.address()).await;
    connection.send(&attack.bytes).await;
    if attack.half_closes {
        connection.finish().await;
    }
    if attack.status != 0 {
        let answer = connection.answer().await;
        let code = match serde_json::from_str::<Value>(&answer.body) {
            Err(_) => String::new(),
            Ok(body) => match &body["error"]["code"] {
                Value::Null => body["code"].as_str().unwrap_or("ok").to_owned(),
                code => code.to_string(),
            },
        };
        assert_eq!((answer.status, code.as_str()), (attack.status, attack.code), "{name}: {answer:?}");
    }
    match attack.connection {
        // The next request on the connection must be read from its start.
        ConnectionState::Open => {
            connection.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            let next = connection.answer().await;
            assert_eq!((next.status, next.body.as_str()), (200, "ok\n"), "after {name}");
        }
        ConnectionState::Closed => {
            let rest = connection.rest().await;
            assert_eq!(String::from_utf8_lossy(&rest), "", "another answer after {name}");
        }
        ConnectionState::WebSocketClose(code) => {
            let rest = connection.rest().await;
            let close: Vec<u8> = code.to_be_bytes().to_vec();
            assert!(
                rest.windows(2).any(|bytes| bytes == close),
                "no close with {code} after {name}: {rest:?}"
            );
        }
    }
}

/// Checks that the hub serves a normal request.
async fn check_served(hub: &HubProcess, token: &str) {
    let answer = hub.mcp(token).modern("tools/list", json!({})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn every_attack_gets_its_answer_and_the_next_request_is_served() {
    let plexus = with_small_limits();
    let hub = plexus.up().await;
    let token = hub.token("victim").await.token;
    for attack in attacks(&token) {
        run(&hub, &attack).await;
        check_served(&hub, &token).await;
    }
    assert!(!hub.log().contains("panicked"), "{}", hub.log());
    assert!(hub.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn barrage_of_attacks_keeps_memory_bounded() {
    let plexus = with_small_limits();
    let hub = std::sync::Arc::new(plexus.up().await);
    let token = hub.token("victim").await.token;
    let quick: Vec<Attack> = attacks(&token).into_iter().filter(|attack| attack.status != 408).collect();
    let quick = std::sync::Arc::new(quick);
    let barrage = |count: usize| {
        let (hub, quick) = (hub.clone(), quick.clone());
        async move {
            let mut running = JoinSet::new();
            for first in 0..CONCURRENT {
                let (hub, quick) = (hub.clone(), quick.clone());
                running.spawn(async move {
                    for number in (first..count).step_by(CONCURRENT) {
                        run(&hub, &quick[number % quick.len()]).await;
                    }
                });
            }
            running.join_all().await;
        }
    };
    // The first round creates caches and threads.
    barrage(quick.len()).await;
    let (before, _) = hub.memory();
    let started = Instant::now();
    barrage(BARRAGE).await;
    let (after, peak) = hub.memory();
    let mib = |bytes: u64| bytes >> 20;
    eprintln!(
        "{BARRAGE} attacks in {:?}: RSS {} MiB before, {} MiB after, {} MiB at most",
        started.elapsed(),
        mib(before),
        mib(after),
        mib(peak)
    );
    assert!(peak < before + GROWTH, "grew from {before} to {peak} bytes");
    check_served(&hub, &token).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_time_out_without_delaying_others() {
    let plexus = with_small_limits();
    let hub = plexus.up().await;
    let token = hub.token("victim").await.token;
    let (before, _) = hub.memory();
    let mut slow = Vec::new();
    for number in 0..200 {
        let path = if number % 2 == 0 { "/mcp" } else { "/api/v1/tools/todo/call" };
        let mut connection = RawConnection::open(hub.address()).await;
        let head = attacks::head("POST", path, &token);
        connection.send(format!("{head}Content-Length: 1000\r\n\r\n{{\"")).await;
        slow.push(connection);
    }
    check_served(&hub, &token).await;
    for mut connection in slow {
        let answer = connection.answer().await;
        assert_eq!((answer.status, answer.json()["code"].clone()), (408, json!("deadline_exceeded")));
        assert_eq!(connection.rest().await, b"");
    }
    let (_, peak) = hub.memory();
    assert!(peak < before + GROWTH, "grew from {before} to {peak} bytes");
    check_served(&hub, &token).await;
    assert!(hub.terminate().await.success());
}

/// Clients that never finish the head of a request take all connections. Each sends as much as is allowed, which is also the
/// most memory that they can use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_heads_time_out_and_free_their_connections() {
    const CONNECTIONS: usize = 32;
    let scratch = crate::plexus();
    let limited = scratch.home().join("limited");
    // 256 more files for everything else.
    let script =
        format!("#!/bin/sh\nulimit -n {}\nexec {} \"$@\"\n", 256 + CONNECTIONS, env!("CARGO_BIN_EXE_plexus"));
    std::fs::write(&limited, script).unwrap();
    std::fs::set_permissions(&limited, Permissions::from_mode(0o755)).unwrap();
    let plexus = Plexus::new(limited);
    let hub = plexus.up().await;
    let token = hub.token("victim").await.token;
    let (before, _) = hub.memory();
    let started = Instant::now();
    let mut hanging = Vec::new();
    for _ in 0..CONNECTIONS + 8 {
        let mut connection = RawConnection::open(hub.address()).await;
        connection
            .send(format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: {}", "x".repeat(60_000)))
            .await;
        hanging.push(connection);
    }
    let mut waiting = RawConnection::open(hub.address()).await;
    waiting.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let answered = waiting.rest_within(Duration::from_secs(3 * HEAD_SECONDS)).await;
    assert!(answered.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answered));
    assert!(
        started.elapsed() >= Duration::from_secs(HEAD_SECONDS - 2),
        "a connection was free: {:?}",
        started.elapsed()
    );
    let (_, peak) = hub.memory();
    assert!(peak < before + GROWTH, "grew from {before} to {peak} bytes");
    drop(hanging);
    check_served(&hub, &token).await;
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn duplicate_request_ids_are_both_answered() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("twin").await.token;
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": { "name": "todo", "arguments": { "action": "list" } },
    });
    let (client, _) = hub.mcp(&token).initialize("2025-03-26").await;
    let answers = client.post_json(&json!([call, call])).await.json();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [7, 7], "in a batch");
    assert!(answers[0]["result"].is_object() && answers[1]["result"].is_object(), "{answers}");

    let (first, second) = tokio::join!(client.post_json(&call), client.post_json(&call));
    for answer in [first, second] {
        assert_eq!(
            (answer.json()["id"].clone(), answer.result()["isError"].clone()),
            (json!(7), json!(false))
        );
    }
    for twice in ["\"id\":7,\"id\":8", "\"id\":7,\"method\":\"x\"", "\"id\":7,\"jsonrpc\":\"2.0\""] {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",{twice}}}");
        assert_eq!(client.post(body).await.error(), (400, -32600), "{twice}");
    }
    assert_eq!(client.call("ping", json!({})).await.result(), json!({}));
    assert!(hub.terminate().await.success());
}
