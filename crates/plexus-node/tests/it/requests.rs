//! The same frames by requests, against a hub of a few lines: what is lost on the way is asked for again, and nothing comes
//! twice.

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

use super::scripted::{Hub, Site, state, text};
use super::sockets::keep_linked;

/// What is between the requests and the test.
#[derive(Default)]
struct Between {
    epoch: u64,
    taken: u64,
    sent: u64,
    outgoing: VecDeque<Numbered>,
    /// Frames of the node, for the test.
    incoming: Option<mpsc::UnboundedSender<Frame>>,
    /// So many answers are lost, once what was asked is done.
    lose: u32,
}

type Shared = Arc<Mutex<Between>>;

async fn hub() -> (Shared, SocketAddr, JoinSet<()>) {
    let shared = Shared::default();
    let routes =
        Router::new().route("/api/v1/nodes/{id}/frames", get(fetch).post(hand_in)).with_state(shared.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (shared, address, serving)
}

/// Takes the next link.
fn accept(shared: &Shared) -> Hub {
    let (tx, rx) = mpsc::unbounded_channel();
    let mut between = shared.lock().unwrap();
    *between = Between { epoch: between.epoch, incoming: Some(tx), ..Between::default() };
    drop(between);
    let link = Link { tx: Box::new(Sending(shared.clone())), rx: Box::new(Receiving(rx)), transport: "poll" };
    Hub { link, served: None }
}

fn lost(between: &mut Between) -> bool {
    let lose = between.lose > 0;
    between.lose = between.lose.saturating_sub(1);
    lose
}

async fn hand_in(State(shared): State<Shared>, Json(body): Json<PollSend>) -> Response {
    let mut between = shared.lock().unwrap();
    match body.epoch {
        None => between.epoch += 1,
        Some(epoch) if epoch != between.epoch => return StatusCode::GONE.into_response(),
        Some(_) => {}
    }
    for Numbered { n, frame } in body.frames {
        if n <= between.taken {
            continue;
        }
        assert_eq!(n, between.taken + 1, "frames are numbered without a gap");
        between.taken = n;
        let Ok(Received::Frame(frame)) = Frame::parse(frame.get()) else { panic!("{}", frame.get()) };
        if let Some(incoming) = &between.incoming {
            let _ = incoming.send(frame);
        }
    }
    if lost(&mut between) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    Json(PollTaken { epoch: between.epoch, taken: between.taken }).into_response()
}

async fn fetch(State(shared): State<Shared>, Query(query): Query<PollQuery>) -> Response {
    loop {
        {
            let mut between = shared.lock().unwrap();
            if query.epoch != between.epoch {
                return StatusCode::GONE.into_response();
            }
            between.outgoing.retain(|frame| frame.n > query.after);
            if !between.outgoing.is_empty() {
                if lost(&mut between) {
                    return StatusCode::BAD_GATEWAY.into_response();
                }
                return Json(PollBatch { frames: between.outgoing.iter().cloned().collect() })
                    .into_response();
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

struct Sending(Shared);
struct Receiving(mpsc::UnboundedReceiver<Frame>);

impl LinkTx for Sending {
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>> {
        let mut between = self.0.lock().unwrap();
        between.sent += 1;
        let numbered = Numbered { n: between.sent, frame: RawValue::from_string(frame.text()).unwrap() };
        between.outgoing.push_back(numbered);
        Box::pin(async { Ok(()) })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl LinkRx for Receiving {
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async { self.0.recv().await.map(Received::Frame).ok_or(LinkError::Closed(None)) })
    }
}

#[tokio::test]
async fn a_call_goes_there_and_back_by_requests() {
    let site = Site::new().await;
    let (shared, address, _serving) = hub().await;
    let mut hub = accept(&shared);
    let _linked = keep_linked(&site, address, Transport::Poll);
    hub.let_in(&[]).await;
    site.gate.open(1);
    let id = hub.call("write", json!({ "say": "by requests" })).await;
    assert_eq!(text(hub.result(id).await), "by requests");
    hub.confirm(id).await;
    site.forgotten(id).await;
}

#[tokio::test]
async fn answers_that_are_lost_lose_no_frame_and_double_none() {
    let site = Site::new().await;
    let (shared, address, _serving) = hub().await;
    let mut hub = accept(&shared);
    let _linked = keep_linked(&site, address, Transport::Poll);
    hub.let_in(&[]).await;
    site.gate.open(20);
    for n in 0..20 {
        shared.lock().unwrap().lose = n % 4;
        let id = hub.call("write", json!({ "say": n.to_string() })).await;
        assert_eq!(text(hub.result(id).await), n.to_string());
        hub.confirm(id).await;
    }
    assert_eq!(site.gate.runs(), 20);
}

#[tokio::test]
async fn a_link_that_the_hub_has_ended_is_followed_by_another() {
    let site = Site::new().await;
    let (shared, address, _serving) = hub().await;
    let mut hub = accept(&shared);
    let _linked = keep_linked(&site, address, Transport::Poll);
    hub.let_in(&[]).await;
    let id = hub.call("write", json!({ "say": "second" })).await;
    hub.accepted(id).await;
    // Whatever the node asks of its link is answered with its end from here on, and it begins anew.
    shared.lock().unwrap().epoch += 1;
    let mut hub = accept(&shared);
    let hello = hub.let_in(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    site.gate.open(1);
    assert_eq!(text(hub.result(id).await), "second");
}
