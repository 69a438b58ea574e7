//! The token that a proxy presents to the hub. It is read for every request, renewed before it expires, and never
//! given to the agent.
//!
//! The first token comes from a [`CredentialSource`]; renewed tokens are stored in a file that all proxies of one
//! agent share. The admin token of this machine's hub is never used for an agent's requests, only to create a token
//! for the agent.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use jiff::fmt::rfc2822;
use plexus_bridge::Grant;
use plexus_kit::{Clock, ExposeSecret, Secret, hex, private_file};
use plexus_mcp::relay::{HubClient, HubRequestError};
use plexus_proto::api::{CreateTokenParams, CreatedToken, TokenDetail, TokenKind};
use plexus_proto::{ErrorEnvelope, Timestamp, TokenId};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Notify, watch};

const FILE: &str = "credential.json";
/// Lifetime of a token created by the proxy, which keeps renewing it.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Delay before a failed renewal is tried again.
const RENEWAL_RETRY: Duration = Duration::from_secs(5);
/// Timeout of a request to the hub.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Finds the admin token of this machine's hub; an error says why there is none.
pub type FindAdminToken = Box<dyn Fn() -> Result<Secret, String> + Send + Sync>;

/// Stores a newer token, and when to renew it, in the grant with this id. Returns false if the grant was replaced or
/// removed.
pub type SaveToken = Box<dyn Fn(&str, &CreatedToken, Option<Timestamp>) -> bool + Send + Sync>;

/// The token of an agent connected with `plexus connect`, and how to replace it when it has expired.
pub struct GrantedCredential {
    /// Reads the current grant, which the user may have replaced; none if the agent was disconnected.
    pub read: Box<dyn Fn() -> Option<Grant> + Send + Sync>,
    /// Set if the hub is on this machine and its admin created the grant: then an expired token is replaced by a new
    /// one. A revoked token is not.
    pub admin: Option<FindAdminToken>,
    pub save: SaveToken,
}

impl fmt::Debug for GrantedCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantedCredential").field("is_here", &self.admin.is_some()).finish_non_exhaustive()
    }
}

/// Where a proxy gets its first token from.
pub enum CredentialSource {
    /// A token of the agent.
    Token(Secret),
    /// The admin token of this machine's hub, with which a token for the agent is created. It is looked up when
    /// needed, since it may not exist before the hub has started.
    Admin(FindAdminToken),
    /// The grant that `plexus connect` has stored for the agent.
    Granted(GrantedCredential),
    /// A token that the process that runs the proxy supplies, possibly later.
    Supplied(watch::Receiver<Option<Secret>>),
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Admin(_) => "Admin",
            Self::Granted(_) => "Granted",
            Self::Supplied(_) => "Supplied",
        })
    }
}

impl CredentialSource {
    /// Identifies the source, to ignore files stored for another one. None for a token of this process only, which is
    /// not stored.
    pub(super) fn fingerprint(&self) -> Option<String> {
        match self {
            Self::Token(token) => {
                Some(hex::encode(&digest(&SHA256, token.expose_secret().as_bytes()).as_ref()[..16]))
            }
            Self::Admin(_) => Some("admin".to_owned()),
            Self::Granted(granted) => (granted.read)().map(|grant| format!("grant:{}", grant.id)),
            Self::Supplied(_) => None,
        }
    }
}

/// Why there is no token.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum NoCredential {
    /// The user has to act.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Away(#[from] HubRequestError),
}

/// A token in use.
pub(super) struct LiveToken {
    header: HeaderValue,
    /// When to renew it, by the clock of this machine; none if never or not known yet.
    renew_at: Option<Timestamp>,
}

impl LiveToken {
    fn new(token: &str, renew_at: Option<Timestamp>) -> Option<Self> {
        let mut header = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        header.set_sensitive(true);
        Some(Self { header, renew_at })
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    /// Fingerprint of the credential source.
    #[serde(rename = "first")]
    source: String,
    token: String,
    renew_at: Option<Timestamp>,
}

pub(super) struct Credential {
    source: CredentialSource,
    agent: String,
    /// None if nothing is stored on disk.
    file: Option<PathBuf>,
    clock: Clock,
    current: ArcSwapOption<LiveToken>,
    /// Held while a token is requested, so that there is one request at a time.
    requesting: Mutex<()>,
    /// Notified when the time of the next renewal changes.
    renewal_changed: Notify,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl Credential {
    pub(super) fn new(
        source: CredentialSource,
        agent: &str,
        folder: Option<&std::path::Path>,
        clock: Clock,
    ) -> Self {
        let credential = Self {
            agent: agent.to_owned(),
            file: folder.map(|folder| folder.join(FILE)),
            clock,
            current: ArcSwapOption::empty(),
            requesting: Mutex::default(),
            renewal_changed: Notify::new(),
            source,
        };
        let current = credential.stored().or_else(|| credential.initial());
        credential.current.store(current.map(Arc::new));
        credential
    }

    /// The token stored for the same source, in this run or an earlier one.
    fn stored(&self) -> Option<LiveToken> {
        if let CredentialSource::Granted(granted) = &self.source {
            let grant = (granted.read)()?;
            return LiveToken::new(grant.token().expose_secret(), grant.renew_at);
        }
        let source = self.source.fingerprint()?;
        let content = match private_file::read(self.file.as_deref()?) {
            Ok(content) => content?,
            Err(error) => {
                tracing::warn!(%error, "cannot use the stored credential");
                return None;
            }
        };
        let stored: Stored = serde_json::from_slice(&content).ok()?;
        if stored.source != source {
            return None;
        }
        LiveToken::new(&stored.token, stored.renew_at)
    }

    fn initial(&self) -> Option<LiveToken> {
        match &self.source {
            CredentialSource::Token(token) => LiveToken::new(token.expose_secret(), None),
            CredentialSource::Supplied(token) => {
                LiveToken::new(token.borrow().as_ref()?.expose_secret(), None)
            }
            CredentialSource::Admin(_) | CredentialSource::Granted(_) => None,
        }
    }

    /// Whether its errors tell the user what to do, so that the hub's message is not needed.
    pub(super) fn explains(&self) -> bool {
        matches!(self.source, CredentialSource::Granted(_))
    }

    /// The current token, created if there is none.
    pub(super) async fn get(&self, hub_client: &HubClient) -> Result<Arc<LiveToken>, NoCredential> {
        match self.current.load_full() {
            Some(live) => Ok(live),
            None => Box::pin(self.obtain(hub_client)).await,
        }
    }

    async fn obtain(&self, hub_client: &HubClient) -> Result<Arc<LiveToken>, NoCredential> {
        let _requesting = self.requesting.lock().await;
        if let Some(live) = self.current.load_full() {
            return Ok(live);
        }
        match self.initial() {
            Some(live) => Ok(self.set_current(live)),
            None => self.create(hub_client).await,
        }
    }

    /// The token to use after the hub has refused `refused`.
    pub(super) async fn replace_refused(
        &self,
        refused: &Arc<LiveToken>,
        hub_client: &HubClient,
    ) -> Result<Arc<LiveToken>, NoCredential> {
        let _requesting = self.requesting.lock().await;
        let other = |live: &LiveToken| live.header != refused.header;
        if let Some(live) = self.current.load_full().filter(|live| other(live)) {
            return Ok(live);
        }
        if let Some(live) = self.stored().or_else(|| self.initial()).filter(other) {
            return Ok(self.set_current(live));
        }
        // The stored token is refused; the initial one may still be valid.
        if let Some(live) = self.initial().filter(other) {
            return Ok(self.set_current(live));
        }
        self.create(hub_client).await
    }

    fn set_current(&self, live: LiveToken) -> Arc<LiveToken> {
        let live = Arc::new(live);
        self.current.store(Some(live.clone()));
        self.renewal_changed.notify_one();
        live
    }

    async fn create(&self, hub_client: &HubClient) -> Result<Arc<LiveToken>, NoCredential> {
        let admin = match &self.source {
            CredentialSource::Admin(find) => find().map_err(HubRequestError::Unreachable)?,
            CredentialSource::Granted(granted) => return self.replace_expired(granted, hub_client).await,
            CredentialSource::Supplied(token) if token.borrow().is_none() => {
                return Err(
                    HubRequestError::Unreachable("the agent's token does not exist yet".to_owned()).into()
                );
            }
            CredentialSource::Token(_) | CredentialSource::Supplied(_) => {
                let why = "the hub refused the token of this agent";
                return Err(NoCredential::Refused(why.to_owned()));
            }
        };
        let params = CreateTokenParams {
            kind: TokenKind::Agent,
            name: self.agent.clone(),
            profile: None,
            node: None,
            scopes: Vec::new(),
            ttl_seconds: Some(TOKEN_LIFETIME.as_secs()),
            renew_seconds: None,
        };
        let body = serde_json::to_vec(&params).unwrap_or_default();
        let Some(admin) = LiveToken::new(admin.expose_secret(), None) else {
            return Err(NoCredential::Refused("the admin token contains invalid characters".to_owned()));
        };
        self.request(hub_client, "api/v1/tokens", &admin, body.into()).await
    }

    /// Replaces an expired token, if the hub is on this machine and the token was not revoked.
    async fn replace_expired(
        &self,
        granted: &GrantedCredential,
        hub_client: &HubClient,
    ) -> Result<Arc<LiveToken>, NoCredential> {
        let again = format!("run `plexus connect {}` to create a new one", self.agent);
        let Some(grant) = (granted.read)() else {
            let why = format!(
                "this agent was disconnected: run `plexus connect {}` to connect it again",
                self.agent
            );
            return Err(NoCredential::Refused(why));
        };
        let Some(find) = &granted.admin else {
            let why = format!("the hub refused the token of this agent: {again}");
            return Err(NoCredential::Refused(why));
        };
        let admin = find().map_err(HubRequestError::Unreachable)?;
        let Some(admin) = LiveToken::new(admin.expose_secret(), None) else {
            return Err(NoCredential::Refused("the admin token contains invalid characters".to_owned()));
        };
        for token in &grant.tokens {
            let is_newest = grant.tokens.last() == Some(token);
            match self.is_revoked(hub_client, &admin, *token).await? {
                Some(true) => {
                    let why = format!("the token of this agent was revoked: {again}");
                    return Err(NoCredential::Refused(why));
                }
                // It may have been revoked before the hub deleted it.
                None if is_newest => {
                    let why = format!("the hub no longer knows the token of this agent: {again}");
                    return Err(NoCredential::Refused(why));
                }
                Some(false) | None => {}
            }
        }
        let body = serde_json::to_vec(&grant.asked).unwrap_or_default();
        self.request(hub_client, "api/v1/tokens", &admin, body.into()).await
    }

    /// Whether a token was revoked; none if the hub no longer knows it.
    async fn is_revoked(
        &self,
        hub_client: &HubClient,
        presented: &LiveToken,
        token: TokenId,
    ) -> Result<Option<bool>, NoCredential> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, presented.header())]);
        let exchange = async {
            let reply = hub_client
                .api(&format!("api/v1/tokens/{token}"), &Method::GET, &headers, &Bytes::new())
                .await?;
            Ok::<_, HubRequestError>((reply.status(), reply.bytes().await?))
        };
        let answered = tokio::time::timeout(TIMEOUT, exchange).await;
        let late = || HubRequestError::Lost("the hub did not answer in time".to_owned());
        let (status, body) = answered.map_err(|_| late())??;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => {
                let current: TokenDetail = serde_json::from_slice(&body).map_err(|error| {
                    HubRequestError::Lost(format!("cannot read the hub's answer: {error}"))
                })?;
                Ok(Some(current.token.revoked_at.is_some()))
            }
            _ => Err(refusal(status, &body)),
        }
    }

    /// Time until the next renewal, if one is known.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let renew_at = self.current.load().as_ref().and_then(|live| live.renew_at)?;
        let left = renew_at.duration_since(self.clock.now()).as_millis().max(0);
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)))
    }

    /// Returns when the time of the next renewal has changed.
    pub(super) async fn renewal_changed(&self) {
        self.renewal_changed.notified().await;
    }

    /// Renews the current token.
    pub(super) async fn renew(&self, hub_client: &HubClient) {
        let _requesting = self.requesting.lock().await;
        let Some(current) = self.current.load_full() else { return };
        if let CredentialSource::Granted(granted) = &self.source
            && (granted.read)().is_none()
        {
            // The agent was disconnected: let the token expire.
            self.set_current(LiveToken { header: current.header(), renew_at: None });
            return;
        }
        // Another proxy of this agent may have renewed it.
        if let Some(stored) = self.stored()
            && stored.header != current.header
            && (matches!(self.source, CredentialSource::Granted(_))
                || stored.renew_at.is_some_and(|renew_at| renew_at > self.clock.now()))
        {
            self.set_current(stored);
            return;
        }
        if let Err(error) = self.request(hub_client, "api/v1/tokens/renew", &current, Bytes::new()).await {
            match &error {
                NoCredential::Refused(_) => {
                    tracing::warn!(%error, "cannot renew the token of the agent");
                }
                NoCredential::Away(_) => tracing::debug!(%error, "the token of the agent is not renewed yet"),
            }
            let renew_at = self.clock.now().checked_add(RENEWAL_RETRY).ok();
            self.set_current(LiveToken { header: current.header(), renew_at });
        }
    }

    /// Requests a token from the hub and stores it.
    async fn request(
        &self,
        hub_client: &HubClient,
        path: &str,
        presented: &LiveToken,
        body: Bytes,
    ) -> Result<Arc<LiveToken>, NoCredential> {
        let grant = match &self.source {
            CredentialSource::Granted(granted) => (granted.read)().map(|grant| (granted, grant.id)),
            _ => None,
        };
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, presented.header()),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        let exchange = async {
            let reply = hub_client.api(path, &Method::POST, &headers, &body).await?;
            let (status, now) = (reply.status(), hub_time(reply.header("date"), &self.clock));
            Ok::<_, HubRequestError>((status, now, reply.bytes().await?))
        };
        let answered = tokio::time::timeout(TIMEOUT, exchange).await;
        let late = || HubRequestError::Lost("the hub did not answer in time".to_owned());
        let (status, hub_now, body) = answered.map_err(|_| late())??;
        if status != StatusCode::CREATED {
            return Err(refusal(status, &body));
        }
        let created: CreatedToken = serde_json::from_slice(&body)
            .map_err(|error| HubRequestError::Lost(format!("cannot read the hub's answer: {error}")))?;
        let renew_at = self.renew_at(created.expires_at, created.renew_until, hub_now);
        let live = LiveToken::new(&created.token, renew_at)
            .ok_or_else(|| HubRequestError::Lost("the hub's answer contains an invalid token".to_owned()))?;
        match (grant, &self.source) {
            (Some((granted, id)), _) => {
                if !(granted.save)(&id, &created, renew_at) {
                    self.discard(hub_client, &live, created.jti).await;
                    let why = "this agent was just disconnected or given another token";
                    return Err(NoCredential::Refused(why.to_owned()));
                }
            }
            (None, CredentialSource::Granted(_)) => {
                self.discard(hub_client, &live, created.jti).await;
                return Err(NoCredential::Refused("this agent was disconnected".to_owned()));
            }
            (None, _) => self.store(&created, renew_at),
        }
        Ok(self.set_current(live))
    }

    /// Stores a token for other proxies of this agent and for later runs.
    fn store(&self, created: &CreatedToken, renew_at: Option<Timestamp>) {
        let (Some(source), Some(file)) = (self.source.fingerprint(), &self.file) else { return };
        let stored = Stored { source, token: created.token.clone(), renew_at };
        let text = serde_json::to_vec(&stored).unwrap_or_default();
        if let Err(error) = private_file::write(file, &text) {
            // Use it anyway: the next start begins with the initial token.
            tracing::warn!(%error, "cannot store the token of the agent");
        }
    }

    /// Revokes a token that will not be used.
    async fn discard(&self, hub_client: &HubClient, presented: &LiveToken, token: TokenId) {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, presented.header())]);
        let (path, nothing) = (format!("api/v1/tokens/{token}"), Bytes::new());
        let exchange = hub_client.api(&path, &Method::DELETE, &headers, &nothing);
        if !matches!(tokio::time::timeout(TIMEOUT, exchange).await, Ok(Ok(_))) {
            tracing::warn!("cannot revoke an unused token; it will expire");
        }
    }

    /// Takes the lifetime of a presented token from the hub, to know when to renew a token given by the user.
    pub(super) fn learn_lifetime(
        &self,
        presented: &Arc<LiveToken>,
        expires_at: Timestamp,
        renew_until: Option<Timestamp>,
        hub_now: Timestamp,
    ) {
        if presented.renew_at.is_some() {
            return;
        }
        let Some(renew_at) = self.renew_at(expires_at, renew_until, hub_now) else { return };
        let current = Arc::new(LiveToken { header: presented.header(), renew_at: Some(renew_at) });
        self.current.compare_and_swap(&Some(presented.clone()), Some(current));
        self.renewal_changed.notify_one();
    }

    /// Half of the remaining lifetime from now, by the clock of this machine.
    fn renew_at(
        &self,
        expires_at: Timestamp,
        renew_until: Option<Timestamp>,
        hub_now: Timestamp,
    ) -> Option<Timestamp> {
        renew_until.filter(|until| *until > hub_now)?;
        let left = expires_at.duration_since(hub_now).as_secs().max(0);
        self.clock.now().checked_add(Duration::from_secs(u64::try_from(left / 2).unwrap_or(0))).ok()
    }
}

/// The hub's time from the `Date` of an answer, because the local clock may be wrong.
pub(super) fn hub_time(date: Option<&HeaderValue>, clock: &Clock) -> Timestamp {
    let hub_date = date.and_then(|date| rfc2822::parse(date.to_str().ok()?).ok());
    hub_date.map_or_else(|| clock.now(), |date| date.timestamp())
}

/// The error for a refused token request.
fn refusal(status: StatusCode, body: &[u8]) -> NoCredential {
    let message = match serde_json::from_slice::<ErrorEnvelope>(body) {
        Ok(envelope) => envelope.message,
        Err(_) => format!("the answer was {status}"),
    };
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return NoCredential::Away(HubRequestError::Lost(format!(
            "the hub cannot issue a token now: {message}"
        )));
    }
    NoCredential::Refused(format!("the hub refused to issue a token: {message}"))
}
