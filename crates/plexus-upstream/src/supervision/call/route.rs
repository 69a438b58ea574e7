//! How a caller gets to a server: by the connection that all share, or by one of its session; and what it is told when
//! there is none.

use plexus_proto::ErrorCode;
use plexus_proto::api::UpstreamState;
use plexus_tools::{CallError, Capabilities, ToolContext};

use crate::client::{Client, ClientError, for_callers};
use crate::supervision::lifecycle::activity::Running;
use crate::supervision::sessions::{self, SessionLease};
use crate::supervision::status::Status;
use crate::supervision::unit::Unit;

/// A caller on its way to a server.
#[derive(Clone, Copy)]
pub(super) struct Route<'c> {
    pub(in crate::supervision) unit: &'c std::sync::Arc<Unit>,
    pub(in crate::supervision) context: &'c ToolContext,
    /// The session has a connection of its own.
    pub(in crate::supervision) own: bool,
    /// What can be asked over that one, at least.
    pub(in crate::supervision) can: Capabilities,
}

/// A connection, and the place that it has if it is that of a session.
pub(super) struct Connected<'u> {
    pub(in crate::supervision) client: Client,
    pub(in crate::supervision) place: Option<SessionLease>,
    running: Running<'u>,
}

impl<'c> Route<'c> {
    /// What is rare is boxed: every call carries the rest of this with it.
    pub(in crate::supervision) async fn connection(
        &self,
        patience: Patience,
    ) -> Result<Connected<'c>, CallError> {
        match there(self.unit) {
            Some(connected) if !self.own => Ok(connected),
            _ => Box::pin(self.coming_connection(patience)).await,
        }
    }

    /// One that may have to be waited for.
    async fn coming_connection(&self, patience: Patience) -> Result<Connected<'c>, CallError> {
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
    async fn own_connection(&self, patience: Patience) -> Result<Connected<'c>, CallError> {
        let unit = self.unit;
        let session = self.context.session_id;
        let can = self.can;
        let fingerprint = || unit.to_run().map(|config| (config.fingerprint, can));
        {
            let running = unit.activity.run();
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
            let config = unit.to_run().filter(|config| config.fingerprint == of.0);
            let config = config.ok_or_else(|| ClientError::Unreachable("its file has changed".to_owned()))?;
            Client::connect(unit.connect(config, unit.stderr.clone(), place.can())).await
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
}

/// For what a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// For a server that is being started.
    Starting,
    /// Also for one that was just lost and is tried again.
    Away,
}

/// The connection that all share, if it is there. One that has ended is not, also when nobody has noticed.
fn there(unit: &Unit) -> Option<Connected<'_>> {
    let running = unit.activity.run();
    let client = unit.client.load_full().filter(|client| !client.has_ended())?;
    Some(Connected { client: (*client).clone(), place: None, running })
}

/// The connection that all share, as soon as there is one.
pub(in crate::supervision) async fn shared(
    unit: &Unit,
    patience: Patience,
) -> Result<Connected<'_>, CallError> {
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
pub(super) fn cancelled_before() -> CallError {
    CallError::new(ErrorCode::Cancelled, "the call was cancelled").hint("Nothing was run.").before_it_ran()
}

/// The server takes no more calls now: nothing was run.
pub(in crate::supervision) fn busy(unit: &Unit, why: &str) -> CallError {
    CallError::new(
        ErrorCode::Overloaded,
        format!("{} takes no more calls now: {}", unit.name, for_callers(why)),
    )
    .hint("Nothing was run. Wait for a while and call again.")
}

/// The server requires a login: nothing was run.
pub(super) fn locked(unit: &Unit, why: &str) -> CallError {
    let (name, why) = (&unit.name, for_callers(why));
    CallError::new(ErrorCode::Unavailable, format!("{name} requires a login: {why}"))
        .hint(format!("Nothing was run. Call again when somebody has run `plexus upstream login {name}`."))
        .before_it_ran()
}

/// The server is not there: nothing was run, and the caller may try again.
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
