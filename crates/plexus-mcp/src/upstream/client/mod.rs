//! A connection to one MCP server, whatever its transport and era.
//!
//! | module | what is in it |
//! |---|---|
//! | `message` | messages as bytes: built, and taken apart |
//! | `answer` | what the results of a server say |
//! | `bridge` | what passes between a server and the client that it is asked for |
//! | `asked` | what a server asks, and whose question that is |
//! | `following` | which resources are listened for (`subscriptions`, `selection`), and how much of a log is wanted (`verbosity`) |
//! | `pipe` | requests and answers that share one channel in each direction |
//! | `connection` | MCP over a pipe: the handshake of either era, and the methods |
//! | `detail` | what a message says to those who run the hub, and to nobody else |
//! | `chatter` | what a server sends that is no message |
//! | `stdio` | a pipe to a process |
//! | `process` | starts and ends it; `guardian` does when the hub cannot, `stderr` keeps what it complains about |
//! | `net` | the way to a server on the network, and which addresses are refused |
//! | `http` | Streamable HTTP |
//! | `sse` | a pipe over the HTTP transport of 2024-11-05 |

mod answer;
mod asked;
mod bridge;
mod chatter;
mod connection;
mod detail;
mod following;
mod http;
mod message;
mod net;
mod pipe;
mod process;
mod selection;
mod sse;
mod stderr;
mod stdio;
mod subscriptions;
mod verbosity;

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

pub(in crate::upstream) use answer::{TaskState, called, task_state};
pub use bridge::{Answerer, Bridge, Inputs, Listed, Method, News, Offers, Replied, Request, Returned};
pub use chatter::Chatter;
pub use detail::for_callers;
pub(crate) use http::events::Events;
pub use http::fetch::{FetchError, Fetcher};
pub(crate) use http::line::{Line, Media, Reply};
pub(crate) use http::place::Place;
pub use http::session::header_text;
pub(in crate::upstream) use net::{names_loopback, shown};
pub(in crate::upstream) use stderr::Mark;
pub use stderr::StderrRing;
use stderr::Withheld;

/// What the hub allows every connection.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// For a server to start and say who it is, and for it to list its tools or answer a ping.
    pub connect_timeout: Duration,
    /// Bytes of one message; a server that sends a longer one is cut off.
    pub max_message: usize,
    /// Addresses of private networks are fine, whatever a server's file says.
    pub allow_private: bool,
}

impl Default for ClientSettings {
    fn default() -> Self {
        // A package runner may have to download the server first.
        Self { connect_timeout: Duration::from_secs(60), max_message: 16 << 20, allow_private: false }
    }
}

/// What it takes to connect to a server.
#[derive(Clone)]
pub struct Connect {
    pub config: Arc<ServerConfig>,
    /// A process gets a little of it.
    pub environment: Environment,
    /// What an earlier connection found out; tried first.
    pub known_era: Option<UpstreamEra>,
    pub listener: SharedListener,
    pub supervisor: Supervisor,
    /// Where the standard error of a process goes.
    pub stderr: Arc<StderrRing>,
    /// Where it is kept what the server sends that is no message.
    pub chatter: Arc<Chatter>,
    pub settings: ClientSettings,
    /// What can be asked in a session.
    pub capabilities: Capabilities,
    /// Who the hub is logged in as there.
    pub account: Option<Arc<Account>>,
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("server", &self.config.name).finish_non_exhaustive()
    }
}

/// A server that has said who it is. Cheap to clone; the connection ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Client(Wire);

#[derive(Debug, Clone)]
enum Wire {
    /// Standard input and output of a process, or an event stream and an address to post to.
    Pipe(Connection),
    Http(HttpClient),
}

impl Client {
    /// Starts or dials the server, finds out its era and agrees on a revision.
    pub async fn connect(connect: Connect) -> Result<Self, ClientError> {
        let (patience, begun) = (connect.settings.connect_timeout, connect.stderr.mark());
        connect.chatter.begin(match &connect.config.transport {
            Transport::Stdio(command) => Withheld::of(&command.env),
            Transport::Sse(_) | Transport::StreamableHttp(_) => Withheld::default(),
        });
        match tokio::time::timeout(patience, Box::pin(Self::dial(&connect))).await {
            Ok(connected) => connected,
            Err(_) => {
                let waited = format!("the server did not say who it is within {} s", patience.as_secs());
                let told = connect.chatter.explain(waited);
                Err(ClientError::Unreachable(connect.stderr.explain(told, begun)))
            }
        }
    }

    async fn dial(connect: &Connect) -> Result<Self, ClientError> {
        // Each way is long, and would lie on the stack of everyone who connects.
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
            // What the older transport has to say of a server that has neither helps nobody.
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

    /// All tools, however many pages they come in; a server with far too many is refused.
    pub async fn list_tools(&self) -> Result<Definitions, ClientError> {
        self.list_all(Listed::Tools).await
    }

    /// Has no time limit of its own: whoever calls cancels. Dropping the future cancels too.
    pub async fn call(&self, call: Outgoing) -> Called {
        self.turn_up(&call.bridge).await;
        match &self.0 {
            Wire::Pipe(connection) => connection.call(call).await,
            Wire::Http(client) => client.call(call).await,
        }
    }

    /// Anything but a call of a tool. Without a `cancel` it is given as long as a connection is.
    pub async fn request(&self, request: Request) -> Result<Replied, ClientError> {
        self.turn_up(&request.bridge).await;
        match &self.0 {
            Wire::Pipe(connection) => connection.request(request).await,
            Wire::Http(client) => client.request(request).await,
        }
    }

    /// Somebody whom the server works for between requests, or in one that has no bridge: what it says in between may be
    /// meant for them, until this is dropped.
    pub(in crate::upstream) fn present(&self, bridge: Bridge) -> Present {
        match &self.0 {
            Wire::Pipe(connection) => Present(Presence::Pipe(connection.present(bridge))),
            Wire::Http(client) => Present(Presence::Http(client.present(bridge))),
        }
    }

    /// All that a server has of a kind, however many pages it comes in.
    pub async fn list_all(&self, what: Listed) -> Result<Definitions, ClientError> {
        match &self.0 {
            Wire::Pipe(connection) => connection.list(what).await,
            Wire::Http(client) => client.list(what).await,
        }
    }

    /// Whether the server answers. In the stateless era there is nothing to ask, and the answer is yes.
    pub async fn ping(&self) -> Result<(), ClientError> {
        match &self.0 {
            Wire::Pipe(connection) => connection.ping().await,
            Wire::Http(client) => client.ping().await,
        }
    }

    /// Why the connection is gone for good, once it is.
    pub async fn closed(&self) -> String {
        match &self.0 {
            Wire::Pipe(connection) => connection.closed().await,
            Wire::Http(client) => client.closed().await,
        }
    }

    /// Whether the connection is gone for good: nothing can be sent any more.
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

    /// Ends the connection in order; a process, and all that it started, is dead when this returns.
    pub async fn close(&self) {
        match &self.0 {
            Wire::Pipe(connection) => connection.close().await,
            Wire::Http(client) => client.close().await,
        }
    }

    /// The process of a stdio server.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.0 {
            Wire::Pipe(connection) => connection.pid(),
            Wire::Http(_) => None,
        }
    }
}

/// Keeps somebody among those whom a server may mean.
#[must_use]
pub(in crate::upstream) struct Present(Presence);

enum Presence {
    Pipe(pipe::Present),
    Http(http::Present),
}

impl Present {
    /// Nobody waits any more, and the server may go on: what it says later may still be about it.
    pub(in crate::upstream) fn depart(mut self) {
        match &mut self.0 {
            Presence::Pipe(present) => present.goes_on = true,
            Presence::Http(present) => present.goes_on = true,
        }
    }
}

/// What a server said of itself when it was first talked to, cut where it said too much.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    pub era: UpstreamEra,
    /// Revision that was agreed on.
    pub revision: String,
    pub name: String,
    pub version: String,
    pub instructions: Option<String>,
    pub offers: Offers,
}

/// A call on its way to a server.
pub struct Outgoing {
    /// The server's own name of the tool.
    pub tool: String,
    /// An object, which its caller may have to send twice.
    pub arguments: Arc<Value>,
    /// Where progress goes, if the caller wants any.
    pub progress: Option<ProgressSink>,
    /// The caller no longer wants the result, or its time is up.
    pub cancel: CancellationToken,
    pub trace: Option<TraceContext>,
    /// Whoever it is for.
    pub bridge: Bridge,
    /// What it brings along that the server asked for.
    pub inputs: Inputs,
    /// In a session: it can be called as a task only, as the experiment of 2025-11-25 has it.
    pub as_task: bool,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// Why a server gave no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// It could not be reached: the request did not get there, and can be sent again.
    #[error("{0}")]
    Unreachable(String),
    /// It is there and takes no more now: nothing was run, and the request can be sent again later.
    #[error("{0}")]
    Busy(String),
    /// It wants to know who the hub is, and that takes a person: nothing was run.
    #[error("{0}")]
    NeedsLogin(String),
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

/// What a server lists: each an object with at least a `name`, or a `uri`, or what else tells it from the others.
pub type Definitions = Vec<Map<String, Value>>;

/// Result of one call.
pub type Called = Result<Returned, ClientError>;

/// Told about what a server does without being asked.
pub trait Listener: Send + Sync + 'static {
    /// Something is no longer what it was. Called at any rate a server likes: must be cheap.
    fn heard(&self, news: News);

    /// The server has begun to send what is no message; told once for a connection.
    fn chatter_began(&self) {}

    /// The server asked something that the client of a request cannot be asked; it has the number of its bridge.
    fn could_not_ask(&self, _request: u64, _lacking: Capabilities) {}

    /// The server asked something while several callers had calls there, and was refused; told once for a connection.
    fn questions_refused(&self) {}
}

/// Shared by all that is done with one connection.
pub type SharedListener = Arc<dyn Listener>;
