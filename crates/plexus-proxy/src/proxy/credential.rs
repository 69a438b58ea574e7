//! What a proxy shows to the hub: read with every request, renewed before it expires, and never seen by the agent.
//!
//! It begins with what the user gave, and goes on with what the hub gave for it; that is in a file which all proxies of one
//! agent share. The admin token of this machine's hub is not shown for an agent: a token of the agent's own is made with it.

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
/// What an agent's token lives for, where the proxy makes it: it is renewed all the time.
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// Before a renewal that failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// For the hub to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Finds the admin token of this machine's hub, or says why there is none.
pub type FindAdmin = Box<dyn Fn() -> Result<Secret, String> + Send + Sync>;

/// Puts a newer token, and when to renew it, into the grant of this id; false where that is not the one any more.
pub type Keep = Box<dyn Fn(&str, &CreatedToken, Option<Timestamp>) -> bool + Send + Sync>;

/// A token that a person had made for the agent, and what is to be done when its time is over.
pub struct Granted {
    /// Looked at when it is needed: the person may have given another one. None: the agent was disconnected.
    pub read: Box<dyn Fn() -> Option<Grant> + Send + Sync>,
    /// Where the hub is on this machine and its admin made the first one: it makes another like it. A token that was revoked
    /// stays so.
    pub admin: Option<FindAdmin>,
    pub keep: Keep,
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").field("is_here", &self.admin.is_some()).finish_non_exhaustive()
    }
}

/// What the user gave the proxy to begin with.
pub enum First {
    /// A token of the agent.
    Token(Secret),
    /// Finds the admin token of this machine's hub, to make one with, or says why there is none. It is looked for when it is
    /// needed: it may come with the hub.
    Admin(FindAdmin),
    /// What `plexus connect` has given to the agent.
    Granted(Granted),
    /// A token that whoever started the proxy makes for it, and may have to make later.
    Later(watch::Receiver<Option<Secret>>),
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Admin(_) => "Admin",
            Self::Granted(_) => "Granted",
            Self::Later(_) => "Later",
        })
    }
}

impl First {
    /// Tells what was given apart from what was given before. None: it is of this process, and is kept nowhere.
    pub(super) fn mark(&self) -> Option<String> {
        match self {
            Self::Token(token) => {
                Some(hex::encode(&digest(&SHA256, token.expose_secret().as_bytes()).as_ref()[..16]))
            }
            Self::Admin(_) => Some("admin".to_owned()),
            Self::Granted(granted) => (granted.read)().map(|grant| format!("grant:{}", grant.id)),
            Self::Later(_) => None,
        }
    }
}

/// Why there is nothing to show.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum NoCredential {
    /// Nothing can be done without the user.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Away(#[from] HubRequestError),
}

/// A token that is shown.
pub(super) struct Live {
    header: HeaderValue,
    /// When to ask for another, by the clock of this machine; none: not at all, or not known yet.
    renew_at: Option<Timestamp>,
}

impl Live {
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
    /// What it was given for.
    first: String,
    token: String,
    renew_at: Option<Timestamp>,
}

pub(super) struct Credential {
    first: First,
    agent: String,
    /// None: nothing is kept on disk.
    file: Option<PathBuf>,
    clock: Clock,
    current: ArcSwapOption<Live>,
    /// One at a time asks the hub for a token.
    asking: Mutex<()>,
    /// Another time for the next renewal is known.
    timed: Notify,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl Credential {
    pub(super) fn new(first: First, agent: &str, folder: Option<&std::path::Path>, clock: Clock) -> Self {
        let credential = Self {
            agent: agent.to_owned(),
            file: folder.map(|folder| folder.join(FILE)),
            clock,
            current: ArcSwapOption::empty(),
            asking: Mutex::default(),
            timed: Notify::new(),
            first,
        };
        let known = credential.stored().or_else(|| credential.given());
        credential.current.store(known.map(Arc::new));
        credential
    }

    /// What the hub gave for the same first credential, in this run or another.
    fn stored(&self) -> Option<Live> {
        if let First::Granted(granted) = &self.first {
            let grant = (granted.read)()?;
            return Live::new(grant.token().expose_secret(), grant.renew_at);
        }
        let first = self.first.mark()?;
        let content = match private_file::read(self.file.as_deref()?) {
            Ok(content) => content?,
            Err(error) => {
                tracing::warn!(%error, "the stored credential cannot be used");
                return None;
            }
        };
        let stored: Stored = serde_json::from_slice(&content).ok()?;
        if stored.first != first {
            return None;
        }
        Live::new(&stored.token, stored.renew_at)
    }

    fn given(&self) -> Option<Live> {
        match &self.first {
            First::Token(token) => Live::new(token.expose_secret(), None),
            First::Later(token) => Live::new(token.borrow().as_ref()?.expose_secret(), None),
            First::Admin(_) | First::Granted(_) => None,
        }
    }

    /// Whether it says itself why there is nothing to show, and what a person can do.
    pub(super) fn explains(&self) -> bool {
        matches!(self.first, First::Granted(_))
    }

    /// What to show now; made first where there is none.
    pub(super) async fn get(&self, line: &HubClient) -> Result<Arc<Live>, NoCredential> {
        match self.current.load_full() {
            Some(live) => Ok(live),
            None => Box::pin(self.make(line)).await,
        }
    }

    async fn make(&self, line: &HubClient) -> Result<Arc<Live>, NoCredential> {
        let _asking = self.asking.lock().await;
        if let Some(live) = self.current.load_full() {
            return Ok(live);
        }
        match self.given() {
            Some(live) => Ok(self.put(live)),
            None => self.mint(line).await,
        }
    }

    /// What to show after the hub has refused `refused`.
    pub(super) async fn after(
        &self,
        refused: &Arc<Live>,
        line: &HubClient,
    ) -> Result<Arc<Live>, NoCredential> {
        let _asking = self.asking.lock().await;
        let other = |live: &Live| live.header != refused.header;
        if let Some(live) = self.current.load_full().filter(|live| other(live)) {
            return Ok(live);
        }
        if let Some(live) = self.stored().or_else(|| self.given()).filter(other) {
            return Ok(self.put(live));
        }
        // What is in the file is good for nothing; what was given may be.
        if let Some(live) = self.given().filter(other) {
            return Ok(self.put(live));
        }
        self.mint(line).await
    }

    fn put(&self, live: Live) -> Arc<Live> {
        let live = Arc::new(live);
        self.current.store(Some(live.clone()));
        self.timed.notify_one();
        live
    }

    async fn mint(&self, line: &HubClient) -> Result<Arc<Live>, NoCredential> {
        let admin = match &self.first {
            First::Admin(find) => find().map_err(HubRequestError::Unreachable)?,
            First::Granted(granted) => return self.mint_again(granted, line).await,
            First::Later(token) if token.borrow().is_none() => {
                return Err(HubRequestError::Unreachable("the hub has given no token yet".to_owned()).into());
            }
            First::Token(_) | First::Later(_) => {
                let why = "the hub does not take the token of this agent";
                return Err(NoCredential::Refused(why.to_owned()));
            }
        };
        let params = CreateTokenParams {
            kind: TokenKind::Agent,
            name: self.agent.clone(),
            profile: None,
            node: None,
            scopes: Vec::new(),
            ttl_seconds: Some(LIFE.as_secs()),
            renew_seconds: None,
        };
        let body = serde_json::to_vec(&params).unwrap_or_default();
        let Some(admin) = Live::new(admin.expose_secret(), None) else {
            return Err(NoCredential::Refused(
                "the admin token holds characters that no token has".to_owned(),
            ));
        };
        self.ask(line, "api/v1/tokens", &admin, body.into()).await
    }

    /// Another token in the place of one whose time is over: where the hub is here, and nobody has revoked it.
    async fn mint_again(&self, granted: &Granted, line: &HubClient) -> Result<Arc<Live>, NoCredential> {
        let again = format!("`plexus connect {}` gives it another", self.agent);
        let Some(grant) = (granted.read)() else {
            let why =
                format!("this agent was disconnected: `plexus connect {}` connects it again", self.agent);
            return Err(NoCredential::Refused(why));
        };
        let Some(find) = &granted.admin else {
            let why = format!("the hub does not take the token of this agent any more: {again}");
            return Err(NoCredential::Refused(why));
        };
        let admin = find().map_err(HubRequestError::Unreachable)?;
        let Some(admin) = Live::new(admin.expose_secret(), None) else {
            return Err(NoCredential::Refused(
                "the admin token holds characters that no token has".to_owned(),
            ));
        };
        for token in &grant.tokens {
            let is_newest = grant.tokens.last() == Some(token);
            match self.is_revoked(line, &admin, *token).await? {
                Some(true) => {
                    let why = format!("the token of this agent was revoked: {again}");
                    return Err(NoCredential::Refused(why));
                }
                // It may have been revoked before it was forgotten.
                None if is_newest => {
                    let why = format!("the hub does not know the token of this agent any more: {again}");
                    return Err(NoCredential::Refused(why));
                }
                Some(false) | None => {}
            }
        }
        let body = serde_json::to_vec(&grant.asked).unwrap_or_default();
        self.ask(line, "api/v1/tokens", &admin, body.into()).await
    }

    /// Whether somebody has ended a token; none where the hub knows nothing of it any more.
    async fn is_revoked(
        &self,
        line: &HubClient,
        shown: &Live,
        token: TokenId,
    ) -> Result<Option<bool>, NoCredential> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, shown.header())]);
        let asked = async {
            let reply =
                line.api(&format!("api/v1/tokens/{token}"), &Method::GET, &headers, &Bytes::new()).await?;
            Ok::<_, HubRequestError>((reply.status(), reply.whole().await?))
        };
        let answered = tokio::time::timeout(PATIENCE, asked).await;
        let late = || HubRequestError::Lost("the hub did not answer in time".to_owned());
        let (status, body) = answered.map_err(|_| late())??;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => {
                let known: TokenDetail = serde_json::from_slice(&body).map_err(|error| {
                    HubRequestError::Lost(format!("the hub's answer is no token: {error}"))
                })?;
                Ok(Some(known.token.revoked_at.is_some()))
            }
            _ => Err(refusal(status, &body)),
        }
    }

    /// How long until it is time to ask for another, if it ever is.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let renew_at = self.current.load().as_ref().and_then(|live| live.renew_at)?;
        let left = renew_at.duration_since(self.clock.now()).as_millis().max(0);
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)))
    }

    /// When that may have changed.
    pub(super) async fn timed(&self) {
        self.timed.notified().await;
    }

    /// Takes another token in the place of the current one.
    pub(super) async fn renew(&self, line: &HubClient) {
        let _asking = self.asking.lock().await;
        let Some(current) = self.current.load_full() else { return };
        if let First::Granted(granted) = &self.first
            && (granted.read)().is_none()
        {
            // What a disconnected agent still shows ends by itself.
            self.put(Live { header: current.header(), renew_at: None });
            return;
        }
        // Another proxy of this agent may have done it.
        if let Some(stored) = self.stored()
            && stored.header != current.header
            && (matches!(self.first, First::Granted(_))
                || stored.renew_at.is_some_and(|renew_at| renew_at > self.clock.now()))
        {
            self.put(stored);
            return;
        }
        if let Err(error) = self.ask(line, "api/v1/tokens/renew", &current, Bytes::new()).await {
            match &error {
                NoCredential::Refused(_) => {
                    tracing::warn!(%error, "the token of the agent could not be renewed");
                }
                NoCredential::Away(_) => tracing::debug!(%error, "the token of the agent is not renewed yet"),
            }
            let renew_at = self.clock.now().checked_add(AGAIN).ok();
            self.put(Live { header: current.header(), renew_at });
        }
    }

    /// Asks for a token and stores it.
    async fn ask(
        &self,
        line: &HubClient,
        path: &str,
        shown: &Live,
        body: Bytes,
    ) -> Result<Arc<Live>, NoCredential> {
        let grant = match &self.first {
            First::Granted(granted) => (granted.read)().map(|grant| (granted, grant.id)),
            _ => None,
        };
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, shown.header()),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        let asked = async {
            let reply = line.api(path, &Method::POST, &headers, &body).await?;
            let (status, now) = (reply.status(), hub_time(reply.header("date"), &self.clock));
            Ok::<_, HubRequestError>((status, now, reply.whole().await?))
        };
        let answered = tokio::time::timeout(PATIENCE, asked).await;
        let late = || HubRequestError::Lost("the hub did not answer in time".to_owned());
        let (status, hub_now, body) = answered.map_err(|_| late())??;
        if status != StatusCode::CREATED {
            return Err(refusal(status, &body));
        }
        let created: CreatedToken = serde_json::from_slice(&body)
            .map_err(|error| HubRequestError::Lost(format!("the hub's answer is no token: {error}")))?;
        let renew_at = self.renew_at(created.expires_at, created.renew_until, hub_now);
        let live = Live::new(&created.token, renew_at)
            .ok_or_else(|| HubRequestError::Lost("the hub's answer is no token".to_owned()))?;
        match (grant, &self.first) {
            (Some((granted, id)), _) => {
                if !(granted.keep)(&id, &created, renew_at) {
                    self.discard(line, &live, created.jti).await;
                    let why = "this agent was disconnected, or given another token, at this moment";
                    return Err(NoCredential::Refused(why.to_owned()));
                }
            }
            (None, First::Granted(_)) => {
                self.discard(line, &live, created.jti).await;
                return Err(NoCredential::Refused("this agent was disconnected".to_owned()));
            }
            (None, _) => self.store(&created, renew_at),
        }
        Ok(self.put(live))
    }

    /// Keeps a token for other proxies of this agent, and for later.
    fn store(&self, created: &CreatedToken, renew_at: Option<Timestamp>) {
        let (Some(first), Some(file)) = (self.first.mark(), &self.file) else { return };
        let stored = Stored { first, token: created.token.clone(), renew_at };
        let text = serde_json::to_vec(&stored).unwrap_or_default();
        if let Err(error) = private_file::write(file, &text) {
            // It is used all the same: the next start begins with what was given.
            tracing::warn!(%error, "the token of the agent cannot be stored");
        }
    }

    /// Ends a token that nobody is to have.
    async fn discard(&self, line: &HubClient, shown: &Live, token: TokenId) {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, shown.header())]);
        let (path, nothing) = (format!("api/v1/tokens/{token}"), Bytes::new());
        let asked = line.api(&path, &Method::DELETE, &headers, &nothing);
        if !matches!(tokio::time::timeout(PATIENCE, asked).await, Ok(Ok(_))) {
            tracing::warn!("a token that was made in vain could not be revoked; it ends by itself");
        }
    }

    /// What the hub says of the token that was shown, which tells when to renew one that the user gave.
    pub(super) fn learn(
        &self,
        shown: &Arc<Live>,
        expires_at: Timestamp,
        renew_until: Option<Timestamp>,
        hub_now: Timestamp,
    ) {
        if shown.renew_at.is_some() {
            return;
        }
        let Some(renew_at) = self.renew_at(expires_at, renew_until, hub_now) else { return };
        let known = Arc::new(Live { header: shown.header(), renew_at: Some(renew_at) });
        self.current.compare_and_swap(&Some(shown.clone()), Some(known));
        self.timed.notify_one();
    }

    /// At half of the time that is left, by the clock of this machine.
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

/// The hub's clock as an answer says it: ours may be wrong.
pub(super) fn hub_time(date: Option<&HeaderValue>, clock: &Clock) -> Timestamp {
    let said = date.and_then(|date| rfc2822::parse(date.to_str().ok()?).ok());
    said.map_or_else(|| clock.now(), |date| date.timestamp())
}

/// A token that was not given.
fn refusal(status: StatusCode, body: &[u8]) -> NoCredential {
    let message = match serde_json::from_slice::<ErrorEnvelope>(body) {
        Ok(envelope) => envelope.message,
        Err(_) => format!("the answer was {status}"),
    };
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return NoCredential::Away(HubRequestError::Lost(format!("the hub gives no token now: {message}")));
    }
    NoCredential::Refused(format!("the hub gives no token: {message}"))
}
