//! UUIDv7 newtypes, so that a call id cannot be passed where a session id is expected.
//!
//! Version 7 sorts by time of creation, which keeps index inserts at the end of the tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidId {
    pub kind: &'static str,
    pub text: String,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a {} (a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057)",
            self.text, self.kind
        )
    }
}

impl std::error::Error for InvalidId {}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident => $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Creates a new id; ids created later sort later.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "an id is never a default value")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// For formats that store the id as bytes.
            #[must_use]
            pub fn into_bytes(self) -> [u8; 16] {
                self.0.into_bytes()
            }

            #[must_use]
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Uuid::try_parse(text).map(Self).map_err(|_| InvalidId { kind: $kind, text: text.chars().take(64).collect() })
            }
        }
    )*};
}

ids! {
    /// One dispatched tool call; audit entries, events and responses carry the same id.
    CallId => "call id";
    /// One machine that runs tools.
    NodeId => "node id";
    /// One session: an append-only log of what an agent did.
    SessionId => "session id";
    /// One issued token (`jti`).
    TokenId => "token id";
}
