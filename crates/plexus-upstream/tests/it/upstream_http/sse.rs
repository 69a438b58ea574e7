//! The HTTP+SSE transport of 2024-11-05.

use std::net::SocketAddr;

use plexus_proto::api::UpstreamEra;
use plexus_testkit::{Pinned, sdk_script};
use plexus_upstream::client::{Client, ClientError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::scripted::{ScriptedServer, Step, answer, session_era, text_result};
use super::{BackgroundTask, ConnectParams, call, echo, in_time, outgoing, spawn_background, text};

/// The SDK that still has a server of this transport.
async fn python() -> Option<Pinned> {
    Pinned::python("mcp", "1.30.0").await
}

#[tokio::test]
async fn a_python_server_of_the_older_transport_is_listed_and_called() {
    let Some(sdk) = python().await else { return };
    let mut server = sdk.script(&sdk_script("python/server_sse.py"), &[], "");
    let url = server.line().await["url"].as_str().unwrap().to_owned();
    let params = ConnectParams::to(&url).with_older_transport().header("X-Api-Key", "of the file");
    let client = params.connect().await;
    assert_eq!(client.peer().era, UpstreamEra::Session);
    assert_eq!(client.peer().name, "old");
    let tools = in_time(client.list_tools()).await.unwrap();
    assert_eq!(
        tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["echo", "key", "slow"]
    );
    assert_eq!(text(&echo(&client, "Grüße").await.unwrap()), "Grüße");
    assert_eq!(text(&call(&client, "key", json!({})).await.unwrap()), "of the file");
    in_time(client.ping()).await.unwrap();

    // Several at once, each with its own answer.
    let calls = (0..16).map(|n| {
        let client = client.clone();
        async move { text(&echo(&client, &n.to_string()).await.unwrap()) == n.to_string() }
    });
    assert!(futures_util::future::join_all(calls).await.into_iter().all(|same| same));

    // A file that does not name the transport detects it too.
    let guessed = ConnectParams::to(&url).with_guessed_transport().connect().await;
    assert_eq!(guessed.peer().name, "old");
    in_time(guessed.close()).await;
    // A file that names the other transport does not.
    let why = ConnectParams::to(&url).connect_error().await;
    assert!(why.contains("405") || why.contains("check the `url`"), "{why}");

    // The end of the server is the end of the connection.
    let slow = spawn_background({
        let client = client.clone();
        async move { call(&client, "slow", json!({})).await }
    });
    assert_eq!(server.line().await, json!({ "slow": true }));
    drop(server);
    let lost = slow.finished().await;
    assert!(matches!(lost, Err(ClientError::Lost(_))), "{lost:?}");
    let why = in_time(client.closed()).await;
    assert!(!why.is_empty());
}

/// A server whose stream begins with these events and stays open.
async fn begins_with(events: &'static str) -> ScriptedServer {
    ScriptedServer::start(move |request| match request.method.as_str() {
        "GET" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            vec![Step::Send([head, events].concat().into_bytes()), Step::Stall]
        }
        _ => answer(202, "", ""),
    })
    .await
}

#[tokio::test]
async fn sse_endpoint_must_be_of_the_same_origin() {
    for (events, expected) in [
        ("event: endpoint\ndata: http://127.0.0.1:1/messages\n\n", "a different server"),
        ("event: endpoint\ndata: //evil.example/messages\n\n", "a different server"),
        ("event: endpoint\ndata: http://\n\n", "invalid"),
        ("event: message\ndata: {}\n\n", "does not begin"),
    ] {
        let server = begins_with(events).await;
        let why = ConnectParams::to(&server.url()).with_older_transport().connect_error().await;
        assert!(why.contains(expected), "{events:?}: {why}");
        assert_eq!(server.count("initialize"), 0);
    }
}

#[tokio::test]
async fn other_content_types_are_refused_as_event_stream() {
    let server = ScriptedServer::start(|_| answer(200, "content-type: text/html\r\n", "<html>")).await;
    let why = ConnectParams::to(&server.url()).with_older_transport().connect_error().await;
    assert!(why.contains("text/html") && why.contains("`transport`"), "{why}");
    let server = ScriptedServer::start(|_| answer(401, "", "")).await;
    let why = ConnectParams::to(&server.url()).with_older_transport().connect_error().await;
    assert!(why.contains("Authorization"), "{why}");
    let server = ScriptedServer::start(session_era).await;
    let why = ConnectParams::to(&server.url()).with_older_transport().connect_error().await;
    assert!(why.contains("405"), "{why}");
}

#[tokio::test]
async fn sse_answers_arrive_on_the_stream_until_it_ends() {
    let FedConnection { client, feed, mut posts, verdict: _verdict, _way, _serving } =
        FedConnection::start().await;
    assert_eq!(client.peer().revision, "2024-11-05");
    let calling = spawn_background({
        let client = client.clone();
        async move { echo(&client, "x").await }
    });
    let called = in_time(posts.recv()).await.unwrap();
    assert_eq!(called["method"], "tools/call");
    // The server does not answer the post itself; that delays neither the answer nor, for long, the next
    // message.
    let answer = json!({ "jsonrpc": "2.0", "id": called["id"], "result": text_result("on the stream") });
    feed.send(format!("event: message\r\ndata: {answer}\r\n\r\n")).unwrap();
    assert_eq!(text(&calling.finished().await.unwrap()), "on the stream");
    let calling = spawn_background({
        let client = client.clone();
        async move { echo(&client, "x").await }
    });
    assert_eq!(in_time(posts.recv()).await.unwrap()["method"], "tools/call");
    drop(feed);
    let lost = calling.finished().await;
    assert!(matches!(lost, Err(ClientError::Lost(_))), "{lost:?}");
    let why = in_time(client.closed()).await;
    assert!(why.contains("ended the stream"), "{why}");
    let after = echo(&client, "x").await;
    assert!(matches!(after, Err(ClientError::Unreachable(_))), "{after:?}");
}

#[tokio::test]
async fn late_refusal_fails_only_its_request() {
    for (verdict, is_lost) in [("400 Bad Request", false), ("404 Not Found", true)] {
        let mut server = FedConnection::start().await;
        let client = server.client.clone();
        // More than could be posted in time if each waited for the one before it.
        let calls = spawn_background(async move {
            futures_util::future::join_all((0..16).map(|_| client.call(outgoing("echo", json!({}))))).await
        });
        let all_posted = async {
            for _ in 0..16 {
                assert_eq!(server.posts.recv().await.unwrap()["method"], "tools/call");
            }
        };
        in_time(all_posted).await;
        server.verdict.send(Some(verdict)).unwrap();
        for refused in calls.finished().await {
            match refused {
                Err(ClientError::Protocol(why)) if !is_lost => assert!(why.contains("400"), "{why}"),
                Err(ClientError::Lost(_)) if is_lost => {}
                other => panic!("{other:?}"),
            }
        }
        if is_lost {
            in_time(server.client.closed()).await;
        }
    }
}

/// A server whose stream is fed by the test, since a connection's script cannot write to another; and its
/// client.
struct FedConnection {
    client: Client,
    feed: mpsc::UnboundedSender<String>,
    posts: mpsc::UnboundedReceiver<Value>,
    /// The delayed HTTP answer to every posted call.
    verdict: watch::Sender<Option<&'static str>>,
    _way: ConnectParams,
    _serving: BackgroundTask<()>,
}

impl FedConnection {
    async fn start() -> Self {
        let (feed, connection) = mpsc::unbounded_channel::<String>();
        let (verdict, verdicts) = watch::channel(None);
        let (address, mut posts, serving) = fed_stream(connection, verdicts).await;
        let params = ConnectParams::to(&format!("http://{address}/sse")).with_older_transport();
        feed.send("event: endpoint\r\ndata: /messages?session=1\r\n\r\n".to_owned()).unwrap();
        let connecting = spawn_background(async move { (params.try_connect().await, params) });
        let initialize = in_time(posts.recv()).await.unwrap();
        let welcome = json!({ "jsonrpc": "2.0", "id": initialize["id"], "result": {
            "protocolVersion": "2024-11-05", "capabilities": {},
            "serverInfo": { "name": "fed", "version": "1" } } });
        feed.send(format!("event: message\r\ndata: {welcome}\r\n\r\n")).unwrap();
        let (client, params) = connecting.finished().await;
        assert_eq!(in_time(posts.recv()).await.unwrap()["method"], "notifications/initialized");
        Self { client: client.unwrap(), feed, posts, verdict, _way: params, _serving: serving }
    }
}

/// A server that streams the events from a channel and passes on posted messages.
async fn fed_stream(
    mut connection: mpsc::UnboundedReceiver<String>,
    verdict: watch::Receiver<Option<&'static str>>,
) -> (SocketAddr, mpsc::UnboundedReceiver<Value>, BackgroundTask<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (posted, posts) = mpsc::unbounded_channel();
    let serving = spawn_background(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // Unread data would turn the end of the stream into a reset.
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut request).await.unwrap();
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let feeding = spawn_background(async move {
            while let Some(text) = connection.recv().await {
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        });
        let mut taking = JoinSet::new();
        taking.spawn(async move {
            feeding.finished().await;
        });
        while let Ok((stream, _)) = listener.accept().await {
            taking.spawn(take_posts(stream, posted.clone(), verdict.clone()));
        }
    });
    (address, posts, serving)
}

/// Passes on posted messages, and accepts everything immediately except calls, which wait for a verdict.
async fn take_posts(
    stream: TcpStream,
    posted: mpsc::UnboundedSender<Value>,
    mut verdict: watch::Receiver<Option<&'static str>>,
) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        while stream.read_line(&mut line).await.unwrap_or(0) > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if length == 0 || stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let message: Value = serde_json::from_slice(&body).unwrap();
        let is_call = message["method"] == "tools/call";
        posted.send(message).ok();
        if is_call {
            let Ok(verdict) =
                verdict.wait_for(Option::is_some).await.map(|verdict| verdict.unwrap_or_default())
            else {
                return std::future::pending().await;
            };
            let refusal = format!("HTTP/1.1 {verdict}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(refusal.as_bytes()).await.unwrap();
        } else {
            stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\nAccepted").await.unwrap();
        }
    }
}
