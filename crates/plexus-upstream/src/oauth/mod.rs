//! Access to a server that wants to know who the hub is: OAuth 2.1, as MCP has it.
//!
//! | module | what is in it |
//! |---|---|
//! | `challenge` | what a server says when it refuses a request |
//! | `http` | requests to servers and authorization servers: bounded, and by the rules of all connections |
//! | `discovery` | who gives access to a server, and how |
//! | `client` | as whom the hub asks for it |
//! | `redaction` | what is told to an authorization server and must not come back in an error |
//! | `token` | what is asked of an authorization server, and what its answers mean |
//! | `login` | a person gives access: begun here, decided in a browser, ended here |
//! | `grant` | access that was given |
//! | `vault` | access, sealed in the database |
//! | `account` | the access that the hub has to one server, kept good while it is used |
//!
//! What always holds:
//! - A token goes to the server that it was given for, at the address that the file had then, and to nobody else; also not
//!   over a connection that was made by another file.
//! - A secret of the file goes to the authorization server that the file names, and not to one that a server names.
//! - A refresh token is given up only when its authorization server says that it is no longer good, or a person does.
//!   Whatever else goes wrong is tried again.
//! - A new refresh token is in the database before what came with it is used.
//! - Nothing of it is in a log, an error, the audit or a `Debug`.

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
pub(crate) use account::Surroundings;
pub(crate) use account::{AtHand, Pass};
pub(crate) use challenge::Challenge;
pub use error::LoginError;
pub(crate) use login::Logins;
pub use vault::Vault;

/// What another machine says of itself in an error, as far as it is repeated: one line, and not a long one.
fn quoted(text: &str) -> String {
    const MOST: usize = 200;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = text.chars().take(MOST).map(plain).collect();
    if text.chars().nth(MOST).is_some() { format!("{shown}…") } else { shown }
}
