//! Handles the messages of a client.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use plexus_mcp::relay::rpc::{self, Message, Notification, Request, RpcError, result_json, text};
use plexus_mcp::relay::{self, Dialect, HubMessage, HubReply};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::{self, BufferableWrite};
use super::client::{MessageMeta, ProxyClient, RunningRequest, failed, instructions_of};
use super::hub::{self, HubFailure, Reachability, error_message};
use super::notifications::NotificationStream;
use super::response_stream::ResponseStream;

/// Maximum nesting of arrays and objects in a message.
const MAX_DEPTH: usize = 64;
/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 50;

/// The answer to a message of a client.
#[derive(Debug)]
pub(super) enum Answer {
    /// Accepted; there is no answer.
    Nothing,
    One(StatusCode, Bytes),
    /// Messages, the last of which is the answer.
    Stream(Box<ResponseStream>),
    /// Notifications, until the client stops listening.
    Notifications(Box<NotificationStream>),
}

impl Answer {
    fn one(json: impl Into<Bytes>) -> Self {
        Self::One(StatusCode::OK, json.into())
    }

    pub(super) fn error(error: &RpcError) -> Self {
        Self::One(error.status, error.to_json().into())
    }
}

impl ProxyClient {
    /// Handles a message or batch.
    pub(super) async fn handle(self: &Arc<Self>, body: &Bytes, meta: &MessageMeta) -> Answer {
        if let Err(error) = rpc::check_depth(body, MAX_DEPTH) {
            return Answer::error(&error);
        }
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return self.handle_batch(body, meta).await;
        }
        match rpc::parse(body) {
            Ok(message) => self.handle_message(message, body, meta).await,
            Err(mut error) => {
                error.id.get_or_insert_with(|| "null".to_owned());
                Answer::error(&error)
            }
        }
    }

    /// Batches exist in one revision only.
    async fn handle_batch(self: &Arc<Self>, body: &Bytes, meta: &MessageMeta) -> Answer {
        let refused = |message: String| {
            let mut error = RpcError::invalid_request(message);
            error.id = Some("null".to_owned());
            Answer::error(&error)
        };
        if !self.has_batches(meta) {
            return refused("this revision does not support batches".to_owned());
        }
        let parts = match rpc::parse_batch(body) {
            Ok(parts) if parts.is_empty() => return refused("the batch is empty".to_owned()),
            Ok(parts) if parts.len() > MAX_BATCH => {
                return refused(format!("a batch can have at most {MAX_BATCH} messages"));
            }
            Ok(parts) => parts,
            Err(error) => return refused(error.message),
        };
        let mut answers: Vec<Bytes> = Vec::new();
        for part in parts {
            let body = Bytes::copy_from_slice(part.get().as_bytes());
            let answer = match rpc::message(part) {
                Ok(message) => Box::pin(self.handle_message(message, &body, meta)).await,
                Err(mut error) => {
                    error.id.get_or_insert_with(|| "null".to_owned());
                    Answer::error(&error)
                }
            };
            match answer {
                Answer::Nothing => {}
                Answer::One(_, json) => answers.push(json),
                Answer::Stream(stream) => answers.extend(stream.last().await),
                Answer::Notifications(_) => {
                    return refused("a batch cannot contain a subscription".to_owned());
                }
            }
        }
        if answers.is_empty() {
            return Answer::Nothing;
        }
        let joined = answers.join(&b',');
        Answer::one([b"[".as_slice(), &joined, b"]"].concat())
    }

    async fn handle_message(
        self: &Arc<Self>,
        message: Message<'_>,
        body: &Bytes,
        meta: &MessageMeta,
    ) -> Answer {
        if let Err(error) = relay::check(&message, meta.headers.as_ref()) {
            return Answer::error(&error);
        }
        match &message {
            Message::Request(request) => {
                let running = self.begin(request.id);
                let cancelled = running.cancelled().clone();
                // In sessions the hub itself cancels; only in the stateless revision closing the connection cancels.
                let closes = self.dialect(&message, meta) == Dialect::Modern;
                tokio::select! {
                    answer = self.answer(&message, request, body, meta, running) => answer,
                    () = cancelled.cancelled(), if closes => Answer::Nothing,
                }
            }
            Message::Notification(notification) => {
                self.cancel_if_requested(notification);
                // The proxy sends this itself when it opens a session.
                if notification.method != "notifications/initialized" {
                    self.forward_without_answer(&message, body, meta).await;
                }
                Answer::Nothing
            }
            Message::Response { .. } => {
                self.forward_without_answer(&message, body, meta).await;
                Answer::Nothing
            }
        }
    }

    fn cancel_if_requested(&self, notification: &Notification<'_>) {
        if notification.method == "notifications/cancelled"
            && let Some(id) = notification.params.request_id
        {
            self.cancel(id);
        }
    }

    /// Forwards a message that has no answer. It is dropped if the hub is away.
    async fn forward_without_answer(&self, message: &Message<'_>, body: &Bytes, meta: &MessageMeta) {
        if matches!(self.dialect(message, meta), Dialect::Session(_)) && !self.has_initialized() {
            return;
        }
        match self.forward(message, body, meta, self.proxy.options.timing.handshake).await {
            Ok(reply) => drop(reply.bytes().await),
            Err(error) => tracing::debug!(%error, "a notification did not reach the hub"),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        message: &Message<'_>,
        request: &Request<'_>,
        body: &Bytes,
        meta: &MessageMeta,
        running: RunningRequest,
    ) -> Answer {
        let dialect = self.dialect(message, meta);
        match &*request.method {
            "ping" if dialect != Dialect::Modern => Answer::one(result_json(request.id, "{}")),
            "initialize" if dialect != Dialect::Modern => match params(body) {
                Some(params) => Answer::one(self.initialize(request, &params).await),
                None => Answer::error(&RpcError::invalid_params("params are missing").with_id(request.id)),
            },
            "server/discover" => self.discover(message, request, body, meta).await,
            "tools/list" => self.list(request, dialect).await,
            "tools/call" => calls::call(self, message, request, body, meta, running).await,
            "subscriptions/listen" if dialect == Dialect::Modern => Answer::Notifications(Box::new(
                NotificationStream::subscribed(self.clone(), request, body, meta, running),
            )),
            _ => {
                if let Dialect::Session(_) = dialect {
                    self.remember_setup(request, body);
                }
                let time_limit = match &*request.method {
                    "resources/read" | "prompts/get" => self.proxy.options.timing.call,
                    _ => self.proxy.options.timing.answer,
                };
                match self.forward(message, body, meta, time_limit).await {
                    Ok(reply) => self.received(reply, request.id, dialect, None, running).await,
                    Err(failure) => Answer::one(failed(request.id, &failure, dialect)),
                }
            }
        }
    }

    /// Converts the hub's answer to a request for the client.
    pub(super) async fn received(
        self: &Arc<Self>,
        reply: HubReply,
        id: &RawValue,
        dialect: Dialect,
        write: Option<BufferableWrite>,
        running: RunningRequest,
    ) -> Answer {
        let status = reply.status();
        if hub::is_away(status) {
            let why = error_message(reply).await;
            // The status says that nothing was run, but it may come from an intermediary.
            return calls::unanswered(self, id, HubFailure::Away { why, sent: true }, dialect, write).await;
        }
        if reply.is_stream() {
            return Answer::Stream(Box::new(ResponseStream::new(
                self.clone(),
                reply,
                id,
                dialect,
                write,
                running,
            )));
        }
        if !reply.is_json() {
            if status == StatusCode::ACCEPTED {
                return Answer::Nothing;
            }
            // The hub answers requests in JSON: this comes from an intermediary, such as a reverse proxy without its backend.
            let why = error_message(reply).await;
            return calls::unanswered(self, id, HubFailure::Away { why, sent: true }, dialect, write).await;
        }
        match reply.bytes().await {
            Ok(json) if is_rpc(&json) => {
                let json = self.proxy.with_dead_letters(json).await;
                Answer::One(status, json)
            }
            // An error of the hub's REST layer.
            Ok(json) => Answer::error(&refused(status, &json).with_id(id)),
            Err(error) => {
                let failure = self.proxy.hub.record_failure(error.into());
                calls::unanswered(self, id, failure, dialect, write).await
            }
        }
    }

    async fn discover(
        &self,
        message: &Message<'_>,
        request: &Request<'_>,
        body: &Bytes,
        meta: &MessageMeta,
    ) -> Answer {
        #[derive(Deserialize)]
        struct Discovered {
            result: Box<RawValue>,
        }
        let tools = &self.proxy.tools;
        let reply = self.forward(message, body, meta, self.proxy.options.timing.handshake).await;
        if let Err(failure) = &reply
            && self.proxy.options.passthrough
        {
            return Answer::one(failed(request.id, failure, Dialect::Modern));
        }
        if let Ok(reply) = reply
            && !hub::is_away(reply.status())
            && reply.is_json()
        {
            let status = reply.status();
            if let Ok(json) = reply.bytes().await {
                if let Ok(discovered) = serde_json::from_slice::<Discovered>(&json) {
                    tools.note_instructions(&instructions_of(&discovered.result));
                }
                if is_rpc(&json) {
                    return Answer::One(status, json);
                }
            }
        }
        Answer::one(relay::discover_result(request.id, &tools.instructions()))
    }

    /// All visible tools on one page, from the hub or from the last known list.
    async fn list(&self, request: &Request<'_>, dialect: Dialect) -> Answer {
        if text(request.params.cursor).is_some() {
            let error = RpcError::invalid_params("unknown cursor: the list has a single page");
            return Answer::error(&error.with_id(request.id));
        }
        let (hub, tools) = (&self.proxy.hub, &self.proxy.tools);
        if let Err(failure) = tools.refresh(hub, self.proxy.options.timing.list, None).await {
            if let HubFailure::Refused(_) = failure {
                tools.forget();
                return Answer::one(failed(request.id, &failure, dialect));
            }
            if self.proxy.options.passthrough {
                return Answer::one(failed(request.id, &failure, dialect));
            }
            tracing::debug!(%failure, "listing the last known tools");
        }
        if let Reachability::Refused(why) = &*hub.reachability().borrow() {
            return Answer::one(failed(request.id, &HubFailure::Refused(why.clone()), dialect));
        }
        Answer::one(relay::tool_list_result(request.id, &tools.text(dialect), dialect))
    }
}

/// Whether the JSON is a JSON-RPC message.
fn is_rpc(json: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Marked {
        #[serde(rename = "jsonrpc")]
        _jsonrpc: serde::de::IgnoredAny,
    }
    let first = json.iter().find(|byte| !byte.is_ascii_whitespace());
    first == Some(&b'[')
        || json.starts_with(b"{\"jsonrpc\":")
        || serde_json::from_slice::<Marked>(json).is_ok()
}

fn refused(status: StatusCode, json: &[u8]) -> RpcError {
    let envelope: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    let message = envelope["message"].as_str().unwrap_or("the hub refused the request").to_owned();
    let code = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => super::client::CREDENTIAL_REFUSED_CODE,
        _ => rpc::INVALID_REQUEST,
    };
    RpcError::new(StatusCode::OK, code, message).with_data(envelope)
}

fn params(body: &[u8]) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct With {
        params: Option<Box<RawValue>>,
    }
    serde_json::from_slice::<With>(body).ok()?.params
}

/// A stream message created by the proxy.
pub(super) fn own_message(json: impl Into<Bytes>) -> HubMessage {
    HubMessage { id: None, json: json.into() }
}
