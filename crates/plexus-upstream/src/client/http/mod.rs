//! Streamable HTTP, in every revision that has it.
//!
//! - [`mod@line`]: requests and answers of HTTP, with the hub's token;
//! - [`handshake`]: which era a server is of, and a session that is begun anew when it is lost;
//! - [`caller_request`]: requests that somebody waits for;
//! - [`exchange`]: one request of MCP and its answer, in one piece or as a stream of [`Events`](plexus_mcp::http_client::Events);
//! - [`listening`]: what the server says without being asked.
//!
//! A request is sent again only when the server, or the lack of a connection, says that it was not carried out.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | calls under way | [`MAX_CALLS`] | the caller waits, and can be cancelled |
//! | bytes of a body, of an event, of a line | `ClientSettings::max_message` | the call fails, its connection is closed |
//! | connections that nobody uses | 32, for a minute | closed |
//! | redirects of one request | 3 | the request fails |
//! | attempts to go on with a stream, without news | 3 | the call is lost |
//! | answers that are given at once to what the server asks | [`MAX_ANSWERS`] at once | dropped |
//! | calls that the server is told are no longer wanted | [`MAX_CALLS`] at once | dropped: the server works for nobody |
//! | time for anything but a call | `ClientSettings::connect_timeout` | the request is lost |

mod exchange;
mod handshake;
mod in_flight;
pub(crate) mod line;
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

pub(super) use self::in_flight::Present;
use self::in_flight::{CallerRequest, InFlight};
use self::line::Line;
use self::parameters::Parameters;
use self::refusal::Refusal;
use self::session::Session;
use super::answer;
use super::following::LogVerbosity;
use super::message::{self, RequestId, RequestMeta};
use super::server_questions::ServerQuestions;
use super::subscriptions::Subscriptions;
use super::{
    Bridge, Called, ClientError, ClientSettings, Connect, Definitions, Listed, News, Outgoing, Peer, Replied,
    Request, SharedListener,
};
use crate::config::HttpConfig;
use crate::oauth::Account;

/// Calls that are under way at the same time, each on a connection of its own. More wait for their turn.
const MAX_CALLS: usize = 256;
/// Requests of the server that are refused, or answered at once, at the same time. More get no answer.
const MAX_ANSWERS: usize = 16;
/// For looking a name up and connecting to it: the rest of the time is for the server to say who it is.
const DIALLING: Duration = Duration::from_secs(10);
/// For saying goodbye, which nobody should have to wait for.
const GOODBYE: Duration = Duration::from_secs(2);
/// Between two looks at connections that nobody uses.
const SWEEP: Duration = Duration::from_secs(30);

/// A server that is talked to over Streamable HTTP. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    /// Whether the server may answer with a task.
    follows: bool,
    /// Ends the tasks, which hold `shared`, with the last clone.
    _end: Arc<DropGuard>,
}

/// What calls and tasks share.
struct Shared {
    /// Of the server's file, for names of tasks.
    server: String,
    line: Arc<Line>,
    session: Mutex<Arc<Session>>,
    /// One at a time begins a session anew.
    renewing: Semaphore,
    calls: Semaphore,
    answers: Arc<Semaphore>,
    cancels: Arc<Semaphore>,
    ids: AtomicU64,
    /// Arguments that are repeated in headers, as the last list of tools says.
    parameters: Mutex<Arc<Parameters>>,
    listener: SharedListener,
    supervisor: Supervisor,
    /// What can be asked in a session.
    capabilities: Capabilities,
    /// Questions of the server.
    asked: Arc<ServerQuestions>,
    /// Whom the requests in a session are for.
    in_flight: Mutex<InFlight>,
    /// The server writes to its log on another stream than that of the call.
    logs_aside: AtomicBool,
    verbosity: LogVerbosity,
    subscriptions: Subscriptions,
    /// For the answer to anything but a call.
    patience: Duration,
    end: CancellationToken,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("server", &self.server)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct NotConnected {
    pub(crate) error: ClientError,
    /// The server answers like one that knows only the transport before this one.
    pub(crate) may_be_older: bool,
}

/// Where a client is to connect to, and with what.
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

    pub(crate) fn line(&self) -> Result<Line, ClientError> {
        let settings = self.settings;
        let (inner, patience, limit) =
            (settings.allow_private, settings.connect_timeout.min(DIALLING), settings.max_message);
        let pass = self.account.map(|account| account.pass(self.config)).transpose()?;
        Ok(Line::new(self.config, inner, patience, limit)?.with_account(pass))
    }
}

impl HttpClient {
    /// Finds out what the server speaks, what it said of itself last time first, and agrees with it.
    pub(crate) async fn connect(
        dial: Dial<'_>,
        listener: SharedListener,
        known_era: Option<UpstreamEra>,
    ) -> Result<Self, NotConnected> {
        let failed = |error| NotConnected { error, may_be_older: false };
        let line = Arc::new(dial.line().map_err(failed)?);
        let end = CancellationToken::new();
        let guard = Arc::new(end.clone().drop_guard());
        let shared = Arc::new(Shared {
            server: dial.server.to_owned(),
            session: Mutex::new(Arc::new(Session::none(line.home().clone()))),
            line,
            renewing: Semaphore::new(1),
            calls: Semaphore::new(MAX_CALLS),
            answers: Arc::new(Semaphore::new(MAX_ANSWERS)),
            cancels: Arc::new(Semaphore::new(MAX_CALLS)),
            ids: AtomicU64::new(1),
            parameters: Mutex::default(),
            listener,
            supervisor: dial.supervisor.clone(),
            capabilities: dial.capabilities,
            asked: Arc::default(),
            in_flight: Mutex::default(),
            logs_aside: AtomicBool::new(false),
            verbosity: LogVerbosity::new(),
            subscriptions: Subscriptions::new(),
            patience: dial.settings.connect_timeout,
            end,
        });
        let (peer, session) = shared.greet(known_era).await.map_err(|refusal| match refusal {
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

    pub(crate) async fn list(&self, what: Listed) -> Result<Definitions, ClientError> {
        let era = self.peer.era;
        let page = async |cursor: Option<String>| {
            let build = |id| message::list(id, era, what.method(), cursor.as_deref());
            self.shared.request(what.method(), None, build).await
        };
        // All pages together, however quickly each of them comes.
        let listed = async {
            let limit = self.shared.line.limit();
            answer::listed(&self.peer, what, limit, page).await.map_err(Refusal::Failed)
        };
        let listed = self.shared.timely(what.method(), listed).await.map_err(Refusal::into_error)?;
        let learns = era == UpstreamEra::Stateless && what == Listed::Tools;
        Ok(if learns { self.shared.learn(listed) } else { listed })
    }

    pub(crate) async fn call(&self, call: Outgoing) -> Called {
        let caller_request = CallerRequest {
            method: "tools/call",
            name: Some(&call.tool),
            arguments: Some(&call.arguments),
            progress: call.progress.as_ref(),
            bridge: &call.bridge,
            cancel: &call.cancel,
        };
        let said = RequestMeta { trace: call.trace.as_ref(), ..self.said(&call.bridge) };
        let build = |id| message::call(id, &call, said);
        let result = match self.shared.run(caller_request, build).await {
            Err(error) if self.misses_headers(&error) && !call.bridge.has_asked() => {
                // It refused the call by its headers, which say by now what its tools want there.
                Box::pin(async {
                    self.list(Listed::Tools).await.map_err(|_| error)?;
                    self.shared.listener.heard(News::Tools);
                    self.shared.run(caller_request, build).await
                })
                .await
            }
            result => result,
        };
        answer::called(&result?)
    }

    fn misses_headers(&self, error: &ClientError) -> bool {
        self.peer.era == UpstreamEra::Stateless
            && matches!(error, ClientError::Rpc { code: answer::HEADER_MISMATCH, .. })
    }

    pub(crate) async fn request(&self, request: Request) -> Result<Replied, ClientError> {
        let method = request.method.name();
        let name = request.method.named().and_then(|member| request.params.get(member)?.as_str());
        let said = RequestMeta { trace: request.trace.as_ref(), ..self.said(&request.bridge) };
        let build = |id| message::request(id, &request, said);
        let result = match &request.cancel {
            Some(cancel) => {
                let (arguments, progress, bridge) = (None, None, &request.bridge);
                self.shared
                    .run(CallerRequest { method, name, arguments, progress, bridge, cancel }, build)
                    .await?
            }
            None => self.shared.request(method, name, build).await?,
        };
        answer::replied(result, method)
    }

    fn said(&self, bridge: &Bridge) -> RequestMeta<'static> {
        RequestMeta::of(self.peer.era, bridge, self.follows)
    }

    pub(crate) fn verbosity(&self) -> &LogVerbosity {
        &self.shared.verbosity
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.shared.subscriptions
    }

    pub(crate) fn present(&self, bridge: Bridge) -> Present {
        self.shared.present(bridge)
    }

    /// Whether the server is there; the stateless era has no way to ask.
    pub(crate) async fn ping(&self) -> Result<(), ClientError> {
        if self.peer.era == UpstreamEra::Stateless {
            return Ok(());
        }
        match self.shared.request("ping", None, message::ping).await {
            // It is there, whatever it thinks of the question.
            Ok(_) | Err(ClientError::Rpc { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Resolves when the client was closed. Before that it never does: a request opens a connection where there is none.
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
            let goodbye = shared.line.send(&session.place, &Method::DELETE, &headers, &nothing);
            // Not every server lets a client end its session.
            let _ = tokio::time::timeout(GOODBYE.min(shared.patience), goodbye).await;
        }
        shared.line.close();
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

    /// Held for moments, and never while waiting.
    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parameters(&self) -> Arc<Parameters> {
        self.parameters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers which arguments of the tools go into headers.
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
                    () = tokio::time::sleep(SWEEP) => shared.line.sweep(),
                }
            }
        });
    }
}
