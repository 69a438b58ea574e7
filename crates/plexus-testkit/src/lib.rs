//! What the tests of Plexus share: a hub of their own, and a client that says exactly what it is told.
//!
//! Only tests depend on this crate, so it panics where a test would.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on should fail"
)]

mod hub;
mod mcp;
mod sse;

pub use hub::TestHub;
pub use mcp::{Answer, McpClient, modern_meta};
pub use sse::{SseEvent, SseStream};
