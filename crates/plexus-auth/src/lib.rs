//! Authentication and authorization.
//!
//! - A [`Principal`] can only be created here, from a verified token.
//! - A minted token is a subset of its creator in scopes, kind, lifetime and name.
//! - Checking a known token accesses neither the database nor the signature.
//! - A [profile](profiles) narrows what a token sees, and never widens it.
//! - A token ends with its expiry, its revocation or the end of the key that signed it, whichever comes
//!   first; each is checked on every use.

mod anchor;
mod attempts;
mod authenticator;
mod error;
mod key_ring;
mod keys;
mod last_verification;
mod policy;

mod principal;
pub mod profiles;
mod scope;
mod sealing_key;
mod stream_permit;
mod usage;

pub use anchor::AuditAnchor;
pub use attempts::FailedAttempts;
pub use authenticator::{Authenticator, Invited};
pub use error::AuthError;
pub use key_ring::KeyRing;
pub use last_verification::LastVerification;
pub use principal::Principal;
pub use scope::{InvalidScope, Scope, ScopeSet};
pub use sealing_key::{SEALING_KEY, SealingKey};

pub use stream_permit::StreamPermit;
