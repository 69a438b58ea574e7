//! An HTTP client for servers that somebody named: the hub that a proxy stands in front of, a server behind the hub, or
//! any URL that a tool is given.
//!
//! | module | what is in it |
//! |---|---|
//! | `line` | requests to one server and their answers |
//! | `endpoint` | an address that requests are sent to, and redirects from it |
//! | `connection`, `idle` | one HTTP/1.1 connection, and those that are kept while nobody uses them |
//! | `network` | name lookup, rules for addresses, TLS |
//! | `events` | server-sent events, parsed as they arrive |
//! | `fetch` | single files, fetched for callers who name the URL |

mod connection;
mod endpoint;
mod events;
mod fetch;
mod idle;
mod line;
mod network;

pub use endpoint::Endpoint;
pub use events::{Event, Events, TooLong};
pub use fetch::{FetchError, Fetcher};
pub use line::{Line, Media, Reply};
pub use network::{Network, names_loopback, shown};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The server could not be reached: the request did not get there, and can be sent again.
    #[error("{0}")]
    Unreachable(String),
    /// It was lost after the request was sent: nobody knows whether it was carried out.
    #[error("{0}")]
    Lost(String),
    /// What it answered cannot be understood, is too long, or leads to where nothing is sent.
    #[error("{0}")]
    Protocol(String),
}
