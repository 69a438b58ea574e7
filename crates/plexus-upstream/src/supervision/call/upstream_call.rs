//! Carries out one request of a caller at a server, including retries.
//!
//! A request is repeated after a failure in these cases only:
//!
//! | where | when | how often |
//! | --- | --- | --- |
//! | `UpstreamCall::resend` | it was not sent because the connection had ended | once, over the next connection |
//! | `UpstreamCall::rerun` | the connection was lost; the request may run twice (a tool that is read-only or declared idempotent, or no tool), and no question was asked | once |
//! | `carry` in `client/http/in_flight.rs` | the server refused it because it no longer knows the session, and no question was asked | once, in a new session |
//! | `send` in `client/http/line.rs` | the server refused the OAuth token | once, with a renewed token |
//! | `http_client` in `plexus-mcp` | a reused connection ended before a byte was written | over the next one |
//! | `http_client` in `plexus-mcp` | the server redirected it | at each of up to three redirects |
//!
//! Besides, `input_rounds` sends a request again with the answers to the server's questions, up to 16 times, because the
//! server asks for that.
//!
//! Error messages are reliable: "nothing was run" is only reported if the request did not reach the server. Any other
//! lost call is reported with the advice to check first. A call in which a question was answered is not repeated, because
//! nobody should have to answer twice.

use std::sync::Arc;

use bytes::Bytes;
use plexus_proto::ErrorCode;
use plexus_tools::{CallError, Capabilities, ForeignOutput, ProgressSink, ToolContext};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use super::input_rounds::{self, Failed};
use super::questions::CallerDialog;
use super::route::{self, CallConnection, Patience, Route};
use crate::client::{ClientError, Method, for_callers};
use crate::config::ServerConfig;
use crate::supervision::unit::Unit;

const INVALID_PARAMS: i64 = -32602;
/// The server must ask something that the client does not support.
pub(super) const MISSING_CAPABILITY: i64 = -32021;

/// The operation to carry out.
pub(super) enum Operation<'e> {
    Call { tool: &'e str, arguments: Arc<Value>, as_task: bool },
    Request { method: Method, params: Map<String, Value> },
}

impl Operation<'_> {
    /// The name used in errors.
    fn name(&self) -> &str {
        match self {
            Self::Call { tool, .. } => tool,
            Self::Request { method, .. } => method.name(),
        }
    }
}

/// The result of an operation.
pub(super) enum CallOutcome {
    Output(ForeignOutput),
    /// The text of a request's result.
    Result(Bytes),
}

/// One request of a caller at a server.
pub(super) struct UpstreamCall<'c> {
    route: Route<'c>,
    dialog: CallerDialog,
    /// Whether the operation may run twice.
    repeatable: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<'c> UpstreamCall<'c> {
    /// Waits for a permit of the server's gate.
    pub(in crate::supervision) async fn begin(
        unit: &'c Arc<Unit>,
        config: &ServerConfig,
        context: &'c ToolContext,
        repeatable: bool,
    ) -> Result<Self, CallError> {
        let gate = unit.gate.load_full();
        let permit = tokio::select! {
            biased;
            permit = gate.enter(&unit.name) => permit?,
            () = context.cancel.cancelled() => return Err(route::cancelled_before()),
        };
        let dialog = CallerDialog::of(unit, config, context);
        let route = Route {
            unit,
            context,
            per_session: config.per_session,
            capabilities: dialog.bridge.capabilities,
        };
        Ok(Self { route, dialog, repeatable, _permit: permit })
    }

    pub(in crate::supervision) async fn run(
        &self,
        operation: &Operation<'_>,
    ) -> Result<CallOutcome, CallError> {
        let connected = self.route.connection(Patience::Starting).await?;
        let error = match self.once(&connected, operation).await {
            Ok(ended) => return Ok(ended),
            Err(Failed::Call(error)) => return Err(error),
            Err(Failed::Client(error)) => error,
        };
        let ended = connected.client.has_ended();
        // The connection is released before a wait for another one, which a reload of the server would otherwise block.
        drop(connected);
        match error {
            // The call has begun, and a question was asked during it.
            ClientError::Unreachable(why) | ClientError::Busy(why) | ClientError::NeedsLogin(why)
                if self.dialog.has_asked() =>
            {
                Err(self.explain(operation, ClientError::Lost(why)))
            }
            ClientError::Lost(why) if self.may_repeat() => Box::pin(self.rerun(why, operation)).await,
            ClientError::Unreachable(_) if ended => Box::pin(self.resend(operation)).await,
            error => Err(self.explain(operation, error)),
        }
    }

    /// The capabilities that the caller lacked for questions of the server.
    pub(in crate::supervision) fn lacking(&self) -> Option<Capabilities> {
        self.route.unit.missing_capabilities.take(self.dialog.bridge.number)
    }

    fn may_repeat(&self) -> bool {
        self.repeatable && !self.dialog.has_asked()
    }

    /// The request was not sent because the connection had ended; a new connection may be on its way.
    async fn resend(&self, operation: &Operation<'_>) -> Result<CallOutcome, CallError> {
        let connected = self.route.connection(Patience::Starting).await?;
        self.once(&connected, operation).await.map_err(|failed| match failed {
            Failed::Call(error) => error,
            Failed::Client(error) => self.explain(operation, error),
        })
    }

    /// The request was lost and may be run twice. If that fails too, "nothing was run" must not be reported.
    async fn rerun(&self, why: String, operation: &Operation<'_>) -> Result<CallOutcome, CallError> {
        let (server, name) = (&self.route.unit.name, operation.name());
        tracing::debug!(%server, name, "running again after the server was lost");
        let Ok(connected) = self.route.connection(Patience::Reconnecting).await else {
            return Err(self.explain(operation, ClientError::Lost(why)));
        };
        self.once(&connected, operation).await.map_err(|failed| match failed {
            Failed::Call(error) => error,
            Failed::Client(
                ClientError::Unreachable(_) | ClientError::Busy(_) | ClientError::NeedsLogin(_),
            ) => self.explain(operation, ClientError::Lost(why)),
            Failed::Client(ClientError::Lost(why)) if self.may_repeat() => {
                self.repeatable_loss(operation, " twice", &why)
            }
            Failed::Client(error) => self.explain(operation, error),
        })
    }

    async fn once(
        &self,
        connected: &CallConnection<'_>,
        operation: &Operation<'_>,
    ) -> Result<CallOutcome, Failed> {
        let CallConnection { client, lease, .. } = connected;
        let (unit, context) = (self.route.unit, self.route.context);
        let progress = context.progress_sink().map(|sink| self.listening(sink));
        let ended =
            input_rounds::run_to_completion(unit, client, operation, progress, &self.dialog, context).await;
        match &ended {
            Ok(_) | Err(Failed::Client(ClientError::Rpc { .. } | ClientError::Protocol(_))) => {
                unit.activity.record_message();
            }
            // Over HTTP the session outlives a lost request; a server that has forgotten the session reports
            // it.
            Err(Failed::Client(ClientError::Lost(_))) if lease.is_some() && !client.is_pipe() => {}
            Err(Failed::Client(
                ClientError::Unreachable(_) | ClientError::Lost(_) | ClientError::NeedsLogin(_),
            )) => match lease {
                Some(lease) => unit.sessions.forget(context.session_id, lease),
                // The unit checks whether the server is still available.
                None => unit.list_changed.notify_one(),
            },
            Err(Failed::Call(_) | Failed::Client(ClientError::Busy(_) | ClientError::Cancelled)) => {}
        }
        ended
    }

    /// Counts progress as a sign of life.
    fn listening(&self, sink: ProgressSink) -> ProgressSink {
        let unit = Arc::downgrade(self.route.unit);
        Arc::new(move |progress| {
            if let Some(unit) = unit.upgrade() {
                unit.activity.record_message();
            }
            sink(progress);
        })
    }

    /// The error for a lost call that may be repeated.
    fn repeatable_loss(&self, operation: &Operation<'_>, how_often: &str, why: &str) -> CallError {
        let (server, name, why) = (&self.route.unit.name, operation.name(), for_callers(why));
        let message = format!("{server} was lost{how_often} while {name} ran: {why}");
        CallError::new(ErrorCode::Unavailable, message)
            .hint("The tool may be run again without harm. Try again in a while.")
    }

    /// The server's failure, worded for the caller.
    fn explain(&self, operation: &Operation<'_>, error: ClientError) -> CallError {
        let (unit, name) = (self.route.unit, operation.name());
        match error {
            ClientError::Lost(why) if self.may_repeat() => self.repeatable_loss(operation, "", &why),
            ClientError::Rpc { code: INVALID_PARAMS, message, data } => {
                let text = format!("{} does not accept the arguments: {message}", unit.name);
                CallError::new(ErrorCode::InvalidArguments, text)
                    .details(data.clone().unwrap_or_default())
                    .from_rpc(INVALID_PARAMS, message, data)
            }
            error => explain(unit, name, error),
        }
    }
}

/// A server's failure, worded for the caller.
pub(super) fn explain(unit: &Unit, name: &str, error: ClientError) -> CallError {
    let server = &unit.name;
    match error {
        ClientError::Unreachable(why) => route::unavailable(unit, &why),
        ClientError::Busy(why) => route::busy(unit, &why),
        ClientError::NeedsLogin(why) => route::needs_login(unit, &why),
        ClientError::Lost(why) => CallError::new(
            ErrorCode::Unavailable,
            format!("{server} was lost while {name} ran: {}", for_callers(&why)),
        )
        .hint("It is unknown whether it did its work. Check first, and call again only if it did not."),
        ClientError::Rpc { code, message, data } => {
            let text = format!("{server} answered with an error: {message} ({code})");
            let error = CallError::new(ErrorCode::ToolFailed, text).details(data.clone().unwrap_or_default());
            let error = match code {
                MISSING_CAPABILITY => {
                    let lacking = data.as_ref().map(|data| Capabilities::read(&data["requiredCapabilities"]));
                    let lacking = lacking.filter(|lacking| !lacking.is_empty());
                    let kind = lacking.map(|lacking| format!(" of this kind: {lacking}")).unwrap_or_default();
                    error.hint(format!("Call it from an MCP client that can answer questions{kind}."))
                }
                _ => error,
            };
            error.from_rpc(code, message, data)
        }
        ClientError::Protocol(why) => {
            CallError::new(ErrorCode::ToolFailed, format!("the answer of {server} is invalid: {why}"))
                .hint("The tool may have done its work nevertheless.")
        }
        ClientError::Cancelled => CallError::new(ErrorCode::Cancelled, "the call was cancelled"),
    }
}
