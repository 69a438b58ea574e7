//! `subscriptions/listen`: notifications of changes, for as long as the client keeps the stream open.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::{Principal, StreamPermit};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::Interval;

use super::meta::META_SUBSCRIPTION;
use crate::offers::Mailbox;
use crate::server::changes::{ListKind, ListWatcher, MAX_WATCHED, WatchedResources};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::{State, headers, offers, sse};
use crate::version::Features;

/// Sends an acknowledgement of the accepted subscriptions, then a notification for each change of a list that this
/// caller sees or of a resource that it named, then a result when the hub stops.
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
    let requested: Option<Map<String, Value>> =
        request.params.notifications.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(requested) = requested else {
        let message = "params.notifications must be an object of the notifications wanted";
        return Err(RpcError::invalid_params(message).with_status(StatusCode::BAD_REQUEST));
    };
    let slot = state.streams.enter(&principal)?;
    let lists: Vec<ListKind> = ListKind::ALL
        .into_iter()
        .filter(|list| requested.get(filter(*list)) == Some(&Value::Bool(true)))
        .collect();
    let mut watched = WatchedResources::default();
    let uris = requested.get("resourceSubscriptions").and_then(Value::as_array);
    let visible = offers::visible(state, &principal);
    // Limited before the lookup, because each URI may be compared with every template.
    for uri in uris.into_iter().flatten().filter_map(Value::as_str).take(MAX_WATCHED) {
        // A resource that does not exist or cannot be watched is left out of the acknowledgement.
        let _ = watched.add(state, &principal, &visible, uri);
    }
    let subscription = Subscription {
        id: request.id.to_owned(),
        watcher: ListWatcher::new(state, &principal, Features::ALL),
        lists,
        mailbox: watched.mailbox(),
        watched,
        updated: VecDeque::new(),
        permit: StreamPermit::new(state.authenticator.clone(), principal.clone(), slot),
        principal,
        state: state.clone(),
        ticks: sse::ticks(state.options.keep_alive),
        phase: Phase::Acknowledge,
    };
    Ok(sse::response(stream::unfold(subscription, |mut subscription| async {
        Some((subscription.next().await?, subscription))
    })))
}

/// The client's name for the changes of a list.
fn filter(list: ListKind) -> &'static str {
    match list {
        ListKind::Tools => "toolsListChanged",
        ListKind::Prompts => "promptsListChanged",
        ListKind::Resources => "resourcesListChanged",
    }
}

enum Phase {
    Acknowledge,
    Follow,
    Over,
}

struct Subscription {
    id: Box<RawValue>,
    /// The lists that the client subscribed to.
    lists: Vec<ListKind>,
    watcher: ListWatcher,
    watched: WatchedResources,
    mailbox: Arc<Mailbox>,
    /// Changed resources that the client has not been notified of yet.
    updated: VecDeque<String>,
    principal: Arc<Principal>,
    permit: StreamPermit,
    state: Arc<State>,
    ticks: Interval,
    phase: Phase,
}

impl Subscription {
    async fn next(&mut self) -> Option<Bytes> {
        match self.phase {
            Phase::Acknowledge => {
                if self.watched.uris().next().is_some() {
                    // No change after the acknowledgement is missed.
                    self.state.upstreams.watches_applied(&self.watched.servers()).await;
                }
                self.phase = Phase::Follow;
                let accepted = json!({ "notifications": self.accepted() });
                Some(self.notification("notifications/subscriptions/acknowledged", accepted))
            }
            Phase::Follow => self.follow().await,
            Phase::Over => None,
        }
    }

    fn accepted(&self) -> Value {
        let mut accepted: Map<String, Value> =
            self.lists.iter().map(|list| (filter(*list).to_owned(), Value::Bool(true))).collect();
        let uris: Vec<&str> = self.watched.uris().collect();
        if !uris.is_empty() {
            accepted.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        Value::Object(accepted)
    }

    async fn follow(&mut self) -> Option<Bytes> {
        loop {
            if let Some(uri) = self.updated.pop_front() {
                return Some(self.notification("notifications/resources/updated", json!({ "uri": uri })));
            }
            tokio::select! {
                () = self.state.stopping.cancelled() => {
                    self.phase = Phase::Over;
                    let meta = format!("{{\"{META_SUBSCRIPTION}\":{}}}", self.id.get());
                    let result = format!("{{\"resultType\":\"complete\",\"_meta\":{meta}}}");
                    return Some(sse::event(None, &rpc::result_json(&self.id, &result)));
                }
                list = self.watcher.changed(&self.state, &self.principal), if !self.lists.is_empty() => {
                    if self.lists.contains(&list) {
                        return Some(self.notification(list.method(), json!({})));
                    }
                }
                changed = self.mailbox.take() => {
                    self.updated.extend(self.watched.still_watched(&self.state, &self.principal, changed));
                }
                () = self.permit.wait_until_invalid() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }

    fn notification(&self, method: &str, mut params: Value) -> Bytes {
        // The same JSON type as in the request.
        let id: Value = serde_json::from_str(self.id.get()).unwrap_or_default();
        params["_meta"] = json!({ META_SUBSCRIPTION: id });
        sse::event(None, &json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
    }
}
