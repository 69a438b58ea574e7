//! With a server that is there: follows what it lists, tells it which resources are watched, asks whether it is still
//! there, lets a lazy one go.
//!
//! At most one question is on its way at a time, and beside it one about what is no tool: nothing is concluded from how
//! long that takes. A call that did not reach the server asks for its list too, which is
//! how one over HTTP is found to be gone. A flood of changes costs a list every [`relist`](crate::supervision::Timing) and
//! nothing else. A ping is sent in the session era only, to a server that was not heard for a while and has nothing to
//! do: a busy server may be slow to answer, and is not dead, nor is one that says that it takes no more now, or that
//! is not reached while calls still run there. The exception is one that let a call run out of its time
//! without saying anything since: it is asked although others wait for it.

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

/// Questions without an answer in a row; then the server is taken for dead.
const MISSED: u32 = 2;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MonitorEnd {
    /// It is gone, or as good as gone, and why.
    Lost(String),
    /// It requires a login, in words that say how.
    Locked(String),
    /// It is lazy and nobody called it for a while.
    Idle,
}

/// Something that was asked and not answered yet.
enum ListOrPing {
    Listed(Result<Definitions, ClientError>),
    Pinged(Result<(), ClientError>),
}

/// The same of what is no tool.
enum OfferOrWatch {
    Offered(offers::Offer),
    /// It was told which resources are watched, as they were at this turn; some may have changed while it was not.
    Watching(u64, Result<BTreeSet<String>, ClientError>),
}

pub(super) async fn monitor(unit: &Arc<Unit>, client: &Client) -> MonitorEnd {
    let mut monitor = Monitor {
        unit,
        client,
        asked: None,
        aside: None,
        relist: false,
        pause: unit.shared.timing.relist,
        listed_at: Instant::now(),
        pinged_at: Instant::now(),
        missed: 0,
        unlisted: 0,
        offers_at: (offers_something(client) || offered_before(unit)).then(Instant::now),
        offered_at: None,
        watch: !unit.watches.uris().is_empty(),
        unheard: unit.watches.uris(),
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
            answer = answered(&mut monitor.asked) => monitor.take(answer).await,
            answer = answered(&mut monitor.aside) => {
                monitor.take_aside(answer);
                None
            }
            () = tokio::time::sleep_until(due) => monitor.act(),
        };
        if let Some(ended) = ended {
            return ended;
        }
    }
}

async fn answered<T>(asked: &mut Option<BoxFuture<'_, T>>) -> T {
    match asked {
        Some(question) => {
            let answer = question.await;
            *asked = None;
            answer
        }
        None => pending().await,
    }
}

struct Monitor<'u> {
    unit: &'u Arc<Unit>,
    client: &'u Client,
    asked: Option<BoxFuture<'u, ListOrPing>>,
    aside: Option<BoxFuture<'u, OfferOrWatch>>,
    relist: bool,
    /// Before it is asked for its list again; longer each time that it does not give it.
    pause: Duration,
    listed_at: Instant,
    /// When a ping was last sent, or last not needed.
    pinged_at: Instant,
    /// Pings that were not answered, and lists.
    missed: u32,
    unlisted: u32,
    /// When it is to be asked what it offers beside tools.
    offers_at: Option<Instant>,
    /// When it last was.
    offered_at: Option<Instant>,
    /// It is to be told which resources are watched.
    watch: bool,
    /// Those that were watched before it was there, and may have changed meanwhile.
    unheard: BTreeSet<String>,
}

/// There is something of it that may have to go.
fn offered_before(unit: &Unit) -> bool {
    *unit.offering.offer() != offers::Offer::default()
}

fn offers_something(client: &Client) -> bool {
    let offers = &client.peer().offers;
    offers.resources || offers.prompts || offers.completions
}

impl<'u> Monitor<'u> {
    /// When there is next something to do.
    fn due(&self) -> Instant {
        let timing = &self.unit.shared.timing;
        let mut due = Instant::now() + timing.idle;
        if self.asked.is_none() && self.relist {
            due = due.min(self.listed_at + self.pause);
        }
        if let (None, Some(at)) = (&self.aside, self.offers_at) {
            due = due.min(at);
        }
        if self.aside.is_none() && self.watch {
            due = due.min(Instant::now());
        }
        if let Some(ping) = self.ping_due() {
            due = due.min(ping);
        }
        if self.may_idle() {
            due = due.min(self.idle_at());
        }
        due
    }

    fn ping_due(&self) -> Option<Instant> {
        let pings = self.asked.is_none() && self.client.peer().era == UpstreamEra::Session;
        let timing = &self.unit.shared.timing;
        // After an unanswered one the next follows at once.
        let pause = if self.missed > 0 { timing.ping_answer.min(timing.ping) } else { timing.ping };
        pings.then(|| self.pinged_at.max(self.unit.activity.last_heard()) + pause)
    }

    /// No sooner than after the pause that follows a list.
    fn next_offer(&self) -> Instant {
        let now = Instant::now();
        self.offered_at.map_or(now, |at| now.max(at + self.unit.shared.timing.relist))
    }

    /// While calls run it is not idle, and their end counts from then; nor is it while somebody wants to hear of it.
    fn may_idle(&self) -> bool {
        let is_lazy = self.unit.config().is_some_and(|config| config.lazy);
        is_lazy && self.unit.activity.in_flight() == 0 && self.unit.watches.is_empty()
    }

    fn idle_at(&self) -> Instant {
        self.unit.activity.last_call().max(self.unit.activity.last_heard()) + self.unit.shared.timing.idle
    }

    /// Does what is due.
    fn act(&mut self) -> Option<MonitorEnd> {
        let (unit, client, now) = (self.unit, self.client, Instant::now());
        let timing = &unit.shared.timing;
        if self.may_idle() && self.idle_at() <= now {
            return Some(MonitorEnd::Idle);
        }
        if self.asked.is_none() && self.relist && self.listed_at + self.pause <= now {
            self.relist = false;
            self.asked = Some(Box::pin(async { ListOrPing::Listed(client.list_tools().await) }));
        }
        if self.aside.is_none() && self.offers_at.is_some_and(|at| at <= now) {
            self.offers_at = None;
            let before = unit.offering.offer();
            self.aside = Some(Box::pin(async move {
                OfferOrWatch::Offered(resources::ask(client, client.peer().offers, &before).await)
            }));
        }
        if self.aside.is_none() && self.watch {
            self.watch = false;
            // Before it is read what is watched: what comes later is told later.
            let (turn, uris) = (unit.watches.turn(), unit.watches.uris());
            self.aside =
                Some(Box::pin(async move { OfferOrWatch::Watching(turn, client.watch(uris).await) }));
        }
        if self.ping_due().is_some_and(|ping| ping <= now) {
            self.pinged_at = now;
            if unit.activity.running() == 0 || unit.activity.is_suspect() {
                let patience = timing.ping_answer;
                let silence = move |_| {
                    ClientError::Lost(format!("it did not answer a ping within {} s", patience.as_secs_f32()))
                };
                self.asked = Some(Box::pin(async move {
                    let pong = tokio::time::timeout(patience, client.ping()).await;
                    ListOrPing::Pinged(pong.unwrap_or_else(|late| Err(silence(late))))
                }));
            }
        }
        None
    }

    /// The list cannot be had; the tools that are known stay.
    fn unlisted(&mut self, error: ClientError) -> Option<MonitorEnd> {
        let unit = self.unit;
        tracing::warn!(server = %unit.name, %error, "its list of tools cannot be had");
        self.listed_at = Instant::now();
        let at_work = unit.activity.running() > 0;
        if matches!(error, ClientError::Unreachable(_) | ClientError::Lost(_) | ClientError::Busy(_)) {
            self.relist = true;
            self.pause = self.pause.saturating_mul(2).min(unit.shared.timing.ping.max(self.pause));
        }
        match error {
            // Over HTTP there is no connection whose end would be noticed.
            ClientError::Unreachable(why) if !at_work => Some(MonitorEnd::Lost(why)),
            ClientError::Unreachable(why) | ClientError::Lost(why) => {
                // Asked once more, it may turn out to be gone. One that is at work may be slow to answer.
                self.unlisted = if at_work { 0 } else { self.unlisted + 1 };
                (self.unlisted >= MISSED).then_some(MonitorEnd::Lost(why))
            }
            ClientError::Busy(_) => None,
            ClientError::NeedsLogin(why) => Some(MonitorEnd::Locked(why)),
            ClientError::Rpc { .. } | ClientError::Protocol(_) | ClientError::Cancelled => None,
        }
    }

    fn take_aside(&mut self, answer: OfferOrWatch) {
        let unit = self.unit;
        match answer {
            OfferOrWatch::Offered(offer) => {
                self.offered_at = Some(Instant::now());
                unit.publish_offer(offer);
                // A session that was begun anew knows of none of them.
                self.watch |= !unit.watches.uris().is_empty();
            }
            OfferOrWatch::Watching(turn, told) => {
                match told {
                    // Not before: what changes from now on is heard.
                    Ok(unheard) => {
                        let before = std::mem::take(&mut self.unheard);
                        before.union(&unheard).for_each(|uri| unit.watches.tell(uri));
                    }
                    Err(error) => {
                        tracing::warn!(server = %unit.name, %error, "it cannot be told which resources are watched");
                    }
                }
                unit.watches.heed(turn);
            }
        }
    }

    async fn take(&mut self, answer: ListOrPing) -> Option<MonitorEnd> {
        let unit = self.unit;
        match answer {
            ListOrPing::Listed(Ok(definitions)) => {
                (self.listed_at, self.unlisted) = (Instant::now(), 0);
                self.pause = unit.shared.timing.relist;
                unit.activity.hear();
                let instructions = self.client.peer().instructions.clone();
                unit.publish(Offer { definitions: Arc::new(definitions), instructions, live: true }).await;
                None
            }
            ListOrPing::Listed(Err(error)) => self.unlisted(error),
            // An error of the protocol is an answer.
            ListOrPing::Pinged(Ok(()) | Err(ClientError::Rpc { .. } | ClientError::Protocol(_))) => {
                self.missed = 0;
                unit.activity.hear();
                None
            }
            // It has too much to do.
            ListOrPing::Pinged(Err(ClientError::Busy(_))) => None,
            ListOrPing::Pinged(Err(ClientError::NeedsLogin(why))) => Some(MonitorEnd::Locked(why)),
            ListOrPing::Pinged(Err(error)) => {
                // Anything that came in the meantime is a sign of life too.
                self.missed = if unit.activity.last_heard() > self.pinged_at { 0 } else { self.missed + 1 };
                (self.missed >= MISSED).then(|| MonitorEnd::Lost(error.to_string()))
            }
        }
    }
}
