//! Which era a server is of, and how a conversation with it begins.
//!
//! A server is first asked what the stateless era asks, as the specification says; what it was found to be before is
//! tried first. A session that is lost is begun anew by one of those who need it, and the others wait for that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use plexus_mcp::http_client::Reply;
use plexus_mcp::version::MODERN;
use plexus_proto::api::UpstreamEra;

use super::super::answer::{self, Undiscovered};
use super::super::message;
use super::Shared;
use super::exchange::Waiting;
use super::refusal::Refusal;
use super::session::{SESSION_ID, Session};
use crate::client::{ClientError, News, Peer};

/// How long a server may think about `server/discover`: one of the session era may never answer it.
const PROBE: Duration = Duration::from_secs(5);

type Greeted = Result<(Peer, Session), Refusal>;

impl Shared {
    /// Finds out what the server speaks and begins a conversation with it.
    pub(super) async fn greet(self: &Arc<Self>, known: Option<UpstreamEra>) -> Greeted {
        if known == Some(UpstreamEra::Session) {
            return match self.initialize().await {
                Err(first) if may_be_of_another_era(&first) => self.discover().await.map_err(|_| first),
                other => other,
            };
        }
        // However little time there is, half of it is for the other era.
        let probe = tokio::time::timeout(PROBE.min(self.patience / 2), self.discover()).await;
        match probe {
            Ok(Ok(greeted)) => Ok(greeted),
            Ok(Err(refusal)) if !may_be_of_another_era(&refusal) => Err(refusal),
            Ok(Err(refusal)) => match answer::undiscovered(refusal.into_error()) {
                Undiscovered::TryInitialize => self.initialize().await,
                Undiscovered::Refused(error) => Err(error.into()),
            },
            Err(_) => self.initialize().await,
        }
    }

    async fn discover(self: &Arc<Self>) -> Greeted {
        let asking = Arc::new(Session::stateless(self.line.home().clone(), MODERN));
        let id = self.next_id();
        let headers = asking.post("server/discover", None);
        let body = Bytes::from(message::discover(id));
        let asked = async {
            let reply = self.post(&asking, "server/discover", &headers, &body).await?;
            let place = reply.place().clone();
            let waiting = Waiting { id, progress: None, bridge: None };
            let result = self.result(&asking, "server/discover", reply, &waiting).await?;
            let peer = answer::discovered(&result)?;
            let session = Session::stateless(place, &peer.revision);
            Ok((peer, session))
        };
        self.timely("server/discover", asked).await
    }

    async fn initialize(self: &Arc<Self>) -> Greeted {
        let asking = Arc::new(Session::none(self.line.home().clone()));
        let id = self.next_id();
        let headers = asking.post("initialize", None);
        let body = Bytes::from(message::initialize(id, self.capabilities));
        let asked = async {
            let reply = self.post(&asking, "initialize", &headers, &body).await?;
            let place = reply.place().clone();
            let session_id = session_id(&reply)?;
            let waiting = Waiting { id, progress: None, bridge: None };
            let result = self.result(&asking, "initialize", reply, &waiting).await?;
            let peer = answer::initialized(&result)?;
            let session = Session::begun(place, &peer.revision, session_id);
            Ok((peer, session))
        };
        let (peer, session) = self.timely("initialize", asked).await?;
        match self.tell(&session, Bytes::from(message::initialized())).await {
            Err(
                error @ (ClientError::Unreachable(_)
                | ClientError::Busy(_)
                | ClientError::Lost(_)
                | ClientError::NeedsLogin(_)),
            ) => {
                return Err(error.into());
            }
            // It agreed to the session, and that is what counts.
            Err(error) => {
                tracing::debug!(server = %self.server, %error, "the end of the handshake was not taken")
            }
            Ok(()) => {}
        }
        Ok((peer, session))
    }

    /// A session in place of one that was lost.
    pub(super) async fn renew(self: &Arc<Self>, lost: &Arc<Session>) -> Result<Arc<Session>, ClientError> {
        // Never closed.
        let _turn = self.renewing.acquire().await;
        let current = self.session();
        if !Arc::ptr_eq(&current, lost) {
            return Ok(current);
        }
        tracing::info!(server = %self.server, "the session was lost and is begun anew");
        let (_, session) = self.initialize().await.map_err(Refusal::into_error)?;
        // Nobody is asked any more what the lost one wanted to know.
        self.asked.forget();
        self.adopt(session);
        self.subscriptions.forget();
        self.verbosity.forget();
        // A server that forgot its sessions may be another one now.
        for news in [News::Tools, News::Resources, News::Prompts] {
            self.listener.heard(news);
        }
        Ok(self.session())
    }
}

/// Whether what a server said to the question of one era leaves open that it is of another.
fn may_be_of_another_era(refusal: &Refusal) -> bool {
    !matches!(
        refusal,
        Refusal::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _)
            | Refusal::Status(_, ClientError::Unreachable(_) | ClientError::Busy(_))
            | Refusal::Failed(
                ClientError::Unreachable(_) | ClientError::Busy(_) | ClientError::NeedsLogin(_)
            )
    )
}

/// The id that a server gives the session, if it keeps one.
fn session_id(reply: &Reply) -> Result<Option<http::HeaderValue>, ClientError> {
    let Some(id) = reply.header(SESSION_ID.as_str()) else { return Ok(None) };
    if id.as_bytes().iter().all(|byte| matches!(byte, 0x21..=0x7e)) && !id.is_empty() {
        return Ok(Some(id.clone()));
    }
    Err(ClientError::Protocol("the server gives the session an id that cannot be sent back".to_owned()))
}
