//! Limits of size, nesting and time, and the status of requests that exceed them.

use std::time::Instant;

use plexus_testkit::{RawAnswer, RawConnection, TestHub};
use serde_json::json;

const BODY: usize = 4_096;
const DEPTH: usize = 16;
/// Size limit of a request head, which is not configurable.
const HEADERS: usize = 64 * 1024;

/// A hub with small limits, to keep the tests fast.
async fn small() -> (TestHub, String) {
    let hub = TestHub::start_with(|config| {
        config.limits.body_bytes = BODY;
        config.limits.json_depth = DEPTH;
        config.limits.request_seconds = 1;
    })
    .await;
    let token = hub.token("pusher", &["call:*"]).await.token;
    (hub, token)
}

/// Sends a `POST /mcp` with these headers and part of a body.
async fn post(hub: &TestHub, token: &str, headers: &str, body: &[u8]) -> RawAnswer {
    let mut connection = RawConnection::open(hub.address()).await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}\r\n"
    );
    connection.send(head).await;
    connection.send(body).await;
    connection.answer().await
}

#[tokio::test]
async fn body_over_the_limit_is_a_413() {
    let (hub, token) = small().await;
    let client = hub.mcp(&token);
    let padded = |length: usize| {
        let (client, mut body) = client.modern_request(1, "tools/list", json!({}));
        body["params"]["padding"] = json!("");
        let missing = length - body.to_string().len();
        body["params"]["padding"] = json!("x".repeat(missing));
        (client, body.to_string())
    };
    let (within, body) = padded(BODY);
    assert_eq!((body.len(), within.post(body).await.status), (BODY, 200));
    let (over, body) = padded(BODY + 1);
    let answer = over.post(body).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (413, Some("too_large")));
    assert!(answer.json()["message"].as_str().unwrap().contains(&BODY.to_string()), "{answer:?}");

    let declared = post(&hub, &token, &format!("Content-Length: {}\r\n", BODY + 1), &[b' '; BODY + 1]).await;
    assert_eq!(declared.status, 413);
    let mut chunk = format!("{:x}\r\n", BODY + 1).into_bytes();
    chunk.extend([b' '; BODY + 1]);
    let chunked = post(&hub, &token, "Transfer-Encoding: chunked\r\n", &chunk).await;
    assert_eq!(chunked.status, 413);
}

#[tokio::test]
async fn too_deep_nesting_is_a_400_and_ignores_brackets_in_strings() {
    let (hub, token) = small().await;
    let client = hub.mcp(&token);
    let nested = |depth: usize| {
        // The body and `params` are the two outer levels.
        let inner = format!("{}{}", "[".repeat(depth - 2), "]".repeat(depth - 2));
        let (client, mut body) = client.modern_request(1, "tools/list", json!({}));
        body["params"]["padding"] = serde_json::from_str(&inner).unwrap();
        (client, body.to_string())
    };
    let (client_at, body) = nested(DEPTH);
    assert_eq!(client_at.post(body).await.status, 200);
    let (client_over, body) = nested(DEPTH + 1);
    assert_eq!(client_over.post(body).await.error(), (400, -32600));
    // Deeper than the stack allows, and never closed.
    for bracket in ["[", "{\"a\":", "[{\"a\":"] {
        let body = bracket.repeat(BODY / bracket.len());
        assert_eq!(client.post(body).await.error(), (400, -32600), "{bracket}");
    }
    let (client_text, mut body) = client.modern_request(1, "tools/list", json!({}));
    body["params"]["padding"] = json!(format!("{}\\\"{}", "[".repeat(100), "{".repeat(100)));
    assert_eq!(client_text.post_json(&body).await.status, 200);
}

#[tokio::test]
async fn incomplete_body_is_a_408() {
    let (hub, token) = small().await;
    for (headers, body) in [
        ("Content-Length: 100\r\n", &b""[..]),
        ("Content-Length: 100\r\n", &b"{\"jsonrpc\":"[..]),
        ("Transfer-Encoding: chunked\r\n", &b"5\r\n{\"jso\r\n"[..]),
    ] {
        let began = Instant::now();
        let answer = post(&hub, &token, headers, body).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (408, Some("deadline_exceeded")));
        assert!(began.elapsed().as_secs_f64() >= 1.0, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn headers_over_the_limit_are_a_431() {
    let (hub, token) = small().await;
    // Exactly the limit: unread bytes would reset the connection before the answer is read.
    let mut connection = RawConnection::open(hub.address()).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: ";
    connection.send(format!("{head}{}", "x".repeat(HEADERS - head.len()))).await;
    assert_eq!(connection.answer().await.status, 431);
    let many: String = (0..200).map(|number| format!("X-{number}: y\r\n")).collect();
    assert_eq!(post(&hub, &token, &format!("{many}Content-Length: 0\r\n"), b"").await.status, 431);
    let fine: String = (0..50).map(|number| format!("X-{number}: {}\r\n", "y".repeat(100))).collect();
    assert_eq!(post(&hub, &token, &format!("{fine}Content-Length: 0\r\n"), b"").await.status, 400);
}

#[tokio::test]
async fn id_over_the_limit_is_refused() {
    let (hub, token) = small().await;
    let client = hub.mcp(&token);
    let (client, body) = client.modern_request("x".repeat(1_022), "tools/list", json!({}));
    assert_eq!(client.post_json(&body).await.status, 200);
    let (client, body) = client.modern_request("x".repeat(1_023), "tools/list", json!({}));
    assert_eq!(client.post_json(&body).await.error(), (400, -32600));
}

#[tokio::test]
async fn incomplete_requests_do_not_block_others() {
    let (hub, token) = small().await;
    let mut hanging = Vec::new();
    for _ in 0..20 {
        let mut connection = RawConnection::open(hub.address()).await;
        connection.send("POST /mcp HTTP/1.1\r\nHost: localh").await;
        hanging.push(connection);
    }
    assert_eq!(hub.mcp(&token).modern("tools/list", json!({})).await.status, 200);
}
