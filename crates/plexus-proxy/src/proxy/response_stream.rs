//! The stream of one request: messages of the hub, and the answer last.
//!
//! A broken stream is resumed if the hub still has it. Otherwise a bufferable write is queued, and any other request
//! ends with an error that says that it may have been executed.

use std::sync::Arc;

use bytes::Bytes;
use plexus_mcp::relay::rpc::{self, Message};
use plexus_mcp::relay::{Dialect, HubMessage, HubReply};
use serde_json::value::RawValue;

use super::calls::{self, BufferableWrite};
use super::client::{ProxyClient, RunningRequest, WriteTurn};
use super::hub::HubFailure;
use super::messages::{Answer, own_message};

/// Maximum number of successive resumptions without a new message.
const MAX_RESUMES: u32 = 3;

pub(super) struct ResponseStream {
    client: Arc<ProxyClient>,
    /// None after the answer.
    reply: Option<HubReply>,
    id: Box<RawValue>,
    dialect: Dialect,
    write: Option<BufferableWrite>,
    running: RunningRequest,
    /// Makes the client's next write wait for the answer to this one.
    turn: Option<WriteTurn>,
    resumes: u32,
}

impl std::fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseStream").field("id", &self.id.get()).finish_non_exhaustive()
    }
}

impl ResponseStream {
    pub(super) fn new(
        client: Arc<ProxyClient>,
        reply: HubReply,
        id: &RawValue,
        dialect: Dialect,
        write: Option<BufferableWrite>,
        running: RunningRequest,
    ) -> Self {
        Self {
            client,
            reply: Some(reply),
            id: id.to_owned(),
            dialect,
            write,
            running,
            turn: None,
            resumes: 0,
        }
    }

    /// Holds the write turn until the answer has arrived.
    pub(super) fn holding_turn(mut self: Box<Self>, turn: WriteTurn) -> Box<Self> {
        self.turn = Some(turn);
        self
    }

    /// The next message; none after the answer.
    pub(super) async fn next(&mut self) -> Option<HubMessage> {
        loop {
            let silence = self.client.proxy.options.timing.silence;
            let reply = self.reply.as_mut()?;
            let cancelled = self.running.cancelled().clone();
            let closes = self.dialect == Dialect::Modern;
            let next = tokio::select! {
                next = reply.next(silence) => next,
                () = cancelled.cancelled(), if closes => {
                    self.reply = None;
                    return None;
                }
            };
            let broken = match next {
                Ok(Some(message)) => {
                    self.resumes = 0;
                    if !self.is_answer(&message.json) {
                        return Some(message);
                    }
                    if let Some(reply) = self.reply.take() {
                        reply.release();
                    }
                    self.turn = None;
                    let json = self.client.proxy.with_dead_letters(message.json).await;
                    return Some(HubMessage { json, ..message });
                }
                Ok(None) => HubFailure::Away { why: "the hub's answer broke off".to_owned(), sent: true },
                Err(error) => error.into(),
            };
            // A cancelled request needs no answer.
            if self.running.cancelled().is_cancelled() {
                self.reply = None;
                return None;
            }
            if !self.resume().await {
                self.reply = None;
                return self.answer_with_failure(broken).await;
            }
        }
    }

    fn is_answer(&self, json: &[u8]) -> bool {
        matches!(rpc::parse(json), Ok(Message::Response { id, .. }) if id.get() == self.id.get())
    }

    /// Resumes the stream after the last message. Returns false if that is not possible.
    async fn resume(&mut self) -> bool {
        let Dialect::Session(_) = self.dialect else { return false };
        let last = self.reply.as_ref().and_then(HubReply::last_id).map(str::to_owned);
        let Some(last) = last.filter(|_| self.resumes < MAX_RESUMES) else { return false };
        self.resumes += 1;
        match self.client.listen(Some(&last)).await {
            Ok(reply) if reply.is_stream() => {
                self.reply = Some(reply);
                true
            }
            _ => false,
        }
    }

    async fn answer_with_failure(&mut self, failure: HubFailure) -> Option<HubMessage> {
        let failure = self.client.proxy.hub.record_failure(failure);
        let answer =
            calls::unanswered(&self.client, &self.id, failure, self.dialect, self.write.take()).await;
        self.turn = None;
        match answer {
            Answer::One(_, json) => Some(own_message(json)),
            Answer::Nothing | Answer::Stream(_) | Answer::Notifications(_) => None,
        }
    }

    /// The answer only.
    pub(super) async fn last(mut self: Box<Self>) -> Option<Bytes> {
        let mut last = None;
        while let Some(message) = self.next().await {
            last = Some(message.json);
        }
        last
    }
}
