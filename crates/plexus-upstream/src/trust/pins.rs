//! The pins of all servers in the database: read for every list that is judged, and written before the list
//! is published.
//!
//! Pins are not cached in memory, so all readers see the same state.

use std::collections::BTreeSet;
use std::sync::Arc;

use plexus_kit::Clock;
use plexus_proto::api::{QuarantineReason, ToolApproval};
use plexus_store::{PinRecord, Records, Store, StoreError};
use plexus_tools::Registry;

use super::judge::{self, JudgeContext, Judgement, Offer};
use super::other_tools::OtherTools;
use super::record;
use crate::config::{Approve, ServerConfig};

/// Pins per server. Beyond that limit, pins of tools that the server no longer lists are deleted; this bounds
/// servers that change daily and are trusted nevertheless.
const MAX_PINS: usize = 2_000;

#[derive(Debug)]
pub(crate) struct Pins {
    store: Store,
    registry: Arc<Registry>,
    clock: Clock,
}

/// The result of an approval.
#[derive(Debug)]
pub(crate) enum ApprovalOutcome {
    /// These are pinned now.
    Done(Vec<String>),
    /// This definition is not the reviewed one, or is not pending; nothing was approved.
    NotPending(String),
}

impl Pins {
    pub(crate) fn new(store: Store, registry: Arc<Registry>, clock: Clock) -> Self {
        Self { store, registry, clock }
    }

    /// Judges a list and stores the definitions that the server's rule approves.
    pub(crate) async fn judge(
        &self,
        of: &Arc<ServerConfig>,
        offer: &Arc<Offer>,
    ) -> Result<Judgement, StoreError> {
        let pins = self.store.read_committed().await?.upstream_pins(&of.name).await?;
        let now = self.clock.now();
        let (registry, config, offer) = (self.registry.clone(), of.clone(), offer.clone());
        let name = config.name.clone();
        // Judging a long list takes long, so it runs on a blocking thread.
        let judged = tokio::task::spawn_blocking(move || {
            let context = JudgeContext { pins, other_tools: OtherTools::of(&registry.all()), now };
            let (judgement, decisions) = judge::judge(&config, &offer, &context);
            log(&config, &context.pins, &decisions);
            let outdated = outdated(&context.pins, &decisions, &offer);
            (judgement, decisions, outdated)
        });
        let (judgement, decisions, outdated) = judged.await.map_err(|_| StoreError::Closed)?;
        if !decisions.is_empty() {
            let records = record::of(of, &decisions, &self.clock);
            let keep = async move |conn: &mut plexus_store::Conn| {
                for tool in &outdated {
                    conn.delete_upstream_pin(&name, tool).await?;
                }
                for decision in &decisions {
                    conn.set_upstream_pin(&name, decision).await?;
                }
                Ok::<_, StoreError>(())
            };
            let recorded =
                move |stored: &Result<(), _>| if stored.is_ok() { records } else { Records::default() };
            self.store.transact(move |conn| Box::pin(async move { keep(conn).await }), recorded).await??;
        }
        Ok(judgement)
    }

    /// Approves pending definitions: all of these or none.
    pub(crate) async fn approve(
        &self,
        server: &str,
        judgement: &Judgement,
        approvals: &[ToolApproval],
        by: &str,
    ) -> Result<ApprovalOutcome, StoreError> {
        let now = self.clock.now();
        let mut decisions: Vec<PinRecord> = Vec::new();
        for ToolApproval { name, hash } in approvals {
            let quarantined = judgement.quarantined.iter().find(|quarantined| quarantined.text.name == *name);
            match quarantined.filter(|quarantined| quarantined.text.hash == *hash) {
                Some(quarantined) => decisions.push(quarantined.approval(by, now)),
                // A repeated request: the approval stands.
                None if quarantined.is_none() && judgement.has_approved(hash) => {}
                None => return Ok(ApprovalOutcome::NotPending(name.clone())),
            }
        }
        let (server, names) = (server.to_owned(), decisions.iter().map(|pin| pin.tool.clone()).collect());
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    for decision in &decisions {
                        conn.set_upstream_pin(&server, decision).await?;
                    }
                    Ok(())
                })
            })
            .await?;
        Ok(ApprovalOutcome::Done(names))
    }

    /// Deletes the pins of a server, so that a later server of the same name counts as new.
    pub(crate) async fn forget(&self, server: &str) -> Result<(), StoreError> {
        let server = server.to_owned();
        self.store
            .write(move |conn| Box::pin(async move { conn.delete_upstream_pins(&server).await }))
            .await
            .map(|_| ())
    }
}

/// Pins that are no longer needed, of a server that has too many.
fn outdated(pins: &[PinRecord], decisions: &[PinRecord], offer: &Offer) -> Vec<String> {
    if pins.len() + decisions.len() <= MAX_PINS {
        return Vec::new();
    }
    let listed: BTreeSet<&str> =
        offer.definitions.iter().filter_map(|definition| definition.get("name")?.as_str()).collect();
    let decided: BTreeSet<&str> = decisions.iter().map(|pin| pin.tool.as_str()).collect();
    let names = pins.iter().map(|pin| pin.tool.as_str());
    names.filter(|name| !listed.contains(name) && !decided.contains(name)).map(str::to_owned).collect()
}

/// Logs what the `auto` rule has approved for a server that was known before.
fn log(config: &ServerConfig, pins: &[PinRecord], decisions: &[PinRecord]) {
    if config.approve != Approve::Auto || pins.is_empty() {
        return;
    }
    for decision in decisions {
        let is_known_tool = pins.iter().any(|pin| pin.tool == decision.tool);
        let reason = if is_known_tool { QuarantineReason::Changed } else { QuarantineReason::New };
        let tool = super::visible(&decision.tool);
        tracing::warn!(server = %config.name, tool, reason = reason.as_str(), hash = decision.hash, "approved by `auto`");
    }
}
