//! Streamable HTTP, in all revisions that support it.
//!
//! - [`authorized_http`]: HTTP requests and answers, with the hub's token;
//! - [`handshake`]: determines a server's era, and replaces a lost session;
//! - [`in_flight`]: requests that a caller waits for;
//! - [`exchange`]: one MCP request and its answer, in one piece or as a stream of
//!   [`SseParser`](plexus_mcp::http_client::SseParser);
//! - [`listening`]: notifications of the server.
//!
//! A request is sent again only if the server, or the lack of a connection, proves that it was not carried
//! out.
//!
//! | resource | bound | beyond it |
//! |---|---|---|
//! | calls in flight | [`MAX_CALLS`] | the caller waits, and can be cancelled |
//! | bytes of a body, of an event, of a line | `ClientSettings::max_message` | the call fails, its connection is closed |
//! | idle connections | 32, for a minute | closed |
//! | redirects of one request | 3 | the request fails |
//! | attempts to resume a stream without new events | 3 | the call is lost |
//! | immediate answers to requests of the server | [`MAX_ANSWERS`] at once | dropped |
//! | cancellations of calls | [`MAX_CALLS`] at once | dropped: the server's work is wasted |
//! | time for anything but a call | `ClientSettings::connect_timeout` | the request is lost |

pub(crate) mod authorized_http;
mod exchange;
mod handshake;
mod in_flight;
mod listening;
mod parameters;
pub(crate) mod refusal;
pub(crate) mod session;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use plexus_kit::{Stage, Supervisor};
use plexus_proto::api::UpstreamEra;
use plexus_tools::Capabilities;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::authorized_http::AuthorizedHttp;
pub(super) use self::in_flight::PresentCaller;
use self::in_flight::{CallerRequest, InFlight};
use self::parameters::Parameters;
use self::refusal::Refusal;
use self::session::Session;
use super::answer;
use super::following::LogVerbosity;
use super::message::{self, RequestId, RequestMeta};
use super::server_questions::ServerQuestions;
use super::subscriptions::Subscriptions;
use super::{
    Bridge, CallResult, ClientError, ClientSettings, Connect, Definitions, ListKind, Outgoing, Peer, Request,
    RequestResponse, ServerChange, SharedListener,
};
use crate::config::HttpConfig;
use crate::oauth::Account;

/// Calls in flight, each on its own connection. Further calls wait.
const MAX_CALLS: usize = 256;
/// Requests of the server that are refused or answered immediately, at the same time. Further ones get no
/// answer.
const MAX_ANSWERS: usize = 16;
/// Time limit for DNS lookup and connecting; the rest of the connect timeout is for the handshake.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for ending the session.
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between sweeps of idle connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// A server that is connected over Streamable HTTP. Cheap to clone; clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    /// Whether the server may answer with a task.
    follows: bool,
    /// Ends the tasks, which own `shared`, with the last clone.
    _end: Arc<DropGuard>,
}

/// State shared by calls and tasks.
struct Shared {
    /// Name of the server's file, for the names of tasks.
    server: String,
    http: Arc<AuthorizedHttp>,
    session: Mutex<Arc<Session>>,
    /// Only one task at a time replaces a session.
    renewing: Semaphore,
    calls: Semaphore,
    answers: Arc<Semaphore>,
    cancels: Arc<Semaphore>,
    ids: AtomicU64,
    /// Arguments to repeat in headers, according to the last list of tools.
    parameters: Mutex<Arc<Parameters>>,
    listener: SharedListener,
    supervisor: Supervisor,
    /// The capabilities declared in a session.
    capabilities: Capabilities,
    /// Open questions of the server.
    questions: Arc<ServerQuestions>,
    /// Callers of the requests in a session.
    in_flight: Mutex<InFlight>,
    /// The server sends log lines on a different stream than that of the call.
    logs_on_other_stream: AtomicBool,
    verbosity: LogVerbosity,
    subscriptions: Subscriptions,
    /// Time limit for the answer to anything but a call.
    patience: Duration,
    end: CancellationToken,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("server", &self.server)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// Why connecting failed.
#[derive(Debug)]
pub(crate) struct NotConnected {
    pub(crate) error: ClientError,
    /// The answer suggests a server that only supports the older HTTP+SSE transport.
    pub(crate) may_be_older: bool,
}

/// The target and parameters of a connection.
#[derive(Debug)]
pub(crate) struct Dial<'a> {
    pub(crate) server: &'a str,
    pub(crate) config: &'a HttpConfig,
    pub(crate) settings: &'a ClientSettings,
    pub(crate) supervisor: &'a Supervisor,
    account: Option<&'a Arc<Account>>,
    capabilities: Capabilities,
    follows: bool,
}

impl<'a> Dial<'a> {
    pub(crate) fn new(connect: &'a Connect, config: &'a HttpConfig) -> Self {
        let Connect { settings, supervisor, account, capabilities, .. } = connect;
        let (server, follows) = (&connect.config.name, connect.config.questions);
        let (account, capabilities) = (account.as_ref(), *capabilities);
        Self { server, config, settings, supervisor, account, capabilities, follows }
    }

    pub(crate) fn http(&self) -> Result<AuthorizedHttp, ClientError> {
        let settings = self.settings;
        let (inner, patience, limit) =
            (settings.allow_private, settings.connect_timeout.min(DIAL_TIMEOUT), settings.max_message);
        let access = self.account.map(|account| account.access(self.config)).transpose()?;
        Ok(AuthorizedHttp::new(self.config, inner, patience, limit)?.with_account(access))
    }
}

impl HttpClient {
    /// Determines the server's era, trying the known one first, and performs the handshake.
    pub(crate) async fn connect(
        dial: Dial<'_>,
        listener: SharedListener,
        known_era: Option<UpstreamEra>,
    ) -> Result<Self, NotConnected> {
        let failed = |error| NotConnected { error, may_be_older: false };
        let http = Arc::new(dial.http().map_err(failed)?);
        let end = CancellationToken::new();
        let guard = Arc::new(end.clone().drop_guard());
        let shared = Arc::new(Shared {
            server: dial.server.to_owned(),
            session: Mutex::new(Arc::new(Session::before_handshake(http.home().clone()))),
            http,
            renewing: Semaphore::new(1),
            calls: Semaphore::new(MAX_CALLS),
            answers: Arc::new(Semaphore::new(MAX_ANSWERS)),
            cancels: Arc::new(Semaphore::new(MAX_CALLS)),
            ids: AtomicU64::new(1),
            parameters: Mutex::default(),
            listener,
            supervisor: dial.supervisor.clone(),
            capabilities: dial.capabilities,
            questions: Arc::default(),
            in_flight: Mutex::default(),
            logs_on_other_stream: AtomicBool::new(false),
            verbosity: LogVerbosity::new(),
            subscriptions: Subscriptions::new(),
            patience: dial.settings.connect_timeout,
            end,
        });
        let (peer, session) = shared.negotiate(known_era).await.map_err(|refusal| match refusal {
            Refusal::Status(status, error) => {
                NotConnected { may_be_older: matches!(status.as_u16(), 400 | 404 | 405), error }
            }
            other => failed(other.into_error()),
        })?;
        shared.adopt(session);
        shared.spawn_sweeping();
        listening::start(&shared, &peer).await;
        let follows = peer.offers.tasks && dial.follows;
        Ok(Self { shared, peer: Arc::new(peer), follows, _end: guard })
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) async fn list(&self, list_kind: ListKind) -> Result<Definitions, ClientError> {
        let era = self.peer.era;
        let page = async |cursor: Option<String>| {
            let build = |id| message::list(id, era, list_kind.method(), cursor.as_deref());
            self.shared.request(list_kind.method(), None, build).await
        };
        // The time limit covers all pages together.
        let listed = async {
            let limit = self.shared.http.limit();
            answer::fetch_list(&self.peer, list_kind, limit, page).await.map_err(Refusal::Failed)
        };
        let listed = self.shared.timely(list_kind.method(), listed).await.map_err(Refusal::into_error)?;
        let learns = era == UpstreamEra::Stateless && list_kind == ListKind::Tools;
        Ok(if learns { self.shared.learn(listed) } else { listed })
    }

    pub(crate) async fn call(&self, call: Outgoing) -> CallResult {
        let caller_request = CallerRequest {
            method: "tools/call",
            name: Some(&call.tool),
            arguments: Some(&call.arguments),
            progress: call.progress.as_ref(),
            bridge: &call.bridge,
            cancel: &call.cancel,
        };
        let meta = RequestMeta { trace: call.trace.as_ref(), ..self.request_meta(&call.bridge) };
        let build = |id| message::call(id, &call, meta);
        let result = match self.shared.run(caller_request, build).await {
            Err(error) if self.misses_headers(&error) && !call.bridge.has_asked() => {
                // The server rejected the headers of the call, so its tools may have changed.
                Box::pin(async {
                    self.list(ListKind::Tools).await.map_err(|_| error)?;
                    self.shared.listener.on_change(ServerChange::Tools);
                    self.shared.run(caller_request, build).await
                })
                .await
            }
            result => result,
        };
        answer::parse_call_result(&result?)
    }

    fn misses_headers(&self, error: &ClientError) -> bool {
        self.peer.era == UpstreamEra::Stateless
            && matches!(error, ClientError::Rpc { code: answer::HEADER_MISMATCH, .. })
    }

    pub(crate) async fn request(&self, request: Request) -> Result<RequestResponse, ClientError> {
        let method = request.method.name();
        let name = request.method.named().and_then(|member| request.params.get(member)?.as_str());
        let meta = RequestMeta { trace: request.trace.as_ref(), ..self.request_meta(&request.bridge) };
        let build = |id| message::request(id, &request, meta);
        let result = match &request.cancel {
            Some(cancel) => {
                let (arguments, progress, bridge) = (None, None, &request.bridge);
                self.shared
                    .run(CallerRequest { method, name, arguments, progress, bridge, cancel }, build)
                    .await?
            }
            None => self.shared.request(method, name, build).await?,
        };
        answer::parse_response(result, method)
    }

    fn request_meta(&self, bridge: &Bridge) -> RequestMeta<'static> {
        RequestMeta::of(self.peer.era, bridge, self.follows)
    }

    pub(crate) fn verbosity(&self) -> &LogVerbosity {
        &self.shared.verbosity
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.shared.subscriptions
    }

    pub(crate) fn present(&self, bridge: Bridge) -> PresentCaller {
        self.shared.present(bridge)
    }

    /// Checks that the server is available; the stateless era has no ping.
    pub(crate) async fn ping(&self) -> Result<(), ClientError> {
        if self.peer.era == UpstreamEra::Stateless {
            return Ok(());
        }
        match self.shared.request("ping", None, message::ping).await {
            // An error is an answer too.
            Ok(_) | Err(ClientError::Rpc { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Resolves when the client was closed, and never before: requests open new connections as needed.
    pub(crate) async fn closed(&self) -> String {
        self.shared.end.cancelled().await;
        "closed by the hub".to_owned()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.end.is_cancelled()
    }

    /// Ends the session, if there is one.
    pub(crate) async fn close(&self) {
        let shared = &self.shared;
        if shared.end.is_cancelled() {
            return;
        }
        shared.end.cancel();
        let session = shared.session();
        if session.has_id {
            let headers = session.end();
            let nothing = Bytes::new();
            let goodbye = shared.http.send(&session.endpoint, &Method::DELETE, &headers, &nothing);
            // Not every server allows clients to end sessions.
            let _ = tokio::time::timeout(SESSION_END_TIMEOUT.min(shared.patience), goodbye).await;
        }
        shared.http.close();
    }
}

impl Shared {
    fn next_id(&self) -> RequestId {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn session(&self) -> Arc<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn adopt(&self, session: Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(session);
    }

    /// Locked briefly, never across an await.
    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parameters(&self) -> Arc<Parameters> {
        self.parameters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores which arguments of the tools go into headers.
    fn learn(&self, tools: Definitions) -> Definitions {
        let parameters = Parameters::of(&tools);
        *self.parameters.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(parameters);
        tools
    }

    fn spawn_sweeping(self: &Arc<Self>) {
        let shared = self.clone();
        let stopping = self.supervisor.stopping(Stage::Intake);
        let name = format!("upstream {}: idle connections", self.server);
        self.supervisor.spawn(Stage::Intake, name, async move {
            loop {
                tokio::select! {
                    () = shared.end.cancelled() => return,
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(SWEEP_INTERVAL) => shared.http.sweep(),
                }
            }
        });
    }
}
