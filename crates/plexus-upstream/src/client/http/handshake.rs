//! Determines the era of a server and performs its handshake.
//!
//! The probe of the stateless era comes first, as the specification requires, unless an earlier connection
//! found the session era. A lost session is replaced by one of the requests that need it, while the others
//! wait.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use plexus_mcp::http_client::Reply;
use plexus_mcp::version::MODERN;
use plexus_proto::api::UpstreamEra;

use super::super::answer::{self, DiscoverFailure};
use super::super::message;
use super::Shared;
use super::exchange::WaitingCaller;
use super::refusal::Refusal;
use super::session::{SESSION_ID, Session};
use crate::client::{ClientError, Peer, ServerChange};

/// Time limit for `server/discover`: a server of the session era may never answer it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

type Negotiated = Result<(Peer, Session), Refusal>;

impl Shared {
    /// Determines the server's era and performs the handshake.
    pub(super) async fn negotiate(self: &Arc<Self>, known_era: Option<UpstreamEra>) -> Negotiated {
        if known_era == Some(UpstreamEra::Session) {
            return match self.initialize().await {
                Err(first) if may_be_of_another_era(&first) => self.discover().await.map_err(|_| first),
                other => other,
            };
        }
        // Half of the available time is reserved for the other era.
        let probe = tokio::time::timeout(PROBE_TIMEOUT.min(self.patience / 2), self.discover()).await;
        match probe {
            Ok(Ok(negotiated)) => Ok(negotiated),
            Ok(Err(refusal)) if !may_be_of_another_era(&refusal) => Err(refusal),
            Ok(Err(refusal)) => match answer::classify_discover_failure(refusal.into_error()) {
                DiscoverFailure::TryInitialize => self.initialize().await,
                DiscoverFailure::Refused(error) => Err(error.into()),
            },
            Err(_) => self.initialize().await,
        }
    }

    async fn discover(self: &Arc<Self>) -> Negotiated {
        let probe_session = Arc::new(Session::stateless(self.http.home().clone(), MODERN));
        let id = self.next_id();
        let headers = probe_session.post("server/discover", None);
        let body = Bytes::from(message::discover(id));
        let exchange = async {
            let reply = self.post(&probe_session, "server/discover", &headers, &body).await?;
            let endpoint = reply.endpoint().clone();
            let waiting = WaitingCaller { id, progress: None, bridge: None };
            let result = self.result(&probe_session, "server/discover", reply, &waiting).await?;
            let peer = answer::discovered(&result)?;
            let session = Session::stateless(endpoint, &peer.revision);
            Ok((peer, session))
        };
        self.timely("server/discover", exchange).await
    }

    async fn initialize(self: &Arc<Self>) -> Negotiated {
        let new_session = Arc::new(Session::before_handshake(self.http.home().clone()));
        let id = self.next_id();
        let headers = new_session.post("initialize", None);
        let body = Bytes::from(message::initialize(id, self.capabilities));
        let exchange = async {
            let reply = self.post(&new_session, "initialize", &headers, &body).await?;
            let endpoint = reply.endpoint().clone();
            let session_id = session_id(&reply)?;
            let waiting = WaitingCaller { id, progress: None, bridge: None };
            let result = self.result(&new_session, "initialize", reply, &waiting).await?;
            let peer = answer::initialized(&result)?;
            let session = Session::initialized(endpoint, &peer.revision, session_id);
            Ok((peer, session))
        };
        let (peer, session) = self.timely("initialize", exchange).await?;
        match self.send_message(&session, Bytes::from(message::initialized())).await {
            Err(
                error @ (ClientError::Unreachable(_)
                | ClientError::Busy(_)
                | ClientError::Lost(_)
                | ClientError::NeedsLogin(_)),
            ) => {
                return Err(error.into());
            }
            // The server agreed to the session, which is sufficient.
            Err(error) => {
                tracing::debug!(server = %self.server, %error, "the server did not accept the end of the handshake")
            }
            Ok(()) => {}
        }
        Ok((peer, session))
    }

    /// Replaces a lost session.
    pub(super) async fn renew(self: &Arc<Self>, lost: &Arc<Session>) -> Result<Arc<Session>, ClientError> {
        // The semaphore is never closed.
        let _turn = self.renewing.acquire().await;
        let current = self.session();
        if !Arc::ptr_eq(&current, lost) {
            return Ok(current);
        }
        tracing::info!(server = %self.server, "the session was lost; starting a new one");
        let (_, session) = self.initialize().await.map_err(Refusal::into_error)?;
        // Questions of the lost session are no longer relevant.
        self.questions.forget();
        self.adopt(session);
        self.subscriptions.forget();
        self.verbosity.forget();
        // A server that lost its sessions may have been replaced by a different version.
        for change in [ServerChange::Tools, ServerChange::Resources, ServerChange::Prompts] {
            self.listener.on_change(change);
        }
        Ok(self.session())
    }
}

/// Whether a refusal in one era leaves open that the server is of the other.
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

/// The session id that a server assigns, if any.
fn session_id(reply: &Reply) -> Result<Option<http::HeaderValue>, ClientError> {
    let Some(id) = reply.header(SESSION_ID.as_str()) else { return Ok(None) };
    if id.as_bytes().iter().all(|byte| matches!(byte, 0x21..=0x7e)) && !id.is_empty() {
        return Ok(Some(id.clone()));
    }
    Err(ClientError::Protocol("the server assigned an invalid session id".to_owned()))
}
