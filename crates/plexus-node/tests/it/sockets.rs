//! A node that dials a real WebSocket: who it says it is, and what it does when the other side breaks off or says no.

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
use plexus_node::{Credential, Dialler, Hub as HubAddress, Jitter, Transport};
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

use super::scripted::{Hub, Site, state, text, within};

/// Looks like no token of anybody.
const TOKEN: &str = "not-a-token";

/// Has the node keep itself linked to this address, until the returned guard is dropped.
pub(crate) fn keep_linked(
    site: &Site,
    address: SocketAddr,
    transport: Transport,
) -> tokio_util::sync::DropGuard {
    let hub = HubAddress::new(&format!("http://{address}"), &TlsOptions::default()).unwrap();
    let given = NodeCredential {
        node_id: site.node.id(),
        name: "nas".to_owned(),
        token: Some(TOKEN.to_owned()),
        expires_at: Timestamp::MAX,
    };
    let credential = Credential::new(&hub, given, &Clock::system());
    let folder = site.folder().to_owned();
    let dialler = Dialler::new(site.node.clone(), hub, (folder, credential), transport, &site.supervisor)
        .with_jitter(Jitter::fixed(0.0));
    let stop = CancellationToken::new();
    site.supervisor.spawn(Stage::Intake, "dialling", dialler.run(stop.clone()));
    stop.drop_guard()
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What the node asked for.
struct Asked {
    path: String,
    authorization: String,
}

async fn accept(listener: &TcpListener) -> (Hub, Asked) {
    let (stream, _) = within("the node to dial", listener.accept()).await.unwrap();
    let asked = Arc::new(Mutex::new(None));
    let note = asked.clone();
    let look = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        *note.lock().unwrap() = Some(Asked {
            path: request.uri().path().to_owned(),
            authorization: header("authorization").unwrap_or_default(),
        });
        Ok(response)
    };
    let socket = within("the upgrade", accept_hdr_async(stream, look)).await.unwrap();
    let (tx, rx) = socket.split();
    let link = Link { tx: Box::new(Sending(tx)), rx: Box::new(Receiving(rx)), transport: "ws" };
    let asked = asked.lock().unwrap().take().unwrap();
    (Hub { link, served: None }, asked)
}

struct Sending(SplitSink<WebSocketStream<TcpStream>, Message>);
struct Receiving(SplitStream<WebSocketStream<TcpStream>>);

impl LinkTx for Sending {
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

impl LinkRx for Receiving {
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
async fn a_command_that_outlives_its_socket_is_delivered_over_the_next() {
    let site = Site::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&site, address, Transport::Ws);
    let (mut hub, asked) = accept(&listener).await;
    assert_eq!(asked.path, format!("/ws/nodes/{}", site.node.id()));
    assert_eq!(asked.authorization, format!("Bearer {TOKEN}"));
    hub.let_in(&[]).await;
    let id = hub.call("write", json!({ "say": "over the second" })).await;
    hub.accepted(id).await;
    hub.cut().await;
    let (mut hub, _) = accept(&listener).await;
    let hello = hub.let_in(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    site.gate.open(1);
    assert_eq!(text(hub.result(id).await), "over the second");
    assert_eq!(site.gate.runs(), 1);
}

#[tokio::test]
async fn nonsense_of_a_hub_ends_the_link_and_not_the_node() {
    let site = Site::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&site, address, Transport::Ws);
    for nonsense in ["{", "[1,2]", r#"{"type":"call","call_id":1}"#, r#"{"type":"welcome","version":"x"}"#] {
        let (stream, _) = within("the node to dial", listener.accept()).await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        assert!(within("hello", socket.next()).await.unwrap().unwrap().is_text());
        socket.send(Message::text(nonsense)).await.unwrap();
        // Closed by the node, in one way or another.
        while let Some(Ok(_)) = within("the end of the link", socket.next()).await {}
    }
    let (mut hub, _) = accept(&listener).await;
    hub.let_in(&[]).await;
    site.gate.open(1);
    let id = hub.call("write", json!({ "say": "alive" })).await;
    assert_eq!(text(hub.result(id).await), "alive");
}

/// Answers one request with a status and a body, and tells what was asked.
async fn answer(listener: &TcpListener, status: StatusCode, body: &str) -> String {
    let (mut stream, _) = within("a request", listener.accept()).await.unwrap();
    let mut asked = vec![0; 8192];
    let length = within("its head", stream.read(&mut asked)).await.unwrap();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&asked[..length]).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn who_is_refused_by_the_hub_does_not_try_the_other_way_and_comes_back_seldom() {
    let site = Site::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&site, address, Transport::Auto);
    let refusal = r#"{"code":"unauthenticated","message":"the token was revoked","request_id":"1"}"#;
    let asked = answer(&listener, StatusCode::UNAUTHORIZED, refusal).await;
    assert!(asked.starts_with("GET /ws/nodes/"), "{asked}");
    let again = tokio::time::timeout(Duration::from_secs(2), listener.accept()).await;
    assert!(again.is_err(), "it came back at once");
}

#[tokio::test]
async fn where_sockets_do_not_get_through_it_goes_on_by_requests() {
    let site = Site::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&site, address, Transport::Auto);
    // What a proxy says, and no hub.
    let asked = answer(&listener, StatusCode::FORBIDDEN, "<html>no</html>").await;
    assert!(asked.starts_with("GET /ws/nodes/"), "{asked}");
    let asked = answer(&listener, StatusCode::BAD_GATEWAY, "").await;
    assert_eq!(asked, format!("POST /api/v1/nodes/{}/frames HTTP/1.1", site.node.id()));
}

#[tokio::test]
async fn who_was_replaced_by_another_process_does_not_fight_it() {
    let site = Site::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&site, address, Transport::Ws);
    let (mut hub, _) = accept(&listener).await;
    hub.let_in(&[]).await;
    hub.send(Frame::Bye(plexus_proto::node::Bye { reason: "replaced".to_owned() })).await;
    hub.link.tx.close().await;
    let again = tokio::time::timeout(Duration::from_secs(2), listener.accept()).await;
    assert!(again.is_err(), "it came back at once");
}

#[tokio::test]
async fn a_hub_that_freezes_is_given_up_and_dialled_again() {
    let site = Site::new().await;
    let (listener, address) = listen().await;
    let _linked = keep_linked(&site, address, Transport::Ws);
    let (mut frozen, _) = accept(&listener).await;
    frozen.hello().await;
    frozen.send(Frame::Welcome(super::scripted::welcome(50, 2, &[]))).await;
    // Nothing is closed: as when a cable is pulled.
    let (mut hub, _) = accept(&listener).await;
    hub.let_in(&[]).await;
    drop(frozen);
}

#[test]
fn an_address_that_no_hub_can_have_is_told_without_its_password() {
    let wrong = |address: &str| HubAddress::new(address, &TlsOptions::default()).unwrap_err().to_string();
    assert!(wrong("ftp://hub.example").contains("https://"));
    assert!(wrong("hub").contains("no address of a hub"));
    let error = wrong("https://me:hidden@hub.example");
    assert!(!error.contains("hidden"), "{error}");
}
