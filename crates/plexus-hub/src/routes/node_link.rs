//! The links of nodes: `/ws/nodes/{id}`, and the same frames over requests to `/api/v1/nodes/{id}/frames`.

use std::future::pending;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, Request};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use plexus_auth::StreamPermit;
use plexus_kit::{QuotaSlot, Stage};
use plexus_proto::ErrorCode;
use plexus_proto::node::MAX_FRAME;
use plexus_proto::node::poll::{
    MAX_FRAMES, MAX_POLL_BYTES, MAX_WAIT_MS, PollBatch, PollQuery, PollSend, PollTaken,
};

use super::query::Params;
use crate::App;
use crate::http::{ApiError, NodeCaller};
use crate::nodes::link::poll::{Poll, PollError};
use crate::nodes::link::ws::{self, PROTOCOL, READ_BUFFER};
use crate::nodes::link::{LinkEnd, LinkProgress, Phase};
use crate::serve::ConnectionSlot;

/// Deadline for a request body: one frame of maximum length, or many short ones.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the hub may take to accept frames that a request delivered.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval of the check for an expired credential, so that a suspended machine or a changed clock is noticed.
const EXPIRY_CHECK: Duration = Duration::from_secs(60);

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/ws/nodes/{id}", get(websocket))
        .route("/api/v1/nodes/{id}/frames", get(fetch).post(hand_in))
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

async fn websocket(
    caller: NodeCaller,
    slot: Extension<ConnectionSlot>,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|_| {
        ApiError::new(
            StatusCode::UPGRADE_REQUIRED,
            ErrorCode::InvalidRequest,
            "this path speaks WebSocket (version 13) only",
        )
        .hint("If WebSockets are blocked, use /api/v1/nodes/{id}/frames.")
    })?;
    let held = caller.link_slot()?;
    Ok(upgrade
        .protocols([PROTOCOL])
        .read_buffer_size(READ_BUFFER)
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .on_upgrade(|socket| async move {
            let NodeCaller { services, node, .. } = &caller;
            let (gateway, node) = (services.nodes.clone(), *node);
            let supervisor = services.supervisor().clone();
            supervisor.spawn(Stage::Intake, "link of a node", async move {
                let ending = LinkProgress::new();
                let link = ws::link(socket, &ending);
                gateway.serve(node, link, ending, Box::pin(until_expired(caller, held))).await;
                drop(slot);
            });
        }))
}

/// Accepts frames from a node. A request without an epoch begins a link.
async fn hand_in(caller: NodeCaller, request: Request) -> Result<Json<PollTaken>, ApiError> {
    let PollSend { epoch, frames } = body(request).await?;
    if frames.is_empty() || frames.len() > MAX_FRAMES {
        let message =
            format!("a request must have 1 to {MAX_FRAMES} frames, and this one has {}", frames.len());
        return Err(ApiError::bad_request(message));
    }
    let (poll, epoch) = match epoch {
        Some(epoch) => (find(&caller, epoch)?, epoch),
        None => {
            if frames.len() != 1 || frames.iter().any(|frame| frame.n != 1) {
                return Err(ApiError::bad_request(
                    "the request that begins a link must have hello as frame 1, and no other frame",
                ));
            }
            return begin(caller, frames).await.map(Json);
        }
    };
    let taken = poll.take(frames, ACCEPT_TIMEOUT).await.map_err(|refused| refusal(&refused))?;
    Ok(Json(PollTaken { epoch, taken }))
}

async fn begin(
    caller: NodeCaller,
    hello: Vec<plexus_proto::node::poll::Numbered>,
) -> Result<PollTaken, ApiError> {
    let held = caller.link_slot()?;
    let (poll, link) = Poll::open();
    let services = caller.services.clone();
    let (node, gateway, served) = (caller.node, services.nodes.clone(), poll.clone());
    services.supervisor().spawn(Stage::Intake, "link of a node", async move {
        gateway.serve(node, link, served.ending.clone(), Box::pin(until_expired(caller, held))).await;
    });
    let taken = poll.take(hello, ACCEPT_TIMEOUT).await.map_err(|refused| refusal(&refused))?;
    let mut phases = poll.ending.follow();
    let begun = async {
        loop {
            let phase = *phases.borrow_and_update();
            match phase {
                Phase::Linked(epoch) => return Ok(epoch),
                Phase::Ended(end) => return Err(ended(end)),
                Phase::Opening => {}
            }
            if phases.changed().await.is_err() {
                return Err(ended(LinkEnd::Closed));
            }
        }
    };
    let begun = tokio::time::timeout(ACCEPT_TIMEOUT, begun).await;
    let epoch = begun.unwrap_or_else(|_| Err(refusal(&PollError::Busy)))?;
    services.nodes.polls().insert(node, epoch, poll);
    Ok(PollTaken { epoch, taken })
}

/// Returns frames for the node, and acknowledges those up to `after`.
async fn fetch(caller: NodeCaller, Params(query): Params<PollQuery>) -> Result<Json<PollBatch>, ApiError> {
    let poll = find(&caller, query.epoch)?;
    let wait = Duration::from_millis(query.wait_ms.unwrap_or(MAX_WAIT_MS).min(MAX_WAIT_MS));
    let batch = poll.fetch(query.after, wait).await.map_err(|refused| refusal(&refused))?;
    Ok(Json(batch))
}

/// The node's link with this epoch, if it is the current one.
fn find(caller: &NodeCaller, epoch: u64) -> Result<std::sync::Arc<Poll>, ApiError> {
    // Check this first: the task of a fenced link may not have noticed yet.
    if caller.services.nodes.newest_epoch(caller.node) > Some(epoch) {
        return Err(ended(LinkEnd::Fenced));
    }
    let poll = caller.services.nodes.polls().get(caller.node);
    poll.filter(|poll| poll.epoch() == Some(epoch)).ok_or_else(|| ended(LinkEnd::Closed))
}

impl NodeCaller {
    /// Reserves one of the node's link slots; links that have not sent hello count too.
    fn link_slot(&self) -> Result<QuotaSlot, ApiError> {
        self.services.nodes.link_quota().enter(&self.node.to_string()).ok_or_else(|| {
            let message = "too many links of this node are open at once";
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
                .hint("Close the unused ones.")
        })
    }
}

/// Completes when the credential or certificate that opened the link is no longer valid. Holds the link's slot
/// until then.
async fn until_expired(caller: NodeCaller, slot: QuotaSlot) {
    let NodeCaller { services, credential, certified_until, .. } = caller;
    let credential = async {
        match credential {
            Some(principal) => {
                StreamPermit::new(services.authenticator.clone(), principal, slot).wait_until_invalid().await;
            }
            None => {
                let _slot = slot;
                pending().await
            }
        }
    };
    let certificate = async {
        let Some(until) = certified_until else { return pending().await };
        loop {
            let left = Duration::try_from(until.duration_since(services.clock.now())).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(EXPIRY_CHECK)).await;
        }
    };
    tokio::select! {
        () = credential => {}
        () = certificate => {}
    }
}

async fn body(request: Request) -> Result<PollSend, ApiError> {
    let read = Limited::new(request.into_body(), MAX_POLL_BYTES).collect();
    let read = tokio::time::timeout(BODY_TIMEOUT, read).await;
    let body = match read {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            let message = format!("the body cannot be read or has more than {MAX_POLL_BYTES} bytes");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::TooLarge, message));
        }
        Err(_) => {
            let message = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::DeadlineExceeded, message));
        }
    };
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("the body does not contain valid frames: {error}")))
}

fn refusal(refused: &PollError) -> ApiError {
    match refused {
        PollError::Ended(end) => ended(*end),
        PollError::Gap { accepted, got } => ApiError::bad_request(format!(
            "frame {got} does not follow frame {accepted}, the newest that the hub has received"
        )),
        PollError::Invalid(why) => ApiError::bad_request(why.clone()),
        PollError::Busy => {
            let message = "the hub could not accept the frames in time";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message)
                .hint("Send them again.")
        }
    }
}

/// The answer for a link that no longer exists.
fn ended(end: LinkEnd) -> ApiError {
    let (status, code, message) = match end {
        LinkEnd::Fenced => {
            (StatusCode::CONFLICT, ErrorCode::Conflict, "another link of this node has replaced it")
        }
        LinkEnd::Refused => {
            (StatusCode::UNAUTHORIZED, ErrorCode::Unauthenticated, "the credential is no longer valid")
        }
        LinkEnd::Policy => {
            (StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, "the node violated the link protocol")
        }
        LinkEnd::Stopping => (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, "the hub is stopping"),
        LinkEnd::TooSlow | LinkEnd::Closed => (StatusCode::GONE, ErrorCode::NotFound, "this link has ended"),
    };
    ApiError::new(status, code, message).hint("Begin a new link with hello.")
}
