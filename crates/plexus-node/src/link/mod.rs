//! One link between a hub and a node, seen from either end.
//!
//! Only the code that opens a link knows its transport: a WebSocket, HTTP requests or memory. Frames arrive in order,
//! each once, until the link ends; those sent just before the end may be lost.

pub mod memory;
pub mod poll;
mod refusal;
pub mod tls;
pub mod ws;

use futures_util::future::BoxFuture;
use plexus_proto::node::{Frame, Received};

/// Why a link ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The other side closed it, with a reason if it gave one.
    #[error("the other side closed the link{}", suffix(.0))]
    Closed(Option<String>),
    /// A newer link of the same node has replaced it.
    #[error("another link of this node has replaced it")]
    Fenced,
    /// The hub refused the credential: it has expired, was revoked, or belongs to another node.
    #[error("the hub does not accept the credential: {0}")]
    Refused(String),
    /// The other side violated the protocol.
    #[error("{0}")]
    Invalid(String),
    /// The network failed.
    #[error("the link broke: {0}")]
    Broken(String),
}

fn suffix(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// The sending half.
pub trait LinkTx: Send {
    /// Sends a frame. Waits while the other side accepts none; use a timeout where that matters.
    fn send<'l>(&'l mut self, frame: &'l Frame) -> BoxFuture<'l, Result<(), LinkError>>;

    /// Closes the link after the sent frames were delivered.
    fn close(&mut self) -> BoxFuture<'_, ()>;
}

/// The receiving half.
pub trait LinkRx: Send {
    /// The next frame. Cancel-safe: dropping the future loses no frame.
    fn recv(&mut self) -> BoxFuture<'_, Result<Received, LinkError>>;
}

/// Both halves of a link.
pub struct Link {
    pub tx: Box<dyn LinkTx>,
    pub rx: Box<dyn LinkRx>,
    /// Name of the transport, for users: `ws`, `poll` or `memory`.
    pub transport: &'static str,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("transport", &self.transport).finish_non_exhaustive()
    }
}
