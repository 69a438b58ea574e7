//! Decides which tools of the hub's list an agent sees in its current context.
//!
//! This is a convenience: a hidden tool can still be called, and the hub authorizes the call. Tools are only hidden,
//! never added.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The known context of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VisibilityContext {
    /// Online nodes that the agent may use; none if unknown.
    pub(super) online: Option<BTreeSet<String>>,
}

/// The tools to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlacementKind {
    /// Tools that can run on any node.
    AnyNode,
    /// Tools of a server on one node.
    OneNode,
}

/// When the tools of a rule are visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownIf {
    SomeNodeIsOnline,
    ThatNodeIsOnline,
}

const RULES: &[(PlacementKind, ShownIf)] = &[
    (PlacementKind::AnyNode, ShownIf::SomeNodeIsOnline),
    (PlacementKind::OneNode, ShownIf::ThatNodeIsOnline),
];

impl PlacementKind {
    fn matches(self, placement: &str) -> bool {
        match self {
            Self::AnyNode => placement == "node",
            Self::OneNode => placement.starts_with("node:"),
        }
    }
}

impl ShownIf {
    fn holds(self, placement: &str, context: &VisibilityContext) -> bool {
        // An unknown context hides nothing.
        let Some(online) = &context.online else { return true };
        match self {
            Self::SomeNodeIsOnline => !online.is_empty(),
            Self::ThatNodeIsOnline => {
                placement.strip_prefix("node:").is_some_and(|node| online.contains(node))
            }
        }
    }
}

/// Whether a tool with this placement is visible.
pub(super) fn is_shown(placement: Option<&str>, context: &VisibilityContext) -> bool {
    let Some(placement) = placement else { return true };
    RULES.iter().filter(|(kind, _)| kind.matches(placement)).all(|(_, shown)| shown.holds(placement, context))
}

#[cfg(test)]
mod tests;
