//! Authorization servers and protected servers.
//!
//! | module | content |
//! |---|---|
//! | `authority` | a third-party authorization server with a login form |
//! | `scripted` | an authorization server with scripted faults and delays |
//! | `protected` | the fixture server behind token authentication |
//! | `browser` | a person's browser |

mod authority;
mod browser;
mod protected;
mod scripted;

pub use authority::Authority;
pub use browser::Browser;
pub use protected::{ProtectedServer, TokenValidation};
pub use scripted::{AuthorityFault, ScriptedAuthority};
