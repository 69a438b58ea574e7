//! The MCP endpoint's interface to the servers behind the hub, except for their tools, which are in the
//! [`Registry`](plexus_tools::Registry).

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_tools::{InstructionPart, Visible};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::{Mailbox, VisibleOffers};

/// Resources, prompts, completions and instructions of the servers behind the hub. Servers are identified by slug.
pub trait OfferProvider: fmt::Debug + Send + Sync + 'static {
    /// Instructions for a model that sees these tools. The whole text is the concatenation of the parts.
    fn instructions(&self, visible: &Visible) -> Vec<InstructionPart>;

    /// The resources and prompts that this view shows.
    fn visible_offers(&self, visible: &Visible) -> VisibleOffers;

    /// Increases with every change of resources or prompts.
    fn offer_version(&self) -> u64;

    /// Subscribes to [`offer_version`](Self::offer_version).
    fn offer_versions(&self) -> watch::Receiver<u64>;

    /// Sends `completion/complete` to a server. Returns the text of its result, or none if the server is not
    /// connected.
    fn complete<'a>(
        &'a self,
        server: &'a str,
        params: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Option<Bytes>, CompletionError>>;

    /// Watches a resource of a server until the result is dropped. Its changes are put into the mailbox as
    /// `known_as`. None if the server does not exist, or if too many resources are watched there, in total or by this
    /// owner.
    fn watch_resource(
        &self,
        server: &str,
        uri: &str,
        owner: &str,
        mailbox: &Arc<Mailbox>,
        known_as: &str,
    ) -> Option<ResourceWatch>;

    /// Waits until the connected ones of these servers have confirmed every watched resource, or a time limit has
    /// passed.
    fn watches_applied<'a>(&'a self, servers: &'a BTreeSet<String>) -> BoxFuture<'a, ()>;
}

/// Keeps a resource watched until it is dropped.
pub struct ResourceWatch(#[expect(dead_code, reason = "held for its Drop")] Box<dyn Any + Send + Sync>);

impl ResourceWatch {
    /// A watch that ends when `guard` is dropped.
    #[must_use]
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for ResourceWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceWatch").finish_non_exhaustive()
    }
}

/// Why a server did not complete an argument.
#[derive(Debug)]
pub struct CompletionError {
    pub message: String,
    /// The server rejected the parameters.
    pub is_about_params: bool,
}
