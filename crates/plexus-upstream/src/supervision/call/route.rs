//! Finds the connection for a caller, the shared one or one of its session, and words the error if there is
//! none.

use plexus_proto::ErrorCode;
use plexus_proto::api::UpstreamState;
use plexus_tools::{CallError, Capabilities, ToolContext};

use crate::client::{Client, ClientError, for_callers};
use crate::supervision::lifecycle::activity::Running;
use crate::supervision::sessions::{self, SessionLease};
use crate::supervision::status::Status;
use crate::supervision::unit::Unit;

/// The route of a caller to a server.
#[derive(Clone, Copy)]
pub(super) struct Route<'c> {
    pub(in crate::supervision) unit: &'c std::sync::Arc<Unit>,
    pub(in crate::supervision) context: &'c ToolContext,
    /// The session has its own connection.
    pub(in crate::supervision) per_session: bool,
    /// The capabilities that a session's own connection must support.
    pub(in crate::supervision) capabilities: Capabilities,
}

/// A connection, with its lease if it belongs to a session.
pub(super) struct CallConnection<'u> {
    pub(in crate::supervision) client: Client,
    pub(in crate::supervision) lease: Option<SessionLease>,
    running: Running<'u>,
}

impl<'c> Route<'c> {
    /// Returns a connection. The rare slow path is boxed: otherwise every call would carry its size.
    pub(in crate::supervision) async fn connection(
        &self,
        patience: Patience,
    ) -> Result<CallConnection<'c>, CallError> {
        match live_connection(self.unit) {
            Some(connected) if !self.per_session => Ok(connected),
            _ => Box::pin(self.wait_for_connection(patience)).await,
        }
    }

    /// Returns a connection, waiting for it if necessary.
    async fn wait_for_connection(&self, patience: Patience) -> Result<CallConnection<'c>, CallError> {
        let connection = async {
            match self.per_session {
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

    /// Returns the session's own connection. The shared one only matters for creating it.
    async fn own_connection(&self, patience: Patience) -> Result<CallConnection<'c>, CallError> {
        let unit = self.unit;
        let session = self.context.session_id;
        let capabilities = self.capabilities;
        let fingerprint = || unit.to_run().map(|config| (config.fingerprint, capabilities));
        {
            let running = unit.activity.run();
            let connected = fingerprint().and_then(|of| unit.sessions.connected(session, of));
            if let Some((lease, client)) = connected {
                return Ok(CallConnection { client, lease: Some(lease), running });
            }
        }
        let running = shared(unit, patience).await?.running;
        let Some(of) = fingerprint() else { return Err(unavailable(unit, "")) };
        let Some(lease) = unit.sessions.lease(session, of) else {
            let message = format!(
                "{} already has {} sessions with their own connections",
                unit.name,
                sessions::MAX_CONNECTIONS
            );
            return Err(CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Try again when one of them has ended its calls."));
        };
        let connect = async {
            // The lease is already held, so a change from here on closes this connection together with the
            // others.
            let config = unit.to_run().filter(|config| config.fingerprint == of.0);
            let config = config.ok_or_else(|| ClientError::Unreachable("its file has changed".to_owned()))?;
            Client::connect(unit.connect(config, unit.stderr.clone(), lease.capabilities())).await
        };
        match lease.client(connect).await {
            Ok(client) => Ok(CallConnection { client, lease: Some(lease), running }),
            Err(error) => {
                unit.sessions.forget(session, &lease);
                let why = format!("cannot connect for this session: {error}");
                Err(match error {
                    ClientError::Busy(_) => busy(unit, &why),
                    ClientError::NeedsLogin(_) => needs_login(unit, &why),
                    _ => unavailable(unit, &why),
                })
            }
        }
    }
}

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// A server that is starting.
    Starting,
    /// Also a server that was just lost and is being retried.
    Reconnecting,
}

/// The shared connection, if it is open. A connection that has ended is ignored even before its end was
/// noticed.
fn live_connection(unit: &Unit) -> Option<CallConnection<'_>> {
    let running = unit.activity.run();
    let client = unit.client.load_full().filter(|client| !client.has_ended())?;
    Some(CallConnection { client: (*client).clone(), lease: None, running })
}

/// Returns the shared connection, waiting for it if necessary.
pub(in crate::supervision) async fn shared(
    unit: &Unit,
    patience: Patience,
) -> Result<CallConnection<'_>, CallError> {
    let mut status = unit.status.subscribe();
    let wait = async {
        loop {
            let state = status.borrow_and_update().state;
            match state {
                UpstreamState::Ready => {
                    if let Some(connected) = live_connection(unit) {
                        return Some(connected);
                    }
                }
                // A lazy server starts on this notification.
                UpstreamState::Idle => unit.called.notify_one(),
                UpstreamState::Starting => {}
                UpstreamState::Down if patience == Patience::Reconnecting => {}
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

/// The call was cancelled before it reached its server.
pub(super) fn cancelled_before() -> CallError {
    CallError::new(ErrorCode::Cancelled, "the call was cancelled").hint("Nothing was run.").before_it_ran()
}

/// The server accepts no more calls now, and nothing was run.
pub(in crate::supervision) fn busy(unit: &Unit, why: &str) -> CallError {
    CallError::new(
        ErrorCode::Overloaded,
        format!("{} accepts no more calls now: {}", unit.name, for_callers(why)),
    )
    .hint("Nothing was run. Wait for a while and call again.")
}

/// The server requires a login: nothing was run.
pub(super) fn needs_login(unit: &Unit, why: &str) -> CallError {
    let (name, why) = (&unit.name, for_callers(why));
    CallError::new(ErrorCode::Unavailable, format!("{name} requires a login: {why}"))
        .hint(format!("Nothing was run. Call again when somebody has run `plexus upstream login {name}`."))
        .before_it_ran()
}

/// The server is not available; nothing was run and the caller may retry.
pub(super) fn unavailable(unit: &Unit, why: &str) -> CallError {
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
    let next = status.retry_at.map(|at| format!("The hub retries at {at}"));
    match (status.state, next) {
        (UpstreamState::Failed, Some(next)) => format!(
            "It failed repeatedly, so retries are paused. {next}; to retry at once, run \
             `plexus upstream restart {name}`; `plexus upstream logs {name}` shows its output."
        ),
        (UpstreamState::NeedsLogin, _) => {
            format!("Call again when somebody has run `plexus upstream login {name}`.")
        }
        (_, Some(next)) => format!("{next}; call again after that."),
        (UpstreamState::Starting, None) => "It is starting; call again in a while.".to_owned(),
        (_, None) => "Call again in a while.".to_owned(),
    }
}
