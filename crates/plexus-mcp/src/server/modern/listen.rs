//! `subscriptions/listen`: news, for as long as the client holds the stream open.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::Interval;

use super::meta::META_SUBSCRIPTION;
use crate::server::list::Rendered;
use crate::server::rpc::{self, Request, RpcError};
use crate::server::version::Features;
use crate::server::welcome::Welcome;
use crate::server::{State, headers, sse};

/// `subscriptions/listen`: an acknowledgement, then a notification whenever the list that this
/// caller sees has changed, then a result when the hub stops.
pub(super) fn open(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    if !headers::accepts(headers, "text/event-stream") {
        let message = "subscriptions/listen is answered as text/event-stream";
        return Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, rpc::INVALID_REQUEST, message));
    }
    let wanted: Option<Map<String, Value>> =
        request.params.notifications.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(wanted) = wanted else {
        let message = "params.notifications must be an object of the notifications wanted";
        return Err(RpcError::invalid_params(message).with_status(StatusCode::BAD_REQUEST));
    };
    let place = state.streams.enter(&principal)?;
    let tools = wanted.get("toolsListChanged") == Some(&Value::Bool(true));
    let registry = state.dispatcher.registry();
    let subscription = Subscription {
        id: request.id.to_owned(),
        tools,
        // Before the first look at the list, so that no change falls in between.
        versions: registry.versions(),
        seen: state.lists.rendered(registry, &principal, Features::ALL),
        welcome: Welcome::new(state.authenticator.clone(), principal, place),
        state: state.clone(),
        ticks: sse::ticks(state.options.keep_alive),
        phase: Phase::Acknowledge,
    };
    Ok(sse::response(stream::unfold(subscription, |mut subscription| async {
        Some((subscription.next().await?, subscription))
    })))
}

enum Phase {
    Acknowledge,
    Follow,
    Over,
}

struct Subscription {
    id: Box<RawValue>,
    tools: bool,
    versions: tokio::sync::watch::Receiver<u64>,
    seen: Arc<Rendered>,
    welcome: Welcome,
    state: Arc<State>,
    ticks: Interval,
    phase: Phase,
}

impl Subscription {
    async fn next(&mut self) -> Option<Bytes> {
        match self.phase {
            Phase::Acknowledge => {
                self.phase = Phase::Follow;
                let honoured = if self.tools {
                    ",\"notifications\":{\"toolsListChanged\":true}"
                } else {
                    ",\"notifications\":{}"
                };
                Some(self.notification("notifications/subscriptions/acknowledged", honoured))
            }
            Phase::Follow => self.follow().await,
            Phase::Over => None,
        }
    }

    async fn follow(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                () = self.state.stopping.cancelled() => {
                    self.phase = Phase::Over;
                    let meta = format!("{{\"{META_SUBSCRIPTION}\":{}}}", self.id.get());
                    let result = format!("{{\"resultType\":\"complete\",\"_meta\":{meta}}}");
                    return Some(sse::event(None, &rpc::result_json(&self.id, &result)));
                }
                Ok(()) = self.versions.changed(), if self.tools => {
                    let registry = self.state.dispatcher.registry();
                    let now = self.state.lists.rendered(registry, self.welcome.principal(), Features::ALL);
                    let same = now.same_as(&self.seen);
                    self.seen = now;
                    if !same {
                        return Some(self.notification("notifications/tools/list_changed", ""));
                    }
                }
                () = self.welcome.ended() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }

    fn notification(&self, method: &str, more: &str) -> Bytes {
        let id = self.id.get();
        let json = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"_meta\":{{\"{META_SUBSCRIPTION}\":{id}}}{more}}}}}"
        );
        sse::event(None, &json)
    }
}
