//! Whether what a server says of its tools may be read by models.
//!
//! Whoever writes the description of a tool speaks to every model that lists it, and may say something else tomorrow. So
//! what is listed is what was approved, word for word: each definition is [pinned](pin) by its hash, and one that is new or
//! has changed is held back until somebody approves it, or the file of the server says that it need not be. What is
//! strange about a definition is [found](scan) before a first look is trusted, and what is odd only beside the tools of
//! others by its [neighbours]. Nothing of what is held back reaches a model: neither in a list nor in an error.
//!
//! All of it happens when a list comes in. A call finds a tool in the registry, or does not, and asks nothing here.

mod diff;
mod judge;
mod other_tools;
mod pin;
mod pins;
mod record;
mod scan;

pub(crate) use judge::{HeldBack, Judgement, Offer};
pub(crate) use other_tools::review;
pub(crate) use pin::{MAX_DEFINITION, MAX_NAME};
pub(crate) use pins::{Approved, Pins};
pub use record::APPROVE;
pub(crate) use scan::visible;

use plexus_proto::api::ToolFlag;
use serde_json::{Map, Value};

/// What is strange about a definition by itself.
pub(crate) fn flags(definition: &Map<String, Value>) -> Vec<ToolFlag> {
    scan::scan(&pin::PinnedText::of_tool(definition).form)
}
