//! A connection to one MCP server, whatever its transport and era.

use std::sync::Arc;

use plexus_kit::TraceContext;
use plexus_proto::api::UpstreamEra;
use plexus_tools::{ForeignOutput, ProgressSink};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// What a server said of itself when it was first talked to.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    pub era: UpstreamEra,
    /// Revision that was agreed on.
    pub revision: String,
    pub name: String,
    pub version: String,
    pub instructions: Option<String>,
    pub capabilities: Map<String, Value>,
}

/// A call on its way to a server.
pub struct Outgoing {
    /// The server's own name of the tool.
    pub tool: String,
    /// An object.
    pub arguments: Value,
    /// Where progress goes, if the caller wants any.
    pub progress: Option<ProgressSink>,
    /// The caller no longer wants the result, or its time is up.
    pub cancel: CancellationToken,
    pub trace: Option<TraceContext>,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// Why a server gave no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// It could not be reached: the request did not get there, and can be sent again.
    #[error("{0}")]
    Unreachable(String),
    /// It was lost after the request was sent: nobody knows whether it was carried out.
    #[error("{0}")]
    Lost(String),
    /// It answered with an error of the protocol.
    #[error("{message} ({code})")]
    Rpc { code: i64, message: String, data: Option<Value> },
    /// What it sent cannot be understood, is too long, or asks for what the hub does not do.
    #[error("{0}")]
    Protocol(String),
    #[error("the call was cancelled")]
    Cancelled,
}

/// Tools as a server lists them: each an object with at least a `name`.
pub type Definitions = Vec<Map<String, Value>>;

/// Result of one call.
pub type Called = Result<ForeignOutput, ClientError>;

/// Told about what a server does without being asked.
pub trait Listener: Send + Sync + 'static {
    /// The list of tools is no longer what it was. Called at any rate a server likes: must be cheap.
    fn tools_changed(&self);
}

/// Shared by all that is done with one connection.
pub type SharedListener = Arc<dyn Listener>;
