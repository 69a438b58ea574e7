//! Requests and answers that share one channel in each direction: a process's standard streams, or an event stream
//! and the address to post to.
//!
//! One task reads and one writes; both end with the [`Pipe`]. What is bounded, and what happens at the bound:
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | requests without an answer | [`MAX_WAITING`] | refused at once, may be sent again |
//! | messages to be written | [`QUEUE`] | the caller waits, and can be cancelled; nobody else is held up |
//! | answers to what the server asks | the same queue | those given at once are dropped: a server that does not read gets none; those of people wait |
//! | cancellations to be written | one per request that was sent | – |
//! | what is no message, in a row | [`MAX_GARBAGE`] | the connection is closed, with the last of it as the reason |
//!
//! A request is *sent* from when its first byte may have been written. Only then can the server have acted on it: a
//! request that was not is dropped without a trace when it is cancelled, and can be sent again when the connection is
//! lost.

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
const QUEUE: usize = 64;
/// A banner on standard output is common, and forgiven.
const MAX_GARBAGE: usize = 100;

/// Where messages come from.
pub(super) trait Receive: Send + 'static {
    /// The next message, not longer than is allowed; or why there will be no more.
    fn receive(&mut self) -> impl Future<Output = Result<Bytes, String>> + Send;
}

/// Where messages go.
pub(super) trait Transmit: Send + 'static {
    /// Takes as long as the other side takes to make room. A request has an id.
    fn transmit(
        &mut self,
        id: Option<RequestId>,
        message: Vec<u8>,
    ) -> impl Future<Output = Result<(), TransmitError>> + Send;

    /// What failed after it was taken for transmitted, where that can be. Nothing is lost when this is dropped half-way.
    fn late(&mut self) -> impl Future<Output = Late> + Send {
        std::future::pending()
    }
}

#[derive(Debug)]
pub(super) enum TransmitError {
    /// This message did not get there; its caller is told so.
    Message(ClientError),
    /// None will any more.
    Connection(String),
}

/// A message, with its id if it is a request, that failed on its own.
pub(super) type Late = (Option<RequestId>, TransmitError);

/// The text of a `result`, a slice of the message it came in.
pub(super) type Answer = Result<Bytes, ClientError>;

/// How a request is treated beside being sent.
#[derive(Default)]
pub(super) struct Manner<'a> {
    pub(super) progress: Option<ProgressSink>,
    pub(super) cancel: Option<&'a CancellationToken>,
    /// Of a request that is made for somebody, whom the server may speak to.
    pub(super) bridge: Option<Bridge>,
    /// Told when the server says that it has begun to do what was asked for, and goes on doing it.
    pub(super) begun: Option<Arc<Notify>>,
    /// Say nothing to the server when the answer is no longer wanted: it may not expect that yet.
    pub(super) quiet: bool,
}

/// Cheap to clone; ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Pipe {
    shared: Arc<Shared>,
    _last: Arc<DropGuard>,
}

impl Pipe {
    /// `server` is the name that the tasks and log lines carry.
    pub(super) fn open(
        server: &str,
        receive: impl Receive,
        transmit: impl Transmit,
        listener: SharedListener,
        chatter: Arc<Chatter>,
        supervisor: &Supervisor,
    ) -> Self {
        let (queue, queued) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            state: Mutex::default(),
            next: AtomicU64::new(1),
            strays: AtomicU64::new(0),
            queue,
            cancels: Notify::new(),
            asked: Arc::default(),
            supervisor: supervisor.clone(),
            ended: CancellationToken::new(),
        });
        // In the last stage: calls in flight need the connection until they have ended.
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
        Self { shared, _last: last }
    }

    /// Sends what `build` makes for the id it is given, and waits for the answer. Dropping the future cancels.
    pub(super) async fn request(
        &self,
        build: impl FnOnce(RequestId) -> Vec<u8>,
        manner: Manner<'_>,
    ) -> Answer {
        self.shared.request(build, manner).await
    }

    /// Waits until there is room for it.
    pub(super) async fn notify(&self, message: Vec<u8>) -> Result<(), ClientError> {
        let queued = Queued { id: None, message };
        tokio::select! {
            sent = self.shared.queue.send(queued) => {
                sent.map_err(|_| ClientError::Unreachable(self.shared.why_ended()))
            }
            () = self.shared.ended.cancelled() => Err(ClientError::Unreachable(self.shared.why_ended())),
        }
    }

    /// Somebody may be meant by what the server says for as long as this is kept.
    pub(super) fn present(&self, bridge: Bridge) -> Present {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.shared.state().present.insert(id, bridge);
        Present { shared: self.shared.clone(), id, goes_on: false }
    }

    /// The same pipe for a task that must not keep it open.
    pub(super) fn borrowed(&self) -> BorrowedPipe {
        BorrowedPipe(self.shared.clone())
    }

    /// Why it has ended, once it has.
    pub(super) async fn closed(&self) -> String {
        self.shared.ended.cancelled().await;
        self.shared.why_ended()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }

    /// All that wait are told why. Does nothing when it has ended before.
    pub(super) fn close(&self, why: &str) {
        self.shared.end(why);
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

/// A pipe that others keep open.
pub(super) struct BorrowedPipe(Arc<Shared>);

impl BorrowedPipe {
    pub(super) async fn request(
        &self,
        build: impl FnOnce(RequestId) -> Vec<u8>,
        manner: Manner<'_>,
    ) -> Answer {
        self.0.request(build, manner).await
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.ended.is_cancelled()
    }
}

/// Somebody whom the server works for, whether or not a request is under way.
pub(super) struct Present {
    shared: Arc<Shared>,
    id: RequestId,
    /// The server may go on with it when this is dropped.
    pub(super) goes_on: bool,
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(bridge) = state.present.remove(&self.id)
            && self.goes_on
        {
            state.departed.leave(self.id, bridge.caller);
        }
    }
}

/// Ends the pipe when one of its tasks does, however that came: nobody waits for a task that is gone.
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
    /// Messages that nobody waited for.
    strays: AtomicU64,
    queue: mpsc::Sender<Queued>,
    /// There is something in `State::cancelled`.
    cancels: Notify,
    /// Questions of the server.
    asked: Arc<ServerQuestions>,
    supervisor: Supervisor,
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    waiting: HashMap<RequestId, Waiting>,
    /// Whom the server works for beside those who wait.
    present: HashMap<RequestId, Bridge>,
    departed: DepartedCallers,
    /// Requests that the server is to be told about.
    cancelled: Vec<RequestId>,
    why_ended: Option<String>,
}

struct Waiting {
    answer: oneshot::Sender<Answer>,
    progress: Option<ProgressSink>,
    bridge: Option<Bridge>,
    begun: Option<Arc<Notify>>,
    sent: bool,
}

struct Queued {
    /// Of a request.
    id: Option<RequestId>,
    message: Vec<u8>,
}

/// A request that its caller waits for.
struct InFlight<'a> {
    shared: &'a Shared,
    id: RequestId,
    quiet: bool,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.forget(self.id, self.quiet);
        }
    }
}

impl Shared {
    /// Held for moments, and never while waiting.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn why_ended(&self) -> String {
        self.state().why_ended.clone().unwrap_or_else(|| "the connection was closed".to_owned())
    }

    async fn request(&self, build: impl FnOnce(RequestId) -> Vec<u8>, manner: Manner<'_>) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, mut answered) = oneshot::channel();
        let Manner { progress, bridge, begun, .. } = manner;
        self.expect(id, Waiting { answer, progress, bridge, begun, sent: false })?;
        let mut in_flight = InFlight { shared: self, id, quiet: manner.quiet, answered: false };
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
                // It fails only when the connection has ended, and then there is an answer.
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

    fn expect(&self, id: RequestId, waiting: Waiting) -> Result<(), ClientError> {
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

    /// The caller is gone: what comes back is a stray, and the server hears of it if it has heard of the request.
    fn forget(&self, id: RequestId, quiet: bool) {
        let mut state = self.state();
        let Some(Waiting { sent: true, bridge, .. }) = state.waiting.remove(&id) else { return };
        if let Some(bridge) = bridge {
            state.departed.leave(id, bridge.caller);
        }
        if !quiet && state.why_ended.is_none() {
            state.cancelled.push(id);
            drop(state);
            self.cancels.notify_one();
        }
    }

    /// Whether the request is still wanted; from now on it counts as sent.
    fn sending(&self, id: RequestId) -> bool {
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
            // A caller that is gone by now does not want it any more.
            Some(waiting) => drop(waiting.answer.send(answer)),
            None => self.stray(|| "an answer to no request, or to one that was cancelled".to_owned()),
        }
    }

    /// Whom the server means that names no request.
    fn owner(&self, can_use: impl Fn(&Bridge) -> bool) -> Owner {
        let state = self.state();
        let bridged = state.waiting.iter().filter_map(|(id, waiting)| Some((*id, waiting.bridge.as_ref()?)));
        let present = state.present.iter().map(|(id, bridge)| (*id, bridge));
        Owner::among(bridged.chain(present), &state.departed, can_use)
    }

    /// Some servers send nothing but what nobody asked for, so words are made only for those who read them.
    fn stray(&self, what: impl FnOnce() -> String) {
        let strays = self.strays.fetch_add(1, Ordering::Relaxed) + 1;
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(server = %self.server, strays, "dropped: {}", what());
        }
    }

    fn end(&self, why: &str) {
        let waiting = {
            let mut state = self.state();
            if state.why_ended.is_some() {
                return;
            }
            state.why_ended = Some(why.to_owned());
            // SharedQuestion with it: whoever is told why finds that it has ended.
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
