//! A scripted model in the streaming formats of OpenAI and Anthropic.
//!
//! ```no_run
//! # async fn example() {
//! use plexus_testkit::model::{Script, ScriptedModel, Tool, Turn};
//! use serde_json::json;
//!
//! let script = Script::new()
//!     .turn(Turn::call(Tool::ending("todo"), json!({ "action": "add", "text": "milk" })))
//!     .turn(Turn::call(Tool::ending("todo"), json!({ "action": "list" })).paused_at("between"))
//!     .turn(Turn::text("done"));
//! let model = ScriptedModel::start(script).await;
//! // … start a client with `model.url()` (Anthropic) or `model.openai_url()` …
//! model.wait_until_reached("between").await; // the client asks for the second turn
//! model.release("between");
//! // … wait for the client to end …
//! model.assert_played();
//! let last = model.request_for(2);
//! let texts: Vec<&str> = last.results().map(|result| result.text.as_str()).collect(); // by both calls
//! # }
//! ```
//!
//! Limits: 16 MiB per body, 500 recorded requests, and one minute for a client to wait at a point that is not
//! released, after which it gets an error.

mod chat;
mod messages;
mod reply;
mod request;
mod responses;
mod script;
mod script_state;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use request::{
    AnswerSource, MadeCall, Message, ModelRequest, OfferedTool, ParsedRequest, ToolResult, Wire,
};
pub use script::{Fault, Script, Tool, Turn, Usage};

use script_state::{Record, ScriptState};

/// Time limit for a client to start, connect to its MCP servers and make a request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Listens on loopback until it is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    state: Arc<ScriptState>,
    _server: JoinSet<()>,
}

impl ScriptedModel {
    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(ScriptState::new(script));
        let mut server = JoinSet::new();
        server.spawn(server::serve(listener, state.clone()));
        Self { address, state, _server: server }
    }

    /// Base URL for Anthropic clients, which append `/v1` themselves.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Base URL for OpenAI clients.
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// All readable requests so far, including those that are not part of the script.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.state.record.borrow().requests.clone()
    }

    /// The request that was answered with this turn, counted from 0; the newest one if it was repeated.
    pub fn request_for(&self, turn: usize) -> ModelRequest {
        let record = self.state.record.borrow();
        let found =
            record.requests.iter().rev().find(|request| request.answer_source == AnswerSource::Turn(turn));
        found
            .cloned()
            .unwrap_or_else(|| panic!("turn {turn} was not asked for; {}", describe_requests(&record)))
    }

    /// Returns when a client waits at this point.
    pub async fn wait_until_reached(&self, point: &str) {
        self.check(point);
        let mut record = self.state.record.subscribe();
        let reached = record.wait_for(|record| record.reached.contains(point));
        let in_time = tokio::time::timeout(TIMEOUT, reached).await.is_ok();
        assert!(in_time, "no client came to `{point}`; {}", describe_requests(&self.state.record.borrow()));
    }

    /// Lets all clients pass this point, now and later.
    pub fn release(&self, point: &str) {
        self.check(point);
        self.state.record.send_modify(|record| {
            record.released.insert(point.to_owned());
        });
    }

    fn check(&self, point: &str) {
        let mut points = self.state.script().turns.iter().filter_map(|turn| turn.pause.as_deref());
        assert!(points.any(|existing| existing == point), "the script has no point `{point}`");
    }

    /// Asserts that every turn was played, and that every request was readable and matched the script.
    pub fn assert_played(&self) {
        let record = self.state.record.borrow();
        assert!(record.malformed.is_empty(), "could not be read: {:#?}", record.malformed);
        let mismatch =
            record.requests.iter().any(|request| matches!(request.answer_source, AnswerSource::Mismatch(_)));
        let played =
            |turn| record.requests.iter().any(|request| request.answer_source == AnswerSource::Turn(turn));
        let all = (0..self.state.script().len()).all(played);
        assert!(all && !mismatch, "not played as written; {}", describe_requests(&record));
    }
}

/// The recorded requests, for the message of a failed test.
fn describe_requests(record: &Record) -> String {
    let lines: Vec<String> = record
        .requests
        .iter()
        .map(|request| {
            let (wire, played) = (request.wire, &request.answer_source);
            let results: Vec<&str> = request.results().map(|result| result.text.as_str()).collect();
            format!("  {wire:?} {played:?}, offered {:?}, results {results:?}", request.tools())
        })
        .collect();
    format!("{} requests:\n{}\nnot readable: {:?}", lines.len(), lines.join("\n"), record.malformed)
}
