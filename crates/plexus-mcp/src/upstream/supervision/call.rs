//! One call of a tool of another server: from the dispatcher to the server and back.
//!
//! What a caller is told holds: that nothing was run is said only of a call that did not reach the server. Such a call
//! goes to the next connection, once, when the one it was to go to has ended. A tool that may be run twice is run again
//! here, once, when its server was lost; any other call that was lost is left to its caller, who is told to look first.

use std::path::Path;
use std::sync::{Arc, Weak};

use plexus_kit::env;
use plexus_proto::ErrorCode;
use plexus_proto::api::UpstreamState;
use plexus_tools::{CallError, Outcome, ProgressSink, Run, ToolContext, ToolOutput};
use serde_json::Value;

use super::catalog::Entry;
use super::inject;
use super::pulse::Running;
use super::sessions::{self, Place};
use super::status::Status;
use super::unit::Unit;
use crate::upstream::client::{Client, ClientError, Outgoing, for_callers};

const INVALID_PARAMS: i64 = -32602;

/// What runs the tool that is called so at the server, under this canonical name. It knows the unit and nothing else,
/// so it stays right whatever becomes of the server.
pub(super) fn handler(unit: &Arc<Unit>, name: String, tool: String) -> Arc<Run> {
    let unit = Arc::downgrade(unit);
    let (name, tool): (Arc<str>, Arc<str>) = (name.into(), tool.into());
    Arc::new(move |context, arguments| {
        let (unit, name, tool) = (unit.clone(), name.clone(), tool.clone());
        Box::pin(async move { run(&unit, &name, &tool, context, arguments).await })
    })
}

async fn run(
    unit: &Weak<Unit>,
    name: &str,
    tool: &str,
    context: ToolContext,
    arguments: Value,
) -> Result<Outcome, CallError> {
    let withdrawn =
        || CallError::new(ErrorCode::UnknownTool, format!("Unknown tool: {name}")).hint("It is gone.");
    let unit = unit.upgrade().ok_or_else(withdrawn)?;
    // The name may stand for another tool by now, which the caller was not admitted to.
    let entry = unit.catalog.load().entries.get(name).filter(|entry| entry.tool == tool).cloned();
    let entry = entry.ok_or_else(withdrawn)?;
    let config = unit.config().ok_or_else(withdrawn)?;
    let _beat = unit.pulse.begin(config.timeout);
    let mut arguments = arguments;
    if let (false, Value::Object(arguments)) = (entry.injected.is_empty(), &mut arguments) {
        let home = unit.shared.environment.get(env::HOME).map(Path::new);
        inject::fill(&entry.injected, &context, home, arguments).map_err(CallError::before_it_ran)?;
    }
    let gate = unit.gate.load_full();
    let _place = tokio::select! {
        biased;
        place = gate.enter(&unit.name) => place?,
        () = context.cancel.cancelled() => return Err(cancelled_before()),
    };
    let call = UpstreamCall { unit: &unit, entry: &entry, context: &context, own: config.per_session };
    call.run(arguments).await.map(Outcome::Ready)
}

struct UpstreamCall<'c> {
    unit: &'c Arc<Unit>,
    entry: &'c Entry,
    context: &'c ToolContext,
    /// The session has a connection of its own.
    own: bool,
}

/// A connection, and the place that it has if it is that of a session.
struct Connected<'u> {
    client: Client,
    place: Option<Place>,
    running: Running<'u>,
}

impl UpstreamCall<'_> {
    async fn run(&self, arguments: Value) -> Result<ToolOutput, CallError> {
        let arguments = Arc::new(arguments);
        let connected = self.connection(Patience::Starting).await?;
        let error = match self.once(&connected, arguments.clone()).await {
            Ok(output) => return Ok(output),
            Err(error) => error,
        };
        let ended = connected.client.has_ended();
        // From here on it only waits.
        drop(connected);
        match error {
            ClientError::Lost(why) if self.entry.repeatable => Box::pin(self.again(why, arguments)).await,
            ClientError::Unreachable(_) if ended => Box::pin(self.anew(arguments)).await,
            error => Err(self.explain(error)),
        }
    }

    /// It was not sent, because the connection had ended: the next one may be on its way.
    async fn anew(&self, arguments: Arc<Value>) -> Result<ToolOutput, CallError> {
        let connected = self.connection(Patience::Starting).await?;
        self.once(&connected, arguments).await.map_err(|error| self.explain(error))
    }

    /// It was lost and may be run twice. What can be said when that fails too is not that nothing was run.
    async fn again(&self, why: String, arguments: Arc<Value>) -> Result<ToolOutput, CallError> {
        tracing::debug!(server = %self.unit.name, tool = %self.entry.tool, "runs again: its server was lost");
        let Ok(connected) = self.connection(Patience::Away).await else {
            return Err(self.explain(ClientError::Lost(why)));
        };
        self.once(&connected, arguments).await.map_err(|error| match error {
            ClientError::Unreachable(_) | ClientError::Busy(_) | ClientError::NeedsLogin(_) => {
                self.explain(ClientError::Lost(why))
            }
            ClientError::Lost(why) => self.harmless(" twice", &why),
            error => self.explain(error),
        })
    }

    async fn once(
        &self,
        connected: &Connected<'_>,
        arguments: Arc<Value>,
    ) -> Result<ToolOutput, ClientError> {
        let Connected { client, place, .. } = connected;
        let outgoing = Outgoing {
            tool: self.entry.tool.clone(),
            arguments,
            progress: self.context.progress_sink().map(|sink| self.listening(sink)),
            cancel: self.context.cancel.clone(),
            trace: self.context.trace_context().cloned(),
        };
        let called = client.call(outgoing).await;
        match &called {
            Ok(_) | Err(ClientError::Rpc { .. } | ClientError::Protocol(_)) => self.unit.pulse.hear(),
            // Over HTTP a session outlives what was lost in it; a server that has forgotten it says so.
            Err(ClientError::Lost(_)) if place.is_some() && !client.is_pipe() => {}
            Err(ClientError::Unreachable(_) | ClientError::Lost(_) | ClientError::NeedsLogin(_)) => {
                match place {
                    Some(place) => self.unit.sessions.forget(self.context.session_id, place),
                    // The unit looks for itself whether the server is still there.
                    None => self.unit.list_changed.notify_one(),
                }
            }
            Err(ClientError::Busy(_) | ClientError::Cancelled) => {}
        }
        called.map(ToolOutput::Foreign)
    }

    /// Progress is a sign of life.
    fn listening(&self, sink: ProgressSink) -> ProgressSink {
        let unit = Arc::downgrade(self.unit);
        Arc::new(move |progress| {
            if let Some(unit) = unit.upgrade() {
                unit.pulse.hear();
            }
            sink(progress);
        })
    }

    /// What is rare is boxed: every call carries the rest of this with it.
    async fn connection(&self, patience: Patience) -> Result<Connected<'_>, CallError> {
        match there(self.unit) {
            Some(connected) if !self.own => Ok(connected),
            _ => Box::pin(self.coming_connection(patience)).await,
        }
    }

    /// One that may have to be waited for.
    async fn coming_connection(&self, patience: Patience) -> Result<Connected<'_>, CallError> {
        let connection = async {
            match self.own {
                true => self.own_connection(patience).await,
                false => shared(self.unit, patience).await,
            }
        };
        tokio::select! {
            biased;
            connected = connection => connected,
            () = self.context.cancel.cancelled() => Err(cancelled_before()),
        }
    }

    /// The connection of the session that calls. How the one is that all share matters only to make it.
    async fn own_connection(&self, patience: Patience) -> Result<Connected<'_>, CallError> {
        let unit = self.unit;
        let session = self.context.session_id;
        let fingerprint = || unit.to_run().map(|config| config.fingerprint);
        {
            let running = unit.pulse.run();
            let connected = fingerprint().and_then(|of| unit.sessions.connected(session, of));
            if let Some((place, client)) = connected {
                return Ok(Connected { client, place: Some(place), running });
            }
        }
        let running = shared(unit, patience).await?.running;
        let Some(of) = fingerprint() else { return Err(unavailable(unit, "")) };
        let Some(place) = unit.sessions.place(session, of) else {
            let message = format!(
                "{} is used by {} sessions, each with a connection of its own",
                unit.name,
                sessions::MAX
            );
            return Err(CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Try again when one of them has ended its calls."));
        };
        let connect = async {
            // It has its place by now: when something else is wanted after this, it is closed with the others.
            let config = unit.to_run().filter(|config| config.fingerprint == of);
            let config = config.ok_or_else(|| ClientError::Unreachable("its file has changed".to_owned()))?;
            Client::connect(unit.connect(config, unit.stderr.clone())).await
        };
        match place.client(connect).await {
            Ok(client) => Ok(Connected { client, place: Some(place), running }),
            Err(error) => {
                unit.sessions.forget(session, &place);
                let why = format!("a connection for this session cannot be made: {error}");
                Err(match error {
                    ClientError::Busy(_) => busy(unit, &why),
                    ClientError::NeedsLogin(_) => locked(unit, &why),
                    _ => unavailable(unit, &why),
                })
            }
        }
    }

    /// It was lost, which does no harm.
    fn harmless(&self, how_often: &str, why: &str) -> CallError {
        let (server, tool, why) = (&self.unit.name, &self.entry.tool, for_callers(why));
        let message = format!("{server} was lost{how_often} while {tool} ran: {why}");
        CallError::new(ErrorCode::Unavailable, message)
            .hint("The tool may be run again without harm. Try again in a while.")
    }

    /// The server's failure in words for the caller.
    fn explain(&self, error: ClientError) -> CallError {
        let (server, tool) = (&self.unit.name, &self.entry.tool);
        match error {
            ClientError::Unreachable(why) => unavailable(self.unit, &why),
            ClientError::Busy(why) => busy(self.unit, &why),
            ClientError::NeedsLogin(why) => locked(self.unit, &why),
            ClientError::Lost(why) if self.entry.repeatable => self.harmless("", &why),
            ClientError::Lost(why) => CallError::new(
                ErrorCode::Unavailable,
                format!("{server} was lost while {tool} ran: {}", for_callers(&why)),
            )
            .hint(
                "Nobody knows whether it has done its work. Look first, and call again only if it has not.",
            ),
            ClientError::Rpc { code: INVALID_PARAMS, message, data } => CallError::new(
                ErrorCode::InvalidArguments,
                format!("{server} does not accept the arguments: {message}"),
            )
            .details(data.unwrap_or_default()),
            ClientError::Rpc { code, message, data } => CallError::new(
                ErrorCode::ToolFailed,
                format!("{server} answered with an error: {message} ({code})"),
            )
            .details(data.unwrap_or_default()),
            ClientError::Protocol(why) => {
                CallError::new(ErrorCode::ToolFailed, format!("the answer of {server} cannot be used: {why}"))
                    .hint("The tool may have done its work all the same.")
            }
            ClientError::Cancelled => CallError::new(ErrorCode::Cancelled, "the call was cancelled"),
        }
    }
}

/// For what a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// For a server that is being started.
    Starting,
    /// Also for one that was just lost and is tried again.
    Away,
}

/// The connection that all share, if it is there. One that has ended is not, also when nobody has noticed.
fn there(unit: &Unit) -> Option<Connected<'_>> {
    let running = unit.pulse.run();
    let client = unit.client.load_full().filter(|client| !client.has_ended())?;
    Some(Connected { client: (*client).clone(), place: None, running })
}

/// The connection that all share, as soon as there is one.
async fn shared(unit: &Unit, patience: Patience) -> Result<Connected<'_>, CallError> {
    let mut status = unit.status.subscribe();
    let wait = async {
        loop {
            let state = status.borrow_and_update().state;
            match state {
                UpstreamState::Ready => {
                    if let Some(connected) = there(unit) {
                        return Some(connected);
                    }
                }
                // A lazy server waits for this.
                UpstreamState::Idle => unit.called.notify_one(),
                UpstreamState::Starting => {}
                UpstreamState::Down if patience == Patience::Away => {}
                UpstreamState::Down
                | UpstreamState::Failed
                | UpstreamState::NeedsLogin
                | UpstreamState::Disabled
                | UpstreamState::Invalid => {
                    return None;
                }
            }
            status.changed().await.ok()?;
        }
    };
    match tokio::time::timeout(unit.shared.timing.start, wait).await {
        Ok(Some(connected)) => Ok(connected),
        Ok(None) | Err(_) => Err(unavailable(unit, "")),
    }
}

/// Nobody wants it any more, and it did not get to its server.
fn cancelled_before() -> CallError {
    CallError::new(ErrorCode::Cancelled, "the call was cancelled").hint("Nothing was run.").before_it_ran()
}

/// The server takes no more calls now: nothing was run.
fn busy(unit: &Unit, why: &str) -> CallError {
    CallError::new(
        ErrorCode::Overloaded,
        format!("{} takes no more calls now: {}", unit.name, for_callers(why)),
    )
    .hint("Nothing was run. Wait for a while and call again.")
}

/// The server wants a login: nothing was run.
fn locked(unit: &Unit, why: &str) -> CallError {
    let (name, why) = (&unit.name, for_callers(why));
    CallError::new(ErrorCode::Unavailable, format!("{name} wants a login: {why}"))
        .hint(format!("Nothing was run. Call again when somebody has run `plexus upstream login {name}`."))
        .before_it_ran()
}

/// The server is not there: nothing was run, and the caller may try again.
fn unavailable(unit: &Unit, why: &str) -> CallError {
    let status = unit.status.borrow().clone();
    let last = status.failure.as_ref().map(|failure| failure.message.as_str());
    let why = Some(why).filter(|why| !why.is_empty()).or(last).unwrap_or("it has not answered yet");
    let why = for_callers(why);
    let message = format!("{} is not available ({}): {why}", unit.name, status.state.as_str());
    CallError::new(ErrorCode::Unavailable, message)
        .hint(format!("Nothing was run. {}", advice(unit, &status)))
        .before_it_ran()
}

fn advice(unit: &Unit, status: &Status) -> String {
    let name = &unit.name;
    let next = status.retry_at.map(|at| format!("It is tried again at {at}"));
    match (status.state, next) {
        (UpstreamState::Failed, Some(next)) => format!(
            "It failed so often that it is left alone for a while. {next}, or at once by \
             `plexus upstream restart {name}`; `plexus upstream logs {name}` shows what it said."
        ),
        (UpstreamState::NeedsLogin, _) => {
            format!("Call again when somebody has run `plexus upstream login {name}`.")
        }
        (_, Some(next)) => format!("{next}; call again after that."),
        (UpstreamState::Starting, None) => "It is being started; call again in a while.".to_owned(),
        (_, None) => "Call again in a while.".to_owned(),
    }
}
