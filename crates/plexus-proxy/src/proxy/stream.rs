//! The stream of one request: what the hub says meanwhile, and its answer last.
//!
//! A stream that breaks is taken up where it was left, if the hub still has it. Otherwise the client is told what holds: a
//! write that may be kept is kept, and of anything else nobody knows.

use std::sync::Arc;

use bytes::Bytes;
use plexus_mcp::relay::rpc::{self, Message};
use plexus_mcp::relay::{Dialect, HubMessage, HubReply};
use serde_json::value::RawValue;

use super::agent::{Agent, Running, Turn};
use super::answer::{Answer, here};
use super::calls::{self, Write};
use super::hub::Failure;

/// Attempts in a row to go on with a stream that bring nothing new.
const MAX_RESUMES: u32 = 3;
pub(super) struct Following {
    agent: Arc<Agent>,
    /// None: the answer was given.
    reply: Option<HubReply>,
    id: Box<RawValue>,
    dialect: Dialect,
    write: Option<Write>,
    running: Running,
    /// Of a write: the next one waits for its answer.
    turn: Option<Turn>,
    resumes: u32,
}

impl std::fmt::Debug for Following {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Following").field("id", &self.id.get()).finish_non_exhaustive()
    }
}

impl Following {
    pub(super) fn new(
        agent: Arc<Agent>,
        reply: HubReply,
        id: &RawValue,
        dialect: Dialect,
        write: Option<Write>,
        running: Running,
    ) -> Self {
        Self { agent, reply: Some(reply), id: id.to_owned(), dialect, write, running, turn: None, resumes: 0 }
    }

    /// The same, which keeps its turn until the answer is there.
    pub(super) fn in_turn(mut self: Box<Self>, turn: Turn) -> Box<Self> {
        self.turn = Some(turn);
        self
    }

    /// The next message; none after the answer.
    pub(super) async fn next(&mut self) -> Option<HubMessage> {
        loop {
            let silence = self.agent.proxy.options.timing.silence;
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
                Ok(Some(told)) => {
                    self.resumes = 0;
                    if !self.is_answer(&told.json) {
                        return Some(told);
                    }
                    if let Some(reply) = self.reply.take() {
                        reply.release();
                    }
                    self.turn = None;
                    let json = self.agent.proxy.with_letters(told.json).await;
                    return Some(HubMessage { json, ..told });
                }
                Ok(None) => Failure::Away { why: "its answer broke off".to_owned(), sent: true },
                Err(error) => error.into(),
            };
            // Who cancelled a request expects no answer to it.
            if self.running.cancelled().is_cancelled() {
                self.reply = None;
                return None;
            }
            if !self.resume().await {
                self.reply = None;
                return self.give_up(broken).await;
            }
        }
    }

    fn is_answer(&self, json: &[u8]) -> bool {
        matches!(rpc::parse(json), Ok(Message::Response { id, .. }) if id.get() == self.id.get())
    }

    /// Goes on where the stream was left. False: there is nothing to go on with.
    async fn resume(&mut self) -> bool {
        let Dialect::Session(_) = self.dialect else { return false };
        let last = self.reply.as_ref().and_then(HubReply::last_id).map(str::to_owned);
        let Some(last) = last.filter(|_| self.resumes < MAX_RESUMES) else { return false };
        self.resumes += 1;
        match self.agent.listen(Some(&last)).await {
            Ok(reply) if reply.is_stream() => {
                self.reply = Some(reply);
                true
            }
            _ => false,
        }
    }

    async fn give_up(&mut self, failure: Failure) -> Option<HubMessage> {
        let failure = self.agent.proxy.hub.noted(failure);
        let answer = calls::unanswered(&self.agent, &self.id, failure, self.dialect, self.write.take()).await;
        self.turn = None;
        match answer {
            Answer::One(_, json) => Some(here(json)),
            Answer::Nothing | Answer::Stream(_) | Answer::News(_) => None,
        }
    }

    /// The answer alone.
    pub(super) async fn last(mut self: Box<Self>) -> Option<Bytes> {
        let mut last = None;
        while let Some(told) = self.next().await {
            last = Some(told.json);
        }
        last
    }
}
