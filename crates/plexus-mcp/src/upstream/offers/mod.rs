//! What servers offer beside their tools: resources and prompts.
//!
//! | module | what is in it |
//! |---|---|
//! | `offer` | what one server offers, as it listed it last |
//! | `uris`, `template` | which server a URI is of |
//! | `names` | what prompts are called here |
//! | `seen` | all of it, as one caller sees it |

mod names;
mod offer;
mod seen;
mod template;
mod uris;

pub(crate) use offer::{Lists, Offer};
pub(crate) use seen::Seen;
pub(crate) use uris::server_uri;
