//! A running call: its events for the client, and its end.
//!
//! The owner drives the call by polling [`RunningCall::next`]. If it is dropped, the call continues as a supervised
//! task, and its questions are answered with an error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use plexus_auth::Principal;
use plexus_kit::RunToCompletion;
use plexus_proto::CallId;
use plexus_tools::{
    Answers, Ask, AskError, Call, CallReply, Capabilities, Dispatcher, LogLevel, LogLine, LogSink,
    PendingCall, Progress, Question,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Capacity of the event queue. If it is full, progress and log lines are dropped, and questions wait.
const QUEUE_CAPACITY: usize = 64;
/// Most rounds of questions in a call.
const MAX_ROUNDS: usize = 16;

/// An event of a running call.
pub(super) enum CallEvent {
    Progress(Progress),
    Log(LogLine),
    Questions(QuestionRound),
}

/// Questions that are asked together.
pub(super) struct QuestionRound {
    pub(super) questions: Vec<Question>,
    /// Closed when the call no longer waits. Dropping it reports that the client is gone.
    pub(super) answer: oneshot::Sender<Result<Answers, AskError>>,
}

pub(super) enum CallStep {
    Event(CallEvent),
    Ended(CallReply),
}

/// The events that a client wants to receive, and the questions that it supports.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientOptions {
    pub(super) progress: bool,
    pub(super) log: Option<LogLevel>,
    pub(super) capabilities: Capabilities,
}

pub(super) struct RunningCall {
    call_id: CallId,
    /// Stops the work; the call then ends as cancelled.
    pub(super) cancel: CancellationToken,
    reply: RunToCompletion<CallReply>,
    events: Option<mpsc::Receiver<CallEvent>>,
    /// An event that was put back.
    put_back: Option<CallEvent>,
    asker: Option<Arc<Asker>>,
    /// The reply, while events are left.
    ended: Option<CallReply>,
}

impl RunningCall {
    /// Begins a call. There is no event queue if the client wants no events and supports no questions.
    pub(super) fn begin(
        dispatcher: &Dispatcher,
        principal: Arc<Principal>,
        mut call: Call,
        options: ClientOptions,
    ) -> Self {
        // Support for tasks is not a question.
        let supports_questions =
            Capabilities { tasks: false, ..options.capabilities } != Capabilities::default();
        let mut asker = None;
        let events = (options.progress || options.log.is_some() || supports_questions).then(|| {
            let (sender, events) = mpsc::channel(QUEUE_CAPACITY);
            if options.progress {
                let sender = sender.clone();
                call.progress = Some(Arc::new(move |progress| {
                    let _ = sender.try_send(CallEvent::Progress(progress));
                }));
            }
            if let Some(least) = options.log {
                let sender = sender.clone();
                let sink = Arc::new(move |line| {
                    let _ = sender.try_send(CallEvent::Log(line));
                });
                call.log = Some(LogSink { least, sink });
            }
            if supports_questions {
                let shared = Arc::new(Asker {
                    capabilities: Mutex::new(options.capabilities),
                    events: sender,
                    rounds: AtomicUsize::new(0),
                });
                call.asker = Some(shared.clone());
                asker = Some(shared);
            }
            events
        });
        let cancel = call.cancel.clone();
        let PendingCall { call_id, reply } = dispatcher.begin(principal, call);
        Self { call_id, cancel, reply, events, put_back: None, asker, ended: None }
    }

    pub(super) fn call_id(&self) -> CallId {
        self.call_id
    }

    /// The next event, or the end after all events; then pending forever. Cancel-safe.
    pub(super) async fn next(&mut self) -> CallStep {
        if let Some(event) = self.put_back.take() {
            return CallStep::Event(event);
        }
        let Some(events) = &mut self.events else { return CallStep::Ended((&mut self.reply).await) };
        if self.ended.is_none() {
            tokio::select! {
                biased;
                Some(event) = events.recv() => return CallStep::Event(event),
                reply = &mut self.reply => self.ended = Some(reply),
            }
        }
        match (events.try_recv(), self.ended.take()) {
            (Ok(event), ended) => {
                self.ended = ended;
                CallStep::Event(event)
            }
            (Err(_), Some(reply)) => CallStep::Ended(reply),
            (Err(_), None) => std::future::pending().await,
        }
    }

    /// Replaces the client's capabilities, which each request declares anew.
    pub(super) fn set_capabilities(&self, capabilities: Capabilities) {
        if let Some(asker) = &self.asker {
            *asker.capabilities.lock().unwrap_or_else(PoisonError::into_inner) = capabilities;
        }
    }

    /// Makes [`next`](Self::next) return this event again.
    pub(super) fn put_back(&mut self, event: CallEvent) {
        self.put_back = Some(event);
    }
}

/// Passes the questions of a call to the owner of its [`RunningCall`].
struct Asker {
    capabilities: Mutex<Capabilities>,
    events: mpsc::Sender<CallEvent>,
    rounds: AtomicUsize,
}

impl Ask for Asker {
    fn capabilities(&self) -> Capabilities {
        *self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, questions: Vec<Question>) -> BoxFuture<'static, Result<Answers, AskError>> {
        if self.rounds.fetch_add(1, Ordering::Relaxed) >= MAX_ROUNDS {
            return async { Err(AskError::TooMany("the call has asked too many times")) }.boxed();
        }
        let events = self.events.clone();
        async move {
            let (answer, answers) = oneshot::channel();
            let round = CallEvent::Questions(QuestionRound { questions, answer });
            events.send(round).await.map_err(|_| AskError::Gone)?;
            answers.await.unwrap_or(Err(AskError::Gone))
        }
        .boxed()
    }
}
