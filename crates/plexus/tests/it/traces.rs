//! Traces with an OTLP collector, without one, and with one that does not answer.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use plexus_testkit::{Collector, until};
use serde_json::json;

const META_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const META_PARENT: &str = "00f067aa0ba902b7";
const HEADER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const HEADER_PARENT: &str = "b7ad6b7169203331";

#[tokio::test]
async fn spans_have_the_parents_given_in_meta_or_header() {
    let mut collector = Collector::start().await;
    let plexus = crate::plexus().with("PLEXUS_TELEMETRY_OTLP_ENDPOINT", collector.url());
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    let client = hub.mcp(&token).header("traceparent", &format!("00-{HEADER_TRACE}-{HEADER_PARENT}-01"));
    let params = json!({
        "name": "todo",
        "arguments": { "action": "list" },
        "_meta": { "traceparent": format!("00-{META_TRACE}-{META_PARENT}-01"), "tracestate": "vendor=1" },
    });
    let result = client.modern("tools/call", params).await.result();
    let call_id = result["_meta"]["plexus/call-id"].as_str().expect("a call id").to_owned();
    assert!(
        !result["_meta"].to_string().contains(META_TRACE),
        "the trace context is in the result: {result}"
    );
    // Without a parent of its own, the span of a call belongs to that of its request.
    let plain = client.tool("todo", json!({ "action": "list" })).await;
    let plain_id = plain["_meta"]["plexus/call-id"].as_str().expect("a call id").to_owned();
    // Pending spans are sent at shutdown.
    assert_eq!(hub.terminate().await.code(), Some(0));

    let call = collector.span(|span| span.attribute("call_id") == Some(&call_id)).await;
    assert_eq!((call.trace_id.as_str(), call.parent_id.as_str()), (META_TRACE, META_PARENT));
    assert_eq!(call.name, "call todo");
    for (name, value) in [("gen_ai.tool.name", "todo"), ("outcome", "ok"), ("via", "mcp")] {
        assert_eq!(call.attribute(name), Some(value), "{name} of {call:?}");
    }
    assert_eq!(call.resource("service.name"), Some("plexus"));
    assert_eq!(call.resource("service.version"), Some(env!("CARGO_PKG_VERSION")));
    assert!(call.resource("service.instance.id").is_some(), "{call:?}");

    let plain = collector.span(|span| span.attribute("call_id") == Some(&plain_id)).await;
    let request = collector.span(|span| span.span_id == plain.parent_id).await;
    assert_eq!((request.trace_id.as_str(), request.parent_id.as_str()), (HEADER_TRACE, HEADER_PARENT));
    assert_eq!((request.name.as_str(), request.kind), ("POST /mcp", 2));
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/mcp"),
        ("http.response.status_code", "200"),
        ("subject", "agent:codex"),
    ] {
        assert_eq!(request.attribute(name), Some(value), "{name} of {request:?}");
    }
}

#[tokio::test]
async fn missing_collector_is_logged_once() {
    // A privileged port, on which no test listens.
    let plexus = crate::plexus()
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://ann:hunter2@127.0.0.1:1?key=hunter3".to_owned())
        .with("PLEXUS_LOG", "debug".to_owned());
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    until("two batches are lost", async || {
        let result = hub.mcp(&token).tool("todo", json!({ "action": "list" })).await;
        assert_eq!(result["isError"], false, "{result}");
        hub.log().contains("the collector still rejects traces")
    })
    .await;
    let log = hub.log();
    let warned = log.lines().filter(|line| line.contains("WARN") && line.contains("collector")).count();
    assert_eq!(warned, 1, "{log}");
    // Credentials in the URL are not shown.
    let output =
        format!("{log}{}{}", hub.api("/api/v1/config").await, plexus.run(&["config", "show"]).await.ok());
    assert!(output.contains("http://***@127.0.0.1:1?***"), "{output}");
    assert!(!output.contains("hunter"), "{output}");
    assert_eq!(hub.terminate().await.code(), Some(0));
}

#[tokio::test]
async fn silent_collector_does_not_delay_shutdown() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let plexus = crate::plexus().with("PLEXUS_TELEMETRY_OTLP_ENDPOINT", format!("http://{address}"));
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    hub.mcp(&token).tool("todo", json!({ "action": "list" })).await;
    let started = Instant::now();
    assert_eq!(hub.terminate().await.code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(8), "it took {:?}", started.elapsed());
    drop(silent);
}
