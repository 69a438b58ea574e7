//! The node's end of a link, scripted by the test.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use plexus_proto::NodeId;
use plexus_testkit::TestHub;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// A machine that has joined.
#[derive(Debug, Clone)]
pub(super) struct EnrolledNode {
    pub(super) id: NodeId,
    pub(super) token: String,
    /// The store id that it reports.
    pub(super) store: uuid::Uuid,
}

impl EnrolledNode {
    /// Invited by the admin, and joined with the code.
    pub(super) async fn new(hub: &TestHub, name: &str) -> Self {
        let invite = hub.http().post(hub.url("/api/v1/nodes/invites")).bearer_auth(hub.admin_token());
        let invite = invite.json(&json!({ "name": name })).send().await.unwrap();
        assert_eq!(invite.status(), 201);
        let invite: Value = invite.json().await.unwrap();
        let joined = hub.http().post(hub.url("/api/v1/nodes/join")).json(&json!({ "code": invite["code"] }));
        let joined = joined.send().await.unwrap();
        assert_eq!(joined.status(), 201);
        let joined: Value = joined.json().await.unwrap();
        Self {
            id: joined["node_id"].as_str().unwrap().parse().unwrap(),
            token: joined["token"].as_str().expect("a token").to_owned(),
            store: uuid::Uuid::now_v7(),
        }
    }

    /// Its first frame.
    pub(super) fn hello(&self) -> Value {
        json!({
            "type": "hello", "versions": [1], "node_id": self.id, "store_id": self.store, "version": "0.1.0",
            "os": "linux", "arch": "x86_64", "hostname": "scripted",
            "tools": [{"name": "terminal"}, {"name": "system_info"}],
        })
    }

    /// The same with held calls.
    pub(super) fn hello_with(&self, calls: &[(&str, &str)]) -> Value {
        let calls: Vec<_> =
            calls.iter().map(|(id, state)| json!({ "call_id": id, "state": state })).collect();
        let mut hello = self.hello();
        hello["calls"] = calls.into();
        hello
    }

    pub(super) async fn dial(&self, hub: &TestHub, transport: LinkTransport) -> NodeLink {
        match transport {
            LinkTransport::WebSocket => self.ws(hub).await.expect("the WebSocket opens"),
            LinkTransport::Polling => NodeLink::Poll(Poll {
                http: hub.http().clone(),
                url: hub.url(&format!("/api/v1/nodes/{}/frames", self.id)),
                token: self.token.clone(),
                epoch: None,
                sent: 0,
                after: 0,
                waiting: Vec::new(),
                ended: None,
            }),
        }
    }

    /// Opens the WebSocket, or returns the status of the refusal.
    pub(super) async fn ws(&self, hub: &TestHub) -> Result<NodeLink, u16> {
        self.ws_as(hub, self.id, &self.token).await
    }

    pub(super) async fn ws_as(&self, hub: &TestHub, id: NodeId, token: &str) -> Result<NodeLink, u16> {
        let mut request =
            format!("ws://{}/ws/nodes/{id}", hub.address()).into_client_request().expect("a request");
        let authorization = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header");
        request.headers_mut().insert("authorization", authorization);
        let socket = TcpSocket::new_v4().unwrap();
        let stream = socket.connect(hub.address()).await.unwrap();
        let opened = tokio::time::timeout(TIMEOUT, tokio_tungstenite::client_async(request, stream)).await;
        match opened.expect("an answer in time") {
            Ok((socket, _)) => Ok(NodeLink::Ws(Box::new(socket))),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("no WebSocket: {error}"),
        }
    }

    /// Dials, says hello and is admitted; also returns the hub's welcome.
    pub(super) async fn link(&self, hub: &TestHub, transport: LinkTransport) -> (NodeLink, Value) {
        self.link_with(hub, transport, self.hello()).await
    }

    pub(super) async fn link_with(
        &self,
        hub: &TestHub,
        transport: LinkTransport,
        hello: Value,
    ) -> (NodeLink, Value) {
        let mut end = self.dial(hub, transport).await;
        end.send(hello).await;
        let welcome = end.next().await.expect("a welcome");
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        (end, welcome)
    }
}

/// Transport of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkTransport {
    WebSocket,
    Polling,
}

pub(super) const ALL_TRANSPORTS: [LinkTransport; 2] = [LinkTransport::WebSocket, LinkTransport::Polling];

/// How a link ended: the code of the close frame, or the status of a request; 0 if there was neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkEnded(pub(super) u16);

pub(super) enum NodeLink {
    Ws(Box<WebSocketStream<TcpStream>>),
    Poll(Poll),
}

pub(super) struct Poll {
    http: reqwest::Client,
    url: String,
    token: String,
    epoch: Option<u64>,
    sent: u64,
    after: u64,
    waiting: Vec<Value>,
    ended: Option<u16>,
}

impl NodeLink {
    /// Sends a frame; it is lost if the link has ended.
    pub(super) async fn send(&mut self, frame: Value) {
        match self {
            Self::Ws(_) => self.send_text(frame.to_string()).await,
            Self::Poll(poll) => {
                poll.sent += 1;
                let frames = json!([{ "n": poll.sent, "frame": frame }]);
                poll.post(frames).await;
            }
        }
    }

    /// Sends text that may not be a valid frame.
    pub(super) async fn send_text(&mut self, text: String) {
        let Self::Ws(socket) = self else { panic!("only over a WebSocket") };
        let _ = socket.send(Message::text(text)).await;
    }

    /// The next frame; answers pings.
    pub(super) async fn next(&mut self) -> Result<Value, LinkEnded> {
        loop {
            let frame = self.next_raw().await?;
            if frame["type"] == "ping" {
                self.send(json!({ "type": "pong", "n": frame["n"] })).await;
            } else {
                return Ok(frame);
            }
        }
    }

    /// The next frame of a kind. Answers the hub's test calls and ignores other frames.
    pub(super) async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.next().await.unwrap_or_else(|ended| panic!("no {kind} but {ended:?}"));
            if frame["type"] == "call" && frame["tool"] == "probe" {
                self.answer(&frame, "here").await;
            } else if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// How the link ends. Ignores preceding frames and answers no pings.
    pub(super) async fn end(&mut self) -> LinkEnded {
        loop {
            if let Err(ended) = self.next_raw().await {
                return ended;
            }
        }
    }

    /// The next frame of any kind.
    pub(super) async fn next_raw(&mut self) -> Result<Value, LinkEnded> {
        match self {
            Self::Ws(socket) => loop {
                let message = tokio::time::timeout(TIMEOUT, socket.next()).await.expect("a frame in time");
                match message {
                    Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).expect("JSON")),
                    Some(Ok(Message::Close(frame))) => {
                        return Err(LinkEnded(frame.map_or(0, |frame| frame.code.into())));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(LinkEnded(0)),
                }
            },
            Self::Poll(poll) => poll.next().await,
        }
    }

    /// Sends the result of a call.
    pub(super) async fn answer(&mut self, call: &Value, text: &str) {
        let outcome = json!({ "output": { "text": text } });
        self.send(json!({ "type": "result", "call_id": call["call_id"], "outcome": outcome })).await;
    }

    /// Answers the hub's test call, so that the node is healthy.
    pub(super) async fn answer_probe(&mut self) {
        let call = loop {
            let frame = self.next().await.expect("the test call");
            if frame["type"] == "call" {
                break frame;
            }
        };
        assert_eq!(call["tool"], "probe", "{call}");
        self.answer(&call, "here").await;
    }
}

impl Poll {
    async fn post(&mut self, frames: Value) {
        let mut body = json!({ "frames": frames });
        if let Some(epoch) = self.epoch {
            body["epoch"] = epoch.into();
        }
        let request = self.http.post(&self.url).bearer_auth(&self.token).json(&body).timeout(TIMEOUT);
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        if status != 200 {
            self.ended = Some(status);
            return;
        }
        let accepted: Value = answer.json().await.expect("JSON");
        self.epoch = accepted["epoch"].as_u64();
        assert_eq!(accepted["taken"], self.sent);
    }

    async fn next(&mut self) -> Result<Value, LinkEnded> {
        loop {
            if !self.waiting.is_empty() {
                return Ok(self.waiting.remove(0));
            }
            let Some(epoch) = self.epoch else { return Err(LinkEnded(self.ended.unwrap_or(0))) };
            let request = self.http.get(&self.url).bearer_auth(&self.token).timeout(TIMEOUT);
            let request = request.query(&[("epoch", epoch), ("after", self.after), ("wait_ms", 1_000)]);
            let answer = request.send().await.expect("an answer");
            if answer.status() != 200 {
                return Err(LinkEnded(answer.status().as_u16()));
            }
            let batch: Value = answer.json().await.expect("JSON");
            for frame in batch["frames"].as_array().expect("frames") {
                assert_eq!(frame["n"], self.after + 1, "in order, each once");
                self.after += 1;
                self.waiting.push(frame["frame"].clone());
            }
        }
    }

    /// Repeats a request as if its answer had been lost: sends the last frame once more.
    pub(super) async fn again(&mut self, frame: Value) {
        let frames = json!([{ "n": self.sent, "frame": frame }]);
        self.post(frames).await;
    }
}
