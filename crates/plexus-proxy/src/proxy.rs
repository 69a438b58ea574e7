//! The local proxy between one agent and the hub, which hides outages of the hub from the agent.
//!
//! | module | content |
//! |---|---|
//! | `stdio`, `http_endpoint` | the two transports towards the agent |
//! | `client` | one client: its revision, and its session with the hub |
//! | `messages` | handles a message of a client |
//! | `calls` | `tools/call`; queues writes that the hub did not answer |
//! | `response_stream`, `notifications` | streamed answers, and notifications of the hub |
//! | `tool_list`, `visibility` | the last list of tools, and which of them are visible |
//! | `watch` | watches the hub's state and the agent's context |
//! | `replay` | sends queued writes |
//! | `dead_letters` | reports writes that could not be delivered |
//! | `hub`, `credential` | requests to the hub, and the agent's token |
//!
//! The agent never gets the token: it uses the proxy's standard input and output, or a secret that is valid for this
//! proxy only. Everything that the proxy does not have to change passes through unchanged.

mod calls;
mod client;
mod credential;
mod dead_letters;
mod http_endpoint;
mod hub;
mod messages;
mod notifications;
mod replay;
mod response_stream;
mod stdio;
mod tool_list;
mod visibility;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use plexus_kit::config::PROXY_FOLDER;
use plexus_kit::{Clock, Stage, Supervisor, hex, private_file};
use plexus_mcp::relay::{HubClient, HubRequestError};
use plexus_store::outbox::{Limits, Outbox, OutboxError};
use rustls::ClientConfig;
use url::Url;

use self::credential::Credential;
use self::hub::Hub;
use self::tool_list::ToolList;

pub use self::credential::{CredentialSource, FindAdminToken, GrantedCredential, SaveToken};
pub use self::http_endpoint::Endpoint;

/// File name of the outbox in the folder of a proxy.
pub const OUTBOX_FILE: &str = "outbox.db";

/// Timeouts and intervals of a proxy.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Timeout for connecting to the hub.
    pub connect: Duration,
    /// Timeout for the hub's handshake; after it the proxy answers itself.
    pub handshake: Duration,
    /// Timeout of a write; after it the write is queued.
    pub write: Duration,
    /// Timeout of a request other than a call.
    pub answer: Duration,
    /// Timeout for the head of the answer to a call.
    pub call: Duration,
    /// Timeout for a page of the list of tools; after it the last known list is used.
    pub list: Duration,
    /// Maximum silence on a stream of the hub, which sends keep-alives.
    pub silence: Duration,
    /// Duration of one long poll for changes.
    pub long_poll: Duration,
    /// Interval of keep-alives to a listening client.
    pub keep_alive: Duration,
    /// First and maximum delay before the hub is contacted again.
    pub retry_delays: [Duration; 2],
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            write: Duration::from_secs(20),
            answer: Duration::from_secs(60),
            call: Duration::from_secs(30 * 60),
            list: Duration::from_secs(10),
            silence: Duration::from_secs(120),
            long_poll: Duration::from_secs(50),
            keep_alive: Duration::from_secs(25),
            retry_delays: [Duration::from_millis(100), Duration::from_secs(2)],
        }
    }
}

#[derive(Debug)]
pub struct ProxyOptions {
    pub hub: Url,
    /// Replaces the TLS configuration of this machine.
    pub tls: Option<Arc<ClientConfig>>,
    pub credential: CredentialSource,
    /// Name of the agent, and of its token if the proxy creates it.
    pub agent: String,
    /// Folder shared by the proxies of this agent.
    pub folder: PathBuf,
    /// The conversation of clients that name none.
    pub session: Option<String>,
    /// The working folder of the clients, which the hub shows with their sessions.
    pub workspace: Option<String>,
    /// Passes everything on and stores nothing.
    pub passthrough: bool,
    pub clock: Clock,
    pub timing: Timing,
    pub limits: Limits,
}

impl ProxyOptions {
    #[must_use]
    pub fn new(hub: Url, credential: CredentialSource, agent: &str, folder: PathBuf) -> Self {
        Self {
            hub,
            tls: None,
            credential,
            agent: agent.to_owned(),
            folder,
            session: None,
            workspace: None,
            passthrough: false,
            clock: Clock::system(),
            timing: Timing::default(),
            limits: Limits::default(),
        }
    }
}

/// Folder in the data folder for the proxies of one agent and one hub. `subject` is the agent's subject at the hub.
#[must_use]
pub fn proxy_folder(data_dir: &Path, agent: &str, subject: &str, hub: &Url) -> PathBuf {
    let identity = format!("{}\n{subject}", hub.as_str().trim_end_matches('/'));
    let hash = hex::encode(digest(&SHA256, identity.as_bytes()).as_ref());
    let sanitize = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let agent: String = agent.chars().map(sanitize).collect();
    data_dir.join(PROXY_FOLDER).join(format!("{}-{}", agent.trim_start_matches('.'), &hash[..8]))
}

/// Why a proxy cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("cannot use the folder of the proxy: {0}")]
    Folder(io::Error),
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    #[error("{0}")]
    Hub(#[from] HubRequestError),
    #[error("{0}")]
    Address(String),
    #[error("the proxy cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot read the agent's input: {0}")]
    Input(io::Error),
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Proxy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    hub: Hub,
    tools: ToolList,
    /// None if the proxy only passes everything on.
    outbox: Option<Outbox>,
    /// There may be dead letters that were not reported to the agent.
    has_unreported_dead_letters: AtomicBool,
    supervisor: Supervisor,
}

/// The options needed while running.
#[derive(Debug)]
struct Options {
    session: Option<String>,
    workspace: Option<String>,
    passthrough: bool,
    clock: Clock,
    timing: Timing,
}

impl Proxy {
    /// Opens the outbox and starts watching the hub, which need not be reachable.
    ///
    /// # Errors
    /// If the folder or its outbox cannot be used.
    pub async fn open(options: ProxyOptions, supervisor: &Supervisor) -> Result<Self, ProxyError> {
        let ProxyOptions {
            hub,
            tls,
            credential,
            agent,
            folder,
            session,
            workspace,
            passthrough,
            clock,
            timing,
            limits,
        } = options;
        let outbox = match passthrough {
            true => None,
            false => {
                private_file::create_dir(&folder).map_err(ProxyError::Folder)?;
                let (outbox, opened) = Outbox::open(&folder.join(OUTBOX_FILE), clock.clone(), limits).await?;
                if let Some(recovery) = opened.recovered {
                    tracing::error!(?recovery, "the outbox was damaged; its readable rows were recovered");
                }
                Some(outbox)
            }
        };
        let line = HubClient::new(hub, tls, timing.connect, http_endpoint::MAX_BODY)?;
        let folder = (!passthrough).then_some(&*folder);
        let tools = ToolList::open(folder, credential.fingerprint().unwrap_or_else(|| "run".to_owned()));
        let credential = Credential::new(credential, &agent, folder, clock.clone());
        let shared = Arc::new(Shared {
            hub: Hub::new(line, credential),
            tools,
            outbox,
            has_unreported_dead_letters: AtomicBool::new(false),
            supervisor: supervisor.clone(),
            options: Options { session, workspace, passthrough, clock, timing },
        });
        shared.check_dead_letters().await;
        let stop = supervisor.stopping(Stage::Intake);
        let watched = watch::run(shared.clone());
        supervisor.spawn(Stage::Intake, "hub watch", until(stop.clone(), watched));
        if shared.outbox.is_some() {
            supervisor.spawn(Stage::Intake, "outbox replay", until(stop, replay::run(shared.clone())));
        }
        Ok(Self(shared))
    }
}

impl Proxy {
    /// Number of queued writes, if it can be determined.
    pub async fn pending_writes(&self) -> Option<u64> {
        let counts = self.0.outbox.as_ref()?.counts().await.ok()?;
        Some(counts.pending)
    }
}

async fn until(stop: tokio_util::sync::CancellationToken, task: impl Future<Output = ()>) {
    tokio::select! {
        () = task => {}
        () = stop.cancelled() => {}
    }
}
