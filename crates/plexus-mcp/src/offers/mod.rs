//! What servers offer beside their tools: resources and prompts.
//!
//! | module | what is in it |
//! |---|---|
//! | `offer` | what one server offers, as it listed it last |
//! | `uris`, `template` | which server a URI is of |
//! | `names` | what prompts are called here |
//! | `visible` | all of it, as one caller sees it |
//! | `provider` | the interface to the servers, which the MCP endpoint is given |
//! | `mailbox` | resources that have changed, kept for one reader |

mod mailbox;
mod names;
mod offer;
mod provider;
mod template;
mod uris;
mod visible;

pub use mailbox::Mailbox;
pub use offer::{Entry, Lists, Offer, Resources};
pub use provider::{CompletionError, OfferProvider, ResourceWatch};
pub(crate) use uris::server_uri;
pub use visible::VisibleOffers;
