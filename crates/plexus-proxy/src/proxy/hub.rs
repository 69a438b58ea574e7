//! The hub as the proxy reaches it: with the token of the moment, and with a word on whether it is there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, IF_NONE_MATCH};
use http::{Method, StatusCode};
use plexus_mcp::relay::{HubClient, HubReply, HubRequestError};
use plexus_proto::ErrorEnvelope;
use tokio::sync::watch;

use super::credential::{Credential, Live, NoCredential};

/// Whether the hub can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nobody has tried yet.
    Unknown,
    There,
    Away,
    /// It is there, and does not take the credential: why.
    Refused(String),
}

/// Why a request has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Failure {
    /// The hub does not take the credential: nothing ran.
    #[error("{0}")]
    Refused(String),
    /// It is away; `sent`: the request may have got there all the same.
    #[error("{why}")]
    Away { why: String, sent: bool },
    /// It did not answer in time.
    #[error("the hub did not answer within {} s", .0.as_secs())]
    Late(Duration),
}

impl Failure {
    /// Whether it is certain that nothing was done.
    pub(super) fn nothing_ran(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Away { sent: false, .. } => true,
            Self::Away { sent: true, .. } | Self::Late(_) => false,
        }
    }
}

impl From<HubRequestError> for Failure {
    fn from(why: HubRequestError) -> Self {
        match why {
            HubRequestError::Unreachable(why) => Self::Away { why, sent: false },
            HubRequestError::Lost(why) => Self::Away { why, sent: true },
        }
    }
}

impl From<NoCredential> for Failure {
    fn from(why: NoCredential) -> Self {
        match why {
            NoCredential::Refused(why) => Self::Refused(why),
            // Only a token was asked for.
            NoCredential::Away(why) => Self::Away { why: why.to_string(), sent: false },
        }
    }
}

#[derive(Debug)]
pub(super) struct Hub {
    line: HubClient,
    credential: Credential,
    reach: watch::Sender<Reach>,
}

/// Tokens that are shown for one request: that of the moment, one that another proxy of the agent has got meanwhile, and the one
/// that is asked for then.
const MAX_TOKENS: u32 = 3;

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
enum Door<'a> {
    Mcp,
    Api(&'a str),
}

impl Hub {
    pub(super) fn new(line: HubClient, credential: Credential) -> Self {
        Self { line, credential, reach: watch::Sender::new(Reach::Unknown) }
    }

    /// Whether it is there, and when that changes.
    pub(super) fn reach(&self) -> watch::Receiver<Reach> {
        self.reach.subscribe()
    }

    pub(super) fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Takes another token, due or not.
    pub(super) async fn renew(&self) {
        self.credential.renew(&self.line).await;
    }

    /// Renews the token where it is time, and closes connections that nobody uses.
    pub(super) async fn tend(&self) {
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
    ) -> Result<HubReply, Failure> {
        self.ask(Door::Mcp, method, headers, body).await.map(|(reply, _)| reply)
    }

    /// A change by the REST API.
    pub(super) async fn post(&self, path: &str, body: &Bytes) -> Result<HubReply, Failure> {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, json)]);
        self.ask(Door::Api(path), &Method::POST, headers, body).await.map(|(reply, _)| reply)
    }

    /// A look at the REST API, for what is not `known` yet; with the token that was shown.
    pub(super) async fn look(
        &self,
        path: &str,
        known: Option<&HeaderValue>,
    ) -> Result<(HubReply, Arc<Live>), Failure> {
        let headers = known.map(|tag| (IF_NONE_MATCH, tag.clone())).into_iter().collect();
        self.ask(Door::Api(path), &Method::GET, headers, &Bytes::new()).await
    }

    /// A 401 says that nothing was done: the request is sent once more as soon as there is another token.
    async fn ask(
        &self,
        door: Door<'_>,
        method: &Method,
        mut headers: HeaderMap,
        body: &Bytes,
    ) -> Result<(HubReply, Arc<Live>), Failure> {
        let mut live = self.heard(self.credential.get(&self.line).await.map_err(Failure::from))?;
        let mut tokens = MAX_TOKENS;
        loop {
            headers.insert(AUTHORIZATION, live.header());
            let sent = match door {
                Door::Mcp => self.line.mcp(method, &headers, body).await,
                Door::Api(path) => self.line.api(path, method, &headers, body).await,
            };
            let reply = self.heard(sent.map_err(Failure::from))?;
            if reply.status() != StatusCode::UNAUTHORIZED {
                let status = reply.status();
                self.say(if is_away(status) { Reach::Away } else { Reach::There });
                return Ok((reply, live));
            }
            tokens -= 1;
            let newer = match tokens > 0 {
                true => self.credential.after(&live, &self.line).await.map_err(Failure::from),
                false => Err(Failure::Refused("the hub does not take the token of this agent".to_owned())),
            };
            live = match newer {
                Ok(newer) => newer,
                Err(Failure::Refused(why)) => {
                    let why = if self.credential.explains() { why } else { told(reply).await };
                    return Err(
                        self.noted(Failure::Refused(format!("the hub does not let this agent in: {why}")))
                    );
                }
                Err(away) => return Err(self.noted(away)),
            };
        }
    }

    fn heard<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        outcome.map_err(|failure| self.noted(failure))
    }

    /// Keeps in mind what a failure says of the hub.
    pub(super) fn noted(&self, failure: Failure) -> Failure {
        match &failure {
            Failure::Refused(why) => self.say(Reach::Refused(why.clone())),
            Failure::Away { .. } | Failure::Late(_) => self.say(Reach::Away),
        }
        failure
    }

    fn say(&self, reach: Reach) {
        self.reach.send_if_modified(|known| {
            let changed = *known != reach;
            if changed {
                match &reach {
                    Reach::There => tracing::info!("the hub is there"),
                    Reach::Away => tracing::warn!("the hub is away"),
                    Reach::Refused(why) => tracing::error!(%why, "the hub refuses the credential"),
                    Reach::Unknown => {}
                }
                *known = reach;
            }
            changed
        });
    }
}

/// What a gateway in front of the hub says when the hub is not there, and the hub while it starts or stops.
pub(super) fn is_away(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

/// What an answer that is no message says.
pub(super) async fn told(reply: HubReply) -> String {
    let status = reply.status();
    let body = reply.whole().await.unwrap_or_default();
    match serde_json::from_slice::<ErrorEnvelope>(&body) {
        Ok(ErrorEnvelope { message, hint: Some(hint), .. }) => format!("{message}. {hint}"),
        Ok(ErrorEnvelope { message, .. }) => message,
        Err(_) => format!("the answer was {status}"),
    }
}
