//! What is carried out at a server for a caller, whatever happens on the way.
//!
//! What a caller is told holds: that nothing was run is said only of what did not reach the server. Such a call
//! goes to the next connection, once, when the one it was to go to has ended. A tool that may be run twice is run again
//! here, once, when its server was lost; any other call that was lost is left to its caller, who is told to look first.
//! So is one in the course of which a question was answered: nobody is asked twice because a server was lost.

use std::sync::Arc;

use bytes::Bytes;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, Capabilities, ForeignOutput, ProgressSink, ToolContext};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use super::asking::Talk;

use super::reach::{self, Connected, Patience, Reach};
use super::rounds::{self, Failed};
use super::unit::Unit;
use crate::client::{ClientError, Method, for_callers};
use crate::config::ServerConfig;

const INVALID_PARAMS: i64 = -32602;
/// The server cannot do without asking, and its client cannot be asked.
pub(super) const MISSING_CAPABILITY: i64 = -32021;

/// What is to be done.
pub(super) enum Errand<'e> {
    Call { tool: &'e str, arguments: Arc<Value>, as_task: bool },
    Request { method: Method, params: Map<String, Value> },
}

impl Errand<'_> {
    /// For those who read why it failed.
    fn name(&self) -> &str {
        match self {
            Self::Call { tool, .. } => tool,
            Self::Request { method, .. } => method.name(),
        }
    }
}

/// What became of it.
pub(super) enum Ended {
    Output(ForeignOutput),
    /// The text of the result of a request.
    Result(Bytes),
}

/// An errand of one caller at one server.
pub(super) struct Mission<'c> {
    reach: Reach<'c>,
    talk: Talk,
    /// It may be carried out twice.
    repeatable: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl<'c> Mission<'c> {
    /// Waits for a place among those who are there.
    pub(super) async fn begin(
        unit: &'c Arc<Unit>,
        config: &ServerConfig,
        context: &'c ToolContext,
        repeatable: bool,
    ) -> Result<Self, CallError> {
        let gate = unit.gate.load_full();
        let place = tokio::select! {
            biased;
            place = gate.enter(&unit.name) => place?,
            () = context.cancel.cancelled() => return Err(reach::cancelled_before()),
        };
        let talk = Talk::of(unit, config, context);
        let reach = Reach { unit, context, own: config.per_session, can: talk.bridge.capabilities };
        Ok(Self { reach, talk, repeatable, _place: place })
    }

    pub(super) async fn run(&self, errand: &Errand<'_>) -> Result<Ended, CallError> {
        let connected = self.reach.connection(Patience::Starting).await?;
        let error = match self.once(&connected, errand).await {
            Ok(ended) => return Ok(ended),
            Err(Failed::Call(error)) => return Err(error),
            Err(Failed::Client(error)) => error,
        };
        let ended = connected.client.has_ended();
        // From here on it only waits.
        drop(connected);
        match error {
            // It has begun its work, and somebody was asked in the course of it.
            ClientError::Unreachable(why) | ClientError::Busy(why) | ClientError::NeedsLogin(why)
                if self.talk.has_asked() =>
            {
                Err(self.explain(errand, ClientError::Lost(why)))
            }
            ClientError::Lost(why) if self.may_repeat() => Box::pin(self.again(why, errand)).await,
            ClientError::Unreachable(_) if ended => Box::pin(self.anew(errand)).await,
            error => Err(self.explain(errand, error)),
        }
    }

    /// What the caller could not be asked in the course of it.
    pub(super) fn lacking(&self) -> Option<Capabilities> {
        self.reach.unit.lacking.take(self.talk.bridge.number)
    }

    fn may_repeat(&self) -> bool {
        self.repeatable && !self.talk.has_asked()
    }

    /// It was not sent, because the connection had ended: the next one may be on its way.
    async fn anew(&self, errand: &Errand<'_>) -> Result<Ended, CallError> {
        let connected = self.reach.connection(Patience::Starting).await?;
        self.once(&connected, errand).await.map_err(|failed| match failed {
            Failed::Call(error) => error,
            Failed::Client(error) => self.explain(errand, error),
        })
    }

    /// It was lost and may be run twice. What can be said when that fails too is not that nothing was run.
    async fn again(&self, why: String, errand: &Errand<'_>) -> Result<Ended, CallError> {
        let (server, name) = (&self.reach.unit.name, errand.name());
        tracing::debug!(%server, name, "runs again: its server was lost");
        let Ok(connected) = self.reach.connection(Patience::Away).await else {
            return Err(self.explain(errand, ClientError::Lost(why)));
        };
        self.once(&connected, errand).await.map_err(|failed| match failed {
            Failed::Call(error) => error,
            Failed::Client(
                ClientError::Unreachable(_) | ClientError::Busy(_) | ClientError::NeedsLogin(_),
            ) => self.explain(errand, ClientError::Lost(why)),
            Failed::Client(ClientError::Lost(why)) if self.may_repeat() => {
                self.harmless(errand, " twice", &why)
            }
            Failed::Client(error) => self.explain(errand, error),
        })
    }

    async fn once(&self, connected: &Connected<'_>, errand: &Errand<'_>) -> Result<Ended, Failed> {
        let Connected { client, place, .. } = connected;
        let (unit, context) = (self.reach.unit, self.reach.context);
        let progress = context.progress_sink().map(|sink| self.listening(sink));
        let ended = rounds::to_the_end(unit, client, errand, progress, &self.talk, context).await;
        match &ended {
            Ok(_) | Err(Failed::Client(ClientError::Rpc { .. } | ClientError::Protocol(_))) => {
                unit.pulse.hear();
            }
            // Over HTTP a session outlives what was lost in it; a server that has forgotten it says so.
            Err(Failed::Client(ClientError::Lost(_))) if place.is_some() && !client.is_pipe() => {}
            Err(Failed::Client(
                ClientError::Unreachable(_) | ClientError::Lost(_) | ClientError::NeedsLogin(_),
            )) => match place {
                Some(place) => unit.sessions.forget(context.session_id, place),
                // The unit looks for itself whether the server is still there.
                None => unit.list_changed.notify_one(),
            },
            Err(Failed::Call(_) | Failed::Client(ClientError::Busy(_) | ClientError::Cancelled)) => {}
        }
        ended
    }

    /// Progress is a sign of life.
    fn listening(&self, sink: ProgressSink) -> ProgressSink {
        let unit = Arc::downgrade(self.reach.unit);
        Arc::new(move |progress| {
            if let Some(unit) = unit.upgrade() {
                unit.pulse.hear();
            }
            sink(progress);
        })
    }

    /// It was lost, which does no harm.
    fn harmless(&self, errand: &Errand<'_>, how_often: &str, why: &str) -> CallError {
        let (server, name, why) = (&self.reach.unit.name, errand.name(), for_callers(why));
        let message = format!("{server} was lost{how_often} while {name} ran: {why}");
        CallError::new(ErrorCode::Unavailable, message)
            .hint("The tool may be run again without harm. Try again in a while.")
    }

    /// The server's failure in words for the caller.
    fn explain(&self, errand: &Errand<'_>, error: ClientError) -> CallError {
        let (unit, name) = (self.reach.unit, errand.name());
        match error {
            ClientError::Lost(why) if self.may_repeat() => self.harmless(errand, "", &why),
            ClientError::Rpc { code: INVALID_PARAMS, message, data } => {
                let said = format!("{} does not accept the arguments: {message}", unit.name);
                CallError::new(ErrorCode::InvalidArguments, said)
                    .details(data.clone().unwrap_or_default())
                    .from_rpc(INVALID_PARAMS, message, data)
            }
            error => explain(unit, name, error),
        }
    }
}

/// A server's failure in words for whoever it was asked for.
pub(super) fn explain(unit: &Unit, name: &str, error: ClientError) -> CallError {
    let server = &unit.name;
    match error {
        ClientError::Unreachable(why) => reach::unavailable(unit, &why),
        ClientError::Busy(why) => reach::busy(unit, &why),
        ClientError::NeedsLogin(why) => reach::locked(unit, &why),
        ClientError::Lost(why) => CallError::new(
            ErrorCode::Unavailable,
            format!("{server} was lost while {name} ran: {}", for_callers(&why)),
        )
        .hint("Nobody knows whether it has done its work. Look first, and call again only if it has not."),
        ClientError::Rpc { code, message, data } => {
            let said = format!("{server} answered with an error: {message} ({code})");
            let error = CallError::new(ErrorCode::ToolFailed, said).details(data.clone().unwrap_or_default());
            let error = match code {
                MISSING_CAPABILITY => {
                    let lacking = data.as_ref().map(|data| Capabilities::read(&data["requiredCapabilities"]));
                    let lacking = lacking.filter(|lacking| !lacking.is_empty());
                    let what = lacking.map(|lacking| format!(" this: {lacking}")).unwrap_or_default();
                    error.hint(format!("Call it from an MCP client that can be asked{what}."))
                }
                _ => error,
            };
            error.from_rpc(code, message, data)
        }
        ClientError::Protocol(why) => {
            CallError::new(ErrorCode::ToolFailed, format!("the answer of {server} cannot be used: {why}"))
                .hint("The tool may have done its work all the same.")
        }
        ClientError::Cancelled => CallError::new(ErrorCode::Cancelled, "the call was cancelled"),
    }
}
