//! Shared test utilities: hubs with their own folders, and clients that send exactly what a test specifies.
//!
//! Only tests depend on this crate, so it panics like a test.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on should fail")]

mod agent;
pub mod asked;
mod collector;
pub mod conformance;
mod events;
pub mod faults;
pub mod fixture;
mod forge;
pub mod fuzz;
mod hub;
mod lane;
mod link;
mod loopback;
mod mcp;
pub mod model;
pub mod oauth;
mod pinned;
mod poll;
pub mod postgres;
mod process;
mod proxy;
mod raw;
mod sse;
mod upstreams;
mod wall_clock;

pub use agent::{Agent, AgentHome};
pub use asked::{AskedClient, News, Reply, RequestError, Speaks};
pub use collector::{Collector, Exported};
pub use events::{EventReader, EventRequest, Received};
pub use forge::forge;
pub use hub::{TestHub, http_client};
pub use lane::{Done, Door, Lane, NoAnswer};
pub use link::Link;
pub use loopback::on_loopback;
pub use mcp::{Answer, McpClient, modern_meta};
pub use pinned::{Pinned, Script, sdk_script};
pub use poll::{eventually, eventually_within, until};
pub use process::{HubProcess, Plexus, Ran, send};
pub use proxy::{PipeClient, TestProxy, proxy_timing};
pub use raw::{RawAnswer, RawConnection};
pub use rustix::process::Signal;
pub use sse::{SseEvent, SseStream};
pub use upstreams::stdio_fixture;
pub use wall_clock::WallClock;
