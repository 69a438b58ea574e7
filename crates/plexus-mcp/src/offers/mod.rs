//! Resources and prompts of servers.
//!
//! | module | content |
//! |---|---|
//! | `offer` | the resources and prompts of one server, as last listed |
//! | `uris`, `template` | the server that a URI belongs to |
//! | `names` | the names under which prompts are listed |
//! | `visible` | the resources and prompts of all servers, as one caller sees them |
//! | `provider` | the MCP endpoint's interface to the servers |
//! | `mailbox` | changed resources, collected for one reader |

mod mailbox;
mod names;
mod offer;
mod provider;
mod template;
mod uris;
mod visible;

pub use mailbox::Mailbox;
pub use offer::{Entry, OfferLists, Resources, ServerOffer};
pub use provider::{CompletionError, OfferProvider, ResourceWatch};
pub(crate) use uris::server_uri;
pub use visible::VisibleOffers;
