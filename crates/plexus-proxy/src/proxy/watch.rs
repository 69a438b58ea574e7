//! Watches the hub: its reachability, the agent's context, and changes of the agent's tools.
//!
//! A long poll waits at the hub until something changes. If it fails, it is repeated with growing, random delays, so
//! that proxies find a restarted hub soon but not all at once.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{ETAG, HeaderValue};
use plexus_kit::backoff::{Jitter, doubled};
use plexus_proto::Timestamp;
use serde::Deserialize;
use tokio::sync::watch;

use super::Shared;
use super::credential::hub_time;
use super::hub::{HubFailure, Reachability};
use super::visibility::VisibilityContext;

/// Polling interval for a hub without long polls.
const POLL: Duration = Duration::from_secs(30);
/// Interval of checks of the credential and of idle connections.
const MAINTENANCE: Duration = Duration::from_secs(15);

/// The hub's answer about the agent; unknown fields are ignored.
#[derive(Debug, Deserialize)]
struct AgentContext {
    token: ContextToken,
    nodes: Vec<ContextNode>,
    tools: String,
}

#[derive(Debug, Deserialize)]
struct ContextToken {
    expires_at: Timestamp,
    renew_until: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct ContextNode {
    name: String,
    online: bool,
}

pub(super) async fn run(proxy: Arc<Shared>) {
    let mut watch = HubWatch { proxy: proxy.clone(), tag: None, failures: 0 };
    let mut reachability = proxy.hub.reachability();
    let watching = async {
        loop {
            reachability.mark_unchanged();
            // A long poll may be the last to notice that the hub is gone, so stop it when another request fails.
            let pause = tokio::select! {
                biased;
                pause = watch.poll() => pause,
                () = until_away(&mut reachability) => watch.pause(),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = until_away(&mut reachability), if pause >= POLL => tokio::time::sleep(watch.pause()).await,
            }
        }
    };
    let maintenance = async {
        loop {
            proxy.hub.maintain().await;
            let credential = proxy.hub.credential();
            tokio::select! {
                () = tokio::time::sleep(credential.due_in().unwrap_or(MAINTENANCE).min(MAINTENANCE)) => {}
                () = credential.renewal_changed() => {}
            }
        }
    };
    tokio::join!(watching, maintenance);
}

/// Returns when a request finds the hub away.
async fn until_away(reachability: &mut watch::Receiver<Reachability>) {
    while reachability.changed().await.is_ok() {
        if *reachability.borrow_and_update() == Reachability::Away {
            return;
        }
    }
    std::future::pending().await
}

struct HubWatch {
    proxy: Arc<Shared>,
    /// Entity tag of the last answer.
    tag: Option<HeaderValue>,
    failures: u32,
}

impl HubWatch {
    /// One poll. Returns the delay before the next one.
    async fn poll(&mut self) -> Duration {
        match self.request().await {
            Ok(pause) => {
                self.failures = 0;
                pause
            }
            Err(failure) => {
                self.tag = None;
                let pause = match failure {
                    // The user has to act first, and the hub counts refused requests.
                    HubFailure::Refused(_) => {
                        self.proxy.tools.forget();
                        POLL
                    }
                    HubFailure::Away { .. } | HubFailure::TimedOut(_) => self.pause(),
                };
                tracing::debug!(%failure, ?pause, "cannot get the agent's context from the hub");
                pause
            }
        }
    }

    /// The delay after another failure.
    fn pause(&mut self) -> Duration {
        let [first, longest] = self.proxy.options.timing.retry_delays;
        let pause = Jitter::random().shorten(doubled(first, self.failures, longest));
        self.failures = self.failures.saturating_add(1);
        pause
    }

    async fn request(&mut self) -> Result<Duration, HubFailure> {
        let (hub, timing) = (&self.proxy.hub, &self.proxy.options.timing);
        // Unless the hub is known to be reachable, ask for an immediate answer.
        let is_reachable = *hub.reachability().borrow() == Reachability::Reachable;
        let wait = if self.tag.is_some() && is_reachable { timing.long_poll } else { Duration::ZERO };
        let path = format!("api/v1/context?wait={}", wait.as_secs());
        let time_limit = wait + timing.answer;
        let request = async {
            let (reply, presented) = hub.get(&path, self.tag.as_ref()).await?;
            let (status, tag) = (reply.status(), reply.header(ETAG.as_str()).cloned());
            let now = hub_time(reply.header("date"), &self.proxy.options.clock);
            let body = reply.bytes().await.map_err(|error| hub.record_failure(error.into()))?;
            Ok((status, tag, now, body, presented))
        };
        let answered = tokio::time::timeout(time_limit, request).await;
        let (status, tag, now, body, presented) =
            answered.unwrap_or_else(|_| Err(hub.record_failure(HubFailure::TimedOut(time_limit))))?;
        match status {
            StatusCode::NOT_MODIFIED => Ok(timing.retry_delays[0]),
            StatusCode::OK => {
                let context: AgentContext =
                    serde_json::from_slice(&body).map_err(|error| HubFailure::Away {
                        why: format!("cannot read the agent's context from the hub: {error}"),
                        sent: true,
                    })?;
                hub.credential().learn_lifetime(
                    &presented,
                    context.token.expires_at,
                    context.token.renew_until,
                    now,
                );
                self.apply(context).await?;
                // An intermediary may remove the tag; then long polls are not possible.
                let pause = if tag.is_some() { timing.retry_delays[0] } else { POLL };
                self.tag = tag;
                Ok(pause)
            }
            // A hub without this endpoint.
            StatusCode::NOT_FOUND => {
                self.proxy.tools.refresh(hub, timing.list, None).await?;
                Ok(POLL)
            }
            status => Err(HubFailure::Away { why: format!("the answer was {status}"), sent: true }),
        }
    }

    async fn apply(&self, answer: AgentContext) -> Result<(), HubFailure> {
        let online = answer.nodes.into_iter().filter(|node| node.online).map(|node| node.name).collect();
        let Shared { tools, hub, options, .. } = &*self.proxy;
        // In passthrough mode nothing is hidden.
        let context = VisibilityContext { online: (!options.passthrough).then_some(online) };
        if tools.fingerprint().as_ref() == Some(&answer.tools) {
            tools.note_context(&context);
            return Ok(());
        }
        tools.refresh(hub, options.timing.list, Some((context, answer.tools))).await
    }
}
