//! Approval of tool definitions, and findings about listed tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use plexus_proto::api::{FlaggedTool, PendingTool, ToolApproval, ToolFlag, UpstreamApproval};
use plexus_store::StoreError;
use plexus_tools::Registry;

use crate::supervision::Upstreams;
use crate::supervision::unit::Unit;
use crate::trust::{self, ApprovalOutcome};

/// Why nothing was approved.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    #[error("there is no such server")]
    NoServer,
    /// The definition has changed since it was reviewed, or is not pending.
    #[error("{0} has changed since it was reviewed, or is not pending")]
    Other(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Upstreams {
    /// The pending definitions of a server; none if the server does not exist.
    #[must_use]
    pub fn pending(&self, name: &str) -> Option<Vec<PendingTool>> {
        let judgement = self.unit(name)?.judgement.load_full();
        Some(judgement.quarantined.iter().map(trust::QuarantinedDefinition::pending).collect())
    }

    /// Approves exactly these definitions, all or none; they are listed when this returns.
    ///
    /// # Errors
    /// If one of them is not pending in this form, or the approval cannot be stored.
    pub async fn approve(
        &self,
        name: &str,
        approvals: &[ToolApproval],
        by: &str,
    ) -> Result<UpstreamApproval, ApproveError> {
        let unit = self.unit(name).ok_or(ApproveError::NoServer)?;
        // The turn excludes other lists, so the reviewed definitions are the ones that are approved.
        let _turn = unit.turn().await;
        let judgement = unit.judgement.load_full();
        let approved = match self.0.shared.pins.approve(name, &judgement, approvals, by).await? {
            ApprovalOutcome::Done(approved) => approved,
            ApprovalOutcome::NotPending(tool) => return Err(ApproveError::Other(tool)),
        };
        unit.judge_again().await;
        let judgement = unit.judgement.load_full();
        let pending = judgement.quarantined.iter().map(|tool| tool.text.name.clone()).collect();
        Ok(UpstreamApproval { name: name.to_owned(), approved, pending })
    }

    /// Reloads after a server's file was deliberately removed, and deletes its approvals, so that a later
    /// server of that name counts as new. The approvals of a file that merely disappeared are kept.
    ///
    /// # Errors
    /// If the deletion cannot be stored.
    pub async fn reload_without(&self, name: &str) -> Result<(), StoreError> {
        let removed = self.unit(name);
        self.reload().await;
        if let Some(unit) = removed {
            // A judgement that is in progress may still be stored.
            let _turn = unit.turn().await;
            self.0.shared.pins.forget(name).await?;
        }
        Ok(())
    }
}

impl Unit {
    /// Listed tools with findings, on their own or in relation to other tools.
    pub(in crate::supervision) fn flagged(&self) -> Vec<FlaggedTool> {
        let (judgement, catalog) = (self.judgement.load(), self.catalog.load());
        let oddities = self.shared.review_cache.of(&self.shared.registry);
        let mut flagged = judgement.flagged.clone();
        for (canonical, entry) in &catalog.entries {
            let Some(odd) = oddities.get(canonical) else { continue };
            let name = trust::visible(&entry.tool);
            match flagged.iter_mut().find(|tool| tool.name == name) {
                Some(tool) => {
                    let new = odd.iter().filter(|flag| !tool.flags.contains(flag)).cloned();
                    let new: Vec<ToolFlag> = new.collect();
                    tool.flags.extend(new);
                }
                None => {
                    let decided_by = judgement.decided_by.get(&entry.tool).cloned().unwrap_or_default();
                    flagged.push(FlaggedTool { name, flags: odd.clone(), decided_by });
                }
            }
        }
        flagged
    }
}

/// Findings by canonical tool name.
type Flags = Arc<BTreeMap<String, Vec<ToolFlag>>>;

/// Caches the findings about listed tools in relation to each other, computed on demand once per registry
/// version.
#[derive(Debug, Default)]
pub(in crate::supervision) struct ReviewCache {
    /// The findings for this version of the registry.
    cached: Mutex<Option<(u64, Flags)>>,
}

impl ReviewCache {
    fn of(&self, registry: &Registry) -> Flags {
        let version = *registry.versions().borrow();
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, flags)) = cached.filter(|(of, _)| *of == version) {
            return flags;
        }
        let reviewed = Arc::new(trust::review(&registry.all()));
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some((version, reviewed.clone()));
        reviewed
    }
}
