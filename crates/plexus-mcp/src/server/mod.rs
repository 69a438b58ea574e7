//! The server side of MCP: turns a request of a principal into a response.
//!
//! The era is determined for each request from its content: `initialize` and a session id belong to the session era,
//! a protocol version in the request's `_meta` to the stateless one. The hub's HTTP layer authenticates the caller
//! and limits the body.

pub(crate) mod call;
mod changes;
mod detached;
mod errors;
pub(crate) mod headers;
pub(crate) mod identity;
pub(crate) mod list;
pub(crate) mod modern;
mod offers;
mod reads;
pub(crate) mod rpc;
mod running_call;
mod session;
pub(crate) mod sse;
mod stream_quota;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, StatusCode};
use plexus_auth::{Authenticator, Principal};
use plexus_kit::metrics::count;
use plexus_kit::{Clock, Metrics, Quota, Stage, Supervisor};
use plexus_store::{Store, StoreError};
use plexus_tools::Dispatcher;
use tokio_util::sync::CancellationToken;

use crate::offers::OfferProvider;
use crate::version::{Dialect, Era, Features};
use detached::DetachedCalls;
use detached::tasks::{self, Tasks};
use list::ListCache;
use offers::OfferCache;
use rpc::{Message, RpcError};
use session::Sessions;
use stream_quota::StreamQuota;

pub(crate) use session::server_info;

#[derive(Debug, Clone)]
pub struct McpOptions {
    /// Interval of keep-alive comments on idle streams.
    pub keep_alive: Duration,
    /// Deepest nesting of arrays and objects in a request.
    pub json_depth: usize,
    /// Session-era sessions kept in memory.
    pub sessions: u64,
    /// Time limit for the answer to a question.
    pub question_timeout: Duration,
    /// A call that takes longer becomes a task if the client supports tasks.
    pub task_after: Duration,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            keep_alive: Duration::from_secs(25),
            json_depth: 64,
            sessions: 10_000,
            question_timeout: Duration::from_secs(600),
            task_after: Duration::from_secs(10),
        }
    }
}

/// Cheap to clone; clones share one server.
#[derive(Debug, Clone)]
pub struct McpServer(Arc<State>);

#[derive(Debug)]
struct State {
    dispatcher: Dispatcher,
    upstreams: Arc<dyn OfferProvider>,
    authenticator: Arc<Authenticator>,
    supervisor: Supervisor,
    /// Cancelled when the hub stops, which ends all streams.
    stopping: CancellationToken,
    sessions: Sessions,
    lists: ListCache,
    offers: OfferCache,
    /// Running completions by subject.
    completing: Quota,
    streams: StreamQuota,
    detached: DetachedCalls,
    tasks: Tasks,
    options: McpOptions,
    json_depth: AtomicUsize,
}

impl State {
    /// The instructions for a model, covering only the servers that the principal sees.
    fn instructions(&self, principal: &Principal) -> String {
        let parts = self.upstreams.instructions(&self.dispatcher.registry().visible_to(principal));
        parts.into_iter().map(|part| part.text).collect()
    }
}

impl McpServer {
    #[must_use]
    pub fn new(
        dispatcher: Dispatcher,
        upstreams: Arc<dyn OfferProvider>,
        authenticator: Arc<Authenticator>,
        store: Store,
        clock: Clock,
        supervisor: Supervisor,
        options: McpOptions,
    ) -> Self {
        Self(Arc::new(State {
            stopping: supervisor.stopping(Stage::Intake),
            tasks: Tasks::new(store.clone(), clock.clone()),
            sessions: Sessions::new(store, clock, options.sessions),
            lists: ListCache::default(),
            offers: OfferCache::default(),
            completing: Quota::new(reads::MAX_COMPLETIONS),
            streams: StreamQuota::default(),
            detached: DetachedCalls::new(supervisor.clone(), options.question_timeout),
            dispatcher,
            upstreams,
            authenticator,
            supervisor,
            json_depth: AtomicUsize::new(options.json_depth),
            options,
        }))
    }

    /// Ends the tasks that were running when this hub last stopped. Must be called before requests are accepted.
    pub async fn end_lost_tasks(&self) -> Result<(), StoreError> {
        let lost = tasks::end_lost(&self.0.tasks).await?;
        if lost > 0 {
            tracing::warn!(lost, "tasks were running when the hub stopped; their outcome is unknown");
        }
        Ok(())
    }

    /// Sets the nesting limit of new requests.
    pub fn set_json_depth(&self, depth: usize) {
        self.0.json_depth.store(depth, Ordering::Relaxed);
    }

    /// Registers the metrics of this server.
    pub fn register(&self, metrics: &Metrics) {
        let server = self.clone();
        metrics.read("plexus_mcp_sessions", "MCP sessions in memory", move || count(server.session_count()));
        let server = self.clone();
        metrics.read("plexus_mcp_streams", "Open MCP streams", move || count(server.0.streams.open()));
        let server = self.clone();
        let about = "Calls that wait for an answer from a client that is not connected";
        metrics.read("plexus_mcp_parked_calls", about, move || count(server.0.detached.parked()));
        let server = self.clone();
        metrics.read("plexus_mcp_tasks", "Running MCP tasks", move || count(server.0.tasks.count()));
    }

    /// Session-era sessions in memory.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.0.sessions.count()
    }

    /// A hash of a principal's tool list, the same on every hub and after a restart.
    #[must_use]
    pub fn tools_fingerprint(&self, principal: &Principal) -> String {
        let registry = self.0.dispatcher.registry();
        self.0.lists.rendered(registry, principal, Features::ALL).digest().to_owned()
    }

    pub async fn post(&self, headers: &HeaderMap, body: Bytes, principal: Arc<Principal>) -> Response {
        let answer = self.route(headers, &body, principal).await;
        answer.unwrap_or_else(|error| error.into_response())
    }

    async fn route(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        principal: Arc<Principal>,
    ) -> Result<Response, RpcError> {
        headers::check_media_types(headers)?;
        rpc::check_depth(body, self.0.json_depth.load(Ordering::Relaxed))?;
        let version = headers::protocol_version(headers);
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return match version? {
                None | Some(Era::Session(_)) => session::post_batch(&self.0, headers, body, principal).await,
                Some(Era::Modern | Era::Unknown(_)) => {
                    Err(RpcError::invalid_request("this revision has no batches"))
                }
            };
        }
        let message = rpc::parse(body)?;
        // Checked after parsing, so that the error can contain the request's id.
        let version = version.map_err(|error| match &message {
            Message::Request(request) => error.with_id(request.id),
            Message::Notification(_) | Message::Response { .. } => error,
        })?;
        if modern::is_modern(&message, version.as_ref()) {
            modern::post(&self.0, headers, message, principal).await
        } else {
            session::post(&self.0, headers, message, principal).await
        }
    }

    pub async fn get(&self, headers: &HeaderMap, principal: Arc<Principal>) -> Response {
        let answer = match headers::protocol_version(headers) {
            Ok(Some(Era::Modern)) => return only_post(),
            Ok(Some(Era::Unknown(version))) => Err(modern::unsupported(&version)),
            Ok(_) => session::get(&self.0, headers, principal).await,
            Err(error) => Err(error),
        };
        answer.unwrap_or_else(|error| error.into_response())
    }

    pub async fn delete(&self, headers: &HeaderMap, principal: Arc<Principal>) -> Response {
        let answer = match headers::protocol_version(headers) {
            Ok(Some(Era::Modern)) => return only_post(),
            Ok(Some(Era::Unknown(version))) => Err(modern::unsupported(&version)),
            Ok(_) => session::delete(&self.0, headers, principal).await,
            Err(error) => Err(error),
        };
        answer.unwrap_or_else(|error| error.into_response())
    }
}

/// The server capabilities as JSON.
pub(crate) fn capabilities(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Session(_) => concat!(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"#,
            r#""resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}"#
        ),
        Dialect::Modern => concat!(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"#,
            r#""resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{},"#,
            r#""extensions":{"io.modelcontextprotocol/tasks":{}}}"#
        ),
    }
}

/// The answer to `GET` and `DELETE` in the stateless revision, which has no session streams and no sessions.
fn only_post() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
