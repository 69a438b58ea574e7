//! Notifications for a listening client: those of the hub while it is reachable, and `list_changed` when the visible
//! tools change.
//!
//! The hub's own `list_changed` is not passed on, because the proxy decides which tools are visible.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plexus_kit::backoff::{Jitter, doubled};
use plexus_mcp::relay::rpc::{self, Message, Request};
use plexus_mcp::relay::{self, HubMessage, HubReply};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{MessageMeta, ProxyClient, RunningRequest};
use super::hub::{HubFailure, Reachability};
use super::messages::own_message;

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// What the client listens to.
enum ListenTarget {
    /// Its session.
    Session,
    /// The notifications named in a `subscriptions/listen` request.
    Subscription {
        id: Box<RawValue>,
        body: Bytes,
        meta: Box<MessageMeta>,
        requested: Value,
        acknowledged: bool,
    },
}

pub(super) struct NotificationStream {
    client: Arc<ProxyClient>,
    target: ListenTarget,
    tools: watch::Receiver<u64>,
    reachability: watch::Receiver<Reachability>,
    hub: Option<HubReply>,
    /// When the hub is contacted again, and the number of failures.
    retry_at: Instant,
    failures: u32,
    last_id: Option<String>,
    /// No event was received on the current stream.
    nothing_received: bool,
    /// Cancelled with the subscription.
    running: Option<RunningRequest>,
}

impl std::fmt::Debug for NotificationStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotificationStream").finish_non_exhaustive()
    }
}

impl NotificationStream {
    /// Listens to a session, after the event `last`.
    pub(super) fn of_session(client: Arc<ProxyClient>, last: Option<String>) -> Self {
        Self::new(client, ListenTarget::Session, last)
    }

    /// Listens to a subscription until the client cancels its request.
    pub(super) fn subscribed(
        client: Arc<ProxyClient>,
        request: &Request<'_>,
        body: &Bytes,
        meta: &MessageMeta,
        running: RunningRequest,
    ) -> Self {
        let requested = request.params.notifications.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let target = ListenTarget::Subscription {
            id: request.id.to_owned(),
            body: body.clone(),
            meta: Box::new(meta.clone()),
            requested: requested.unwrap_or_default(),
            acknowledged: false,
        };
        Self { running: Some(running), ..Self::new(client, target, None) }
    }

    fn new(client: Arc<ProxyClient>, target: ListenTarget, last_id: Option<String>) -> Self {
        let (tools, reachability) = (client.proxy.tools.changes(), client.proxy.hub.reachability());
        let retry_at = Instant::now();
        Self {
            client,
            target,
            tools,
            reachability,
            hub: None,
            retry_at,
            failures: 0,
            last_id,
            nothing_received: true,
            running: None,
        }
    }

    /// The next notification; none at the end.
    pub(super) async fn next(&mut self) -> Option<HubMessage> {
        loop {
            if let Some(message) = self.acknowledge() {
                return Some(message);
            }
            let wants_tools = self.wants_tools();
            let silence = self.client.proxy.options.timing.silence;
            let cancelled = self.running.as_ref().map(|running| running.cancelled().clone());
            let cancelled = async {
                match &cancelled {
                    Some(cancelled) => cancelled.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let received = tokio::select! {
                biased;
                () = self.client.disconnected().cancelled() => return None,
                () = cancelled => return None,
                Ok(()) = self.tools.changed(), if wants_tools => return Some(self.tools_changed()),
                received = next_message(&mut self.hub, silence) => received,
                () = tokio::time::sleep_until(self.retry_at), if self.hub.is_none() => {
                    self.connect().await;
                    continue;
                }
                Ok(()) = self.reachability.changed(), if self.hub.is_none() => {
                    if *self.reachability.borrow_and_update() == Reachability::Reachable {
                        self.retry_at = Instant::now();
                    }
                    continue;
                }
            };
            match received {
                Some(message) => {
                    if message.id.is_some() {
                        self.last_id.clone_from(&message.id);
                        self.nothing_received = false;
                    }
                    if let Some(message) = self.filter(message) {
                        return Some(message);
                    }
                }
                None => self.pause(),
            }
        }
    }

    /// While the hub is away, the proxy acknowledges the subscription itself.
    fn acknowledge(&mut self) -> Option<HubMessage> {
        let ListenTarget::Subscription { id, requested, acknowledged, .. } = &mut self.target else {
            return None;
        };
        if *acknowledged || self.failures == 0 {
            return None;
        }
        *acknowledged = true;
        let tools = requested["toolsListChanged"] == Value::Bool(true);
        let honoured = if tools { json!({ "toolsListChanged": true }) } else { json!({}) };
        Some(own_message(relay::subscription_acknowledged(id, &honoured)))
    }

    fn wants_tools(&self) -> bool {
        match &self.target {
            ListenTarget::Session => true,
            ListenTarget::Subscription { requested, acknowledged, .. } => {
                *acknowledged && requested["toolsListChanged"] == Value::Bool(true)
            }
        }
    }

    fn tools_changed(&self) -> HubMessage {
        match &self.target {
            ListenTarget::Session => {
                own_message(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{TOOLS_CHANGED}\"}}"))
            }
            ListenTarget::Subscription { id, .. } => {
                own_message(relay::subscription_notification(id, TOOLS_CHANGED))
            }
        }
    }

    /// Returns a message of the hub unless the client must not see it.
    fn filter(&mut self, message: HubMessage) -> Option<HubMessage> {
        let method = match rpc::parse(&message.json) {
            Ok(Message::Notification(notification)) => notification.method.into_owned(),
            // The hub has ended the subscription; the proxy renews it.
            Ok(Message::Response { .. }) if matches!(self.target, ListenTarget::Subscription { .. }) => {
                self.pause();
                return None;
            }
            _ => return Some(message),
        };
        match (&mut self.target, &*method) {
            (_, TOOLS_CHANGED) => None,
            (ListenTarget::Subscription { acknowledged, .. }, ACKNOWLEDGED) => {
                (!std::mem::replace(acknowledged, true)).then_some(message)
            }
            _ => Some(message),
        }
    }

    /// Opens the stream of the hub.
    async fn connect(&mut self) {
        let hub = &self.client.proxy.hub;
        let time_limit = self.client.proxy.options.timing.handshake;
        let opened = async {
            match &self.target {
                ListenTarget::Session => self.client.listen(self.last_id.as_deref()).await,
                ListenTarget::Subscription { body, meta, .. } => {
                    let Ok(message) = rpc::parse(body) else {
                        return Err(HubFailure::Refused(String::new()));
                    };
                    self.client.forward(&message, body, meta, time_limit).await
                }
            }
        };
        let reply = tokio::time::timeout(time_limit, opened).await;
        match reply.unwrap_or_else(|_| Err(hub.record_failure(HubFailure::TimedOut(time_limit)))) {
            Ok(reply) if reply.is_stream() => {
                self.hub = Some(reply);
                self.failures = 0;
                self.nothing_received = true;
            }
            _ => self.pause(),
        }
    }

    fn pause(&mut self) {
        self.hub = None;
        // If the stream cannot be resumed, start a new one: the hub may have been replaced.
        if self.nothing_received {
            self.last_id = None;
        }
        let [first, longest] = self.client.proxy.options.timing.retry_delays;
        let pause = Jitter::random().shorten(doubled(first, self.failures, longest));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Instant::now() + pause;
    }
}

/// The next message of the hub; none at the end of its stream. Without a stream it never returns.
async fn next_message(hub: &mut Option<HubReply>, silence: Duration) -> Option<HubMessage> {
    match hub {
        Some(reply) => reply.next(silence).await.ok().flatten(),
        None => std::future::pending().await,
    }
}
