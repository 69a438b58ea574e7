//! Requests to the hub with the current token, and whether the hub is reachable.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, IF_NONE_MATCH};
use http::{Method, StatusCode};
use plexus_mcp::relay::{HubClient, HubReply, HubRequestError};
use serde::Deserialize;
use tokio::sync::watch;

use super::credential::{Credential, LiveToken, NoCredential};

/// Whether the hub can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reachability {
    /// Not tried yet.
    Unknown,
    Reachable,
    Away,
    /// The hub refused the credential, for this reason.
    Refused(String),
}

/// Why the hub did not answer a request.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum HubFailure {
    /// The hub refused the credential; nothing was executed.
    #[error("{0}")]
    Refused(String),
    /// The hub is away. `sent`: the request may have reached it anyway.
    #[error("{why}")]
    Away { why: String, sent: bool },
    /// The hub did not answer in time.
    #[error("the hub did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
}

impl HubFailure {
    /// Whether nothing was executed for certain.
    pub(super) fn nothing_ran(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Away { sent: false, .. } => true,
            Self::Away { sent: true, .. } | Self::TimedOut(_) => false,
        }
    }
}

impl From<HubRequestError> for HubFailure {
    fn from(why: HubRequestError) -> Self {
        match why {
            HubRequestError::Unreachable(why) => Self::Away { why, sent: false },
            HubRequestError::Lost(why) => Self::Away { why, sent: true },
        }
    }
}

impl From<NoCredential> for HubFailure {
    fn from(why: NoCredential) -> Self {
        match why {
            NoCredential::Refused(why) => Self::Refused(why),
            // Only a token was requested.
            NoCredential::Away(why) => Self::Away { why: why.to_string(), sent: false },
        }
    }
}

#[derive(Debug)]
pub(super) struct Hub {
    line: HubClient,
    credential: Credential,
    reachability: watch::Sender<Reachability>,
}

/// Tokens tried per request: the current one, one renewed by another proxy of the agent, and a newly requested one.
const MAX_TOKENS: u32 = 3;

/// The endpoint of a request.
#[derive(Debug, Clone, Copy)]
enum HubEndpoint<'a> {
    Mcp,
    Api(&'a str),
}

impl Hub {
    pub(super) fn new(line: HubClient, credential: Credential) -> Self {
        Self { line, credential, reachability: watch::Sender::new(Reachability::Unknown) }
    }

    /// Subscribes to the hub's reachability.
    pub(super) fn reachability(&self) -> watch::Receiver<Reachability> {
        self.reachability.subscribe()
    }

    pub(super) fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Renews the token now.
    pub(super) async fn renew(&self) {
        self.credential.renew(&self.line).await;
    }

    /// Renews the token if it is due, and closes idle connections.
    pub(super) async fn maintain(&self) {
        self.line.sweep();
        if self.credential.due_in() == Some(Duration::ZERO) {
            self.credential.renew(&self.line).await;
        }
    }

    /// Sends a message to the MCP endpoint and waits for the head of the answer.
    pub(super) async fn mcp(
        &self,
        method: &Method,
        headers: HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, HubFailure> {
        self.request(HubEndpoint::Mcp, method, headers, body).await.map(|(reply, _)| reply)
    }

    /// A POST to the REST API.
    pub(super) async fn post(&self, path: &str, body: &Bytes) -> Result<HubReply, HubFailure> {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, json)]);
        self.request(HubEndpoint::Api(path), &Method::POST, headers, body).await.map(|(reply, _)| reply)
    }

    /// A conditional GET to the REST API, with the known entity tag. Also returns the token that was presented.
    pub(super) async fn get(
        &self,
        path: &str,
        entity_tag: Option<&HeaderValue>,
    ) -> Result<(HubReply, Arc<LiveToken>), HubFailure> {
        let headers = entity_tag.map(|tag| (IF_NONE_MATCH, tag.clone())).into_iter().collect();
        self.request(HubEndpoint::Api(path), &Method::GET, headers, &Bytes::new()).await
    }

    /// Sends a request. A 401 means that nothing was executed, so it is repeated with another token.
    async fn request(
        &self,
        endpoint: HubEndpoint<'_>,
        method: &Method,
        mut headers: HeaderMap,
        body: &Bytes,
    ) -> Result<(HubReply, Arc<LiveToken>), HubFailure> {
        let mut live =
            self.record_if_failed(self.credential.get(&self.line).await.map_err(HubFailure::from))?;
        let mut tokens = MAX_TOKENS;
        loop {
            headers.insert(AUTHORIZATION, live.header());
            let sent = match endpoint {
                HubEndpoint::Mcp => self.line.mcp(method, &headers, body).await,
                HubEndpoint::Api(path) => self.line.api(path, method, &headers, body).await,
            };
            let reply = self.record_if_failed(sent.map_err(HubFailure::from))?;
            if reply.status() != StatusCode::UNAUTHORIZED {
                let status = reply.status();
                self.set_reachability(if is_away(status) {
                    Reachability::Away
                } else {
                    Reachability::Reachable
                });
                return Ok((reply, live));
            }
            tokens -= 1;
            let newer = match tokens > 0 {
                true => self.credential.replace_refused(&live, &self.line).await.map_err(HubFailure::from),
                false => Err(HubFailure::Refused("the hub refused the token of this agent".to_owned())),
            };
            live = match newer {
                Ok(newer) => newer,
                Err(HubFailure::Refused(why)) => {
                    let why = if self.credential.explains() { why } else { error_message(reply).await };
                    return Err(self
                        .record_failure(HubFailure::Refused(format!("the hub refused this agent: {why}"))));
                }
                Err(failure) => return Err(self.record_failure(failure)),
            };
        }
    }

    fn record_if_failed<T>(&self, outcome: Result<T, HubFailure>) -> Result<T, HubFailure> {
        outcome.map_err(|failure| self.record_failure(failure))
    }

    /// Updates the reachability from a failure, and returns the failure.
    pub(super) fn record_failure(&self, failure: HubFailure) -> HubFailure {
        match &failure {
            HubFailure::Refused(why) => self.set_reachability(Reachability::Refused(why.clone())),
            HubFailure::Away { .. } | HubFailure::TimedOut(_) => self.set_reachability(Reachability::Away),
        }
        failure
    }

    fn set_reachability(&self, reach: Reachability) {
        self.reachability.send_if_modified(|current| {
            let changed = *current != reach;
            if changed {
                match &reach {
                    Reachability::Reachable => tracing::info!("the hub is reachable"),
                    Reachability::Away => tracing::warn!("the hub is away"),
                    Reachability::Refused(why) => tracing::error!(%why, "the hub refused the credential"),
                    Reachability::Unknown => {}
                }
                *current = reach;
            }
            changed
        });
    }
}

/// Whether a gateway reports that the hub is away, or the hub that it is starting or stopping.
pub(super) fn is_away(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

/// The error message of an answer that is not JSON-RPC.
pub(super) async fn error_message(reply: HubReply) -> String {
    let status = reply.status();
    let body = reply.bytes().await.unwrap_or_default();
    api_error_message(&body).unwrap_or_else(|| format!("the answer was {status}"))
}

/// The message of an error in the format of the REST API; none if the body has another format.
pub(super) fn api_error_message(body: &[u8]) -> Option<String> {
    /// A part of [`ErrorEnvelope`](plexus_proto::ErrorEnvelope), because a newer hub may send codes that are unknown here.
    #[derive(Deserialize)]
    struct ApiError {
        message: String,
        hint: Option<String>,
        #[serde(rename = "request_id")]
        _request_id: String,
    }
    let error = serde_json::from_slice::<ApiError>(body).ok()?;
    Some(match error.hint {
        Some(hint) => format!("{}. {hint}", error.message),
        None => error.message,
    })
}
