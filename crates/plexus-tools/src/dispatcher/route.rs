//! Selects the node of a call.

use std::time::Duration;

use plexus_auth::Principal;
use plexus_proto::ErrorCode;
use serde_json::Value;

use super::Inner;
use super::prepare::PreparedCall;
use crate::nodes::selection::{self, SelectionSource};
use crate::nodes::{LOCAL, NodeEntry};
use crate::schema::{QUEUE_SECONDS, ROUTING};
use crate::{CallError, Tool, Visible};

/// The destination of a call.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) node: NodeEntry,
    /// How long the call may wait for a node that is offline; none to fail at once.
    pub(super) queue: Option<Duration>,
}

impl Inner {
    /// Selects the node of a call; none if the call does not run on a node.
    pub(super) fn route(
        &self,
        prepared: &PreparedCall,
        visible: &Visible,
        principal: &Principal,
    ) -> Result<Option<Route>, CallError> {
        let PreparedCall { tool, arguments, .. } = prepared;
        let host = tool.spec().upstream().and_then(|upstream| upstream.node.as_ref());
        if host.is_none() && !tool.is_routed() {
            return Ok(None);
        }
        let all = self.nodes.load().as_ref().map(|nodes| nodes.0.all()).unwrap_or_default();
        if let Some(host) = host {
            let node = selection::select(&all, principal, &host.id.to_string(), SelectionSource::ByDefault)?;
            return Ok(Some(Route { node, queue: None }));
        }
        let node = match arguments["node"].as_str() {
            Some(selector) => selection::select(&all, principal, selector, SelectionSource::ByCall)?,
            None => selection::select(
                &all,
                principal,
                &default_of(visible, principal),
                SelectionSource::ByDefault,
            )?,
        };
        let seconds = arguments["queue_seconds"].as_u64().unwrap_or(QUEUE_SECONDS);
        let queue = arguments["queue"].as_bool().unwrap_or(false).then(|| Duration::from_secs(seconds));
        Ok(Some(Route { node, queue }))
    }
}

/// The node of a call that names none: from the profile, else the principal's own, else the local one.
fn default_of(visible: &Visible, principal: &Principal) -> String {
    let profile = principal.profile().and_then(|id| visible.profiles().find(id).ok());
    let of_profile = profile.and_then(|profile| profile.node_id.as_deref());
    of_profile.or(principal.node()).unwrap_or(LOCAL).to_owned()
}

impl Route {
    /// Checks that the node can run the tool and is online, or that the call may wait for it.
    pub(super) fn check(&self, tool: &Tool) -> Result<(), CallError> {
        let node = &self.node;
        let refused = |code: ErrorCode, message: String, hint: &str| {
            Err(CallError::new(code, message).hint(format!("Nothing was run. {hint}")).before_it_ran())
        };
        // The tools of a node that has never connected are not known yet.
        if tool.is_routed() && node.since.is_some() && !node.tools.contains(&*tool.spec().name) {
            let message = format!("the node {} has no tool {}", node.name, tool.spec().name);
            return refused(ErrorCode::NotFound, message, "Use another node.");
        }
        let Some(why) = node.absence().filter(|_| self.queue.is_none()) else { return Ok(()) };
        let hint = match tool.is_routed() {
            true => "Call again when it is online, set `queue` to wait for it, or use another node.",
            false => "Call again when it is online.",
        };
        refused(ErrorCode::Unavailable, format!("the node {} is {why}", node.name), hint)
    }
}

/// The arguments for the node: without those that select a node.
pub(super) fn without_routing(tool: &Tool, mut arguments: Value) -> Value {
    if tool.is_routed()
        && let Some(fields) = arguments.as_object_mut()
    {
        fields.retain(|name, _| !ROUTING.contains(&name.as_str()));
    }
    arguments
}
