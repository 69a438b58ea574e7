//! One connection between a hub and a node, as either end sees it.
//!
//! What carries it, a WebSocket, requests over HTTP or memory, is known to who makes it and to nobody else. Frames come
//! in order, each once, until the link ends; what was sent just before that may be lost.

mod answer;
pub mod memory;
pub mod poll;
pub mod tls;
pub mod ws;

use futures_util::future::BoxFuture;
use plexus_proto::node::{Frame, Received};

/// Why a link is no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The other side ended it, in its own words if it gave any.
    #[error("the other side closed the link{}", said(.0))]
    Closed(Option<String>),
    /// A newer link of the same node has taken its place.
    #[error("another link of this node has taken its place")]
    Fenced,
    /// The credential is not accepted: it expired, was revoked, or is another's.
    #[error("the hub does not accept the credential: {0}")]
    Refused(String),
    /// The other side says what is no frame.
    #[error("{0}")]
    Invalid(String),
    /// The network failed.
    #[error("the link broke: {0}")]
    Broken(String),
}

fn said(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// The half that sends.
pub trait LinkTx: Send {
    /// Hands a frame over. Waits while the other side takes none: whoever must not wait has to bound the time.
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>>;

    /// Ends the link; what was sent is delivered before.
    fn close(&mut self) -> BoxFuture<'_, ()>;
}

/// The half that receives.
pub trait LinkRx: Send {
    /// The next frame. Nothing is lost when it is dropped before it ends.
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>>;
}

/// Both halves.
pub struct Link {
    pub tx: Box<dyn LinkTx>,
    pub rx: Box<dyn LinkRx>,
    /// In one word, for people: `ws`, `poll`, `memory`.
    pub transport: &'static str,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("transport", &self.transport).finish_non_exhaustive()
    }
}
