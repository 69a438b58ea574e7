//! The database layer: the only crate that contains SQL.
//!
//! - SQL is shared by all databases (`$1` placeholders); differences are in [`dialect`].
//! - Every write goes through one group-commit [`Writer`]; readers use a pool that cannot write.
//! - A write is acknowledged after its commit. Records alone are acknowledged once they are in the
//!   [`journal`], and readers of the related data see them.
//! - The [`outbox`] of a proxy is a separate file.
//! - One file per entity contains its statements and the mapping of its rows, as methods of [`Conn`].

mod append;
pub mod archive;
mod audit;
mod audit_chain;
mod audit_verify;
mod conn;
mod database_note;
mod dialect;
mod error;
mod event_stream;
mod events;
mod held_calls;
mod idempotency;
mod journal;
mod mcp_sessions;
mod mcp_tasks;
mod metrics;
mod node_calls;
mod node_certificates;
mod node_invites;
mod nodes;
pub mod outbox;
mod retention;
mod scratchpad;
mod session_stats;
mod sessions;
mod snapshot;
mod store;
mod store_id;
mod todos;
mod tokens;
mod upstream_credentials;
mod upstream_pins;
mod witness;
mod writer;

pub use append::{AppendError, Appended};
pub use audit::{AuditFilter, NewAudit};
pub use conn::Conn;
pub use database_note::{DatabaseLocation, DatabaseNote};
pub use error::StoreError;
pub use event_stream::StoredEvent;
pub use held_calls::HeldCall;
pub use idempotency::IdempotencyRecord;
pub use journal::JournalCopy;
pub use mcp_sessions::McpSessionRecord;
pub use mcp_tasks::{TaskEnd, TaskRecord, TaskStatus};
pub use node_calls::{NodeCallRecord, NodeCallState};
pub use node_invites::NodeInvite;
pub use nodes::{Enrolment, NodeRecord};
pub use scratchpad::SectionInfo;
pub use sessions::SessionFilter;
pub use snapshot::{DatabaseInfo, Snapshot};
pub use store::{Reader, Store, StoreOptions};
pub use todos::{TodoRecord, TodoStatus};
pub use upstream_pins::{PinRecord, PinState};
pub use witness::{NoWitness, Witness};
pub use writer::{Records, Ticket};
