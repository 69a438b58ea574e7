//! Monitors a connected server: refreshes its lists, updates its resource subscriptions, checks that it is
//! alive, and stops a lazy one.
//!
//! At most one list request or ping is in flight at a time, and next to it one request about resources and
//! prompts, whose duration is not evaluated. A call that did not reach the server also triggers a list
//! request, which detects the loss of an HTTP server. A flood of change notifications costs one list request
//! per [`relist`](crate::supervision::Timing) interval. Pings are only sent in the session era, to a server that was
//! silent for a while and runs no calls: a busy server may answer slowly without being dead, and so may one
//! that reports that it is overloaded or that is unreachable while calls still run. The exception is a server
//! that let a call time out without sending anything: it is pinged although other calls wait for it.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_mcp::offers;
use plexus_proto::api::UpstreamEra;
use tokio::time::Instant;

use crate::client::{Client, ClientError, Definitions};
use crate::supervision::catalog::resources;
use crate::supervision::unit::Unit;
use crate::trust::Offer;

/// Consecutive unanswered requests after which the server counts as dead.
const MAX_MISSED: u32 = 2;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MonitorEnd {
    /// The connection is lost; with the reason.
    Lost(String),
    /// A login is required; with instructions.
    NeedsLogin(String),
    /// The server is lazy and was not called for a while.
    Idle,
}

/// The answer to a list request or ping.
enum ListOrPing {
    Listed(Result<Definitions, ClientError>),
    Pinged(Result<(), ClientError>),
}

/// The answer to a request about resources and prompts.
enum OfferOrWatch {
    Offered(offers::ServerOffer),
    /// The subscriptions were updated to the state of this turn. Resources that may have changed while they
    /// were not subscribed are returned.
    Watching(u64, Result<BTreeSet<String>, ClientError>),
}

pub(super) async fn monitor(unit: &Arc<Unit>, client: &Client) -> MonitorEnd {
    let mut monitor = Monitor {
        unit,
        client,
        list_or_ping: None,
        offer_request: None,
        relist: false,
        pause: unit.shared.timing.relist,
        listed_at: Instant::now(),
        pinged_at: Instant::now(),
        missed: 0,
        list_failures: 0,
        offers_at: (offers_something(client) || offered_before(unit)).then(Instant::now),
        offered_at: None,
        watch: !unit.watches.uris().is_empty(),
        possibly_changed: unit.watches.uris(),
    };
    let mut closed = std::pin::pin!(client.closed());
    loop {
        let due = monitor.due();
        let ended = tokio::select! {
            why = &mut closed => Some(MonitorEnd::Lost(why)),
            () = unit.list_changed.notified() => {
                monitor.relist = true;
                monitor.pause = unit.shared.timing.relist;
                None
            }
            () = unit.offers_changed.notified() => {
                monitor.offers_at = Some(monitor.next_offer());
                None
            }
            () = unit.watches.changed.notified() => {
                monitor.watch = true;
                None
            }
            answer = answered(&mut monitor.list_or_ping) => monitor.handle_answer(answer).await,
            answer = answered(&mut monitor.offer_request) => {
                monitor.handle_offer_answer(answer);
                None
            }
            () = tokio::time::sleep_until(due) => monitor.run_due_actions(),
        };
        if let Some(ended) = ended {
            return ended;
        }
    }
}

async fn answered<T>(request: &mut Option<BoxFuture<'_, T>>) -> T {
    match request {
        Some(pending) => {
            let answer = pending.await;
            *request = None;
            answer
        }
        None => pending().await,
    }
}

struct Monitor<'u> {
    unit: &'u Arc<Unit>,
    client: &'u Client,
    list_or_ping: Option<BoxFuture<'u, ListOrPing>>,
    offer_request: Option<BoxFuture<'u, OfferOrWatch>>,
    relist: bool,
    /// Pause before the next list request; longer after each failure.
    pause: Duration,
    listed_at: Instant,
    /// When a ping was last sent, or last found unnecessary.
    pinged_at: Instant,
    /// Consecutive unanswered pings and list requests.
    missed: u32,
    list_failures: u32,
    /// When resources and prompts are listed next.
    offers_at: Option<Instant>,
    /// When they were last listed.
    offered_at: Option<Instant>,
    /// The subscriptions must be updated.
    watch: bool,
    /// Resources that were watched before the connection, and may have changed meanwhile.
    possibly_changed: BTreeSet<String>,
}

/// Whether a previous offer may have to be withdrawn.
fn offered_before(unit: &Unit) -> bool {
    *unit.offering.offer() != offers::ServerOffer::default()
}

fn offers_something(client: &Client) -> bool {
    let offers = &client.peer().offers;
    offers.resources || offers.prompts || offers.completions
}

impl<'u> Monitor<'u> {
    /// When the next action is due.
    fn due(&self) -> Instant {
        let timing = &self.unit.shared.timing;
        let mut due = Instant::now() + timing.idle;
        if self.list_or_ping.is_none() && self.relist {
            due = due.min(self.listed_at + self.pause);
        }
        if let (None, Some(at)) = (&self.offer_request, self.offers_at) {
            due = due.min(at);
        }
        if self.offer_request.is_none() && self.watch {
            due = due.min(Instant::now());
        }
        if let Some(ping) = self.ping_due() {
            due = due.min(ping);
        }
        if let Some(idle) = self.idle_at() {
            due = due.min(idle);
        }
        due
    }

    fn ping_due(&self) -> Option<Instant> {
        let pings = self.list_or_ping.is_none() && self.client.peer().era == UpstreamEra::Session;
        let timing = &self.unit.shared.timing;
        // After an unanswered ping the next one follows quickly.
        let pause = if self.missed > 0 { timing.ping_answer.min(timing.ping) } else { timing.ping };
        pings.then(|| self.pinged_at.max(self.unit.activity.last_message_at()) + pause)
    }

    /// Not before the pause after the previous list request.
    fn next_offer(&self) -> Instant {
        let now = Instant::now();
        self.offered_at.map_or(now, |at| now.max(at + self.unit.shared.timing.relist))
    }

    /// When a lazy server is stopped. `None` while calls run or resources are watched; the idle time starts at the end
    /// of the last call.
    fn idle_at(&self) -> Option<Instant> {
        let is_lazy = self.unit.config().is_some_and(|config| config.lazy);
        let since = self.unit.activity.idle_since().filter(|_| is_lazy && self.unit.watches.is_empty())?;
        Some(since + self.unit.shared.timing.idle)
    }

    /// Performs the actions that are due.
    fn run_due_actions(&mut self) -> Option<MonitorEnd> {
        let (unit, client, now) = (self.unit, self.client, Instant::now());
        let timing = &unit.shared.timing;
        if self.idle_at().is_some_and(|at| at <= now) {
            return Some(MonitorEnd::Idle);
        }
        if self.list_or_ping.is_none() && self.relist && self.listed_at + self.pause <= now {
            self.relist = false;
            self.list_or_ping = Some(Box::pin(async { ListOrPing::Listed(client.list_tools().await) }));
        }
        if self.offer_request.is_none() && self.offers_at.is_some_and(|at| at <= now) {
            self.offers_at = None;
            let before = unit.offering.offer();
            self.offer_request = Some(Box::pin(async move {
                OfferOrWatch::Offered(resources::fetch_offer(client, client.peer().offers, &before).await)
            }));
        }
        if self.offer_request.is_none() && self.watch {
            self.watch = false;
            // Read the turn before the URIs, so that a later change is applied later.
            let (turn, uris) = (unit.watches.turn(), unit.watches.uris());
            self.offer_request =
                Some(Box::pin(async move { OfferOrWatch::Watching(turn, client.watch(uris).await) }));
        }
        if self.ping_due().is_some_and(|ping| ping <= now) {
            self.pinged_at = now;
            if unit.activity.running() == 0 || unit.activity.is_suspect() {
                let patience = timing.ping_answer;
                let silence = move |_| {
                    ClientError::Lost(format!("it did not answer a ping within {} s", patience.as_secs_f32()))
                };
                self.list_or_ping = Some(Box::pin(async move {
                    let pong = tokio::time::timeout(patience, client.ping()).await;
                    ListOrPing::Pinged(pong.unwrap_or_else(|late| Err(silence(late))))
                }));
            }
        }
        None
    }

    /// Handles a failed list request; the known tools stay.
    fn handle_list_failure(&mut self, error: ClientError) -> Option<MonitorEnd> {
        let unit = self.unit;
        tracing::warn!(server = %unit.name, %error, "cannot get its list of tools");
        self.listed_at = Instant::now();
        let has_running_calls = unit.activity.running() > 0;
        if matches!(error, ClientError::Unreachable(_) | ClientError::Lost(_) | ClientError::Busy(_)) {
            self.relist = true;
            self.pause = self.pause.saturating_mul(2).min(unit.shared.timing.ping.max(self.pause));
        }
        match error {
            // Over HTTP the loss of a server is not noticed otherwise.
            ClientError::Unreachable(why) if !has_running_calls => Some(MonitorEnd::Lost(why)),
            ClientError::Unreachable(why) | ClientError::Lost(why) => {
                // A second failure means that it is lost. A server that runs calls may be slow to answer.
                self.list_failures = if has_running_calls { 0 } else { self.list_failures + 1 };
                (self.list_failures >= MAX_MISSED).then_some(MonitorEnd::Lost(why))
            }
            ClientError::Busy(_) => None,
            ClientError::NeedsLogin(why) => Some(MonitorEnd::NeedsLogin(why)),
            ClientError::Rpc { .. } | ClientError::Protocol(_) | ClientError::Cancelled => None,
        }
    }

    fn handle_offer_answer(&mut self, answer: OfferOrWatch) {
        let unit = self.unit;
        match answer {
            OfferOrWatch::Offered(offer) => {
                self.offered_at = Some(Instant::now());
                unit.publish_offer(offer);
                // A new session has no subscriptions.
                self.watch |= !unit.watches.uris().is_empty();
            }
            OfferOrWatch::Watching(turn, updated) => {
                match updated {
                    // Only now, because changes are reported from now on.
                    Ok(possibly_changed) => {
                        let before = std::mem::take(&mut self.possibly_changed);
                        before.union(&possibly_changed).for_each(|uri| unit.watches.notify(uri));
                    }
                    Err(error) => {
                        tracing::warn!(server = %unit.name, %error, "cannot update its resource subscriptions");
                    }
                }
                unit.watches.acknowledge(turn);
            }
        }
    }

    async fn handle_answer(&mut self, answer: ListOrPing) -> Option<MonitorEnd> {
        let unit = self.unit;
        match answer {
            ListOrPing::Listed(Ok(definitions)) => {
                (self.listed_at, self.list_failures) = (Instant::now(), 0);
                self.pause = unit.shared.timing.relist;
                unit.activity.record_message();
                let instructions = self.client.peer().instructions.clone();
                unit.publish(Offer { definitions: Arc::new(definitions), instructions, live: true }).await;
                None
            }
            ListOrPing::Listed(Err(error)) => self.handle_list_failure(error),
            // A protocol error is an answer too.
            ListOrPing::Pinged(Ok(()) | Err(ClientError::Rpc { .. } | ClientError::Protocol(_))) => {
                self.missed = 0;
                unit.activity.record_message();
                None
            }
            // The server is overloaded.
            ListOrPing::Pinged(Err(ClientError::Busy(_))) => None,
            ListOrPing::Pinged(Err(ClientError::NeedsLogin(why))) => Some(MonitorEnd::NeedsLogin(why)),
            ListOrPing::Pinged(Err(error)) => {
                // Any message that arrived in the meantime is a sign of life too.
                self.missed =
                    if unit.activity.last_message_at() > self.pinged_at { 0 } else { self.missed + 1 };
                (self.missed >= MAX_MISSED).then(|| MonitorEnd::Lost(error.to_string()))
            }
        }
    }
}
