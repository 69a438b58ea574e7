//! Judges the tool list of a server and publishes the result in the registry.
//!
//! One list of a server is judged at a time, so that an older list is never published after a newer one, nor
//! a list from before an approval after it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_proto::tool_name;
use plexus_tools::{Run, Tool};

use crate::config::{Approve, ServerConfig};
use crate::supervision::call::concurrency::Gate;
use crate::supervision::lifecycle::reload::Target;
use crate::supervision::unit::Unit;
use crate::supervision::{call, catalog};
use crate::trust::{Judgement, Offer};

/// The published list of a server, and its source.
#[derive(Default)]
pub(in crate::supervision) struct Listing {
    /// Held while a list is judged and published.
    turn: tokio::sync::Mutex<()>,
    listed: Mutex<ListingState>,
}

#[derive(Default)]
struct ListingState {
    published: bool,
    /// The source of the list.
    source: Option<(Arc<ServerConfig>, Arc<Offer>)>,
    /// One handler per name and tool, so that the registry recognizes unchanged tools.
    handlers: HashMap<(String, String), Arc<Run>>,
}

impl Listing {
    fn lock(&self) -> MutexGuard<'_, ListingState> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source of the published list.
    fn offer(&self) -> Option<Arc<Offer>> {
        let listed = self.lock();
        listed.source.as_ref().filter(|_| listed.published).map(|(_, offer)| offer.clone())
    }
}

impl Unit {
    /// Publishes the approved part of an offer. Cheap if it is the current one. Returns false if the
    /// approvals cannot be read.
    pub(in crate::supervision) async fn publish(self: &Arc<Self>, offer: Offer) -> bool {
        let _turn = self.listing.turn.lock().await;
        self.publish_in_turn(Arc::new(offer)).await
    }

    /// The file may change during the judgement; the newest one applies.
    async fn publish_in_turn(self: &Arc<Self>, offer: Arc<Offer>) -> bool {
        while let Some(config) = self.config() {
            if self.is_published(&config, &offer) {
                return true;
            }
            let Some(judgement) = self.judge(&config, &offer).await else { return false };
            if self.publish_judged(&config, &offer, judgement) {
                return true;
            }
        }
        true
    }

    /// Judges the current list again after an approval.
    pub(super) async fn judge_again(self: &Arc<Self>) {
        let Some((offer, config)) = self.listing.offer().zip(self.config()) else { return };
        let Some(judgement) = self.judge(&config, &offer).await else { return };
        // A list that was withdrawn meanwhile stays withdrawn; a new file or list is judged separately.
        if self.listing.offer().is_some_and(|now| Arc::ptr_eq(&now, &offer)) {
            self.publish_judged(&config, &offer, judgement);
        }
    }

    /// Acquires the turn to decide on the list.
    pub(in crate::supervision) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.listing.turn.lock().await
    }

    /// None if the approvals cannot be read: then the list stays, and is requested again.
    async fn judge(&self, config: &Arc<ServerConfig>, offer: &Arc<Offer>) -> Option<Arc<Judgement>> {
        match self.shared.pins.judge(config, offer).await {
            Ok(judgement) => Some(Arc::new(judgement)),
            Err(error) => {
                tracing::error!(server = %self.name, %error, "cannot read which of its tools are approved");
                self.list_changed.notify_one();
                None
            }
        }
    }

    fn is_published(&self, config: &Arc<ServerConfig>, offer: &Arc<Offer>) -> bool {
        let listed = self.listing.lock();
        let same =
            |(of, source): &(Arc<ServerConfig>, Arc<Offer>)| Arc::ptr_eq(of, config) && source == offer;
        listed.published && listed.source.as_ref().is_some_and(same)
    }

    /// Publishes what the judgement admits. Returns false if the file has changed meanwhile.
    fn publish_judged(
        self: &Arc<Self>,
        config: &Arc<ServerConfig>,
        offer: &Arc<Offer>,
        judgement: Arc<Judgement>,
    ) -> bool {
        let mut listed = self.listing.lock();
        match &self.desired.borrow().target {
            Target::Run(now) | Target::Off(now) if !Arc::ptr_eq(now, config) => return false,
            Target::Gone => return true,
            _ => {}
        }
        let (catalog, specs) =
            catalog::build(config, &offer.definitions, |definition| judgement.admits(definition));
        for warning in &catalog.warnings {
            tracing::warn!(server = %self.name, "{warning}");
        }
        self.log_quarantined(&judgement);
        listed
            .handlers
            .retain(|(name, tool), _| catalog.entries.get(name).is_some_and(|entry| entry.tool == *tool));
        let tools: Vec<Tool> = specs
            .into_iter()
            .map(|spec| {
                let name = spec.name.to_string();
                let tool = catalog.entries.get(&name).map(|entry| entry.tool.clone()).unwrap_or_default();
                let make = || call::handler(self, name.clone(), tool.clone());
                let run = listed.handlers.entry((name.clone(), tool.clone())).or_insert_with(make);
                Tool::upstream(spec, run.clone())
            })
            .collect();
        // Stored first, so that a call that finds the tool also finds its entry.
        self.catalog.store(Arc::new(catalog));
        let quarantined = judgement
            .quarantined
            .iter()
            .map(|quarantined| self.canonical(&quarantined.text.name, config))
            .collect::<Vec<_>>();
        self.shared.registry.set_quarantined(&self.name, quarantined);
        self.judgement.store(judgement);
        self.shared.registry.set_upstream(&self.slug, tools);
        *listed = ListingState {
            published: true,
            source: Some((config.clone(), offer.clone())),
            handlers: std::mem::take(&mut listed.handlers),
        };
        self.shared.changed();
        true
    }

    /// The canonical name of a tool.
    fn canonical(&self, tool: &str, config: &ServerConfig) -> String {
        tool_name::canonical(&self.slug, config.tools.name_of(tool))
    }

    /// Logs each held back definition once.
    fn log_quarantined(&self, judgement: &Judgement) {
        let before = self.judgement.load();
        for quarantined in &judgement.quarantined {
            if before.quarantined.contains(quarantined) {
                continue;
            }
            let summary = quarantined.summary();
            let flags: Vec<&str> = summary.flags.iter().map(|flag| flag.kind.as_str()).collect();
            tracing::warn!(server = %self.name, tool = summary.name, reason = summary.reason.as_str(), ?flags, "quarantined");
        }
    }

    /// Applies a file that requires no restart.
    pub(in crate::supervision) async fn adopt(self: &Arc<Self>, config: &Arc<ServerConfig>) {
        if self.gate.load().limit() != config.max_concurrency {
            self.gate.store(Arc::new(Gate::new(config.max_concurrency)));
        }
        self.publish_offer_again();
        let _turn = self.listing.turn.lock().await;
        if let Some(offer) = self.listing.offer() {
            self.publish_in_turn(offer).await;
        }
    }

    /// Publishes the cached list of an earlier run until the server lists its tools. Returns false if nothing
    /// is cached, or nothing of it was ever approved.
    pub(in crate::supervision) async fn recall(self: &Arc<Self>, config: &Arc<ServerConfig>) -> bool {
        let _turn = self.listing.turn.lock().await;
        if self.listing.lock().published {
            return false;
        }
        let Some(cached) = self.shared.catalog_cache.recall(&self.slug, config.fingerprint).await else {
            return false;
        };
        let offer = Arc::new(Offer { definitions: cached.definitions, instructions: None, live: false });
        let Some(judgement) = self.judge(config, &offer).await else { return false };
        if !judgement.has_decisions && config.approve != Approve::Auto {
            return false;
        }
        self.status.send_modify(|status| status.era = Some(cached.era));
        self.publish_judged(config, &offer, judgement)
    }

    /// Caches the list of the server, whether approved or not: approval is checked again on recall.
    pub(in crate::supervision) async fn remember(&self) {
        let listed = {
            let listed = self.listing.lock();
            listed.source.clone().filter(|_| listed.published)
        };
        let era = self.status.borrow().era;
        if let (Some((config, offer)), Some(era)) = (listed, era) {
            self.shared
                .catalog_cache
                .keep(&self.slug, config.fingerprint, era, offer.definitions.clone())
                .await;
        }
    }

    /// Withdraws the tools.
    pub(in crate::supervision) fn withdraw(&self) {
        self.withdraw_offer();
        let mut listed = self.listing.lock();
        if std::mem::take(&mut *listed).published {
            self.catalog.store(Arc::default());
            self.judgement.store(Arc::default());
            self.shared.registry.set_quarantined(&self.name, []);
            self.shared.registry.set_upstream(&self.slug, []);
            self.shared.changed();
        }
    }
}
