//! `tools/call`: writes that may be kept are known by a key before they are sent, and are kept where the hub does not answer.
//!
//! What the agent is told is what holds: an answer of the hub as it is, or that the write is on this machine's disk and will be
//! done once, or that it is neither. What may not be kept is never sent twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use plexus_mcp::relay::rpc::{Message, Request, text};
use plexus_mcp::relay::{self, Dialect, IDEMPOTENCY_KEY};
use plexus_store::outbox::NewWrite;
use plexus_tools::QueuedWrite;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::agent::{Agent, Given, Running, failed};
use super::answer::Answer;
use super::hub::Failure;

const KEPT: &str = "The hub is away. This write is stored on this machine and will be sent when the hub is back; it is then \
                    done once, after the writes before it. Do not send it again.";
const BEHIND: &str = "Earlier writes of this session still wait for the hub. This one is stored on this machine behind them and \
                      will be done once, in order. Do not send it again.";

/// A write that may be kept.
#[derive(Debug)]
pub(super) struct Write {
    key: String,
    tool: String,
    conversation: String,
    client: Value,
    /// Name and arguments, as they were sent.
    params: String,
}

impl Write {
    /// From a request, if what it calls may be kept, with the request that carries its key.
    fn of(agent: &Agent, request: &Request<'_>, body: &[u8], given: &Given) -> Option<(Self, Bytes)> {
        let lists = &agent.proxy.lists;
        let tool = text(request.params.name).filter(|tool| lists.may_buffer(tool))?;
        let arguments: Value = match request.params.arguments {
            Some(raw) => serde_json::from_str(raw.get()).ok()?,
            None => Value::Null,
        };
        if !lists.is_bufferable(&tool, &arguments) {
            return None;
        }
        let meta: Option<Map<String, Value>> = match request.params.meta {
            Some(raw) => Some(serde_json::from_str(raw.get()).ok()?),
            None => None,
        };
        let mut meta = meta.unwrap_or_default();
        let key = match meta.get(IDEMPOTENCY_KEY) {
            Some(Value::String(key)) => key.clone(),
            // The hub says what is wrong with it.
            Some(_) => return None,
            None => uuid::Uuid::now_v7().to_string(),
        };
        let conversation = agent.conversation(&meta, given);
        let client =
            agent.client(request.params.meta).unwrap_or_else(|| json!({ "name": "unknown", "version": "" }));
        meta.insert(IDEMPOTENCY_KEY.to_owned(), key.as_str().into());
        let arguments = request.params.arguments.map_or("{}", RawValue::get);
        let params = format!("{{\"name\":{},\"arguments\":{arguments}}}", Value::from(tool.as_str()));
        let body = stamped(request, body, Value::Object(meta))?;
        Some((Self { key, tool, conversation, client, params }, body))
    }

    /// Stores it, and says so.
    async fn keep(self, agent: &Agent, id: &RawValue, dialect: Dialect, note: &str) -> Result<Bytes, String> {
        let Some(outbox) = &agent.proxy.outbox else {
            return Err("nothing is kept while the proxy is off".to_owned());
        };
        let Self { key, tool, conversation, client, params } = self;
        let write = NewWrite {
            key: key.clone(),
            session: conversation,
            client: client.to_string(),
            tool: tool.clone(),
            params,
        };
        outbox.enqueue(write).await.map_err(|error| error.to_string())?;
        let queued = QueuedWrite::new(&tool, &key, note);
        let data = serde_json::to_value(&queued).unwrap_or_default();
        let text = format!("{note} (key {key})");
        Ok(relay::call_result(id, &text, &data, dialect).into())
    }
}

/// The request with its key. Every other parameter is left as it is.
fn stamped(request: &Request<'_>, body: &[u8], meta: Value) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct With<'a> {
        #[serde(borrow)]
        params: BTreeMap<String, &'a RawValue>,
    }
    let With { mut params } = serde_json::from_slice(body).ok()?;
    let meta = serde_json::value::to_raw_value(&meta).ok()?;
    params.insert("_meta".to_owned(), &meta);
    let params = serde_json::to_string(&params).ok()?;
    let id = request.id.get();
    Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}").into())
}

pub(super) async fn call(
    agent: &Arc<Agent>,
    message: &Message<'_>,
    request: &Request<'_>,
    body: &Bytes,
    given: &Given,
    running: Running,
) -> Answer {
    let dialect = agent.dialect(message, given);
    let timing = &agent.proxy.options.timing;
    // Which calls may be kept is said with the list, which an agent that knows its tools need not ask for.
    if agent.proxy.outbox.is_some() && agent.proxy.lists.is_empty() {
        let _ = agent.proxy.lists.refresh(&agent.proxy.hub, timing.greet, None).await;
    }
    let write = Write::of(agent, request, body, given).filter(|_| agent.proxy.outbox.is_some());
    let Some((write, body)) = write else {
        return match agent.forward(message, body, given, timing.call).await {
            Ok(reply) => agent.received(reply, request.id, dialect, None, running).await,
            Err(failure) => Answer::One(http::StatusCode::OK, failed(request.id, &failure, dialect)),
        };
    };
    let turn = agent.turn().await;
    if let Some(outbox) = &agent.proxy.outbox {
        match outbox.has_pending(&write.conversation).await {
            Ok(false) => {}
            // Order is kept: nothing overtakes what waits.
            Ok(true) => return kept(agent, request.id, dialect, write, BEHIND, None).await,
            Err(error) => {
                tracing::error!(%error, "the outbox cannot be read");
                let failure = Failure::Away { why: error.to_string(), sent: false };
                return Answer::One(http::StatusCode::OK, failed(request.id, &failure, dialect));
            }
        }
    }
    match agent.forward(message, &body, given, timing.write).await {
        Ok(reply) => match agent.received(reply, request.id, dialect, Some(write), running).await {
            Answer::Stream(stream) => Answer::Stream(stream.in_turn(turn)),
            answer => answer,
        },
        Err(failure) => unanswered(agent, request.id, failure, dialect, Some(write)).await,
    }
}

/// What the client of a request is told that the hub did not answer.
pub(super) async fn unanswered(
    agent: &Arc<Agent>,
    id: &RawValue,
    failure: Failure,
    dialect: Dialect,
    write: Option<Write>,
) -> Answer {
    match (write, &failure) {
        (Some(write), Failure::Away { .. } | Failure::Late(_)) => {
            kept(agent, id, dialect, write, KEPT, Some(&failure)).await
        }
        _ => Answer::One(http::StatusCode::OK, failed(id, &failure, dialect)),
    }
}

async fn kept(
    agent: &Arc<Agent>,
    id: &RawValue,
    dialect: Dialect,
    write: Write,
    note: &str,
    failure: Option<&Failure>,
) -> Answer {
    let json = match write.keep(agent, id, dialect, note).await {
        Ok(json) => json,
        Err(why) => {
            tracing::error!(%why, "a write could not be kept");
            let sent = failure.is_some_and(|failure| !failure.nothing_ran());
            let hub = failure.map_or_else(String::new, |failure| format!("{failure}; "));
            let why = format!("{hub}and the write could not be stored here: {why}");
            failed(id, &Failure::Away { why, sent }, dialect)
        }
    };
    Answer::One(http::StatusCode::OK, agent.proxy.with_letters(json).await)
}
