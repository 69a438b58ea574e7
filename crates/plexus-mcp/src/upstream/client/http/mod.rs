//! Streamable HTTP, in every revision that has it.
//!
//! - [`mod@line`]: requests and answers of HTTP; `wire` is one connection, `idle` keeps them, `place` is an address;
//! - [`handshake`]: which era a server is of, and a session that is begun anew when it is lost;
//! - [`exchange`]: one request of MCP and its answer, in one piece or as a stream of [`events`];
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
//! | answers to what the server asks | [`MAX_ANSWERS`] at once | dropped |
//! | calls that the server is told are no longer wanted | [`MAX_CALLS`] at once | dropped: the server works for nobody |
//! | time for anything but a call | `ClientSettings::connect_timeout` | the request is lost |

pub(crate) mod events;
mod exchange;
mod handshake;
mod idle;
pub(crate) mod line;
mod listening;
mod parameters;
pub(crate) mod place;
pub(crate) mod refusal;
mod session;
mod wire;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use plexus_kit::{Stage, Supervisor};
use plexus_proto::api::UpstreamEra;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::exchange::Waiting;
use self::line::Line;
use self::parameters::Parameters;
use self::refusal::Refusal;
use self::session::Session;
use super::answer;
use super::message::{self, RequestId};
use super::{Called, ClientError, ClientSettings, Connect, Definitions, Outgoing, Peer, SharedListener};
use crate::server::MODERN;
use crate::upstream::config::HttpConfig;
use crate::upstream::oauth::Account;

/// Calls that are under way at the same time, each on a connection of its own. More wait for their turn.
const MAX_CALLS: usize = 256;
/// Requests of the server that are answered at the same time. More are not answered: none of them can be granted.
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
}

impl<'a> Dial<'a> {
    pub(crate) fn new(connect: &'a Connect, config: &'a HttpConfig) -> Self {
        let Connect { settings, supervisor, account, .. } = connect;
        Self { server: &connect.config.name, config, settings, supervisor, account: account.as_ref() }
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
        Ok(Self { shared, peer: Arc::new(peer), _end: guard })
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) async fn list_tools(&self) -> Result<Definitions, ClientError> {
        let era = self.peer.era;
        let page = async |cursor: Option<String>| {
            let build = |id| message::list_tools(id, era, cursor.as_deref());
            self.shared.request("tools/list", build).await
        };
        let tools = answer::listed(&self.peer, self.shared.line.limit(), page).await?;
        Ok(if era == UpstreamEra::Stateless { self.shared.learn(tools) } else { tools })
    }

    pub(crate) async fn call(&self, call: Outgoing) -> Called {
        let shared = &self.shared;
        if shared.end.is_cancelled() {
            return Err(ClientError::Unreachable(format!("the connection to {} was closed", shared.server)));
        }
        let id = shared.next_id();
        let mut unanswered = Unanswered { shared, id, sent: false };
        let answered = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(ClientError::Cancelled),
            () = shared.end.cancelled() => Err(ClientError::Lost(format!(
                "the connection to {} was closed while the call ran", shared.server
            ))),
            result = shared.call(id, &call, &mut unanswered.sent) => result,
        };
        unanswered.sent = false;
        answer::called(&answered?)
    }

    /// Whether the server is there; the stateless era has no way to ask.
    pub(crate) async fn ping(&self) -> Result<(), ClientError> {
        if self.peer.era == UpstreamEra::Stateless {
            return Ok(());
        }
        match self.shared.request("ping", message::ping).await {
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

/// A call whose answer is waited for. Dropped before that, the server hears of it.
struct Unanswered<'a> {
    shared: &'a Arc<Shared>,
    id: RequestId,
    /// The server may know of it.
    sent: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        // Where tasks end because all of them do, nobody is left to say it.
        if self.sent && Handle::try_current().is_ok() {
            self.shared.forget(self.id);
        }
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

    fn parameters(&self) -> Arc<Parameters> {
        self.parameters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers which arguments of the tools go into headers.
    fn learn(&self, tools: Definitions) -> Definitions {
        let parameters = Parameters::of(&tools);
        *self.parameters.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(parameters);
        tools
    }

    /// The text of the result of a call.
    async fn call(
        self: &Arc<Self>,
        id: RequestId,
        call: &Outgoing,
        sent: &mut bool,
    ) -> Result<Bytes, ClientError> {
        // Never closed.
        let _turn = self.calls.acquire().await;
        *sent = true;
        let session = self.session();
        let body = Bytes::from(message::call(id, session.era, call));
        let waiting = Waiting { id, progress: call.progress.as_ref() };
        let mut headers = session.post("tools/call", Some(&call.tool));
        if session.era == UpstreamEra::Stateless {
            self.parameters().add(&call.tool, &call.arguments, &mut headers);
        }
        match self.exchange(&session, "tools/call", &headers, &body, &waiting).await {
            Err(Refusal::NoSession(_)) => {}
            Err(refusal) => return Err(self.give_up(&session, refusal)),
            Ok(result) => return Ok(result),
        }
        Box::pin(async {
            let session = self.renew(&session).await?;
            let headers = session.post("tools/call", Some(&call.tool));
            let again = self.exchange(&session, "tools/call", &headers, &body, &waiting).await;
            again.map_err(Refusal::into_error)
        })
        .await
    }

    /// The text of the result of any other request, within the time that such a request may take.
    async fn request(
        self: &Arc<Self>,
        method: &'static str,
        build: impl Fn(RequestId) -> Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        let session = self.session();
        let id = self.next_id();
        let body = Bytes::from(build(id));
        match self.ask(&session, method, id, &body).await {
            Err(Refusal::NoSession(_)) => {}
            other => return other.map_err(Refusal::into_error),
        }
        Box::pin(async {
            let session = self.renew(&session).await?;
            self.ask(&session, method, id, &body).await.map_err(Refusal::into_error)
        })
        .await
    }

    /// Why a call has no result. A place that redirects led to and that is gone is no longer gone to.
    fn give_up(&self, session: &Arc<Session>, refusal: Refusal) -> ClientError {
        let error = refusal.into_error();
        let moved = !Arc::ptr_eq(&session.place, self.line.home());
        if moved && session.era == UpstreamEra::Stateless && matches!(error, ClientError::Unreachable(_)) {
            self.adopt(Session::stateless(self.line.home().clone(), MODERN));
        }
        error
    }

    /// Tells the server that the answer to a request is no longer wanted. The stateless era says so by closing the
    /// connection, which has happened.
    fn forget(self: &Arc<Self>, id: RequestId) {
        if self.session().era == UpstreamEra::Session && !self.end.is_cancelled() {
            let message = message::cancelled(id, "the caller no longer wants the result");
            self.tell_soon("cancel a call", message, &self.cancels);
        }
    }

    /// Sends what has no answer, without anybody waiting for it: once it is its turn, which it does not wait for, and
    /// for as long as there is a connection.
    fn tell_soon(self: &Arc<Self>, what: &str, message: Vec<u8>, turns: &Arc<Semaphore>) {
        let Ok(turn) = turns.clone().try_acquire_owned() else {
            tracing::debug!(server = %self.server, "dropped: to {what}, of which the server has not taken enough");
            return;
        };
        let shared = self.clone();
        self.supervisor.spawn(Stage::Work, format!("upstream {}: {what}", self.server), async move {
            let _turn = turn;
            let session = shared.session();
            let told = tokio::select! {
                () = shared.end.cancelled() => return,
                told = shared.tell(&session, Bytes::from(message)) => told,
            };
            if let Err(error) = told {
                tracing::debug!(server = %shared.server, %error, "a message was not taken");
            }
        });
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
