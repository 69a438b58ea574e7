//! Requests and answers that share one channel in each direction: the standard streams of a process, or an
//! event stream and the endpoint for messages.
//!
//! One task reads and one writes; both end with the [`Pipe`]. Bounds:
//!
//! | resource | bound | beyond it |
//! | --- | --- | --- |
//! | unanswered requests | [`MAX_WAITING`] | refused immediately, may be sent again |
//! | messages to be written | [`QUEUE_CAPACITY`] | the caller waits, and can be cancelled |
//! | answers to requests of the server | the same queue | immediate answers are dropped if the server does not read; answers of people wait |
//! | cancellations to be written | one per sent request | – |
//! | consecutive lines that are not messages | [`MAX_GARBAGE`] | the connection is closed, with the last line in the reason |
//!
//! A request counts as *sent* from when its first byte may have been written. Only then can the server have
//! acted on it: an unsent request is dropped silently when it is cancelled, and may be sent again when the
//! connection is lost.

mod traffic;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use plexus_kit::{Stage, Supervisor};
use plexus_tools::ProgressSink;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::message::RequestId;
use super::server_questions::{DepartedCallers, Owner, ServerQuestions};
use super::{Bridge, Chatter, ClientError, SharedListener};

const MAX_WAITING: usize = 1024;
const QUEUE_CAPACITY: usize = 64;
/// A banner on standard output is common and tolerated.
const MAX_GARBAGE: usize = 100;

/// The source of incoming messages.
pub(super) trait Receive: Send + 'static {
    /// The next message within the size limit, or why there will be no more.
    fn receive(&mut self) -> impl Future<Output = Result<Bytes, String>> + Send;
}

/// The sink of outgoing messages.
pub(super) trait Transmit: Send + 'static {
    /// Sends a message, waiting until the other side has room. A request has an id.
    fn transmit(
        &mut self,
        id: Option<RequestId>,
        message: Vec<u8>,
    ) -> impl Future<Output = Result<(), TransmitError>> + Send;

    /// Waits for a failure of a message that was already accepted for transmission. Cancel-safe.
    fn late(&mut self) -> impl Future<Output = LateFailure> + Send {
        std::future::pending()
    }
}

#[derive(Debug)]
pub(super) enum TransmitError {
    /// This message was not delivered; its caller gets the error.
    Message(ClientError),
    /// No further message can be delivered.
    Connection(String),
}

/// A message that failed after `transmit` returned, with its id if it is a request.
pub(super) type LateFailure = (Option<RequestId>, TransmitError);

/// The text of a `result`, as a slice of its message.
pub(super) type Answer = Result<Bytes, ClientError>;

/// Options of a request.
#[derive(Default)]
pub(super) struct RequestOptions<'a> {
    pub(super) progress: Option<ProgressSink>,
    pub(super) cancel: Option<&'a CancellationToken>,
    /// The caller of the request, if the server may address it.
    pub(super) bridge: Option<Bridge>,
    /// Notified when the server has acknowledged a long-running request.
    pub(super) acknowledged: Option<Arc<Notify>>,
    /// Do not send a cancellation when the answer is no longer wanted, because the server may not expect it
    /// yet.
    pub(super) without_cancellation: bool,
}

/// Cheap to clone; ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Pipe {
    shared: Arc<Shared>,
    _end_on_drop: Arc<DropGuard>,
}

impl Pipe {
    /// `server` is the name used in tasks and log lines.
    pub(super) fn open(
        server: &str,
        receive: impl Receive,
        transmit: impl Transmit,
        listener: SharedListener,
        chatter: Arc<Chatter>,
        supervisor: &Supervisor,
    ) -> Self {
        let (queue, queued) = mpsc::channel(QUEUE_CAPACITY);
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            state: Mutex::default(),
            next: AtomicU64::new(1),
            unmatched_count: AtomicU64::new(0),
            queue,
            cancels: Notify::new(),
            questions: Arc::default(),
            supervisor: supervisor.clone(),
            ended: CancellationToken::new(),
        });
        // Stopped in the last stage, because calls in flight need the connection until they have ended.
        let stop = supervisor.stopping(Stage::Storage);
        let (reading, writing) = (Lifeline(shared.clone()), Lifeline(shared.clone()));
        supervisor.spawn(Stage::Storage, format!("upstream {server}: reader"), async move {
            let pipe = &reading.0;
            tokio::select! {
                () = pipe.ended.cancelled() => {}
                () = stop.cancelled() => pipe.end("the hub is shutting down"),
                why = pipe.read(receive, &listener, &chatter) => pipe.end(&why),
            }
        });
        supervisor.spawn(Stage::Storage, format!("upstream {server}: writer"), async move {
            let pipe = &writing.0;
            tokio::select! {
                () = pipe.ended.cancelled() => {}
                why = pipe.write(transmit, queued) => pipe.end(&why),
            }
        });
        let last = Arc::new(shared.ended.clone().drop_guard());
        Self { shared, _end_on_drop: last }
    }

    /// Sends the message that `build` makes for an id, and waits for the answer. Dropping the future cancels.
    pub(super) async fn request(
        &self,
        build: impl FnOnce(RequestId) -> Vec<u8>,
        manner: RequestOptions<'_>,
    ) -> Answer {
        self.shared.request(build, manner).await
    }

    /// Queues a notification, waiting for room.
    pub(super) async fn notify(&self, message: Vec<u8>) -> Result<(), ClientError> {
        let queued = Queued { id: None, message };
        tokio::select! {
            sent = self.shared.queue.send(queued) => {
                sent.map_err(|_| ClientError::Unreachable(self.shared.why_ended()))
            }
            () = self.shared.ended.cancelled() => Err(ClientError::Unreachable(self.shared.why_ended())),
        }
    }

    /// Registers a caller that messages of the server may concern, until the returned value is dropped.
    pub(super) fn present(&self, bridge: Bridge) -> PresentCaller {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.shared.state().present.insert(id, bridge);
        PresentCaller { shared: self.shared.clone(), id, continues: false }
    }

    /// The same pipe for a task that must not keep it open.
    pub(super) fn borrowed(&self) -> BorrowedPipe {
        BorrowedPipe(self.shared.clone())
    }

    /// Resolves with the reason when the pipe has ended.
    pub(super) async fn closed(&self) -> String {
        self.shared.ended.cancelled().await;
        self.shared.why_ended()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }

    /// Fails all waiting requests with this reason. Does nothing if the pipe has already ended.
    pub(super) fn close(&self, why: &str) {
        self.shared.end(why);
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

/// A pipe that does not stay open for its holder.
pub(super) struct BorrowedPipe(Arc<Shared>);

impl BorrowedPipe {
    pub(super) async fn request(
        &self,
        build: impl FnOnce(RequestId) -> Vec<u8>,
        manner: RequestOptions<'_>,
    ) -> Answer {
        self.0.request(build, manner).await
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.ended.is_cancelled()
    }
}

/// A caller for whom the server works, whether or not a request is in flight.
pub(super) struct PresentCaller {
    shared: Arc<Shared>,
    id: RequestId,
    /// The server may continue after this is dropped.
    pub(super) continues: bool,
}

impl Drop for PresentCaller {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(bridge) = state.present.remove(&self.id)
            && self.continues
        {
            state.departed.leave(self.id, bridge.caller);
        }
    }
}

/// Ends the pipe when one of its tasks ends for any reason, so that no request waits for a dead task.
struct Lifeline(Arc<Shared>);

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.end("the connection was closed");
    }
}

struct Shared {
    server: String,
    state: Mutex<State>,
    next: AtomicU64,
    /// Number of messages that matched no request.
    unmatched_count: AtomicU64,
    queue: mpsc::Sender<Queued>,
    /// Notified when `State::cancelled` is not empty.
    cancels: Notify,
    /// Open questions of the server.
    questions: Arc<ServerQuestions>,
    supervisor: Supervisor,
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    waiting: HashMap<RequestId, WaitingRequest>,
    /// Callers for whom the server works besides those of waiting requests.
    present: HashMap<RequestId, Bridge>,
    departed: DepartedCallers,
    /// Requests whose cancellation must be sent.
    cancelled: Vec<RequestId>,
    why_ended: Option<String>,
}

struct WaitingRequest {
    answer: oneshot::Sender<Answer>,
    progress: Option<ProgressSink>,
    bridge: Option<Bridge>,
    acknowledged: Option<Arc<Notify>>,
    sent: bool,
}

struct Queued {
    /// Set for a request.
    id: Option<RequestId>,
    message: Vec<u8>,
}

/// A request that its caller waits for.
struct InFlight<'a> {
    shared: &'a Shared,
    id: RequestId,
    without_cancellation: bool,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.forget(self.id, self.without_cancellation);
        }
    }
}

impl Shared {
    /// Locked briefly, never across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn why_ended(&self) -> String {
        self.state().why_ended.clone().unwrap_or_else(|| "the connection was closed".to_owned())
    }

    async fn request(&self, build: impl FnOnce(RequestId) -> Vec<u8>, manner: RequestOptions<'_>) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, mut answered) = oneshot::channel();
        let RequestOptions { progress, bridge, acknowledged, .. } = manner;
        self.expect(id, WaitingRequest { answer, progress, bridge, acknowledged, sent: false })?;
        let mut in_flight =
            InFlight { shared: self, id, without_cancellation: manner.without_cancellation, answered: false };
        let message = build(id);
        let cancelled = async {
            match manner.cancel {
                Some(cancel) => cancel.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let exchange = async {
            tokio::select! {
                biased;
                answer = &mut answered => return answer,
                // This fails only when the connection has ended, and then an answer follows.
                room = self.queue.reserve() => if let Ok(room) = room {
                    room.send(Queued { id: Some(id), message });
                },
            }
            answered.await
        };
        let answer = tokio::select! {
            biased;
            answer = exchange => answer,
            () = cancelled => return Err(ClientError::Cancelled),
        };
        in_flight.answered = true;
        answer.unwrap_or_else(|_| Err(ClientError::Lost(self.why_ended())))
    }

    fn expect(&self, id: RequestId, waiting: WaitingRequest) -> Result<(), ClientError> {
        let mut state = self.state();
        if let Some(why) = &state.why_ended {
            return Err(ClientError::Unreachable(why.clone()));
        }
        if self.ended.is_cancelled() {
            return Err(ClientError::Unreachable("the connection was closed".to_owned()));
        }
        if state.waiting.len() >= MAX_WAITING {
            return Err(ClientError::Busy(format!("the server has not answered {MAX_WAITING} requests yet")));
        }
        state.waiting.insert(id, waiting);
        Ok(())
    }

    /// The caller no longer waits: a later answer is a stray, and the request is cancelled at the server if
    /// it was sent.
    fn forget(&self, id: RequestId, without_cancellation: bool) {
        let mut state = self.state();
        let Some(WaitingRequest { sent: true, bridge, .. }) = state.waiting.remove(&id) else { return };
        if let Some(bridge) = bridge {
            state.departed.leave(id, bridge.caller);
        }
        if !without_cancellation && state.why_ended.is_none() {
            state.cancelled.push(id);
            drop(state);
            self.cancels.notify_one();
        }
    }

    /// Marks a request as sent; returns whether it is still wanted.
    fn mark_sent(&self, id: RequestId) -> bool {
        let mut state = self.state();
        let waiting = state.waiting.get_mut(&id);
        waiting.map(|waiting| waiting.sent = true).is_some()
    }

    fn answer(&self, id: RequestId, answer: Answer) {
        let waiting = {
            let mut state = self.state();
            state.departed.answered(id);
            state.waiting.remove(&id)
        };
        match waiting {
            // A caller that is gone no longer needs the answer.
            Some(waiting) => drop(waiting.answer.send(answer)),
            None => self.log_unmatched(|| "an answer to an unknown or cancelled request".to_owned()),
        }
    }

    /// The caller of a message that names no request.
    fn owner(&self, can_use: impl Fn(&Bridge) -> bool) -> Owner {
        let state = self.state();
        let bridged = state.waiting.iter().filter_map(|(id, waiting)| Some((*id, waiting.bridge.as_ref()?)));
        let present = state.present.iter().map(|(id, bridge)| (*id, bridge));
        Owner::among(bridged.chain(present), &state.departed, can_use)
    }

    /// Some servers send mostly unsolicited messages, so the description is only built if it is logged.
    fn log_unmatched(&self, describe: impl FnOnce() -> String) {
        let unmatched_count = self.unmatched_count.fetch_add(1, Ordering::Relaxed) + 1;
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(server = %self.server, strays = unmatched_count, "dropped: {}", describe());
        }
    }

    fn end(&self, why: &str) {
        let waiting = {
            let mut state = self.state();
            if state.why_ended.is_some() {
                return;
            }
            state.why_ended = Some(why.to_owned());
            // Cancelled while the lock is held, so that everyone who sees the reason also sees that it has
            // ended.
            self.ended.cancel();
            state.cancelled.clear();
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            let error = if waiting.sent { ClientError::Lost } else { ClientError::Unreachable };
            let _ = waiting.answer.send(Err(error(why.to_owned())));
        }
    }
}

#[cfg(test)]
mod tests;
