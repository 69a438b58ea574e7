//! The loopback endpoint: access, and the answer to each request.

use plexus_kit::Secret;
use plexus_testkit::{RawConnection, SseEvent, TestProxy};
use serde_json::{Value, json};

use super::unused_address;

async fn alone() -> TestProxy {
    TestProxy::start(&format!("http://{}", unused_address().await), "a-token").await
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn endpoint_requires_the_secret() {
    let proxy = alone().await;
    let client = proxy.client();
    assert_eq!(client.post(PING).await.result(), json!({}), "answered here, without a hub");
    let secret = proxy.secret();
    let none = client.without("authorization");
    for stranger in [
        none.clone(),
        none.header("authorization", "Bearer not-the-secret-of-this-proxy"),
        none.header("authorization", "Bearer "),
        none.header("authorization", secret),
        none.header("authorization", &format!("Basic {secret}")),
        none.header("authorization", &format!("Bearer {secret}x")),
        none.header("authorization", &format!("Bearer {}", &secret[1..])),
        client.another_header("authorization", &format!("Bearer {secret}")),
        client.another_header("authorization", "Bearer another"),
    ] {
        for answer in [stranger.post(PING).await, stranger.get().await, stranger.delete().await] {
            assert_eq!(answer.error(), (401, -32001), "{answer:?}");
            assert_eq!(answer.json()["id"], Value::Null, "{answer:?}");
        }
    }
    let shouted = none.header("authorization", &format!("BEARER {secret}"));
    assert_eq!(shouted.post(PING).await.status, 200, "the scheme is case-insensitive");
}

#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let proxy = alone().await;
    let client = proxy.client();
    for origin in [
        "http://evil.example",
        "null",
        "https://127.0.0.1.evil.example",
        "http://localhost.evil.example:80",
        "http://evil.example#http://localhost",
        "file://localhost",
        "chrome-extension://localhost",
        "localhost",
        "",
    ] {
        let answer = client.header("origin", origin).post(PING).await;
        assert_eq!(answer.error(), (403, -32001), "{origin:?}: {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let two = client.header("origin", "http://localhost").another_header("origin", "http://evil.example");
    assert_eq!(two.post(PING).await.error(), (403, -32001));
    // A name that resolves to this machine by DNS rebinding.
    let port = proxy.address().port();
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.example", "0.0.0.0", "169.254.0.1"]
    {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            let answer = client.header("host", &host).post(PING).await;
            assert_eq!(answer.error(), (403, -32001), "{host}: {answer:?}");
        }
    }
    for ours in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"] {
        let client =
            client.header("host", &format!("{ours}:{port}")).header("origin", &format!("http://{ours}:6274"));
        assert_eq!(client.post(PING).await.status, 200, "{ours}");
    }
}

#[tokio::test]
async fn unusual_requests_are_refused() {
    let proxy = alone().await;
    let secret = proxy.secret();
    let tail = format!(
        "Authorization: Bearer {secret}\r\nAccept: */*\r\nContent-Length: {}\r\nContent-Type: application/json\r\n\r\n{PING}",
        PING.len()
    );
    for (head, status) in [
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\n", 200),
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", 403),
        ("POST /mcp HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n", 403),
        ("POST /mcp HTTP/1.1\r\n", 403),
        ("POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n", 403),
        ("POST http://localhost/mcp HTTP/1.1\r\nHost: localhost\r\n", 200),
        ("POST /mcp HTTP/1.1\r\nHost: user@localhost\r\n", 403),
    ] {
        let mut connection = RawConnection::open(proxy.address()).await;
        connection.send(format!("{head}{tail}")).await;
        assert_eq!(connection.answer().await.status, status, "{head:?}");
    }
}

#[tokio::test]
async fn every_path_and_method_has_its_answer() {
    let proxy = alone().await;
    let client = proxy.client();
    for path in ["/", "/other", "/mcp/other", "/mcpx", "/api/v1/tokens"] {
        let there = client.at(proxy.url().replace("/mcp", path));
        assert_eq!(there.post(PING).await.error(), (404, -32600), "{path}");
        assert_eq!(there.get().await.status, 404, "{path}");
    }
    for method in ["PUT", "PATCH", "OPTIONS", "TRACE"] {
        let mut connection = RawConnection::open(proxy.address()).await;
        let secret = proxy.secret();
        connection
            .send(format!(
                "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n"
            ))
            .await;
        let answer = connection.answer().await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("DELETE,GET,POST")), "{method}");
    }
    assert_eq!(client.head().await.status, 405);
    assert_eq!(client.delete().await.status, 204, "there is no session to end");
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        ("nonsense", -32700),
        ("\u{0}", -32700),
        ("5", -32600),
        ("\"text\"", -32600),
        ("null", -32600),
        ("[]", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
    ] {
        let answer = client.post(body).await;
        assert_eq!(answer.error(), (400, code), "{body:?}: {answer:?}");
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(client.post(deep).await.error().0, 400);
    // Content types that a page may send without a preflight are not accepted.
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        assert_eq!(client.header("content-type", kind).post(PING).await.error(), (415, -32600), "{kind}");
    }
    let answer = client.post(format!("\"{}\"", "x".repeat(16 << 20))).await;
    assert_eq!(answer.error(), (413, -32600));
}

#[tokio::test]
async fn message_headers_are_checked_as_at_the_hub() {
    let proxy = alone().await;
    let client = proxy.client();
    let (stated, body) = client.modern_request(1, "tools/list", json!({}));
    for wrong in [
        stated.header("mcp-method", "tools/call"),
        stated.without("mcp-method"),
        stated.header("mcp-protocol-version", "2025-11-25"),
    ] {
        let answer = wrong.post_json(&body).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert_eq!(answer.json()["id"], 1, "{answer:?}");
    }
    let mut other = body.clone();
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let answer = stated.header("mcp-protocol-version", "2031-01-01").post_json(&other).await;
    assert!(answer.json()["error"]["data"]["supported"].is_array(), "{answer:?}");
    let mut agent = proxy.stdio_client();
    agent.send_line(&other.to_string()).await;
    let answer = agent.line().await.unwrap();
    assert!(answer["error"]["data"]["supported"].is_array(), "over pipes too: {answer}");
    assert_eq!(stated.post_json(&body).await.result()["tools"], json!([]));
}

#[tokio::test]
async fn offline_requests_are_answered_locally_if_possible() {
    let proxy = alone().await;
    let (session, _) = proxy.client().initialize("2025-06-18").await;
    let answer = session.call("resources/list", json!({})).await;
    assert_eq!(answer.error(), (200, -32002), "{answer:?}");
    assert_eq!(answer.json()["error"]["data"], json!({ "retryable": true, "may_have_run": false }));
    assert_eq!(answer.json()["id"], 1);
    let modern = proxy.client().modern("resources/list", json!({})).await;
    assert_eq!(modern.error(), (200, -32010), "the older code means something else there: {modern:?}");
    for note in [
        json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
        json!({ "jsonrpc": "2.0", "id": 3, "result": {} }),
    ] {
        for client in [&session, &proxy.client()] {
            let response = client.post_json(&note).await;
            assert_eq!((response.status, response.body.as_str()), (202, ""), "{note}");
        }
    }
    assert_eq!(session.call("ping", json!({})).await.result(), json!({}));
    let read = session.call("tools/call", json!({ "name": "todo", "arguments": { "action": "list" } })).await;
    assert_eq!(read.error(), (200, -32002), "{read:?}");

    assert_eq!(session.delete().await.status, 204);
    assert_eq!(session.call("ping", json!({})).await.status, 404, "the session has ended");
    assert_eq!(session.get().await.status, 404);
}

#[tokio::test]
async fn stream_opens_immediately_and_sends_keep_alives() {
    let proxy = alone().await;
    let (session, _) = proxy.client().initialize("2025-11-25").await;
    for client in [session.clone(), proxy.client()] {
        let mut stream = client.get_stream().await;
        assert_eq!(stream.status(), 200);
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        assert_eq!(stream.next().await, Some(SseEvent::Comment(" connected".to_owned())));
        for _ in 0..2 {
            let next = stream.next().await;
            assert!(matches!(next, Some(SseEvent::Comment(_))), "{next:?}");
        }
    }
    // The stream ends with its session.
    let mut stream = session.get_stream().await;
    assert_eq!(session.delete().await.status, 204);
    while let Some(event) = stream.next().await {
        assert!(matches!(event, SseEvent::Comment(_)), "{event:?}");
    }
}

#[tokio::test]
async fn endpoint_requires_loopback_and_a_strong_secret() {
    let proxy = alone().await;
    let good = Secret::from("long enough to keep people out");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = proxy.proxy().listen(address.parse().unwrap(), &good).await.unwrap_err().to_string();
        assert!(refused.contains("other machines") && refused.contains("127.0.0.1:0"), "{refused}");
    }
    for secret in ["", "short", "fifteen-letters"] {
        let refused = proxy.proxy().listen("127.0.0.1:0".parse().unwrap(), &Secret::from(secret)).await;
        assert!(refused.unwrap_err().to_string().contains("too short"), "{secret:?}");
    }
    let response = proxy.proxy().listen(proxy.address(), &good).await.unwrap_err().to_string();
    assert!(response.contains(&proxy.address().to_string()), "{response}");
}
