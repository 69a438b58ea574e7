//! A message of a client, and what it is answered.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use plexus_mcp::relay::rpc::{self, Message, Notification, Request, RpcError, result_json, text};
use plexus_mcp::relay::{self, Dialect, HubMessage, HubReply};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::agent::{Agent, Given, failed, instructions_of};
use super::calls::{self, Write};
use super::hub::{self, Failure, Reach, told};
use super::listen::Listener;
use super::stream::Following;

/// Nesting of arrays and objects in a message.
const DEPTH: usize = 64;
/// Messages in one batch.
const MAX_BATCH: usize = 50;

/// What a message is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// It was taken, and needs no answer.
    Nothing,
    One(StatusCode, Bytes),
    /// Messages, the last of which is the answer.
    Stream(Box<Following>),
    /// News, for as long as they are wanted.
    News(Box<Listener>),
}

impl Answer {
    fn one(json: impl Into<Bytes>) -> Self {
        Self::One(StatusCode::OK, json.into())
    }

    pub(super) fn error(error: &RpcError) -> Self {
        Self::One(error.status, error.to_json().into())
    }
}

impl Agent {
    /// Takes what a client sent.
    pub(super) async fn take(self: &Arc<Self>, body: &Bytes, given: &Given) -> Answer {
        if let Err(error) = rpc::check_depth(body, DEPTH) {
            return Answer::error(&error);
        }
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return self.take_batch(body, given).await;
        }
        match rpc::parse(body) {
            Ok(message) => self.take_message(message, body, given).await,
            Err(mut error) => {
                error.id.get_or_insert_with(|| "null".to_owned());
                Answer::error(&error)
            }
        }
    }

    /// Several messages, which one revision has.
    async fn take_batch(self: &Arc<Self>, body: &Bytes, given: &Given) -> Answer {
        let refused = |message: String| {
            let mut error = RpcError::invalid_request(message);
            error.id = Some("null".to_owned());
            Answer::error(&error)
        };
        if !self.has_batches(given) {
            return refused("this revision has no batches".to_owned());
        }
        let parts = match rpc::parse_batch(body) {
            Ok(parts) if parts.is_empty() => return refused("the batch is empty".to_owned()),
            Ok(parts) if parts.len() > MAX_BATCH => {
                return refused(format!("a batch has at most {MAX_BATCH} messages"));
            }
            Ok(parts) => parts,
            Err(error) => return refused(error.message),
        };
        let mut answers: Vec<Bytes> = Vec::new();
        for part in parts {
            let body = Bytes::copy_from_slice(part.get().as_bytes());
            let answer = match rpc::message(part) {
                Ok(message) => Box::pin(self.take_message(message, &body, given)).await,
                Err(mut error) => {
                    error.id.get_or_insert_with(|| "null".to_owned());
                    Answer::error(&error)
                }
            };
            match answer {
                Answer::Nothing => {}
                Answer::One(_, json) => answers.push(json),
                Answer::Stream(stream) => answers.extend(stream.last().await),
                Answer::News(_) => return refused("a batch cannot wait for news".to_owned()),
            }
        }
        if answers.is_empty() {
            return Answer::Nothing;
        }
        let joined = answers.join(&b',');
        Answer::one([b"[".as_slice(), &joined, b"]"].concat())
    }

    async fn take_message(self: &Arc<Self>, message: Message<'_>, body: &Bytes, given: &Given) -> Answer {
        if let Err(error) = relay::check(&message, given.headers.as_ref()) {
            return Answer::error(&error);
        }
        match &message {
            Message::Request(request) => {
                let running = self.begin(request.id);
                let cancelled = running.cancelled().clone();
                // A client of the older era is answered by the hub; closing the line to it would cancel nothing.
                let closes = self.dialect(&message, given) == Dialect::Modern;
                tokio::select! {
                    answer = self.answer(&message, request, body, given, running) => answer,
                    () = cancelled.cancelled(), if closes => Answer::Nothing,
                }
            }
            Message::Notification(notification) => {
                self.notified(notification);
                // The proxy says this itself, when the hub is there.
                if notification.method != "notifications/initialized" {
                    self.pass_on(&message, body, given).await;
                }
                Answer::Nothing
            }
            Message::Response { .. } => {
                self.pass_on(&message, body, given).await;
                Answer::Nothing
            }
        }
    }

    fn notified(&self, notification: &Notification<'_>) {
        if notification.method == "notifications/cancelled"
            && let Some(id) = notification.params.request_id
        {
            self.cancel(id);
        }
    }

    /// Passes on what needs no answer. Where the hub is away it has no use for it.
    async fn pass_on(&self, message: &Message<'_>, body: &Bytes, given: &Given) {
        if matches!(self.dialect(message, given), Dialect::Session(_)) && !self.has_begun() {
            return;
        }
        match self.forward(message, body, given, self.proxy.options.timing.greet).await {
            Ok(reply) => drop(reply.whole().await),
            Err(error) => tracing::debug!(%error, "a notification did not reach the hub"),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        message: &Message<'_>,
        request: &Request<'_>,
        body: &Bytes,
        given: &Given,
        running: super::agent::Running,
    ) -> Answer {
        let dialect = self.dialect(message, given);
        match &*request.method {
            "ping" if dialect != Dialect::Modern => Answer::one(result_json(request.id, "{}")),
            "initialize" if dialect != Dialect::Modern => match params(body) {
                Some(params) => Answer::one(self.initialize(request, &params).await),
                None => Answer::error(&RpcError::invalid_params("params are missing").with_id(request.id)),
            },
            "server/discover" => self.discover(message, request, body, given).await,
            "tools/list" => self.list(request, dialect).await,
            "tools/call" => calls::call(self, message, request, body, given, running).await,
            "subscriptions/listen" if dialect == Dialect::Modern => {
                Answer::News(Box::new(Listener::subscribed(self.clone(), request, body, given, running)))
            }
            _ => {
                if let Dialect::Session(_) = dialect {
                    self.keep(request, body);
                }
                let patience = match &*request.method {
                    "resources/read" | "prompts/get" => self.proxy.options.timing.call,
                    _ => self.proxy.options.timing.answer,
                };
                match self.forward(message, body, given, patience).await {
                    Ok(reply) => self.received(reply, request.id, dialect, None, running).await,
                    Err(failure) => Answer::one(failed(request.id, &failure, dialect)),
                }
            }
        }
    }

    /// What the hub answers a request, for the client.
    pub(super) async fn received(
        self: &Arc<Self>,
        reply: HubReply,
        id: &RawValue,
        dialect: Dialect,
        write: Option<Write>,
        running: super::agent::Running,
    ) -> Answer {
        let status = reply.status();
        if hub::is_away(status) {
            let why = told(reply).await;
            // It says that nothing was run, but who says so may be somebody on the way.
            return calls::unanswered(self, id, Failure::Away { why, sent: true }, dialect, write).await;
        }
        if reply.is_stream() {
            return Answer::Stream(Box::new(Following::new(
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
            let why = told(reply).await;
            return Answer::error(&RpcError::new(status, rpc::INTERNAL_ERROR, why).with_id(id));
        }
        match reply.whole().await {
            Ok(json) if is_rpc(&json) => {
                let json = self.proxy.with_letters(json).await;
                Answer::One(status, json)
            }
            // The REST side of the hub has words of its own.
            Ok(json) => Answer::error(&refused(status, &json).with_id(id)),
            Err(error) => {
                let failure = self.proxy.hub.noted(error.into());
                calls::unanswered(self, id, failure, dialect, write).await
            }
        }
    }

    async fn discover(
        &self,
        message: &Message<'_>,
        request: &Request<'_>,
        body: &Bytes,
        given: &Given,
    ) -> Answer {
        #[derive(Deserialize)]
        struct Discovered {
            result: Box<RawValue>,
        }
        let lists = &self.proxy.lists;
        let reply = self.forward(message, body, given, self.proxy.options.timing.greet).await;
        if let Err(failure) = &reply
            && self.proxy.options.plain
        {
            return Answer::one(failed(request.id, failure, Dialect::Modern));
        }
        if let Ok(reply) = reply
            && !hub::is_away(reply.status())
            && reply.is_json()
        {
            let status = reply.status();
            if let Ok(json) = reply.whole().await {
                if let Ok(discovered) = serde_json::from_slice::<Discovered>(&json) {
                    lists.note_instructions(&instructions_of(&discovered.result));
                }
                if is_rpc(&json) {
                    return Answer::One(status, json);
                }
            }
        }
        Answer::one(relay::discover_result(request.id, &lists.instructions()))
    }

    /// All tools on one page, from the hub or as they were last.
    async fn list(&self, request: &Request<'_>, dialect: Dialect) -> Answer {
        if text(request.params.cursor).is_some() {
            let error = RpcError::invalid_params("the cursor is not one of ours: the list has one page");
            return Answer::error(&error.with_id(request.id));
        }
        let (hub, lists) = (&self.proxy.hub, &self.proxy.lists);
        if let Err(failure) = lists.refresh(hub, self.proxy.options.timing.list, None).await {
            if let Failure::Refused(_) = failure {
                lists.forget();
                return Answer::one(failed(request.id, &failure, dialect));
            }
            if self.proxy.options.plain {
                return Answer::one(failed(request.id, &failure, dialect));
            }
            tracing::debug!(%failure, "the tools are listed as they were last");
        }
        if let Reach::Refused(why) = &*hub.reach().borrow() {
            return Answer::one(failed(request.id, &Failure::Refused(why.clone()), dialect));
        }
        Answer::one(relay::tool_list_result(request.id, &lists.text(dialect), dialect))
    }
}

/// Whether it is a message, and not something else in JSON.
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
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => super::agent::REFUSED,
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

/// A message of a stream that was made here.
pub(super) fn here(json: impl Into<Bytes>) -> HubMessage {
    HubMessage { id: None, json: json.into() }
}
