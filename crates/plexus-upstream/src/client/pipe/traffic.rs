//! The two tasks of a pipe: one reads messages from the server, one writes to it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_kit::Stage;
use plexus_tools::Progress;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::super::message::{self, Incoming, RequestId};
use super::super::server_questions::{Owner, QuestionHandling, Reply};
use super::super::stderr::shown;
use super::super::{Bridge, Chatter, ClientError, SharedListener};
use super::{MAX_GARBAGE, Queued, Receive, Shared, Transmit, TransmitError};

impl Shared {
    /// Reads until nothing more comes; returns why.
    pub(super) async fn read(
        self: &Arc<Self>,
        mut from: impl Receive,
        listener: &SharedListener,
        chatter: &Chatter,
    ) -> String {
        // Consecutive, and in total.
        let (mut row, mut garbage) = (0, 0_u64);
        loop {
            let message = match from.receive().await {
                Ok(message) if message.trim_ascii().is_empty() => continue,
                Ok(message) => message,
                Err(why) => return why,
            };
            if let Some(messages) = Incoming::all(&message) {
                row = 0;
                messages.for_each(|incoming| self.take(&message, incoming, listener));
                continue;
            }
            (row, garbage) = (row + 1, garbage + 1);
            chatter.record(&message);
            if garbage == 1 {
                listener.on_chatter();
                let line = shown(&message);
                tracing::warn!(server = %self.server, %line, "the server sent something that is not an MCP message");
            } else {
                tracing::debug!(server = %self.server, garbage, "the server sent something that is not an MCP message");
            }
            if row == MAX_GARBAGE {
                let line = shown(&message);
                return format!(
                    "the server sent {MAX_GARBAGE} lines in a row that are not MCP messages; the last: {line}"
                );
            }
        }
    }

    /// Handles one message without waiting: a server that asks but does not read must still get its answers
    /// processed.
    fn take(self: &Arc<Self>, message: &Bytes, incoming: Incoming<'_>, listener: &SharedListener) {
        match incoming {
            Incoming::Response { id: Some(id), outcome } => {
                self.answer(id, outcome.map(|result| message.slice_ref(result.get().as_bytes())));
            }
            Incoming::Response { id: None, outcome } => {
                self.log_unmatched(|| format!("an answer with an unknown id ({:?})", outcome.err()));
            }
            Incoming::Request { id, method, params } => {
                let owner = || self.owner(|bridge| bridge.answerer.is_some());
                match self.questions.take((id, &method, params), owner, listener) {
                    QuestionHandling::Now(message) => {
                        if self.queue.try_send(Queued { id: None, message }).is_err() {
                            self.log_unmatched(|| {
                                "the answer to a request of a server that does not read".to_owned()
                            });
                        }
                    }
                    QuestionHandling::Later(answer) => self.answer_later(answer),
                    QuestionHandling::Dropped => {
                        self.log_unmatched(|| {
                            "a request that cannot be answered, or is already open".to_owned()
                        });
                    }
                }
            }
            Incoming::Notification { method, params } => self.notice(&method, params, listener),
        }
    }

    fn notice(&self, method: &str, params: Option<&RawValue>, listener: &SharedListener) {
        match method {
            "notifications/progress" => self.report(message::progress(params)),
            "notifications/message" => {
                if let Owner::One(Bridge { log: Some(log), .. }) = self.owner(|bridge| bridge.log.is_some())
                    && let Some(line) = message::log_line(params)
                {
                    log.say(line);
                }
            }
            "notifications/subscriptions/acknowledged" => {
                self.mark_acknowledged(message::subscription(params))
            }
            "notifications/cancelled" => {
                let Some(id) = message::cancelled_request(params) else { return };
                if !self.questions.cancel(id)
                    && let Some(id) = message::hub_request_id(Some(id))
                {
                    self.answer(id, Err(ClientError::Protocol("the server ended the request".to_owned())));
                }
            }
            _ => match message::server_change(method, params) {
                Some(change) => listener.on_change(change),
                None => self.log_unmatched(|| format!("the notification `{}`", shown(method.as_bytes()))),
            },
        }
    }

    /// Sends an answer to the server when it is available, if the connection still exists.
    fn answer_later(self: &Arc<Self>, answer: BoxFuture<'static, Option<Reply>>) {
        let pipe = self.clone();
        let answering = async move {
            let Some(mut reply) = answer.await else { return };
            let message = std::mem::take(&mut reply.message);
            // This fails when the connection has ended, and then nobody waits for the answer.
            let _ = pipe.queue.send(Queued { id: None, message }).await;
        };
        let ended = self.ended.clone();
        self.supervisor.spawn(Stage::Work, format!("upstream {}: a question", self.server), async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = answering => {}
            }
        });
    }

    fn mark_acknowledged(&self, id: Option<RequestId>) {
        let state = self.state();
        let acknowledged = id.and_then(|id| state.waiting.get(&id)?.acknowledged.as_ref());
        if let Some(acknowledged) = acknowledged {
            acknowledged.notify_one();
        }
    }

    fn report(&self, progress: Option<(RequestId, Progress)>) {
        let sink = progress.as_ref().and_then(|(id, _)| self.state().waiting.get(id)?.progress.clone());
        match (sink, progress) {
            (Some(sink), Some((_, progress))) => sink(progress),
            _ => self.log_unmatched(|| {
                "progress of an unknown call, or of one that did not request it".to_owned()
            }),
        }
    }

    /// Writes until the connection fails; returns why.
    pub(super) async fn write(&self, mut to: impl Transmit, mut queued: mpsc::Receiver<Queued>) -> String {
        loop {
            let cancelled = std::mem::take(&mut self.state().cancelled);
            for id in cancelled {
                let message = message::cancelled(id, "the caller no longer wants the result");
                if let Err(TransmitError::Connection(why)) = to.transmit(None, message).await {
                    return why;
                }
            }
            let Queued { id, message } = tokio::select! {
                biased;
                () = self.cancels.notified() => continue,
                (id, error) = to.late() => match self.transmit_failed(id, error) {
                    Some(why) => return why,
                    None => continue,
                },
                queued = queued.recv() => match queued {
                    Some(queued) => queued,
                    None => return "the connection was closed".to_owned(),
                },
            };
            if id.is_some_and(|id| !self.mark_sent(id)) {
                continue;
            }
            if let Err(error) = to.transmit(id, message).await
                && let Some(why) = self.transmit_failed(id, error)
            {
                return why;
            }
        }
    }

    /// Fails the request whose message was not delivered; returns the reason if the connection has ended.
    fn transmit_failed(&self, id: Option<RequestId>, error: TransmitError) -> Option<String> {
        match (error, id) {
            (TransmitError::Connection(why), _) => return Some(why),
            (TransmitError::Message(error), Some(id)) => self.answer(id, Err(error)),
            (TransmitError::Message(error), None) => {
                tracing::debug!(server = %self.server, %error, "a message of the hub was not delivered");
            }
        }
        None
    }
}
