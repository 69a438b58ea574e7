//! Requests that mean harm, against a hub in a process of its own: each gets the answer that is
//! documented in `docs/security.md`, memory stays bounded, and the next request is served.

mod attacks;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Plexus, RawConnection};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use attacks::{After, Attack, BODY, attacks};

/// Requests of a barrage, and how many of them at a time.
const BARRAGE: usize = 500;
const AT_ONCE: usize = 16;
/// What a barrage may add to the memory of a hub: the bodies of those that are under way, and what the
/// allocator keeps of them.
const GROWTH: u64 = 16 << 20;
/// How long the hub waits for the head of a request.
const HEAD_SECONDS: u64 = 15;

/// A hub with small limits, so that nobody has to send megabytes or wait a minute.
fn small() -> Plexus {
    crate::plexus()
        .with("PLEXUS_LIMITS_BODY_BYTES", BODY.to_string())
        .with("PLEXUS_LIMITS_REQUEST_SECONDS", "1".to_owned())
}

/// Sends an attack and looks at what comes back.
async fn run(hub: &HubProcess, attack: &Attack) {
    let what = &attack.what;
    let mut connection = RawConnection::open(hub.address()).await;
    connection.send(&attack.bytes).await;
    if attack.ends {
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
        assert_eq!((answer.status, code.as_str()), (attack.status, attack.code), "{what}: {answer:?}");
    }
    match attack.after {
        // What is left on the connection is what the client meant to send next, and nothing else.
        After::Open => {
            connection.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            let next = connection.answer().await;
            assert_eq!((next.status, next.body.as_str()), (200, "ok\n"), "after {what}");
        }
        After::Closed => {
            let rest = connection.rest().await;
            assert_eq!(String::from_utf8_lossy(&rest), "", "another answer after {what}");
        }
        After::Frames(code) => {
            let rest = connection.rest().await;
            let close: Vec<u8> = code.to_be_bytes().to_vec();
            assert!(
                rest.windows(2).any(|bytes| bytes == close),
                "no close with {code} after {what}: {rest:?}"
            );
        }
    }
}

/// A request that means no harm.
async fn served(hub: &HubProcess, token: &str) {
    let answer = hub.mcp(token).modern("tools/list", json!({})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn every_attack_gets_its_answer_and_the_next_request_is_served() {
    let plexus = small();
    let hub = plexus.up().await;
    let token = hub.token("victim").await.token;
    for attack in attacks(&token) {
        run(&hub, &attack).await;
        served(&hub, &token).await;
    }
    assert!(!hub.log().contains("panicked"), "{}", hub.log());
    assert!(hub.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_barrage_does_not_grow_the_hub() {
    let plexus = small();
    let hub = std::sync::Arc::new(plexus.up().await);
    let token = hub.token("victim").await.token;
    let quick: Vec<Attack> = attacks(&token).into_iter().filter(|attack| attack.status != 408).collect();
    let quick = std::sync::Arc::new(quick);
    let barrage = |count: usize| {
        let (hub, quick) = (hub.clone(), quick.clone());
        async move {
            let mut running = JoinSet::new();
            for first in 0..AT_ONCE {
                let (hub, quick) = (hub.clone(), quick.clone());
                running.spawn(async move {
                    for number in (first..count).step_by(AT_ONCE) {
                        run(&hub, &quick[number % quick.len()]).await;
                    }
                });
            }
            running.join_all().await;
        }
    };
    // Once round, so that what is made once, such as caches and threads, is there.
    barrage(quick.len()).await;
    let (before, _) = hub.memory();
    let began = Instant::now();
    barrage(BARRAGE).await;
    let (after, peak) = hub.memory();
    let mib = |bytes: u64| bytes >> 20;
    eprintln!(
        "{BARRAGE} attacks in {:?}: RSS {} MiB before, {} MiB after, {} MiB at most",
        began.elapsed(),
        mib(before),
        mib(after),
        mib(peak)
    );
    assert!(peak < before + GROWTH, "grew from {before} to {peak} bytes");
    served(&hub, &token).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_trickle_in_are_given_up_and_hold_up_nobody() {
    let plexus = small();
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
    served(&hub, &token).await;
    for mut connection in slow {
        let answer = connection.answer().await;
        assert_eq!((answer.status, answer.json()["code"].clone()), (408, json!("deadline_exceeded")));
        assert_eq!(connection.rest().await, b"");
    }
    let (_, peak) = hub.memory();
    assert!(peak < before + GROWTH, "grew from {before} to {peak} bytes");
    served(&hub, &token).await;
    assert!(hub.terminate().await.success());
}

/// All places among the connections are taken by clients that never finish the head of a request; each
/// sends as much of it as is allowed, so that this is also the most memory that they can take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_never_end_give_their_places_back() {
    const PLACES: usize = 32;
    let scratch = crate::plexus();
    let limited = scratch.home().join("limited");
    // 256 files are left for everything else.
    let script =
        format!("#!/bin/sh\nulimit -n {}\nexec {} \"$@\"\n", 256 + PLACES, env!("CARGO_BIN_EXE_plexus"));
    std::fs::write(&limited, script).unwrap();
    std::fs::set_permissions(&limited, Permissions::from_mode(0o755)).unwrap();
    let plexus = Plexus::new(limited);
    let hub = plexus.up().await;
    let token = hub.token("victim").await.token;
    let (before, _) = hub.memory();
    let began = Instant::now();
    let mut hanging = Vec::new();
    for _ in 0..PLACES + 8 {
        let mut connection = RawConnection::open(hub.address()).await;
        connection
            .send(format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: {}", "x".repeat(60_000)))
            .await;
        hanging.push(connection);
    }
    let mut patient = RawConnection::open(hub.address()).await;
    patient.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let answered = patient.rest_within(Duration::from_secs(3 * HEAD_SECONDS)).await;
    assert!(answered.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answered));
    assert!(
        began.elapsed() >= Duration::from_secs(HEAD_SECONDS - 2),
        "places were free: {:?}",
        began.elapsed()
    );
    let (_, peak) = hub.memory();
    assert!(peak < before + GROWTH, "grew from {before} to {peak} bytes");
    drop(hanging);
    served(&hub, &token).await;
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn an_id_that_is_used_twice_is_answered_twice() {
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
