//! Decides which texts of a server models may read.
//!
//! The author of a tool description speaks to every model that lists the tool, and can change the text at any
//! time. Therefore only approved definitions are listed, byte for byte: each definition is [pinned](pin) by
//! its hash, and a new or changed one is held back until somebody approves it or the server's file makes
//! approval unnecessary. Suspicious texts are [detected](scan) before a first version is trusted, as are
//! texts that are suspicious only in relation to the [tools of other servers](other_tools). A definition that
//! is held back never reaches a model, neither in a list nor in an error.
//!
//! All of this happens when a list arrives. A call either finds a tool in the registry or does not, and is
//! not checked here.

mod diff;
mod judge;
mod other_tools;
mod pin;
mod pins;
mod record;
mod scan;

pub(crate) use judge::{Judgement, Offer, QuarantinedDefinition};
pub(crate) use other_tools::review;
pub(crate) use pin::{MAX_DEFINITION, MAX_NAME};
pub(crate) use pins::{ApprovalOutcome, Pins};
pub use record::APPROVE;
pub(crate) use scan::visible;

use plexus_proto::api::ToolFlag;
use serde_json::{Map, Value};

/// Findings about a definition on its own.
pub(crate) fn flags(definition: &Map<String, Value>) -> Vec<ToolFlag> {
    scan::scan(&pin::PinnedText::of_tool(definition).form)
}
