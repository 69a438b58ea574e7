//! An HTTP client with address rules, for the hub of a proxy, the servers behind a hub, and URLs passed to a tool.
//!
//! | module | content |
//! |---|---|
//! | `client` | requests to one server and their answers |
//! | `endpoint` | an address that requests are sent to, and redirects from it |
//! | `connection`, `idle` | one HTTP/1.1 connection, and the pool of idle ones |
//! | `network` | name lookup, address rules, TLS |
//! | `events` | incremental parser for server-sent events |
//! | `fetch` | single files from URLs that callers choose |

mod client;
mod connection;
mod endpoint;
mod events;
mod fetch;
mod idle;
mod network;

pub use client::{HttpClient, Media, Reply};
pub use endpoint::Endpoint;
pub use events::{EventTooLong, SseEvent, SseParser};
pub use fetch::{FetchError, Fetcher};
pub use network::{Network, names_loopback, origin_of};

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The server could not be reached. It did not receive the request, which can be sent again.
    #[error("{0}")]
    Unreachable(String),
    /// The connection was lost after the request was sent: the outcome is unknown.
    #[error("{0}")]
    Lost(String),
    /// The answer is invalid, too long, or a redirect that is not followed.
    #[error("{0}")]
    Protocol(String),
}
