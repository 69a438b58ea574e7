//! Log levels and resource subscriptions of a server, managed in the way of its era.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};

use plexus_proto::api::UpstreamEra;
use plexus_tools::LogLevel;
use serde_json::{Map, Value};

use super::subscriptions::{Difference, Subscriptions};
use super::{Bridge, Client, ClientError, Method, Request, Wire};

impl Client {
    fn verbosity(&self) -> &LogVerbosity {
        match &self.0 {
            Wire::Pipe(connection) => connection.verbosity(),
            Wire::Http(client) => client.verbosity(),
        }
    }

    fn subscriptions(&self) -> &Subscriptions {
        match &self.0 {
            Wire::Pipe(connection) => connection.subscriptions(),
            Wire::Http(client) => client.subscriptions(),
        }
    }

    /// Raises the log level of a session to what a caller wants to read. In the stateless era each request
    /// states its own level.
    pub(super) async fn raise_log_level(&self, bridge: &Bridge) {
        let Some(log) = bridge.log.as_ref().filter(|_| self.peer().offers.logging) else { return };
        if self.peer().era == UpstreamEra::Session && self.verbosity().wants(log.least) {
            let level = Map::from_iter([("level".to_owned(), Value::from(log.least.as_str()))]);
            match Box::pin(self.request(Request::new(Method::SetLevel, level))).await {
                // A refusal does not affect the call.
                Ok(_) | Err(ClientError::Rpc { .. }) => {}
                // The server may not have received it, so it is sent again next time.
                Err(_) => self.verbosity().forget(),
            }
        }
    }

    /// Subscribes to exactly these resources. Returns when the server has acknowledged it, with those that
    /// may have changed while a lost session left them unwatched. Only one caller at a time.
    pub async fn watch(&self, uris: BTreeSet<String>) -> Result<BTreeSet<String>, ClientError> {
        let subscriptions = self.subscriptions();
        if !self.peer().offers.subscribe {
            return Ok(BTreeSet::new());
        }
        if self.peer().era == UpstreamEra::Stateless {
            subscriptions.set_desired(uris).await;
            return Ok(BTreeSet::new());
        }
        let Difference { more, fewer } = subscriptions.difference(&uris);
        let more = more.into_iter().map(|uri| (Method::Subscribe, uri));
        for (method, uri) in fewer.into_iter().map(|uri| (Method::Unsubscribe, uri)).chain(more) {
            let params = Map::from_iter([("uri".to_owned(), Value::from(&*uri))]);
            match self.request(Request::new(method, params)).await {
                // A resource that the server does not know is not requested again.
                Ok(_) | Err(ClientError::Rpc { .. }) => {
                    subscriptions.subscribed(uri, method == Method::Subscribe);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(subscriptions.take_lost())
    }
}

/// The lowest level that any call on this connection has requested. The level applies to all of them; lines
/// below a caller's level are filtered on arrival.
#[derive(Debug)]
pub(super) struct LogVerbosity(AtomicU8);

impl LogVerbosity {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(u8::MAX))
    }

    /// Whether the server must be sent this level.
    pub(super) fn wants(&self, level: LogLevel) -> bool {
        self.0.fetch_min(level as u8, Ordering::Relaxed) > level as u8
    }

    /// Resets the level for a new session.
    pub(super) fn forget(&self) {
        self.0.store(u8::MAX, Ordering::Relaxed);
    }
}
