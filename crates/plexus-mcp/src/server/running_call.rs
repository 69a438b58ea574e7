//! A call while it runs: what it tells its client on the way, and how it ends.
//!
//! Whoever has it drives it, and it gets no further than it is driven. Dropped anywhere, the call is seen through without
//! a listener: what it asks from then on has nobody to answer it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use plexus_auth::Principal;
use plexus_kit::SeeThrough;
use plexus_proto::CallId;
use plexus_tools::{
    Answers, Ask, Begun, Call, CallReply, Capabilities, Dispatcher, LogLevel, LogLine, LogSink, Progress,
    Question, Unasked,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// What waits to be told. Progress and log lines are dropped when it is full; a question waits.
const QUEUE: usize = 64;
/// How often one call may ask.
const MAX_ROUNDS: usize = 16;

/// What a call says while it runs.
pub(super) enum CallEvent {
    Progress(Progress),
    Log(LogLine),
    Asked(Round),
}

/// Questions that are asked together.
pub(super) struct Round {
    pub(super) questions: Vec<Question>,
    /// Closed when nobody waits any more. Dropped, it says that the client is gone.
    pub(super) answer: oneshot::Sender<Result<Answers, Unasked>>,
}

pub(super) enum Next {
    Event(CallEvent),
    Ended(CallReply),
}

/// What a client wants to hear of a call, and what it can be asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wants {
    pub(super) progress: bool,
    pub(super) log: Option<LogLevel>,
    pub(super) can: Capabilities,
}

pub(super) struct RunningCall {
    call_id: CallId,
    /// Stops the work; the call then ends as cancelled.
    pub(super) cancel: CancellationToken,
    reply: SeeThrough<CallReply>,
    told: Option<mpsc::Receiver<CallEvent>>,
    /// What comes before anything else.
    first: Option<CallEvent>,
    asker: Option<Arc<Asker>>,
    /// How it ended, while there is something left to tell.
    ended: Option<CallReply>,
}

impl RunningCall {
    /// For a client that wants to hear nothing, nothing is made to tell it with.
    pub(super) fn begin(
        dispatcher: &Dispatcher,
        principal: Arc<Principal>,
        mut call: Call,
        wants: Wants,
    ) -> Self {
        // Whether it takes tasks is no question to it.
        let can_be_asked = Capabilities { tasks: false, ..wants.can } != Capabilities::default();
        let mut asker = None;
        let told = (wants.progress || wants.log.is_some() || can_be_asked).then(|| {
            let (sender, told) = mpsc::channel(QUEUE);
            if wants.progress {
                let sender = sender.clone();
                call.progress = Some(Arc::new(move |progress| {
                    let _ = sender.try_send(CallEvent::Progress(progress));
                }));
            }
            if let Some(least) = wants.log {
                let sender = sender.clone();
                let sink = Arc::new(move |line| {
                    let _ = sender.try_send(CallEvent::Log(line));
                });
                call.log = Some(LogSink { least, sink });
            }
            if can_be_asked {
                let mine = Asker { can: Mutex::new(wants.can), told: sender, rounds: AtomicUsize::new(0) };
                let mine = Arc::new(mine);
                call.asker = Some(mine.clone());
                asker = Some(mine);
            }
            told
        });
        let cancel = call.cancel.clone();
        let Begun { call_id, reply } = dispatcher.begin(principal, call);
        Self { call_id, cancel, reply, told, first: None, asker, ended: None }
    }

    pub(super) fn call_id(&self) -> CallId {
        self.call_id
    }

    /// What comes next. What was told comes before the end; after the end nothing comes. Nothing is lost when this is
    /// dropped before it is ready.
    pub(super) async fn next(&mut self) -> Next {
        if let Some(first) = self.first.take() {
            return Next::Event(first);
        }
        let Some(told) = &mut self.told else { return Next::Ended((&mut self.reply).await) };
        if self.ended.is_none() {
            tokio::select! {
                biased;
                Some(told) = told.recv() => return Next::Event(told),
                reply = &mut self.reply => self.ended = Some(reply),
            }
        }
        match (told.try_recv(), self.ended.take()) {
            (Ok(told), ended) => {
                self.ended = ended;
                Next::Event(told)
            }
            (Err(_), Some(reply)) => Next::Ended(reply),
            (Err(_), None) => std::future::pending().await,
        }
    }

    /// From now on the client can be asked this: it says so with every request.
    pub(super) fn now_can(&self, can: Capabilities) {
        if let Some(asker) = &self.asker {
            *asker.can.lock().unwrap_or_else(PoisonError::into_inner) = can;
        }
    }

    /// The next that comes is this again.
    pub(super) fn put_back(&mut self, told: CallEvent) {
        self.first = Some(told);
    }
}

/// Brings the questions of one call to whoever drives it.
struct Asker {
    can: Mutex<Capabilities>,
    told: mpsc::Sender<CallEvent>,
    rounds: AtomicUsize,
}

impl Ask for Asker {
    fn capabilities(&self) -> Capabilities {
        *self.can.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, questions: Vec<Question>) -> BoxFuture<'static, Result<Answers, Unasked>> {
        if self.rounds.fetch_add(1, Ordering::Relaxed) >= MAX_ROUNDS {
            return async { Err(Unasked::TooMany("the call has asked too often")) }.boxed();
        }
        let told = self.told.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            let round = CallEvent::Asked(Round { questions, answer });
            told.send(round).await.map_err(|_| Unasked::Gone)?;
            answered.await.unwrap_or(Err(Unasked::Gone))
        }
        .boxed()
    }
}
