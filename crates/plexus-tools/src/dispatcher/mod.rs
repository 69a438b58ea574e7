//! The one way in for every call.

mod call;
mod commit;
mod conclude;
mod deadline;
mod elsewhere;
mod handling;
mod kept;
mod keys;
mod measure;
mod on_node;
mod prepare;
mod record;
mod route;
mod sending;

use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use plexus_auth::Principal;
use plexus_kit::metrics::count;
use plexus_kit::{Clock, Metrics, Quota, Stage, Supervisor, shell};
use plexus_proto::{CallId, ErrorCode, SessionId};
use plexus_store::{IdempotencyRecord, Store, StoreError};
use serde_json::Value;
use tokio::sync::watch;
use tracing::{Instrument, Span};

use crate::emit::{Emitter, SessionLog};
use crate::handler::Transaction;
use crate::nodes::Nodes;
use crate::sessions::SessionDirectory;
use crate::{CallError, Outcome, Registry, Tool, ToolContext, ToolOutput, Visible};

pub(crate) use deadline::Deadline;
pub(crate) use sending::Sending;

use handling::{bound, given_up, run_handler};
use kept::{Keep, Kept};
use keys::Keys;
use measure::CallMetrics;
use on_node::Waited;
use prepare::{Prepared, prepare, prepare_given};
use record::{CallOrigin, CallRecord};

pub use call::{Begun, Call, CallKind, CallReply, Via};
pub use prepare::request_digest;

/// Longest idempotency key.
const MAX_KEY: usize = 255;

#[derive(Debug, Clone)]
pub struct DispatcherOptions {
    /// Parent of the sessions' file folders.
    pub files_dir: PathBuf,
    pub calls_per_principal: usize,
    pub output_bytes: usize,
}

/// A dispatcher that may be gone.
#[derive(Debug, Clone)]
pub(crate) struct WeakDispatcher(Weak<Inner>);

impl WeakDispatcher {
    pub(crate) fn upgrade(&self) -> Option<Dispatcher> {
        self.0.upgrade().map(Dispatcher)
    }
}

/// Cheap to clone; all clones are one dispatcher.
#[derive(Debug, Clone)]
pub struct Dispatcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Arc<Registry>,
    store: Store,
    clock: Clock,
    supervisor: Supervisor,
    sessions: Arc<SessionDirectory>,
    running: Quota,
    keys: Keys,
    output_bytes: AtomicUsize,
    metrics: CallMetrics,
    /// Who knows the machines; a node of its own has none.
    nodes: ArcSwapOption<SharedNodes>,
    /// Calls to machines that are waited for here.
    waited: Waited,
    /// Moves when a call that nobody waited for was concluded.
    concluded: watch::Sender<u64>,
}

/// Behind one more pointer: what is swapped has a size.
#[derive(Debug, Clone)]
struct SharedNodes(Arc<dyn Nodes>);

impl Dispatcher {
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        store: Store,
        clock: Clock,
        supervisor: Supervisor,
        options: DispatcherOptions,
    ) -> Self {
        let sessions = Arc::new(SessionDirectory::new(store.clone(), clock.clone(), options.files_dir));
        Self(Arc::new(Inner {
            registry,
            store,
            clock,
            supervisor,
            sessions,
            running: Quota::new(options.calls_per_principal),
            keys: Keys::default(),
            output_bytes: AtomicUsize::new(options.output_bytes),
            metrics: CallMetrics::default(),
            nodes: ArcSwapOption::empty(),
            waited: Waited::default(),
            concluded: watch::Sender::new(0),
        }))
    }

    /// Holds for calls from now on.
    pub fn set_limits(&self, calls_per_principal: usize, output_bytes: usize) {
        self.0.running.set_limit(calls_per_principal);
        self.0.output_bytes.store(output_bytes, Ordering::Relaxed);
    }

    /// Who knows the machines that calls go to, from now on.
    pub fn set_nodes(&self, nodes: Arc<dyn Nodes>) {
        self.0.nodes.store(Some(Arc::new(SharedNodes(nodes))));
    }

    /// Lets others read what is measured here.
    pub fn register(&self, metrics: &Metrics) {
        self.0.metrics.register(metrics);
        let (running, waiting) = (self.0.clone(), self.0.clone());
        let about = "Calls that run now";
        metrics.read("plexus_tool_calls_in_flight", about, move || count(running.running.total()));
        let about = "Calls that wait for another one with the same idempotency key";
        metrics.read("plexus_tool_calls_waiting", about, move || count(waiting.keys.waiting()));
    }

    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
    }

    /// Calls that run now.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.running.total()
    }

    /// Runs a call and records it.
    ///
    /// It is seen through: a caller that goes away loses the answer, not the record. To stop the work,
    /// cancel `call.cancel`.
    pub async fn call(&self, principal: Arc<Principal>, call: Call) -> CallReply {
        self.begin(principal, call).reply.await
    }

    /// The same for who wants to know the call before it has ended. It does not run before its reply is waited for.
    pub fn begin(&self, principal: Arc<Principal>, call: Call) -> Begun {
        self.see_through(principal, call, None)
    }

    /// Whether there is what this would call, to this principal; also behind a tool that calls others.
    pub fn may_call(&self, principal: &Principal, name: &str, arguments: &Value) -> Result<(), CallError> {
        prepare::visible(&self.0.registry.visible_to(principal), name, arguments)
    }

    /// The error of a name that was looked up in vain, as this principal is told it.
    #[must_use]
    pub fn explained(&self, principal: &Principal, name: &str, error: CallError) -> CallError {
        self.0.for_admins(principal, name, error)
    }

    /// The same with a tool that need not be in the registry, in place of what the call names: for one that is tried out
    /// before it is there. Whoever hands it over has checked that the principal may have it run.
    pub(crate) async fn try_out(&self, principal: Arc<Principal>, call: Call, tool: Tool) -> CallReply {
        self.see_through(principal, call, Some(Arc::new(tool))).reply.await
    }

    /// The same dispatcher for what it holds itself.
    pub(crate) fn downgrade(&self) -> WeakDispatcher {
        WeakDispatcher(Arc::downgrade(&self.0))
    }

    fn see_through(&self, principal: Arc<Principal>, call: Call, tool: Option<Arc<Tool>>) -> Begun {
        let call_id = call.call_id.unwrap_or_else(CallId::new);
        let inner = self.0.clone();
        let span = measure::span(call_id, &call);
        let work = async move {
            let mut call = call;
            let _until_end = call.until_end.take();
            let began = Instant::now();
            let ended = inner.run(call_id, principal, call, tool).await;
            inner.metrics.ended(&ended, began.elapsed());
            ended
        };
        let reply = self.0.supervisor.see_through(Stage::Work, "call", work.instrument(span));
        Begun { call_id, reply }
    }
}

impl Inner {
    async fn run(
        self: &Arc<Self>,
        call_id: CallId,
        principal: Arc<Principal>,
        mut call: Call,
        given: Option<Arc<Tool>>,
    ) -> CallReply {
        let session_id = match self.sessions.open(principal.subject(), &call.session).await {
            Ok(session_id) => session_id,
            Err(error) => {
                return CallReply {
                    call_id,
                    session_id: None,
                    tool: call.tool,
                    replayed: false,
                    result: Err(error.into()),
                };
            }
        };
        let span = Span::current();
        span.record("session_id", tracing::field::display(session_id));
        let visible = self.registry.visible_to(&principal);
        let origin = CallOrigin::new(call_id, &principal, session_id, call.via, self.clock.clone())
            .occurred(call.occurred_at.filter(|_| call.idempotency_key.is_some()));
        let (name, arguments) = (mem::take(&mut call.tool), call.arguments.take());
        let prepared = match given {
            Some(tool) => prepare_given(tool, arguments),
            None => prepare(&visible, call.kind, name, arguments),
        };
        let (tool, replayed_from, result) = match prepared {
            Err(refused) => {
                if refused.error.code != ErrorCode::UnknownTool {
                    span.record("tool", refused.tool.as_str());
                }
                let error = self.for_admins(&principal, &refused.tool, refused.error);
                let result = self.refuse(origin.of(&refused.tool, &refused.arguments, &[]), error).await;
                (refused.tool, None, result)
            }
            Ok(mut prepared) => {
                let name = prepared.tool.spec().name.to_string();
                let unrecorded = prepared.tool.spec().handling.unrecorded;
                span.record("tool", name.as_str());
                let admitted = match self.route(&prepared, &visible, &principal) {
                    Err(error) => {
                        let record = origin.of(&name, &prepared.arguments, unrecorded);
                        Admitted::run(self.refuse(record, error).await)
                    }
                    Ok(route) => {
                        let record = match &route {
                            Some(route) => origin.on(&route.node, &prepared),
                            None => origin.of(&name, &prepared.arguments, unrecorded),
                        };
                        prepared.route = route;
                        let key = call.idempotency_key.clone();
                        let context = self.context(call_id, principal, session_id, visible, call, &prepared);
                        self.admit(prepared, context, record, key).await
                    }
                };
                (name, admitted.replayed_from, admitted.result)
            }
        };
        CallReply {
            call_id,
            // A replay tells where the write is, which may have come from another session.
            session_id: Some(replayed_from.unwrap_or(session_id)),
            tool,
            replayed: replayed_from.is_some(),
            result,
        }
    }

    /// What the handler of a call gets to know.
    fn context(
        &self,
        call_id: CallId,
        principal: Arc<Principal>,
        session_id: SessionId,
        visible: Arc<Visible>,
        call: Call,
        prepared: &Prepared,
    ) -> ToolContext {
        let allowed = prepared.tool.spec().allowed_time(&prepared.arguments);
        let allowed = call.deadline.map_or(allowed, |most| allowed.min(most));
        let route = prepared.route.as_ref();
        let emitter = match call.events {
            Some(sink) => Emitter::Sink(sink),
            None => Emitter::Log(Arc::new(SessionLog::new(
                (&self.store, &self.clock),
                (call_id, session_id),
                principal.subject(),
                route.map(|route| route.node.name.clone()),
                call.progress.clone(),
            ))),
        };
        ToolContext {
            call_id,
            principal,
            session_id,
            visible,
            store: self.store.clone(),
            clock: self.clock.clone(),
            cancel: call.cancel.child_token(),
            node: route.map(|route| route.node.clone()),
            tool: prepared.tool.clone(),
            allowed,
            sending: route.map(|route| {
                let waits = route.queue.is_some();
                Arc::new(Sending::new(prepared.is_kept(), waits, call.idempotency_key, allowed))
            }),
            emitter,
            progress: call.progress,
            deadline: call.asker.as_ref().map(|_| Arc::default()),
            asker: call.asker,
            log: call.log,
            inputs: call.inputs,
            trace: call.trace.passed_on(&Span::current()),
            sessions: self.sessions.clone(),
        }
    }

    /// Says more to who can do something about it: to everybody else a tool that is held back or off does not exist.
    fn for_admins(&self, principal: &Principal, tool: &str, error: CallError) -> CallError {
        if error.code != ErrorCode::UnknownTool || !principal.is_admin() {
            return error;
        }
        if let Some(server) = self.registry.holds_back(tool) {
            let name = shell::word(&server);
            return error.hint(format!(
                "It is in quarantine: what the server {server} says of it has not been approved. `plexus upstream approve \
                 {name}` shows it."
            ));
        }
        match self.registry.why_absent(tool) {
            Some(why) => error.hint(why),
            None => error,
        }
    }

    /// Looks for an earlier result, takes a place among the running calls, runs.
    async fn admit(
        self: &Arc<Self>,
        prepared: Prepared,
        context: ToolContext,
        record: CallRecord,
        key: Option<String>,
    ) -> Admitted {
        let subject = context.principal.subject().to_owned();
        let Some(key) = key else {
            return self.enter(prepared, context, record, None).await;
        };
        if key.is_empty() || key.len() > MAX_KEY {
            let error = CallError::new(
                ErrorCode::InvalidRequest,
                format!("an idempotency key has 1 to {MAX_KEY} bytes, this one {}", key.len()),
            );
            return Admitted::run(self.refuse(record, error).await);
        }
        // A second call with the key of a running one waits for that one's result.
        let waited = tokio::select! {
            held = self.keys.hold(&subject, &key) => Ok(held),
            error = given_up(&prepared.tool, &context.cancel, context.allowed, None) => Err(error),
        };
        let _held = match waited {
            Ok(held) => held,
            Err(error) => return Admitted::run(self.refuse(record, error).await),
        };
        let request_hash = prepared.hash();
        let earlier = match self.earlier(&subject, &key).await {
            Ok(earlier) => earlier,
            Err(error) => return Admitted::run(self.refuse(record, error).await),
        };
        let earlier = match earlier {
            // A hub that is gone may have sent the first call to a machine, which still has it.
            Some(first) if prepared.route.is_some() && first.request_hash == request_hash => {
                self.after_end(first, &context).await
            }
            earlier => Ok(earlier),
        };
        let earlier = match earlier {
            Ok(earlier) => earlier,
            Err(error) => return Admitted::run(self.refuse(record, error).await),
        };
        match earlier {
            Some(earlier) if earlier.request_hash != request_hash => {
                Admitted::run(self.refuse(record, kept::used_otherwise(&key)).await)
            }
            Some(earlier) => {
                let result = self.replay(&earlier, record).await;
                Admitted { replayed_from: Some(earlier.session_id), result }
            }
            None => {
                let keep = Keep { subject, key, request_hash, session_id: context.session_id };
                self.enter(prepared, context, record, Some(keep)).await
            }
        }
    }

    /// Runs the call if its principal may have one more.
    async fn enter(
        self: &Arc<Self>,
        prepared: Prepared,
        context: ToolContext,
        record: CallRecord,
        keep: Option<Keep>,
    ) -> Admitted {
        let subject = context.principal.subject();
        let Some(_place) = self.running.enter(subject) else {
            let message = format!(
                "{subject} already has {} calls running, the most allowed at once",
                self.running.limit()
            );
            let error = CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Wait for one to end and call again.");
            return Admitted::run(self.refuse(record, error).await);
        };
        self.execute(prepared, context, record, keep).await
    }

    async fn earlier(&self, subject: &str, key: &str) -> Result<Option<IdempotencyRecord>, CallError> {
        Ok(self.store.read_committed().await?.idempotent_result(subject, key).await?)
    }

    /// Runs the handler and commits what it did together with the record of it.
    async fn execute(
        self: &Arc<Self>,
        prepared: Prepared,
        context: ToolContext,
        record: CallRecord,
        keep: Option<Keep>,
    ) -> Admitted {
        // First in the queue of the writer, so committed before or with whatever the tool does.
        let started = match self.store.append_soon(record.started()).await {
            Ok(started) => started,
            Err(error) => return Admitted::run(Err(error.into())),
        };
        let record = record.after(started);
        let prepared = match &prepared.route {
            None => prepared,
            Some(route) => match route.check(&prepared.tool) {
                Err(error) => return Admitted::run(self.finish(record, Err(error)).await),
                Ok(()) if prepared.is_kept() => {
                    let there = self.execute_on_node(prepared.for_machine(), context, record, keep).await;
                    return Admitted::run(there);
                }
                Ok(()) => prepared.for_machine(),
            },
        };
        if prepared.reaches_out() {
            return Admitted::run(self.execute_elsewhere(prepared, context, record, keep).await);
        }
        let limit = self.output_bytes.load(Ordering::Relaxed);
        let work: Transaction = match run_handler(prepared, context).await {
            Ok(Outcome::Transact(work)) => work,
            Ok(Outcome::Ready(output)) if keep.is_some() => {
                Box::new(move |_| Box::pin(async move { Ok(output) }))
            }
            Ok(Outcome::Ready(output)) => {
                return Admitted::run(self.finish(record, bound(output, limit)).await);
            }
            Err(error) => return Admitted::run(self.finish(record, Err(error)).await),
        };
        self.commit(work, record, keep, limit).await
    }

    /// The end of a call that changed nothing.
    async fn finish(
        &self,
        record: CallRecord,
        result: Result<ToolOutput, CallError>,
    ) -> Result<ToolOutput, CallError> {
        self.record_end(record, &result).await?;
        result
    }

    async fn record_end(
        &self,
        record: CallRecord,
        result: &Result<ToolOutput, CallError>,
    ) -> Result<(), StoreError> {
        let records = record.ended(result.as_ref());
        self.store.append_with(move || record.complete(records)).await
    }

    async fn refuse(&self, record: CallRecord, error: CallError) -> Result<ToolOutput, CallError> {
        let result = Err(error);
        let records = record.refused(result.as_ref());
        self.store.append(records).await?;
        result
    }

    async fn replay(&self, earlier: &IdempotencyRecord, record: CallRecord) -> Result<ToolOutput, CallError> {
        let records = record.replayed(earlier.call_id);
        self.store.append(records).await?;
        Kept::read(&earlier.result)
    }
}

/// How a call that passed its checks ended.
struct Admitted {
    /// The session of the earlier call whose result this is.
    replayed_from: Option<SessionId>,
    result: Result<ToolOutput, CallError>,
}

impl Admitted {
    fn run(result: Result<ToolOutput, CallError>) -> Self {
        Self { replayed_from: None, result }
    }
}
