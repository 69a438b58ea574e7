//! Follows the hub: whether it is there, what the circumstances of the agent are, and whether its tools are others now.
//!
//! One request waits at the hub until something changes. Where that fails it is made again after a pause that grows and is
//! never the same for two proxies, so that a hub which comes back is found soon and not by all at once.

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
use super::hub::{Failure, Reach};
use super::visibility::Context;

/// Between two looks at a hub that cannot say when something changes.
const LOOK: Duration = Duration::from_secs(30);
/// Between two looks at the credential and at connections that nobody uses.
const TEND: Duration = Duration::from_secs(15);

/// What the hub says of the agent; more may come.
#[derive(Debug, Deserialize)]
struct Said {
    token: SaidToken,
    nodes: Vec<SaidNode>,
    tools: String,
}

#[derive(Debug, Deserialize)]
struct SaidToken {
    expires_at: Timestamp,
    renew_until: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct SaidNode {
    name: String,
    online: bool,
}

pub(super) async fn run(proxy: Arc<Shared>) {
    let mut watch = Watch { proxy: proxy.clone(), tag: None, failures: 0 };
    let mut reach = proxy.hub.reach();
    let watching = async {
        loop {
            reach.mark_unchanged();
            // Who waits at the hub may be the last to hear that it is gone; whoever finds out has it looked for.
            let pause = tokio::select! {
                biased;
                pause = watch.look() => pause,
                () = lost(&mut reach) => watch.pause(),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = lost(&mut reach), if pause >= LOOK => tokio::time::sleep(watch.pause()).await,
            }
        }
    };
    let tending = async {
        loop {
            proxy.hub.tend().await;
            let credential = proxy.hub.credential();
            tokio::select! {
                () = tokio::time::sleep(credential.due_in().unwrap_or(TEND).min(TEND)) => {}
                () = credential.timed() => {}
            }
        }
    };
    tokio::join!(watching, tending);
}

/// Waits until somebody finds the hub away.
async fn lost(reach: &mut watch::Receiver<Reach>) {
    while reach.changed().await.is_ok() {
        if *reach.borrow_and_update() == Reach::Away {
            return;
        }
    }
    std::future::pending().await
}

struct Watch {
    proxy: Arc<Shared>,
    /// Of what was said last.
    tag: Option<HeaderValue>,
    failures: u32,
}

impl Watch {
    /// One look, which ends when there is something to see. How long to wait before the next.
    async fn look(&mut self) -> Duration {
        match self.ask().await {
            Ok(pause) => {
                self.failures = 0;
                pause
            }
            Err(failure) => {
                self.tag = None;
                let pause = match failure {
                    // Somebody has to do something first, and the hub counts those it turns away.
                    Failure::Refused(_) => {
                        self.proxy.lists.forget();
                        LOOK
                    }
                    Failure::Away { .. } | Failure::Late(_) => self.pause(),
                };
                tracing::debug!(%failure, ?pause, "the hub says nothing of the agent");
                pause
            }
        }
    }

    /// How long to wait before a hub is asked that was away so often in a row.
    fn pause(&mut self) -> Duration {
        let [first, longest] = self.proxy.options.timing.pauses;
        let pause = Jitter::random().shorten(doubled(first, self.failures, longest));
        self.failures = self.failures.saturating_add(1);
        pause
    }

    async fn ask(&mut self) -> Result<Duration, Failure> {
        let (hub, timing) = (&self.proxy.hub, &self.proxy.options.timing);
        // While nobody knows whether the hub is there, a look is answered at once.
        let is_there = *hub.reach().borrow() == Reach::There;
        let wait = if self.tag.is_some() && is_there { timing.wait } else { Duration::ZERO };
        let path = format!("api/v1/context?wait={}", wait.as_secs());
        let patience = wait + timing.answer;
        let look = async {
            let (reply, shown) = hub.look(&path, self.tag.as_ref()).await?;
            let (status, tag) = (reply.status(), reply.header(ETAG.as_str()).cloned());
            let now = hub_time(reply.header("date"), &self.proxy.options.clock);
            let body = reply.whole().await.map_err(|error| hub.noted(error.into()))?;
            Ok((status, tag, now, body, shown))
        };
        let looked = tokio::time::timeout(patience, look).await;
        let (status, tag, now, body, shown) =
            looked.unwrap_or_else(|_| Err(hub.noted(Failure::Late(patience))))?;
        match status {
            StatusCode::NOT_MODIFIED => Ok(timing.pauses[0]),
            StatusCode::OK => {
                let said: Said = serde_json::from_slice(&body).map_err(|error| Failure::Away {
                    why: format!("what the hub says of the agent cannot be read: {error}"),
                    sent: true,
                })?;
                hub.credential().learn(&shown, said.token.expires_at, said.token.renew_until, now);
                self.heard(said).await?;
                // Something on the way may take it out; then there is nothing to wait with.
                let pause = if tag.is_some() { timing.pauses[0] } else { LOOK };
                self.tag = tag;
                Ok(pause)
            }
            // A hub that is older than this.
            StatusCode::NOT_FOUND => {
                self.proxy.lists.refresh(hub, timing.list, None).await?;
                Ok(LOOK)
            }
            status => Err(Failure::Away { why: format!("the answer was {status}"), sent: true }),
        }
    }

    async fn heard(&self, said: Said) -> Result<(), Failure> {
        let online = said.nodes.into_iter().filter(|node| node.online).map(|node| node.name).collect();
        let Shared { lists, hub, options, .. } = &*self.proxy;
        // Off, the proxy leaves nothing out.
        let context = Context { online: (!options.plain).then_some(online) };
        if lists.fingerprint().as_ref() == Some(&said.tools) {
            lists.note_context(&context);
            return Ok(());
        }
        lists.refresh(hub, options.timing.list, Some((context, said.tools))).await
    }
}
