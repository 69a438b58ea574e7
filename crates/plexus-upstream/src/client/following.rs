//! What a caller or the hub wants to hear of a server beside its answers, brought to it in the way of its era.

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

    /// Has the server of a session write as much to its log as a caller wants to read. In the stateless era each request
    /// says that for itself.
    pub(super) async fn turn_up(&self, bridge: &Bridge) {
        let Some(log) = bridge.log.as_ref().filter(|_| self.peer().offers.logging) else { return };
        if self.peer().era == UpstreamEra::Session && self.verbosity().wants(log.least) {
            let level = Map::from_iter([("level".to_owned(), Value::from(log.least.as_str()))]);
            match Box::pin(self.request(Request::new(Method::SetLevel, level))).await {
                // Whatever it says to this, the call is not about it.
                Ok(_) | Err(ClientError::Rpc { .. }) => {}
                // It may not have heard it, and is told again.
                Err(_) => self.verbosity().forget(),
            }
        }
    }

    /// From now on tells of these resources when they change, and of no others. Returns when the server has taken note:
    /// those that may have changed while it had forgotten them. For one caller at a time.
    pub async fn watch(&self, uris: BTreeSet<String>) -> Result<BTreeSet<String>, ClientError> {
        let subscriptions = self.subscriptions();
        if !self.peer().offers.subscribe {
            return Ok(BTreeSet::new());
        }
        if self.peer().era == UpstreamEra::Stateless {
            subscriptions.want(uris).await;
            return Ok(BTreeSet::new());
        }
        let Difference { more, fewer } = subscriptions.difference(&uris);
        let more = more.into_iter().map(|uri| (Method::Subscribe, uri));
        for (method, uri) in fewer.into_iter().map(|uri| (Method::Unsubscribe, uri)).chain(more) {
            let params = Map::from_iter([("uri".to_owned(), Value::from(&*uri))]);
            match self.request(Request::new(method, params)).await {
                // One that it does not know is not asked for again.
                Ok(_) | Err(ClientError::Rpc { .. }) => {
                    subscriptions.subscribed(uri, method == Method::Subscribe);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(subscriptions.take_lost())
    }
}

/// The least level that a call on this connection has wanted. One level is for all of them: what one caller does not want
/// to read is left out when it comes.
#[derive(Debug)]
pub(super) struct LogVerbosity(AtomicU8);

impl LogVerbosity {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(u8::MAX))
    }

    /// Whether the server has to be told that this much is wanted.
    pub(super) fn wants(&self, level: LogLevel) -> bool {
        self.0.fetch_min(level as u8, Ordering::Relaxed) > level as u8
    }

    /// The session is another one, which was told nothing.
    pub(super) fn forget(&self) {
        self.0.store(u8::MAX, Ordering::Relaxed);
    }
}
