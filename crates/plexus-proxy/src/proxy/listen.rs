//! News for a client, for as long as it listens: those of the hub, whenever it is there, and a word when other tools are
//! visible.
//!
//! What the hub says of its list of tools is not passed on: whether the client sees something else now is the proxy's to say.

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

use super::agent::{Agent, Given, Running};
use super::answer::here;
use super::hub::{Failure, Reach};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// How the client listens.
enum Ear {
    /// To its session.
    Session,
    /// To what it named with one request.
    Subscription { id: Box<RawValue>, body: Bytes, given: Box<Given>, wanted: Value, acknowledged: bool },
}

pub(super) struct Listener {
    agent: Arc<Agent>,
    ear: Ear,
    tools: watch::Receiver<u64>,
    reach: watch::Receiver<Reach>,
    hub: Option<HubReply>,
    /// When the hub is asked again, and how often it was in vain.
    again: Instant,
    failures: u32,
    last_id: Option<String>,
    /// Nothing was heard since the hub was asked last.
    nothing_new: bool,
    /// Ends with the subscription.
    running: Option<Running>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl Listener {
    /// To the session of a client of the older era; `last`: what it has heard.
    pub(super) fn of_session(agent: Arc<Agent>, last: Option<String>) -> Self {
        Self::new(agent, Ear::Session, last)
    }

    /// To what a client named with one request, until it cancels that.
    pub(super) fn subscribed(
        agent: Arc<Agent>,
        request: &Request<'_>,
        body: &Bytes,
        given: &Given,
        running: Running,
    ) -> Self {
        let wanted = request.params.notifications.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let ear = Ear::Subscription {
            id: request.id.to_owned(),
            body: body.clone(),
            given: Box::new(given.clone()),
            wanted: wanted.unwrap_or_default(),
            acknowledged: false,
        };
        Self { running: Some(running), ..Self::new(agent, ear, None) }
    }

    fn new(agent: Arc<Agent>, ear: Ear, last_id: Option<String>) -> Self {
        let (tools, reach) = (agent.proxy.lists.changes(), agent.proxy.hub.reach());
        let again = Instant::now();
        Self {
            agent,
            ear,
            tools,
            reach,
            hub: None,
            again,
            failures: 0,
            last_id,
            nothing_new: true,
            running: None,
        }
    }

    /// The next piece of news; none when there will be no more.
    pub(super) async fn next(&mut self) -> Option<HubMessage> {
        loop {
            if let Some(told) = self.acknowledge() {
                return Some(told);
            }
            let wants_tools = self.wants_tools();
            let silence = self.agent.proxy.options.timing.silence;
            let cancelled = self.running.as_ref().map(|running| running.cancelled().clone());
            let cancelled = async {
                match &cancelled {
                    Some(cancelled) => cancelled.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let heard = tokio::select! {
                biased;
                () = self.agent.gone().cancelled() => return None,
                () = cancelled => return None,
                Ok(()) = self.tools.changed(), if wants_tools => return Some(self.tools_changed()),
                heard = hear(&mut self.hub, silence) => heard,
                () = tokio::time::sleep_until(self.again), if self.hub.is_none() => {
                    self.dial().await;
                    continue;
                }
                Ok(()) = self.reach.changed(), if self.hub.is_none() => {
                    if *self.reach.borrow_and_update() == Reach::There {
                        self.again = Instant::now();
                    }
                    continue;
                }
            };
            match heard {
                Some(told) => {
                    if told.id.is_some() {
                        self.last_id.clone_from(&told.id);
                        self.nothing_new = false;
                    }
                    if let Some(told) = self.pass(told) {
                        return Some(told);
                    }
                }
                None => self.pause(),
            }
        }
    }

    /// Where the hub is away, the proxy says what will be told.
    fn acknowledge(&mut self) -> Option<HubMessage> {
        let Ear::Subscription { id, wanted, acknowledged, .. } = &mut self.ear else { return None };
        if *acknowledged || self.failures == 0 {
            return None;
        }
        *acknowledged = true;
        let tools = wanted["toolsListChanged"] == Value::Bool(true);
        let honoured = if tools { json!({ "toolsListChanged": true }) } else { json!({}) };
        Some(here(relay::subscription_acknowledged(id, &honoured)))
    }

    fn wants_tools(&self) -> bool {
        match &self.ear {
            Ear::Session => true,
            Ear::Subscription { wanted, acknowledged, .. } => {
                *acknowledged && wanted["toolsListChanged"] == Value::Bool(true)
            }
        }
    }

    fn tools_changed(&self) -> HubMessage {
        match &self.ear {
            Ear::Session => here(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{TOOLS_CHANGED}\"}}")),
            Ear::Subscription { id, .. } => here(relay::subscription_notification(id, TOOLS_CHANGED)),
        }
    }

    /// What of the hub's news is for the client.
    fn pass(&mut self, told: HubMessage) -> Option<HubMessage> {
        let method = match rpc::parse(&told.json) {
            Ok(Message::Notification(notification)) => notification.method.into_owned(),
            // The end of a subscription: the proxy goes on.
            Ok(Message::Response { .. }) if matches!(self.ear, Ear::Subscription { .. }) => {
                self.pause();
                return None;
            }
            _ => return Some(told),
        };
        match (&mut self.ear, &*method) {
            (_, TOOLS_CHANGED) => None,
            (Ear::Subscription { acknowledged, .. }, ACKNOWLEDGED) => {
                (!std::mem::replace(acknowledged, true)).then_some(told)
            }
            _ => Some(told),
        }
    }

    /// Asks the hub for its news.
    async fn dial(&mut self) {
        let hub = &self.agent.proxy.hub;
        let patience = self.agent.proxy.options.timing.greet;
        let opened = async {
            match &self.ear {
                Ear::Session => self.agent.listen(self.last_id.as_deref()).await,
                Ear::Subscription { body, given, .. } => {
                    let Ok(message) = rpc::parse(body) else { return Err(Failure::Refused(String::new())) };
                    self.agent.forward(&message, body, given, patience).await
                }
            }
        };
        let reply = tokio::time::timeout(patience, opened).await;
        match reply.unwrap_or_else(|_| Err(hub.noted(Failure::Late(patience)))) {
            Ok(reply) if reply.is_stream() => {
                self.hub = Some(reply);
                self.failures = 0;
                self.nothing_new = true;
            }
            _ => self.pause(),
        }
    }

    fn pause(&mut self) {
        self.hub = None;
        // What cannot be taken up where it was left is listened to from now on: the hub may be another one.
        if self.nothing_new {
            self.last_id = None;
        }
        let [first, longest] = self.agent.proxy.options.timing.pauses;
        let pause = Jitter::random().shorten(doubled(first, self.failures, longest));
        self.failures = self.failures.saturating_add(1);
        self.again = Instant::now() + pause;
    }
}

/// The next message of the hub; none: it says no more. Waits for ever where there is nobody to listen to.
async fn hear(hub: &mut Option<HubReply>, silence: Duration) -> Option<HubMessage> {
    match hub {
        Some(reply) => reply.next(silence).await.ok().flatten(),
        None => std::future::pending().await,
    }
}
