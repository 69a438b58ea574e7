//! A server over HTTP that is overloaded, or briefly unreachable, while calls run.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plexus_proto::api::UpstreamState;
use plexus_testkit::{McpClient, TestHub};
use plexus_upstream::Timing;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::in_time;
use super::scripted::{
    ReceivedRequest, ScriptedServer, Step, Steps, answer, json_answer, result, session_era,
};
use crate::upstream::{agent, call_with_key, fast_timing, metrics, text};

fn frequent_relist() -> Timing {
    Timing { relist: Duration::from_millis(10), ..fast_timing() }
}

async fn call_echo(client: &McpClient, release: &str) -> Value {
    client.tool("mcp__far__echo", json!({ "text": release })).await
}

fn echo_argument(request: &ReceivedRequest) -> &str {
    request.body["params"]["arguments"]["text"].as_str().unwrap_or_default()
}

/// Answers like a server of the session era; calls of `long` when told to.
fn answer_when_released(request: &ReceivedRequest, release: &Arc<Notify>) -> Steps {
    let mut steps = session_era(request);
    if echo_argument(request) == "long" {
        steps.insert(0, Step::Wait(release.clone()));
    }
    steps
}

#[tokio::test]
async fn overloaded_server_is_not_restarted() {
    for status in [429, 503] {
        let (busy, release): (Arc<AtomicBool>, Arc<Notify>) = Default::default();
        let (is_busy, given) = (busy.clone(), release.clone());
        let server = ScriptedServer::start(move |request| match echo_argument(request) {
            "drop" => vec![Step::Close],
            _ if is_busy.load(Ordering::SeqCst) => answer(status, "", "later"),
            _ => answer_when_released(request, &given),
        })
        .await;
        let hub = TestHub::start_timed(frequent_relist()).await;
        hub.add_upstream("far", &json!({ "url": server.url() })).await;
        let client = agent(&hub).await;
        let long = call_echo(&client, "long");
        let meanwhile = async {
            server.wait_for_request(|request| echo_argument(request) == "long").await;
            let lists = server.count("tools/list");
            busy.store(true, Ordering::SeqCst);
            let calls = server.count("tools/call");
            let refused = call_echo(&client, "now").await;
            // A proxy may return 503 after it has forwarded the call.
            let (code, hint) = match status {
                429 => ("overloaded", "Nothing was run"),
                _ => ("unavailable", "It is unknown whether it did its work"),
            };
            assert_eq!(refused["_meta"]["plexus/error"]["code"], code, "{refused}");
            assert!(text(&refused).contains(hint), "{refused}");
            assert_eq!(server.count("tools/call"), calls + 1, "it is not run again");
            // A lost call makes the hub probe the server, which is overloaded for that too.
            assert_eq!(call_echo(&client, "drop").await["_meta"]["plexus/error"]["code"], "unavailable");
            in_time(async {
                while server.count("tools/list") < lists + 3 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            busy.store(false, Ordering::SeqCst);
            assert_eq!(text(&call_echo(&client, "now").await), "scripted");
            release.notify_one();
        };
        let (long, ()) = tokio::join!(long, meanwhile);
        assert_eq!(text(&long), "scripted", "{long}");
        let far = hub.upstreams().get("far").unwrap();
        assert_eq!((far.state, far.restarts, server.count("initialize")), (UpstreamState::Ready, 0, 1));
    }
}

#[tokio::test]
async fn call_forwarded_by_a_gateway_is_not_resent_under_its_key() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "tools/call" => answer(503, "", "upstream connect error or disconnect/reset before headers"),
        _ => session_era(request),
    })
    .await;
    let hub = TestHub::start_timed(frequent_relist()).await;
    hub.add_upstream("far", &json!({ "url": server.url() })).await;
    let client = agent(&hub).await;
    let first = call_with_key(&client, "mcp__far__echo", "k").await;
    assert_eq!(first["_meta"]["plexus/error"]["code"], "unavailable", "{first}");
    let again = call_with_key(&client, "mcp__far__echo", "k").await;
    // Retrying longer would not help.
    let meta = &again["_meta"];
    assert_eq!(
        (&meta["plexus/error"]["code"], &meta["plexus/error"]["retryable"]),
        (&json!("conflict"), &json!(false))
    );
    assert!(text(&again).contains("503") && text(&again).contains("with a new key"), "{again}");
    assert_eq!(server.count("tools/call"), 1);
    // The tool is idempotent, so it is run again.
    hub.add_upstream("far", &json!({ "url": server.url(), "tools": { "idempotent": ["echo"] } })).await;
    let harmless = call_echo(&client, "now").await;
    assert!(text(&harmless).contains("without harm"), "{harmless}");
    assert_eq!(server.count("tools/call"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_waiting_for_its_key_runs_only_the_admitted_tool() {
    let release = Arc::new(Notify::new());
    let given = release.clone();
    let server = ScriptedServer::start(move |request| match request.message_method() {
        "tools/list" => {
            let tools =
                ["read", "delete"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
            json_answer(200, "", &result(request, &json!({ "tools": tools })))
        }
        "tools/call" if request.body["params"]["name"] == "read" => {
            let mut busy = answer(429, "", "later");
            busy.insert(0, Step::Wait(given.clone()));
            busy
        }
        _ => session_era(request),
    })
    .await;
    let hub = TestHub::start_timed(frequent_relist()).await;
    let named = |tool: &str| json!({ "url": server.url(), "tools": { "rename": { tool: "x" } } });
    hub.add_upstream("far", &named("read")).await;
    let token = hub.token("agent", &["call:*"]).await.token;
    let [one, two] = ["one", "two"].map(|thread| hub.mcp(&token).header("plexus-session", thread));
    let first = call_with_key(&one, "mcp__far__x", "k");
    let second = async {
        server.wait_for_requests("tools/call", 1).await;
        let params = json!({ "name": "mcp__far__x", "_meta": { "plexus/idempotency-key": "k" } });
        let change = async {
            // It is admitted, and then waits for the first call.
            while !metrics(&hub).await.lines().any(|line| line == "plexus_tool_calls_waiting 1.0") {}
            hub.write_upstream("far", &named("delete"));
            assert_eq!(hub.upstreams().reload().await.changed, ["far"]);
            release.notify_one();
        };
        tokio::join!(two.modern("tools/call", params), change).0
    };
    let (first, second) = in_time(async { tokio::join!(first, second) }).await;
    assert!(text(&first).contains("Nothing was run"), "{first}");
    assert!(second.json().to_string().contains("Unknown tool"), "{:?}", second.json());
    assert_eq!(server.count("tools/call"), 1, "{:?}", server.requests());
}

/// The route to a server, which can be closed to new connections.
struct TcpForwarder {
    address: SocketAddr,
    accepting: JoinSet<()>,
    _passing: Arc<Mutex<JoinSet<()>>>,
}

impl TcpForwarder {
    async fn open(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let passing: Arc<Mutex<JoinSet<()>>> = Arc::default();
        let mut accepting = JoinSet::new();
        let through = passing.clone();
        accepting.spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                let mut inside = TcpStream::connect(to).await.unwrap();
                through.lock().unwrap().spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
        Self { address, accepting, _passing: passing }
    }

    async fn close(&mut self) {
        self.accepting.shutdown().await;
    }
}

#[tokio::test]
async fn brief_outage_keeps_running_calls() {
    let release: Arc<Notify> = Arc::default();
    let given = release.clone();
    // Every request uses its own connection.
    let server = ScriptedServer::start(move |request| {
        let mut steps = answer_when_released(request, &given);
        for step in &mut steps {
            if let Step::Send(bytes) = step {
                let answer = String::from_utf8(std::mem::take(bytes)).unwrap();
                *bytes = answer.replacen("\r\n", "\r\nconnection: close\r\n", 1).into_bytes();
            }
        }
        steps.push(Step::Close);
        steps
    })
    .await;
    let mut forwarder = TcpForwarder::open(server.address()).await;
    let hub = TestHub::start_timed(frequent_relist()).await;
    hub.add_upstream("far", &json!({ "url": format!("http://{}/mcp", forwarder.address) })).await;
    let client = agent(&hub).await;
    let long = call_echo(&client, "long");
    let meanwhile = async {
        server.wait_for_request(|request| echo_argument(request) == "long").await;
        forwarder.close().await;
        // Long enough for many list requests of the hub.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) {
            let refused = call_echo(&client, "now").await;
            assert!(text(&refused).starts_with("far is not available (ready)"), "{refused}");
        }
        // When no call runs any more, an unreachable server is restarted.
        assert_eq!(hub.upstreams().get("far").unwrap().restarts, 0);
        release.notify_one();
    };
    let (long, ()) = tokio::join!(long, meanwhile);
    assert_eq!(text(&long), "scripted", "{long}");
}
