//! Access to servers that authenticate their clients: OAuth 2.1, as specified by MCP.
//!
//! | module | content |
//! | --- | --- |
//! | `challenge` | the challenge with which a server rejects a request |
//! | `http` | bounded requests to servers and authorization servers, under the rules of all connections |
//! | `discovery` | the authorization server of a server, and its endpoints |
//! | `client` | the hub's client identity |
//! | `redaction` | removes secrets that were sent to an authorization server from its errors |
//! | `token` | requests to token endpoints and the meaning of their answers |
//! | `login` | logins in progress: started here, decided in a browser, completed here |
//! | `grant` | granted access |
//! | `vault` | grants, sealed in the database |
//! | `account` | the hub's access to one server, renewed while it is used |
//!
//! Invariants:
//! - A token is sent only to the server that it was granted for, at the URL that the file had at that time,
//!   and never over a connection that was made from a different version of the file.
//! - A secret in the file is sent only to the authorization server that the file names, never to one that a
//!   server names.
//! - A refresh token is discarded only when its authorization server reports it as invalid, or when a person
//!   logs out. Every other failure is retried.
//! - A new refresh token is in the database before the tokens that came with it are used.
//! - No log, error, audit entry or `Debug` output contains any of it.

mod account;
mod challenge;
mod client;
mod discovery;
mod error;
mod grant;
mod http;
mod login;
mod redaction;
mod terms;
mod token;
mod vault;

pub use account::Account;
pub(crate) use account::AccountContext;
pub(crate) use account::{AccountAccess, BearerStatus};
pub(crate) use challenge::Challenge;
pub use error::LoginError;
pub(crate) use login::Logins;
pub use vault::Vault;

/// A text of another machine as it is repeated in an error: one line of limited length.
fn quoted(text: &str) -> String {
    const MAX_QUOTED: usize = 200;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = text.chars().take(MAX_QUOTED).map(plain).collect();
    if text.chars().nth(MAX_QUOTED).is_some() { format!("{shown}…") } else { shown }
}
