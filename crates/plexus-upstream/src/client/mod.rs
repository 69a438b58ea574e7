//! A connection to one MCP server, for every transport and era.
//!
//! | module | content |
//! | --- | --- |
//! | `message` | building and parsing messages |
//! | `answer` | parsing the results of a server |
//! | `bridge` | the exchange between a server and the client that it is called for |
//! | `server_questions` | questions of a server, and the caller that they concern |
//! | `following` | subscribed resources (`subscriptions`, `selection`) and log levels |
//! | `pipe` | requests and answers that share one channel in each direction |
//! | `connection` | MCP over a pipe: the handshakes of both eras, and the methods |
//! | `detail` | details in error messages that only administrators may see |
//! | `install` | how to install a program that is missing |
//! | `chatter` | output of a server that is not an MCP message |
//! | `stdio` | a pipe to a process |
//! | `process` | starts and stops it; a `Guardian` does so if the hub cannot, `stderr` keeps its error output |
//! | `http` | Streamable HTTP |
//! | `sse` | a pipe over the HTTP transport of 2024-11-05 |

mod answer;
mod bridge;
mod chatter;
mod connection;
mod detail;
mod following;
mod http;
mod install;
mod message;
mod pipe;
mod process;
mod selection;
mod server_questions;
mod sse;
mod stderr;
mod stdio;
mod subscriptions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Environment, Supervisor, TraceContext};
use plexus_proto::api::UpstreamEra;
use plexus_tools::{Capabilities, ProgressSink};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::config::{HttpConfig, ServerConfig, Transport};
use super::oauth::Account;
use connection::Connection;
use http::{Dial, HttpClient};

pub(crate) use answer::{TaskState, parse_call_result, task_state};
pub use bridge::{
    Answerer, Bridge, CallResponse, Inputs, ListKind, Method, Offers, Request, RequestResponse, ServerChange,
};
pub use chatter::Chatter;
pub use detail::for_callers;
pub(crate) use http::authorized_http::AuthorizedHttp;
pub use install::advice as install_advice;
pub(crate) use stderr::Mark;
pub use stderr::StderrRing;
use stderr::Withheld;

/// Settings for all connections of the hub.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Time limit for a server to start and complete the handshake, and for it to list its tools or answer a
    /// ping.
    pub connect_timeout: Duration,
    /// Size limit of one message in bytes; a server that sends a longer one is disconnected.
    pub max_message: usize,
    /// Allows private network addresses for all servers.
    pub allow_private: bool,
}

impl Default for ClientSettings {
    fn default() -> Self {
        // A package runner may have to download the server first.
        Self { connect_timeout: Duration::from_secs(60), max_message: 16 << 20, allow_private: false }
    }
}

/// The parameters of a connection.
#[derive(Clone)]
pub struct Connect {
    pub config: Arc<ServerConfig>,
    /// Processes get a small part of it.
    pub environment: Environment,
    /// The era found by an earlier connection; tried first.
    pub known_era: Option<UpstreamEra>,
    pub listener: SharedListener,
    pub supervisor: Supervisor,
    /// Receives the standard error of a process.
    pub stderr: Arc<StderrRing>,
    /// Receives output that is not an MCP message.
    pub chatter: Arc<Chatter>,
    pub settings: ClientSettings,
    /// The capabilities to declare in a session.
    pub capabilities: Capabilities,
    /// The hub's login at the server.
    pub account: Option<Arc<Account>>,
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("server", &self.config.name).finish_non_exhaustive()
    }
}

/// A server that has completed the handshake. Cheap to clone; the connection ends when the last clone is
/// dropped.
#[derive(Debug, Clone)]
pub struct Client(Wire);

#[derive(Debug, Clone)]
enum Wire {
    /// Standard input and output of a process, or an event stream and an endpoint for messages.
    Pipe(Connection),
    Http(HttpClient),
}

impl Client {
    /// Starts or connects to the server, determines its era and performs the handshake.
    pub async fn connect(connect: Connect) -> Result<Self, ClientError> {
        let (patience, stderr_start) = (connect.settings.connect_timeout, connect.stderr.mark());
        connect.chatter.begin(match &connect.config.transport {
            Transport::Stdio(command) => Withheld::of(&command.env),
            Transport::Sse(_) | Transport::StreamableHttp(_) => Withheld::default(),
        });
        match tokio::time::timeout(patience, Box::pin(Self::dial(&connect))).await {
            Ok(connected) => connected,
            Err(_) => {
                let waited =
                    format!("the server did not complete the handshake within {} s", patience.as_secs());
                let message = connect.chatter.explain(waited);
                Err(ClientError::Unreachable(connect.stderr.explain(message, stderr_start)))
            }
        }
    }

    async fn dial(connect: &Connect) -> Result<Self, ClientError> {
        // Each transport's future is large and is boxed to keep callers' stacks small.
        match &connect.config.transport {
            Transport::Stdio(command) => {
                Box::pin(stdio::connect(connect, command)).await.map(|c| Self(Wire::Pipe(c)))
            }
            Transport::Sse(config) => Self::dial_sse(connect, config).await,
            Transport::StreamableHttp(config) => Self::dial_http(connect, config).await,
        }
    }

    async fn dial_http(connect: &Connect, config: &HttpConfig) -> Result<Self, ClientError> {
        let dial = Dial::new(connect, config);
        let dialled = Box::pin(HttpClient::connect(dial, connect.listener.clone(), connect.known_era));
        let failed = match dialled.await {
            Ok(client) => return Ok(Self(Wire::Http(client))),
            Err(failed) => failed,
        };
        if config.guessed && failed.may_be_older {
            // The error of the older transport is not helpful for a server that supports neither.
            return Self::dial_sse(connect, config).await.map_err(|_| failed.error);
        }
        Err(failed.error)
    }

    async fn dial_sse(connect: &Connect, config: &HttpConfig) -> Result<Self, ClientError> {
        let dialled = Box::pin(sse::connect(connect, Dial::new(connect, config)));
        dialled.await.map(|connection| Self(Wire::Pipe(connection)))
    }

    #[must_use]
    pub fn peer(&self) -> &Peer {
        match &self.0 {
            Wire::Pipe(connection) => connection.peer(),
            Wire::Http(client) => client.peer(),
        }
    }

    /// Lists all tools over all pages; a server with too many is rejected.
    pub async fn list_tools(&self) -> Result<Definitions, ClientError> {
        self.list_all(ListKind::Tools).await
    }

    /// Calls a tool. It has no time limit of its own: the caller cancels. Dropping the future cancels too.
    pub async fn call(&self, call: Outgoing) -> CallResult {
        self.raise_log_level(&call.bridge).await;
        match &self.0 {
            Wire::Pipe(connection) => connection.call(call).await,
            Wire::Http(client) => client.call(call).await,
        }
    }

    /// Sends any request other than a tool call. Without `cancel` it is bounded by the connect timeout.
    pub async fn request(&self, request: Request) -> Result<RequestResponse, ClientError> {
        self.raise_log_level(&request.bridge).await;
        match &self.0 {
            Wire::Pipe(connection) => connection.request(request).await,
            Wire::Http(client) => client.request(request).await,
        }
    }

    /// Registers a caller for whom the server works between requests, so that messages of the server may
    /// concern it until the returned value is dropped.
    pub(crate) fn present(&self, bridge: Bridge) -> PresentCaller {
        match &self.0 {
            Wire::Pipe(connection) => PresentCaller(Presence::Pipe(connection.present(bridge))),
            Wire::Http(client) => PresentCaller(Presence::Http(client.present(bridge))),
        }
    }

    /// Lists all entries of a kind over all pages.
    pub async fn list_all(&self, list_kind: ListKind) -> Result<Definitions, ClientError> {
        match &self.0 {
            Wire::Pipe(connection) => connection.list(list_kind).await,
            Wire::Http(client) => client.list(list_kind).await,
        }
    }

    /// Checks that the server answers. In the stateless era there is no ping, and this always succeeds.
    pub async fn ping(&self) -> Result<(), ClientError> {
        match &self.0 {
            Wire::Pipe(connection) => connection.ping().await,
            Wire::Http(client) => client.ping().await,
        }
    }

    /// Resolves with the reason when the connection has permanently ended.
    pub async fn closed(&self) -> String {
        match &self.0 {
            Wire::Pipe(connection) => connection.closed().await,
            Wire::Http(client) => client.closed().await,
        }
    }

    /// Whether the connection has permanently ended, so that nothing can be sent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            Wire::Pipe(connection) => connection.has_ended(),
            Wire::Http(client) => client.has_ended(),
        }
    }

    /// Whether all requests share one connection, and are lost with it.
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        matches!(self.0, Wire::Pipe(_))
    }

    /// Closes the connection cleanly; when this returns, the process and all its children are dead.
    pub async fn close(&self) {
        match &self.0 {
            Wire::Pipe(connection) => connection.close().await,
            Wire::Http(client) => client.close().await,
        }
    }

    /// The process id of a stdio server.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.0 {
            Wire::Pipe(connection) => connection.pid(),
            Wire::Http(_) => None,
        }
    }
}

/// Keeps a caller registered as one that messages of a server may concern.
#[must_use]
pub(crate) struct PresentCaller(Presence);

enum Presence {
    Pipe(pipe::PresentCaller),
    Http(http::PresentCaller),
}

impl PresentCaller {
    /// Records that the caller no longer waits while the server may continue, so that later messages may
    /// still concern it.
    pub(crate) fn depart(mut self) {
        match &mut self.0 {
            Presence::Pipe(present) => present.continues = true,
            Presence::Http(present) => present.continues = true,
        }
    }
}

/// A server's description of itself at the handshake, truncated if too long.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    pub era: UpstreamEra,
    /// The negotiated revision.
    pub revision: String,
    pub name: String,
    pub version: String,
    pub instructions: Option<String>,
    pub offers: Offers,
}

/// A tool call to a server.
pub struct Outgoing {
    /// The server's own name of the tool.
    pub tool: String,
    /// An object; shared because the caller may have to send it twice.
    pub arguments: Arc<Value>,
    /// Receives progress, if the caller wants any.
    pub progress: Option<ProgressSink>,
    /// Cancelled when the caller no longer wants the result, or on timeout.
    pub cancel: CancellationToken,
    pub trace: Option<TraceContext>,
    /// The caller.
    pub bridge: Bridge,
    /// Answers and state that the server requested.
    pub inputs: Inputs,
    /// The tool can only be called as a task of a session, in the experimental form of 2025-11-25.
    pub as_task: bool,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// Why a server returned no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The server could not be reached: the request did not arrive and may be sent again.
    #[error("{0}")]
    Unreachable(String),
    /// The server is overloaded: nothing was run, and the request may be sent again later.
    #[error("{0}")]
    Busy(String),
    /// The server requires a login by a person: nothing was run.
    #[error("{0}")]
    NeedsLogin(String),
    /// The connection was lost after the request was sent: it is unknown whether the request was carried out.
    #[error("{0}")]
    Lost(String),
    /// The server returned a JSON-RPC error.
    #[error("{message} ({code})")]
    Rpc { code: i64, message: String, data: Option<Value> },
    /// The server's message is malformed, too long, or requires something that the hub does not support.
    #[error("{0}")]
    Protocol(String),
    #[error("the call was cancelled")]
    Cancelled,
}

/// The entries of a server's list, each with at least the member that identifies it, such as `name` or `uri`.
pub type Definitions = Vec<Map<String, Value>>;

/// The result of one call.
pub type CallResult = Result<CallResponse, ClientError>;

/// Receives notifications about a server.
pub trait Listener: Send + Sync + 'static {
    /// A list or resource has changed. Servers may call this at any rate, so it must be cheap.
    fn on_change(&self, change: ServerChange);

    /// The server has begun to send output that is not an MCP message; reported once per connection.
    fn on_chatter(&self) {}

    /// The server asked something that the client of a request does not support; `request` is the number of
    /// its bridge.
    fn on_missing_capability(&self, _request: u64, _lacking: Capabilities) {}

    /// A question was refused because several callers had calls there; reported once per connection.
    fn questions_refused(&self) {}
}

/// Shared by all parts of one connection.
pub type SharedListener = Arc<dyn Listener>;
