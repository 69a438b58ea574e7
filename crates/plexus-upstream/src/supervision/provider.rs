//! Implements the offers of the servers for the MCP endpoint.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_mcp::offers::{CompletionError, Mailbox, OfferProvider, ResourceWatch, VisibleOffers};
use plexus_tools::{InstructionPart, Visible};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::Upstreams;
use super::catalog::resources;

impl OfferProvider for Upstreams {
    fn instructions(&self, visible: &Visible) -> Vec<InstructionPart> {
        Upstreams::instructions(self, visible)
    }

    fn visible_offers(&self, visible: &Visible) -> VisibleOffers {
        let offers = self.units().into_iter().map(|unit| (unit.slug.clone(), unit.offering.offer()));
        VisibleOffers::new(visible, offers)
    }

    fn offer_version(&self) -> u64 {
        *self.0.shared.offers.borrow()
    }

    fn offer_versions(&self) -> watch::Receiver<u64> {
        self.0.shared.offers.subscribe()
    }

    fn complete<'a>(
        &'a self,
        server: &'a str,
        params: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Option<Bytes>, CompletionError>> {
        Box::pin(async move {
            match self.units().into_iter().find(|unit| unit.slug == server) {
                Some(unit) => resources::complete(&unit, params).await,
                None => Ok(None),
            }
        })
    }

    fn watch_resource(
        &self,
        server: &str,
        uri: &str,
        owner: &str,
        mailbox: &Arc<Mailbox>,
        known_as: &str,
    ) -> Option<ResourceWatch> {
        let unit = self.units().into_iter().find(|unit| unit.slug == server)?;
        let watch = unit.watches.watch(uri, owner, mailbox, known_as)?;
        if unit.client.load().is_none() {
            // A stopped lazy server would report no changes.
            unit.called.notify_one();
        }
        Some(ResourceWatch::new(watch))
    }

    fn watches_applied<'a>(&'a self, servers: &'a BTreeSet<String>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let units = self.units();
            let connected =
                units.iter().filter(|unit| servers.contains(&unit.slug) && unit.client.load().is_some());
            futures_util::future::join_all(connected.map(|unit| unit.watches.acknowledged())).await;
        })
    }
}
