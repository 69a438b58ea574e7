//! The operations that are repeated, and the check of their answers.
//!
//! A fast wrong answer must not count. Each answer is checked: one that is byte for byte equal to a checked answer
//! is correct, any other is parsed and checked again.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::client::{Answer, Connection};
use crate::wire::{Endpoint, Era};

/// The text for the echo tool.
const WORDS: &str = "The quick brown fox jumps over the lazy dog.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// A call of the echo tool, which has another name behind some peers.
    Echo(&'static str),
    /// A native call that reads.
    TodoList,
    /// A native call that writes.
    TodoUpdate,
    /// A call without effects on a node.
    OnNode,
    /// The complete tool list, which must have at least this many tools.
    ListTools(usize),
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo(_) => "echo",
            Self::TodoList => "todo list",
            Self::TodoUpdate => "todo update",
            Self::OnNode => "on a node",
            Self::ListTools(_) => "tools/list",
        }
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::ListTools(_) => "tools/list",
            _ => "tools/call",
        }
    }

    pub(crate) fn params(self) -> Value {
        match self {
            Self::Echo(tool) => json!({ "name": tool, "arguments": { "text": WORDS } }),
            Self::TodoList => todo(json!({ "action": "list" })),
            Self::TodoUpdate => todo(json!({ "action": "update", "id": 1, "status": "done" })),
            Self::OnNode => json!({ "name": "terminal", "arguments": { "action": "list", "node": "nas" } }),
            Self::ListTools(_) => json!({}),
        }
    }

    /// Checks that the answer is correct.
    pub(crate) fn check(self, answer: &Value) -> Result<()> {
        let result = answer.get("result").context("no result")?;
        match self {
            Self::ListTools(_) => {
                let tools = result["tools"].as_array().context("no tools")?;
                ensure!(tools.iter().all(|tool| tool["inputSchema"].is_object()), "a tool without a schema");
            }
            Self::Echo(_) => ensure!(text(result)? == WORDS, "the echo differs from the text"),
            Self::OnNode => text(result).map(drop)?,
            Self::TodoList | Self::TodoUpdate => {
                ensure!(text(result)?.contains("bench"), "the answer does not contain the item")
            }
        }
        Ok(())
    }
}

fn todo(arguments: Value) -> Value {
    json!({ "name": "todo", "arguments": arguments })
}

/// The text of a successful tool result.
fn text(result: &Value) -> Result<&str> {
    ensure!(result["isError"] != true, "the tool failed");
    result["content"][0]["text"].as_str().context("no text")
}

/// One agent: a connection, its session if the era has one, and the requests of one operation.
#[derive(Debug)]
pub(crate) struct AgentConnection {
    connection: Connection,
    workload: Workload,
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    request: Vec<u8>,
    /// The last answer that passed the check.
    last_valid_answer: Vec<u8>,
}

impl AgentConnection {
    /// Connects, opens a session, and makes the first call.
    pub(crate) async fn open(endpoint: &Endpoint, era: Era, workload: Workload) -> Result<Self> {
        let mut connection = Connection::open(endpoint.address).await?;
        let session = match era {
            Era::Session => initialize(&mut connection, endpoint).await?,
            Era::Stateless => None,
        };
        let session = session.as_deref();
        if matches!(workload, Workload::TodoList | Workload::TodoUpdate) {
            ensure_item(&mut connection, endpoint, era, session).await?;
        }
        let mut agent = Self { connection, workload, pages: vec![] };
        agent.prepare_requests(endpoint, era, session).await?;
        Ok(agent)
    }

    /// Requests all pages once, and stores the requests.
    async fn prepare_requests(&mut self, endpoint: &Endpoint, era: Era, session: Option<&str>) -> Result<()> {
        let mut params = self.workload.params();
        let mut tools = 0;
        loop {
            let request = endpoint.request(era, session, self.workload.method(), params.clone());
            let answer = self.connection.exchange(&request).await?;
            let parsed = parse_checked(&answer, self.workload)?;
            tools += parsed["result"]["tools"].as_array().map_or(0, Vec::len);
            self.pages.push(Page { request, last_valid_answer: answer.payload.to_vec() });
            let Some(cursor) = parsed["result"]["nextCursor"].as_str() else { break };
            ensure!(self.pages.len() < 100, "the tool list has more than 100 pages");
            params["cursor"] = json!(cursor);
        }
        if let Workload::ListTools(min_count) = self.workload {
            ensure!(tools >= min_count, "{tools} tools instead of {min_count}");
        }
        Ok(())
    }

    /// One operation.
    pub(crate) async fn call(&mut self) -> Result<()> {
        for page in &mut self.pages {
            let answer = self.connection.exchange(&page.request).await?;
            if answer.status != 200 || answer.payload != page.last_valid_answer {
                parse_checked(&answer, self.workload)?;
                page.last_valid_answer.clear();
                page.last_valid_answer.extend_from_slice(answer.payload);
            }
        }
        Ok(())
    }
}

fn parse_checked(answer: &Answer<'_>, workload: Workload) -> Result<Value> {
    let answer_text = || format!("{} {}", answer.status, answer.text());
    ensure!(answer.status == 200, "{}", answer_text());
    let parsed: Value = serde_json::from_slice(answer.payload).with_context(answer_text)?;
    workload.check(&parsed).with_context(answer_text)?;
    Ok(parsed)
}

/// Opens a session of 2025-11-25; returns its id, if the server issues one.
pub(crate) async fn initialize(connection: &mut Connection, endpoint: &Endpoint) -> Result<Option<String>> {
    let params = json!({
        "protocolVersion": Era::Session.version(),
        "capabilities": {},
        "clientInfo": { "name": "plexus-bench", "version": "1" },
    });
    let answer = connection.exchange(&endpoint.request(Era::Session, None, "initialize", params)).await?;
    ensure!(answer.status == 200, "initialize: {} {}", answer.status, answer.text());
    let parsed: Value = serde_json::from_slice(answer.payload).context("initialize")?;
    let version = &parsed["result"]["protocolVersion"];
    ensure!(version == Era::Session.version(), "the server chose {version} instead of {}", Era::Session);
    let session = answer.session;
    let done = connection.exchange(&endpoint.initialized(session.as_deref())).await?;
    ensure!(matches!(done.status, 200 | 202 | 204), "initialized: {} {}", done.status, done.text());
    Ok(session)
}

/// Creates the item used by the calls. Stateless agents share one list, so it may already exist.
async fn ensure_item(
    connection: &mut Connection,
    endpoint: &Endpoint,
    era: Era,
    session: Option<&str>,
) -> Result<()> {
    let mut call = async |arguments| -> Result<String> {
        let answer =
            connection.exchange(&endpoint.request(era, session, "tools/call", todo(arguments))).await?;
        let parsed: Value = serde_json::from_slice(answer.payload).with_context(|| answer.text())?;
        Ok(text(&parsed["result"]).with_context(|| answer.text())?.to_owned())
    };
    if !call(json!({ "action": "list" })).await?.contains("bench") {
        let added = call(json!({ "action": "add", "text": "bench" })).await?;
        if !added.contains("bench") {
            bail!("the item was not added: {added}");
        }
    }
    Ok(())
}
