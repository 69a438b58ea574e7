//! `tools/call`: bufferable writes get an idempotency key before they are sent, and are queued if the hub does not
//! answer.
//!
//! The agent always learns the truth: the hub's answer unchanged, or that the write is on this machine's disk and
//! will be executed once, or that neither holds. Calls that are not bufferable are never sent twice.

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

use super::client::{MessageMeta, ProxyClient, RunningRequest, failed};
use super::hub::HubFailure;
use super::messages::Answer;

const QUEUED_TEXT: &str = "The hub is away. This write is stored on this machine and will be executed once when the hub is back, \
                      after the writes before it. Do not send it again.";
const QUEUED_IN_ORDER_TEXT: &str = "Earlier writes of this session are still waiting for the hub. This one is stored on this machine \
                             behind them and will be executed once, in order. Do not send it again.";

/// A write that may be queued.
#[derive(Debug)]
pub(super) struct BufferableWrite {
    key: String,
    tool: String,
    conversation: String,
    client: Value,
    /// Name and arguments, as they were sent.
    params: String,
}

impl BufferableWrite {
    /// The write of a request, and the request with its key. None if the call is not bufferable.
    fn of(
        client: &ProxyClient,
        request: &Request<'_>,
        body: &[u8],
        message_meta: &MessageMeta,
    ) -> Option<(Self, Bytes)> {
        let tools = &client.proxy.tools;
        let tool = text(request.params.name).filter(|tool| tools.may_buffer(tool))?;
        let arguments: Value = match request.params.arguments {
            Some(raw) => serde_json::from_str(raw.get()).ok()?,
            None => Value::Null,
        };
        if !tools.is_bufferable(&tool, &arguments) {
            return None;
        }
        let meta: Option<Map<String, Value>> = match request.params.meta {
            Some(raw) => Some(serde_json::from_str(raw.get()).ok()?),
            None => None,
        };
        let mut meta = meta.unwrap_or_default();
        let key = match meta.get(IDEMPOTENCY_KEY) {
            Some(Value::String(key)) => key.clone(),
            // Invalid: let the hub report it.
            Some(_) => return None,
            None => uuid::Uuid::now_v7().to_string(),
        };
        let conversation = client.conversation(&meta, message_meta);
        let client =
            client.client(request.params.meta).unwrap_or_else(|| json!({ "name": "unknown", "version": "" }));
        meta.insert(IDEMPOTENCY_KEY.to_owned(), key.as_str().into());
        let arguments = request.params.arguments.map_or("{}", RawValue::get);
        let params = format!("{{\"name\":{},\"arguments\":{arguments}}}", Value::from(tool.as_str()));
        let body = with_key(request, body, Value::Object(meta))?;
        Some((Self { key, tool, conversation, client, params }, body))
    }

    /// Stores the write; returns the answer for the client.
    async fn enqueue(
        self,
        client: &ProxyClient,
        id: &RawValue,
        dialect: Dialect,
        note: &str,
    ) -> Result<Bytes, String> {
        let Some(outbox) = &client.proxy.outbox else {
            return Err("the outbox is disabled".to_owned());
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

/// The request with its key; all other parameters are unchanged.
fn with_key(request: &Request<'_>, body: &[u8], meta: Value) -> Option<Bytes> {
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
    client: &Arc<ProxyClient>,
    message: &Message<'_>,
    request: &Request<'_>,
    body: &Bytes,
    meta: &MessageMeta,
    running: RunningRequest,
) -> Answer {
    let dialect = client.dialect(message, meta);
    let timing = &client.proxy.options.timing;
    // The list says which calls are bufferable, and the client may not have requested it.
    if client.proxy.outbox.is_some() && client.proxy.tools.is_empty() {
        let _ = client.proxy.tools.refresh(&client.proxy.hub, timing.handshake, None).await;
    }
    let write = BufferableWrite::of(client, request, body, meta).filter(|_| client.proxy.outbox.is_some());
    let Some((write, body)) = write else {
        return match client.forward(message, body, meta, timing.call).await {
            Ok(reply) => client.received(reply, request.id, dialect, None, running).await,
            Err(failure) => Answer::One(http::StatusCode::OK, failed(request.id, &failure, dialect)),
        };
    };
    let turn = client.write_turn().await;
    if let Some(outbox) = &client.proxy.outbox {
        match outbox.has_pending(&write.conversation).await {
            Ok(false) => {}
            // Keep the order: do not overtake queued writes.
            Ok(true) => {
                return enqueued(client, request.id, dialect, write, QUEUED_IN_ORDER_TEXT, None).await;
            }
            Err(error) => {
                tracing::error!(%error, "cannot read the outbox");
                let failure = HubFailure::Away { why: error.to_string(), sent: false };
                return Answer::One(http::StatusCode::OK, failed(request.id, &failure, dialect));
            }
        }
    }
    match client.forward(message, &body, meta, timing.write).await {
        Ok(reply) => match client.received(reply, request.id, dialect, Some(write), running).await {
            Answer::Stream(stream) => Answer::Stream(stream.holding_turn(turn)),
            answer => answer,
        },
        Err(failure) => unanswered(client, request.id, failure, dialect, Some(write)).await,
    }
}

/// The answer to a request that the hub did not answer: the write is queued, or the request failed.
pub(super) async fn unanswered(
    client: &Arc<ProxyClient>,
    id: &RawValue,
    failure: HubFailure,
    dialect: Dialect,
    write: Option<BufferableWrite>,
) -> Answer {
    match (write, &failure) {
        (Some(write), HubFailure::Away { .. } | HubFailure::TimedOut(_)) => {
            enqueued(client, id, dialect, write, QUEUED_TEXT, Some(&failure)).await
        }
        _ => Answer::One(http::StatusCode::OK, failed(id, &failure, dialect)),
    }
}

async fn enqueued(
    client: &Arc<ProxyClient>,
    id: &RawValue,
    dialect: Dialect,
    write: BufferableWrite,
    note: &str,
    failure: Option<&HubFailure>,
) -> Answer {
    let json = match write.enqueue(client, id, dialect, note).await {
        Ok(json) => json,
        Err(why) => {
            tracing::error!(%why, "cannot queue a write");
            let sent = failure.is_some_and(|failure| !failure.nothing_ran());
            let hub = failure.map_or_else(String::new, |failure| format!("{failure}; "));
            let why = format!("{hub}the write could not be stored on this machine: {why}");
            failed(id, &HubFailure::Away { why, sent }, dialect)
        }
    };
    Answer::One(http::StatusCode::OK, client.proxy.with_dead_letters(json).await)
}
