//! Servers that want a login, and those who give it.
//!
//! | module | what is in it |
//! |---|---|
//! | `authority` | an authorization server of others, with its own login form |
//! | `scripted` | one that does what no good one does, and what must not be waited for |
//! | `protected` | the fixture server behind a door that wants a token |
//! | `browser` | what a person does in a browser |

mod authority;
mod browser;
mod protected;
mod scripted;

pub use authority::Authority;
pub use browser::Browser;
pub use protected::{Door, Protected};
pub use scripted::{ScriptedAuthority, Wrong};
