//! A node that dials a real WebSocket: its credential, and its reaction to lost links and refusals.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use plexus_kit::{Clock, Stage};
use plexus_node::link::tls::TlsOptions;
use plexus_node::link::{Link, LinkError, LinkRx, LinkTx};
use plexus_node::{Credential, Dialler, HubClient, Jitter, Transport};
use plexus_proto::Timestamp;
use plexus_proto::api::NodeCredential;
use plexus_proto::node::{Frame, HeldState, Order, Received, close};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};
use tokio_util::sync::CancellationToken;

use super::scripted_hub::{ScriptedHub, TestNode, state, text, within};

const TOKEN: &str = "not-a-token";

/// Keeps the node linked to this address until the returned guard is dropped.
pub(crate) fn keep_linked(
    test_node: &TestNode,
    address: SocketAddr,
    transport: Transport,
) -> tokio_util::sync::DropGuard {
    let hub = HubClient::new(&format!("http://{address}"), &TlsOptions::default()).unwrap();
    let given = NodeCredential {
        node_id: test_node.node.id(),
        name: "nas".to_owned(),
        token: Some(TOKEN.to_owned()),
        expires_at: Timestamp::MAX,
    };
    let credential = Credential::new(&hub, given, &Clock::system());
    let folder = test_node.folder().to_owned();
    let dialler =
        Dialler::new(test_node.node.clone(), hub, (folder, credential), transport, &test_node.supervisor)
            .with_jitter(Jitter::fixed(0.0));
    let stop = CancellationToken::new();
    test_node.supervisor.spawn(Stage::Intake, "dialling", dialler.run(stop.clone()));
    stop.drop_guard()
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The upgrade request of the node.
struct UpgradeRequest {
    path: String,
    authorization: String,
}

async fn accept(listener: &TcpListener) -> (ScriptedHub, UpgradeRequest) {
    let (stream, _) = within("the node to dial", listener.accept()).await.unwrap();
    let request = Arc::new(Mutex::new(None));
    let note = request.clone();
    let on_request = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        *note.lock().unwrap() = Some(UpgradeRequest {
            path: request.uri().path().to_owned(),
            authorization: header("authorization").unwrap_or_default(),
        });
        Ok(response)
    };
    let socket = within("the upgrade", accept_hdr_async(stream, on_request)).await.unwrap();
    let (tx, rx) = socket.split();
    let link = Link { tx: Box::new(HubTx(tx)), rx: Box::new(HubRx(rx)), transport: "ws" };
    let request = request.lock().unwrap().take().unwrap();
    (ScriptedHub { link, served: None }, request)
}

struct HubTx(SplitSink<WebSocketStream<TcpStream>, Message>);
struct HubRx(SplitStream<WebSocketStream<TcpStream>>);

impl LinkTx for HubTx {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        let text = Message::text(frame.text());
        Box::pin(async move { self.0.send(text).await.map_err(|e| LinkError::Broken(e.to_string())) })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let fenced = CloseFrame { code: close::FENCED.into(), reason: "".into() };
            let _ = self.0.send(Message::Close(Some(fenced))).await;
        })
    }
}

impl LinkRx for HubRx {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => Ok(Frame::parse(&text).unwrap()),
                other => Err(LinkError::Broken(format!("{other:?}"))),
            }
        })
    }
}

#[tokio::test]
async fn result_is_delivered_over_a_new_websocket() {
    let test_node = TestNode::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&test_node, address, Transport::Ws);
    let (mut hub, request) = accept(&listener).await;
    assert_eq!(request.path, format!("/ws/nodes/{}", test_node.node.id()));
    assert_eq!(request.authorization, format!("Bearer {TOKEN}"));
    hub.welcome_node(&[]).await;
    let id = hub.call("write", json!({ "say": "over the second" })).await;
    hub.accepted(id).await;
    hub.cut().await;
    let (mut hub, _) = accept(&listener).await;
    let hello = hub.welcome_node(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    test_node.gate.open(1);
    assert_eq!(text(hub.result(id).await), "over the second");
    assert_eq!(test_node.gate.runs(), 1);
}

#[tokio::test]
async fn unparsable_frames_end_the_link_and_not_the_node() {
    let test_node = TestNode::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&test_node, address, Transport::Ws);
    for nonsense in ["{", "[1,2]", r#"{"type":"call","call_id":1}"#, r#"{"type":"welcome","version":"x"}"#] {
        let (stream, _) = within("the node to dial", listener.accept()).await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        assert!(within("hello", socket.next()).await.unwrap().unwrap().is_text());
        socket.send(Message::text(nonsense)).await.unwrap();
        // The node closes the link.
        while let Some(Ok(_)) = within("the end of the link", socket.next()).await {}
    }
    let (mut hub, _) = accept(&listener).await;
    hub.welcome_node(&[]).await;
    test_node.gate.open(1);
    let id = hub.call("write", json!({ "say": "alive" })).await;
    assert_eq!(text(hub.result(id).await), "alive");
}

/// Answers one request with a status and a body; returns the request line.
async fn answer(listener: &TcpListener, status: StatusCode, body: &str) -> String {
    let (mut stream, _) = within("a request", listener.accept()).await.unwrap();
    let mut request = vec![0; 8192];
    let length = within("its head", stream.read(&mut request)).await.unwrap();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn refused_node_does_not_try_polling_and_retries_rarely() {
    let test_node = TestNode::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&test_node, address, Transport::Auto);
    let refusal = r#"{"code":"unauthenticated","message":"the token was revoked","request_id":"1"}"#;
    let request = answer(&listener, StatusCode::UNAUTHORIZED, refusal).await;
    assert!(request.starts_with("GET /ws/nodes/"), "{request}");
    let again = tokio::time::timeout(Duration::from_secs(2), listener.accept()).await;
    assert!(again.is_err(), "it returned at once");
}

#[tokio::test]
async fn blocked_websocket_falls_back_to_polling() {
    let test_node = TestNode::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&test_node, address, Transport::Auto);
    // The answer of an HTTP proxy, not of a hub.
    let request = answer(&listener, StatusCode::FORBIDDEN, "<html>no</html>").await;
    assert!(request.starts_with("GET /ws/nodes/"), "{request}");
    let request = answer(&listener, StatusCode::BAD_GATEWAY, "").await;
    assert_eq!(request, format!("POST /api/v1/nodes/{}/frames HTTP/1.1", test_node.node.id()));
}

#[tokio::test]
async fn replaced_node_does_not_reconnect_at_once() {
    let test_node = TestNode::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&test_node, address, Transport::Ws);
    let (mut hub, _) = accept(&listener).await;
    hub.welcome_node(&[]).await;
    hub.send(Frame::Bye(plexus_proto::node::Bye { reason: "replaced".to_owned() })).await;
    hub.link.tx.close().await;
    let again = tokio::time::timeout(Duration::from_secs(2), listener.accept()).await;
    assert!(again.is_err(), "it returned at once");
}

#[tokio::test]
async fn frozen_hub_is_dialled_again() {
    let test_node = TestNode::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&test_node, address, Transport::Ws);
    let (mut frozen, _) = accept(&listener).await;
    frozen.hello().await;
    frozen.send(Frame::Welcome(super::scripted_hub::welcome(50, 2, &[]))).await;
    // Nothing is closed, as when a cable is pulled.
    let (mut hub, _) = accept(&listener).await;
    hub.welcome_node(&[]).await;
    drop(frozen);
}

#[test]
fn invalid_address_is_reported_without_its_password() {
    let wrong = |address: &str| HubClient::new(address, &TlsOptions::default()).unwrap_err().to_string();
    assert!(wrong("ftp://hub.example").contains("https://"));
    assert!(wrong("hub").contains("not the address of a hub"));
    let error = wrong("https://me:hidden@hub.example");
    assert!(!error.contains("hidden"), "{error}");
}
