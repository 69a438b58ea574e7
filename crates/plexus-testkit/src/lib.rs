//! Shared test utilities: hubs with their own folders, and clients that send exactly what a test specifies.
//!
//! Only tests depend on this crate, so it panics like a test.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on should fail")]

mod agent;
mod collector;
pub mod conformance;
mod events;
pub mod faults;
mod faulty_link;
pub mod fixture;
pub mod fuzz;
mod hub;
pub mod interactive_client;
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
mod session_writer;
mod sse;
mod token_forgery;
mod upstreams;
mod wall_clock;

pub use agent::{Agent, AgentHome};
pub use collector::{Collector, ExportedSpan};
pub use events::{EventReader, EventRequest, ReceivedMessage};
pub use faulty_link::FaultyLink;
pub use hub::{TestHub, http_client};
pub use interactive_client::{
    ClientRevision, InteractiveClient, NotificationStream, QuestionReply, RequestError,
};
pub use loopback::on_loopback;
pub use mcp::{Answer, McpClient, modern_meta};
pub use pinned::{Pinned, Script, sdk_script};
pub use poll::{eventually, eventually_within, until};
pub use process::{HubProcess, Plexus, ProgramOutput, send};
pub use proxy::{StdioClient, TestProxy, proxy_timing};
pub use raw::{RawAnswer, RawConnection};
pub use rustix::process::Signal;
pub use session_writer::{CompletedCall, NoAnswer, SessionWriter, WriterProtocol};
pub use sse::{SseEvent, SseFields, SseStream, messages_of};
pub use token_forgery::forge_token;
pub use upstreams::stdio_fixture;
pub use wall_clock::WallClock;
