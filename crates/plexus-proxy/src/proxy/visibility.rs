//! Which of the tools that the hub lists an agent is shown, in the circumstances of the moment.
//!
//! This is convenience: a tool that is left out can still be called, and the hub decides. A list is only ever narrowed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What is known of the circumstances of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Context {
    /// Machines that it may use and that are there; none: not known.
    pub(super) online: Option<BTreeSet<String>>,
}

/// Which tools a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// Those that run on a machine of one's choice.
    AnyNode,
    /// Those of a server that runs on one machine.
    OneNode,
}

/// When they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownIf {
    SomeNodeIsOnline,
    ThatNodeIsOnline,
}

const RULES: &[(About, ShownIf)] =
    &[(About::AnyNode, ShownIf::SomeNodeIsOnline), (About::OneNode, ShownIf::ThatNodeIsOnline)];

impl About {
    fn fits(self, placement: &str) -> bool {
        match self {
            Self::AnyNode => placement == "node",
            Self::OneNode => placement.starts_with("node:"),
        }
    }
}

impl ShownIf {
    fn holds(self, placement: &str, context: &Context) -> bool {
        // What is not known hides nothing.
        let Some(online) = &context.online else { return true };
        match self {
            Self::SomeNodeIsOnline => !online.is_empty(),
            Self::ThatNodeIsOnline => {
                placement.strip_prefix("node:").is_some_and(|node| online.contains(node))
            }
        }
    }
}

/// Whether a tool that runs there is shown.
pub(super) fn is_shown(placement: Option<&str>, context: &Context) -> bool {
    let Some(placement) = placement else { return true };
    RULES.iter().filter(|(about, _)| about.fits(placement)).all(|(_, shown)| shown.holds(placement, context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_machines_are_shown_while_one_is_there() {
        let with = |nodes: &[&str]| Context { online: Some(nodes.iter().map(|n| (*n).to_owned()).collect()) };
        for (placement, context, shown) in [
            (None, with(&[]), true),
            (Some("node"), Context::default(), true),
            (Some("node"), with(&[]), false),
            (Some("node"), with(&["nas"]), true),
            (Some("node:nas"), with(&["laptop"]), false),
            (Some("node:nas"), with(&["laptop", "nas"]), true),
            (Some("node:nas"), Context::default(), true),
            (Some("elsewhere"), with(&[]), true),
        ] {
            assert_eq!(is_shown(placement, &context), shown, "{placement:?} {context:?}");
        }
    }
}
