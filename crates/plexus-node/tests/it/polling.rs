//! Links by HTTP requests, against a minimal hub: lost answers are requested again, and no frame arrives twice.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::future::BoxFuture;
use http::StatusCode;
use plexus_node::Transport;
use plexus_node::link::{Link, LinkError, LinkRx, LinkTx};
use plexus_proto::node::poll::{Numbered, PollBatch, PollQuery, PollSend, PollTaken};
use plexus_proto::node::{Frame, HeldState, Order, Received};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::scripted_hub::{ScriptedHub, TestNode, state, text};
use super::websocket::keep_linked;

/// State shared by the HTTP handlers and the test.
#[derive(Default)]
struct PollState {
    epoch: u64,
    taken: u64,
    sent: u64,
    outgoing: VecDeque<Numbered>,
    /// Delivers the node's frames to the test.
    incoming: Option<mpsc::UnboundedSender<Frame>>,
    /// Number of answers to lose after their request was processed.
    lose: u32,
}

type Shared = Arc<Mutex<PollState>>;

async fn start_hub() -> (Shared, SocketAddr, JoinSet<()>) {
    let shared = Shared::default();
    let routes = Router::new()
        .route("/api/v1/nodes/{id}/frames", get(get_frames).post(post_frames))
        .with_state(shared.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (shared, address, serving)
}

/// Accepts the next link.
fn accept(shared: &Shared) -> ScriptedHub {
    let (tx, rx) = mpsc::unbounded_channel();
    let mut poll_state = shared.lock().unwrap();
    *poll_state = PollState { epoch: poll_state.epoch, incoming: Some(tx), ..PollState::default() };
    drop(poll_state);
    let link = Link { tx: Box::new(HubTx(shared.clone())), rx: Box::new(HubRx(rx)), transport: "poll" };
    ScriptedHub { link, served: None }
}

fn loses_answer(poll_state: &mut PollState) -> bool {
    let lose = poll_state.lose > 0;
    poll_state.lose = poll_state.lose.saturating_sub(1);
    lose
}

async fn post_frames(State(shared): State<Shared>, Json(body): Json<PollSend>) -> Response {
    let mut poll_state = shared.lock().unwrap();
    match body.epoch {
        None => poll_state.epoch += 1,
        Some(epoch) if epoch != poll_state.epoch => return StatusCode::GONE.into_response(),
        Some(_) => {}
    }
    for Numbered { n, frame } in body.frames {
        if n <= poll_state.taken {
            continue;
        }
        assert_eq!(n, poll_state.taken + 1, "frames are numbered without gaps");
        poll_state.taken = n;
        let Ok(Received::Frame(frame)) = Frame::parse(frame.get()) else { panic!("{}", frame.get()) };
        if let Some(incoming) = &poll_state.incoming {
            let _ = incoming.send(frame);
        }
    }
    if loses_answer(&mut poll_state) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    Json(PollTaken { epoch: poll_state.epoch, taken: poll_state.taken }).into_response()
}

async fn get_frames(State(shared): State<Shared>, Query(query): Query<PollQuery>) -> Response {
    loop {
        {
            let mut poll_state = shared.lock().unwrap();
            if query.epoch != poll_state.epoch {
                return StatusCode::GONE.into_response();
            }
            poll_state.outgoing.retain(|frame| frame.n > query.after);
            if !poll_state.outgoing.is_empty() {
                if loses_answer(&mut poll_state) {
                    return StatusCode::BAD_GATEWAY.into_response();
                }
                return Json(PollBatch { frames: poll_state.outgoing.iter().cloned().collect() })
                    .into_response();
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

struct HubTx(Shared);
struct HubRx(mpsc::UnboundedReceiver<Frame>);

impl LinkTx for HubTx {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        let mut poll_state = self.0.lock().unwrap();
        poll_state.sent += 1;
        let numbered = Numbered { n: poll_state.sent, frame: RawValue::from_string(frame.text()).unwrap() };
        poll_state.outgoing.push_back(numbered);
        Box::pin(async { Ok(()) })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl LinkRx for HubRx {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async { self.0.recv().await.map(Received::Frame).ok_or(LinkError::Closed(None)) })
    }
}

#[tokio::test]
async fn call_and_result_travel_by_requests() {
    let test_node = TestNode::new().await;
    let (shared, address, _serving) = start_hub().await;
    let mut hub = accept(&shared);
    let _linked = keep_linked(&test_node, address, Transport::Poll);
    hub.welcome_node(&[]).await;
    test_node.gate.open(1);
    let id = hub.call("write", json!({ "say": "by requests" })).await;
    assert_eq!(text(hub.result(id).await), "by requests");
    hub.confirm(id).await;
    test_node.deleted(id).await;
}

#[tokio::test]
async fn lost_answers_neither_lose_nor_duplicate_frames() {
    let test_node = TestNode::new().await;
    let (shared, address, _serving) = start_hub().await;
    let mut hub = accept(&shared);
    let _linked = keep_linked(&test_node, address, Transport::Poll);
    hub.welcome_node(&[]).await;
    test_node.gate.open(20);
    for n in 0..20 {
        shared.lock().unwrap().lose = n % 4;
        let id = hub.call("write", json!({ "say": n.to_string() })).await;
        assert_eq!(text(hub.result(id).await), n.to_string());
        hub.confirm(id).await;
    }
    assert_eq!(test_node.gate.runs(), 20);
}

#[tokio::test]
async fn link_ended_by_the_hub_is_reopened() {
    let test_node = TestNode::new().await;
    let (shared, address, _serving) = start_hub().await;
    let mut hub = accept(&shared);
    let _linked = keep_linked(&test_node, address, Transport::Poll);
    hub.welcome_node(&[]).await;
    let id = hub.call("write", json!({ "say": "second" })).await;
    hub.accepted(id).await;
    // From now on, requests of the old link are answered with 410, so the node opens a new one.
    shared.lock().unwrap().epoch += 1;
    let mut hub = accept(&shared);
    let hello = hub.welcome_node(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    test_node.gate.open(1);
    assert_eq!(text(hub.result(id).await), "second");
}
