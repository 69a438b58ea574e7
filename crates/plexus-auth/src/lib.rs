//! Who may do what.
//!
//! - A [`Principal`] can only be made here, from a token that was verified.
//! - A token mints a subset of itself: scopes, kind, lifetime and name.
//! - Checking a token that was seen before touches neither the database nor the signature.

mod anchor;
mod authenticator;
mod error;
mod keys;
mod principal;
mod scope;
mod welcome;

pub use anchor::AuditAnchor;
pub use authenticator::Authenticator;
pub use error::AuthError;
pub use keys::SigningKey;
pub use principal::Principal;
pub use scope::{InvalidScope, Scope, ScopeSet};
pub use welcome::Welcome;
