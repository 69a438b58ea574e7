//! The dispatcher: the only path from a caller to a tool's handler.
//!
//! MCP, REST and the link of a node all call [`Dispatcher::call`] or [`Dispatcher::begin`], which run these steps in
//! this order, each once:
//!
//! 1. **Resolve the name** among the tools that the principal may use, so that an unauthorized tool and a missing one
//!    get the same error (`prepare.rs`; `Visible` holds what is authorized).
//! 2. **Validate the arguments** against the tool's schema (`prepare.rs`).
//! 3. **Route**: select the node of a call that runs on another machine (`route.rs`).
//! 4. **Check the idempotency key**: wait for a running call with the same key (`key_locks.rs`), then replay the stored
//!    result of the first call, if one exists (`stored_results.rs`; on a node, `conclude.rs` waits for the first call's
//!    end).
//! 5. **Take a concurrency slot** of the principal (`Inner::enter` in this file).
//! 6. **Record the start** in the audit log and the session (`record.rs`).
//! 7. **Execute under the deadline** (`execute.rs`, `deadline.rs`): in the hub; at another server, after the key was
//!    reserved (`external.rs`); or on a node that holds the call until its end is committed (`node_call.rs`,
//!    `node_delivery.rs`).
//! 8. **Commit**: a native write commits in one transaction with its key and its record (`commit.rs`); `conclude.rs`
//!    ends the calls on nodes, also those whose hub has stopped.
//! 9. **Redact and record the end**: audit entry and session event (`record.rs`).
//! 10. **Count and log** the ended call (`measure.rs`).
//!
//! A call that fails in steps 1 to 5 is recorded as refused. The caller gets its reply after the record is durable.

mod call;
mod commit;
mod conclude;
mod deadline;
mod execute;
mod external;
mod key_locks;
mod measure;
mod node_call;
mod node_delivery;
mod prepare;
mod record;
mod route;
mod stored_results;

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
pub(crate) use node_delivery::NodeDelivery;

use execute::{bound, run_handler, until_abandoned};
use key_locks::KeyLocks;
use measure::CallMetrics;
use node_call::AwaitedCalls;
use prepare::{PreparedCall, prepare, prepare_given};
use record::{CallOrigin, CallRecord};
use stored_results::{KeyReservation, StoredResult};

pub use call::{Call, CallKind, CallReply, PendingCall, Via};
pub use prepare::request_digest;

/// Longest idempotency key, in bytes.
const MAX_KEY: usize = 255;

/// Folders and limits of a dispatcher.
#[derive(Debug, Clone)]
pub struct DispatcherOptions {
    /// The parent of the sessions' file folders.
    pub files_dir: PathBuf,
    pub calls_per_principal: usize,
    pub output_bytes: usize,
}

/// A handle that does not keep the dispatcher alive.
#[derive(Debug, Clone)]
pub(crate) struct WeakDispatcher(Weak<Inner>);

impl WeakDispatcher {
    pub(crate) fn upgrade(&self) -> Option<Dispatcher> {
        self.0.upgrade().map(Dispatcher)
    }
}

/// Runs every call. Cheap to clone; clones share one dispatcher.
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
    key_locks: KeyLocks,
    output_bytes: AtomicUsize,
    metrics: CallMetrics,
    /// The nodes that calls can be routed to; none on a node.
    nodes: ArcSwapOption<SharedNodes>,
    /// Calls on nodes that a caller in this process waits for.
    awaited: AwaitedCalls,
    /// Changes when a call on a node has ended without a waiting caller.
    concluded: watch::Sender<u64>,
}

/// A wrapper because `ArcSwap` needs a `Sized` type.
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
            key_locks: KeyLocks::default(),
            output_bytes: AtomicUsize::new(options.output_bytes),
            metrics: CallMetrics::default(),
            nodes: ArcSwapOption::empty(),
            awaited: AwaitedCalls::default(),
            concluded: watch::Sender::new(0),
        }))
    }

    /// Sets the limits for calls that start from now on.
    pub fn set_limits(&self, calls_per_principal: usize, output_bytes: usize) {
        self.0.running.set_limit(calls_per_principal);
        self.0.output_bytes.store(output_bytes, Ordering::Relaxed);
    }

    /// Sets the nodes that calls are routed to from now on.
    pub fn set_nodes(&self, nodes: Arc<dyn Nodes>) {
        self.0.nodes.store(Some(Arc::new(SharedNodes(nodes))));
    }

    /// Registers the metrics of calls.
    pub fn register(&self, metrics: &Metrics) {
        self.0.metrics.register(metrics);
        let (running, waiting) = (self.0.clone(), self.0.clone());
        let about = "Calls in flight";
        metrics.read("plexus_tool_calls_in_flight", about, move || count(running.running.total()));
        let about = "Calls that wait for a running call with the same idempotency key";
        metrics.read("plexus_tool_calls_waiting", about, move || count(waiting.key_locks.waiting()));
    }

    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
    }

    /// The number of calls in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.running.total()
    }

    /// Runs a call and records it.
    ///
    /// The call continues if the future is dropped: a caller that disconnects loses the reply, not the record. To stop
    /// the work, cancel `call.cancel`.
    pub async fn call(&self, principal: Arc<Principal>, call: Call) -> CallReply {
        self.begin(principal, call).reply.await
    }

    /// Like [`call`](Self::call), but returns the call's id before the call ends. The call starts when its reply is
    /// first polled.
    pub fn begin(&self, principal: Arc<Principal>, call: Call) -> PendingCall {
        self.start_call(principal, call, None)
    }

    /// Checks that the called tool exists for this principal, also the target of a tool that calls others.
    pub fn may_call(&self, principal: &Principal, name: &str, arguments: &Value) -> Result<(), CallError> {
        prepare::visible(&self.0.registry.visible_to(principal), name, arguments)
    }

    /// The error of a failed lookup, with the details that this principal may see.
    #[must_use]
    pub fn explained(&self, principal: &Principal, name: &str, error: CallError) -> CallError {
        self.0.for_admins(principal, name, error)
    }

    /// Runs `tool` in place of the tool that the call names, for a trial before the tool is registered. The caller must
    /// have checked that the principal may run it.
    pub(crate) async fn try_out(&self, principal: Arc<Principal>, call: Call, tool: Tool) -> CallReply {
        self.start_call(principal, call, Some(Arc::new(tool))).reply.await
    }

    /// A weak handle, for objects that the dispatcher itself owns.
    pub(crate) fn downgrade(&self) -> WeakDispatcher {
        WeakDispatcher(Arc::downgrade(&self.0))
    }

    fn start_call(&self, principal: Arc<Principal>, call: Call, tool: Option<Arc<Tool>>) -> PendingCall {
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
        let reply = self.0.supervisor.run_to_completion(Stage::Work, "call", work.instrument(span));
        PendingCall { call_id, reply }
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
                        AdmittedCall::run(self.refuse(record, error).await)
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
            // A replay reports the session of the original write, which may be another one.
            session_id: Some(replayed_from.unwrap_or(session_id)),
            tool,
            replayed: replayed_from.is_some(),
            result,
        }
    }

    /// The context passed to the handler of a call.
    fn context(
        &self,
        call_id: CallId,
        principal: Arc<Principal>,
        session_id: SessionId,
        visible: Arc<Visible>,
        call: Call,
        prepared: &PreparedCall,
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
            delivery: route.map(|route| {
                let waits = route.queue.is_some();
                Arc::new(NodeDelivery::new(prepared.is_held_by_node(), waits, call.idempotency_key, allowed))
            }),
            emitter,
            progress: call.progress,
            deadline: call.asker.as_ref().map(|_| Arc::default()),
            asker: call.asker,
            log: call.log,
            inputs: call.inputs,
            trace: call.trace.context_for_tool(&Span::current()),
            sessions: self.sessions.clone(),
        }
    }

    /// Adds for admins why a tool is missing. For all other callers a quarantined or disabled tool does not exist.
    fn for_admins(&self, principal: &Principal, tool: &str, error: CallError) -> CallError {
        if error.code != ErrorCode::UnknownTool || !principal.is_admin() {
            return error;
        }
        if let Some(server) = self.registry.quarantining_server(tool) {
            let name = shell::word(&server);
            return error.hint(format!(
                "It is in quarantine: its definition from the server {server} has not been approved. Review it with \
                 `plexus upstream approve {name}`."
            ));
        }
        match self.registry.why_absent(tool) {
            Some(why) => error.hint(why),
            None => error,
        }
    }

    /// Checks the idempotency key, then runs the call unless an earlier result is stored.
    async fn admit(
        self: &Arc<Self>,
        prepared: PreparedCall,
        context: ToolContext,
        record: CallRecord,
        key: Option<String>,
    ) -> AdmittedCall {
        let subject = context.principal.subject().to_owned();
        let Some(key) = key else {
            return self.enter(prepared, context, record, None).await;
        };
        if key.is_empty() || key.len() > MAX_KEY {
            let error = CallError::new(
                ErrorCode::InvalidRequest,
                format!("the idempotency key has {} bytes; it must have 1 to {MAX_KEY}", key.len()),
            );
            return AdmittedCall::run(self.refuse(record, error).await);
        }
        // A second call with the key of a running call waits for that call's result.
        let waited = tokio::select! {
            key_lock = self.key_locks.lock(&subject, &key) => Ok(key_lock),
            error = until_abandoned(&prepared.tool, &context.cancel, context.allowed, None) => Err(error),
        };
        let _held = match waited {
            Ok(key_lock) => key_lock,
            Err(error) => return AdmittedCall::run(self.refuse(record, error).await),
        };
        let request_hash = prepared.hash();
        let earlier = match self.earlier(&subject, &key).await {
            Ok(earlier) => earlier,
            Err(error) => return AdmittedCall::run(self.refuse(record, error).await),
        };
        let earlier = match earlier {
            // A hub that has stopped may have sent the first call to a node, which may still be running it.
            Some(first) if prepared.route.is_some() && first.request_hash == request_hash => {
                self.after_end(first, &context).await
            }
            earlier => Ok(earlier),
        };
        let earlier = match earlier {
            Ok(earlier) => earlier,
            Err(error) => return AdmittedCall::run(self.refuse(record, error).await),
        };
        match earlier {
            Some(earlier) if earlier.request_hash != request_hash => {
                AdmittedCall::run(self.refuse(record, stored_results::key_reused(&key)).await)
            }
            Some(earlier) => {
                let result = self.replay(&earlier, record).await;
                AdmittedCall { replayed_from: Some(earlier.session_id), result }
            }
            None => {
                let reservation =
                    KeyReservation { subject, key, request_hash, session_id: context.session_id };
                self.enter(prepared, context, record, Some(reservation)).await
            }
        }
    }

    /// Runs the call if its principal is below its limit of running calls.
    async fn enter(
        self: &Arc<Self>,
        prepared: PreparedCall,
        context: ToolContext,
        record: CallRecord,
        reservation: Option<KeyReservation>,
    ) -> AdmittedCall {
        let subject = context.principal.subject();
        let Some(_slot) = self.running.enter(subject) else {
            let message =
                format!("{subject} already has {} running calls, which is the limit", self.running.limit());
            let error = CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Wait for one of them to end and call again.");
            return AdmittedCall::run(self.refuse(record, error).await);
        };
        self.execute(prepared, context, record, reservation).await
    }

    async fn earlier(&self, subject: &str, key: &str) -> Result<Option<IdempotencyRecord>, CallError> {
        Ok(self.store.read_committed().await?.idempotent_result(subject, key).await?)
    }

    /// Runs the handler and commits its writes together with their record.
    async fn execute(
        self: &Arc<Self>,
        prepared: PreparedCall,
        context: ToolContext,
        record: CallRecord,
        reservation: Option<KeyReservation>,
    ) -> AdmittedCall {
        // Submitted to the writer first, so it commits before or with the writes of the tool.
        let started = match self.store.append_soon(record.started()).await {
            Ok(started) => started,
            Err(error) => return AdmittedCall::run(Err(error.into())),
        };
        let record = record.after(started);
        let prepared = match &prepared.route {
            None => prepared,
            Some(route) => match route.check(&prepared.tool) {
                Err(error) => return AdmittedCall::run(self.finish(record, Err(error)).await),
                Ok(()) if prepared.is_held_by_node() => {
                    let ended =
                        self.execute_on_node(prepared.for_machine(), context, record, reservation).await;
                    return AdmittedCall::run(ended);
                }
                Ok(()) => prepared.for_machine(),
            },
        };
        if prepared.reaches_out() {
            return AdmittedCall::run(self.execute_external(prepared, context, record, reservation).await);
        }
        let limit = self.output_bytes.load(Ordering::Relaxed);
        let work: Transaction = match run_handler(prepared, context).await {
            Ok(Outcome::Transact(work)) => work,
            Ok(Outcome::Ready(output)) if reservation.is_some() => {
                Box::new(move |_| Box::pin(async move { Ok(output) }))
            }
            Ok(Outcome::Ready(output)) => {
                return AdmittedCall::run(self.finish(record, bound(output, limit)).await);
            }
            Err(error) => return AdmittedCall::run(self.finish(record, Err(error)).await),
        };
        self.commit(work, record, reservation, limit).await
    }

    /// Records the end of a call that wrote nothing.
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
        StoredResult::read(&earlier.result)
    }
}

/// The end of a call that has passed its checks.
struct AdmittedCall {
    /// The session of the earlier call, if its result was replayed.
    replayed_from: Option<SessionId>,
    result: Result<ToolOutput, CallError>,
}

impl AdmittedCall {
    fn run(result: Result<ToolOutput, CallError>) -> Self {
        Self { replayed_from: None, result }
    }
}
