//! The local proxy: stands between one agent and the hub, so that the agent never notices that the hub was away.
//!
//! | module | what is in it |
//! |---|---|
//! | `stdio`, `http` | the two ways in |
//! | `agent` | one client: its revision, and its session with the hub |
//! | `answer` | a message of a client, and what it is answered |
//! | `calls` | `tools/call`, and which of them are kept |
//! | `stream`, `listen` | answers that take a while, and news |
//! | `lists`, `visibility` | the tools, as they were last, narrowed to the circumstances |
//! | `watch` | follows the hub and the circumstances |
//! | `replay` | sends what was kept |
//! | `dead_letters` | tells of what could not be delivered |
//! | `hub`, `credential` | the line to the hub, with the token of the moment |
//!
//! The agent never holds the token: it has the proxy's input and output, or a secret that opens the proxy on this machine and
//! nothing else. What the proxy does not have to change passes through it as it is.

mod agent;
mod answer;
mod calls;
mod credential;
mod dead_letters;
mod http;
mod hub;
mod listen;
mod lists;
mod replay;
mod stdio;
mod stream;
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
use self::lists::Lists;

pub use self::credential::{FindAdmin, First, Granted, Keep};
pub use self::http::Endpoint;

/// The outbox in the folder of a proxy.
pub const OUTBOX_FILE: &str = "outbox.db";

/// How long things may take.
#[derive(Debug, Clone)]
pub struct Timing {
    /// To connect to the hub.
    pub connect: Duration,
    /// For the hub to say who it is, before the proxy does in its place.
    pub greet: Duration,
    /// For a write that is kept otherwise.
    pub write: Duration,
    /// For a request that is no call.
    pub answer: Duration,
    /// For the head of the answer to a call, which may take its time.
    pub call: Duration,
    /// For a page of the list of tools, before they are listed as they were last.
    pub list: Duration,
    /// The hub says something on a stream at least this often, if only that it is there.
    pub silence: Duration,
    /// How long one request waits at the hub for a change.
    pub wait: Duration,
    /// A client that listens is told this often that the proxy is there.
    pub keep_alive: Duration,
    /// Before the hub is asked again: at first, and at most.
    pub pauses: [Duration; 2],
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            greet: Duration::from_secs(5),
            write: Duration::from_secs(20),
            answer: Duration::from_secs(60),
            call: Duration::from_secs(30 * 60),
            list: Duration::from_secs(10),
            silence: Duration::from_secs(120),
            wait: Duration::from_secs(50),
            keep_alive: Duration::from_secs(25),
            pauses: [Duration::from_millis(100), Duration::from_secs(2)],
        }
    }
}

#[derive(Debug)]
pub struct ProxyOptions {
    pub hub: Url,
    /// Instead of what this machine trusts.
    pub tls: Option<Arc<ClientConfig>>,
    pub first: First,
    /// Name of the agent, which its token has where the proxy makes it.
    pub agent: String,
    /// Where the proxies of this agent keep what they share.
    pub folder: PathBuf,
    /// The conversation of its clients, where they name none.
    pub session: Option<String>,
    /// The folder in which its clients work, which the hub shows with their sessions.
    pub workspace: Option<String>,
    /// Passes everything on and keeps nothing.
    pub plain: bool,
    pub clock: Clock,
    pub timing: Timing,
    pub limits: Limits,
}

impl ProxyOptions {
    #[must_use]
    pub fn new(hub: Url, first: First, agent: &str, folder: PathBuf) -> Self {
        Self {
            hub,
            tls: None,
            first,
            agent: agent.to_owned(),
            folder,
            session: None,
            workspace: None,
            plain: false,
            clock: Clock::system(),
            timing: Timing::default(),
            limits: Limits::default(),
        }
    }
}

/// Folder of the proxies of one agent with one hub, below the data folder; `whose`: the subject that the hub knows it by.
#[must_use]
pub fn folder(data_dir: &Path, agent: &str, whose: &str, hub: &Url) -> PathBuf {
    let identity = format!("{}\n{whose}", hub.as_str().trim_end_matches('/'));
    let hash = hex::encode(digest(&SHA256, identity.as_bytes()).as_ref());
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let agent: String = agent.chars().map(plain).collect();
    data_dir.join(PROXY_FOLDER).join(format!("{}-{}", agent.trim_start_matches('.'), &hash[..8]))
}

/// Why the proxy cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("the folder of the proxy cannot be used: {0}")]
    Folder(io::Error),
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    #[error("{0}")]
    Hub(#[from] HubRequestError),
    #[error("{0}")]
    Address(String),
    #[error("the proxy cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("what the agent says cannot be read: {0}")]
    Input(io::Error),
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Proxy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    hub: Hub,
    lists: Lists,
    /// None where the proxy is off.
    outbox: Option<Outbox>,
    /// There may be dead letters that the agent was not told of.
    letters: AtomicBool,
    supervisor: Supervisor,
}

/// What of the options is needed all the time.
#[derive(Debug)]
struct Options {
    session: Option<String>,
    workspace: Option<String>,
    plain: bool,
    clock: Clock,
    timing: Timing,
}

impl Proxy {
    /// Opens what is kept, and begins to follow the hub. Whether that is there plays no part.
    ///
    /// # Errors
    /// When the folder or the outbox in it cannot be used.
    pub async fn open(options: ProxyOptions, supervisor: &Supervisor) -> Result<Self, ProxyError> {
        let ProxyOptions { hub, tls, first, agent, folder, session, workspace, plain, clock, timing, limits } =
            options;
        let outbox = match plain {
            true => None,
            false => {
                private_file::create_dir(&folder).map_err(ProxyError::Folder)?;
                let (outbox, opened) = Outbox::open(&folder.join(OUTBOX_FILE), clock.clone(), limits).await?;
                if let Some(recovery) = opened.recovered {
                    tracing::error!(?recovery, "the outbox was damaged; what could be read of it goes on");
                }
                Some(outbox)
            }
        };
        let line = HubClient::new(hub, tls, timing.connect, http::MAX_BODY)?;
        let folder = (!plain).then_some(&*folder);
        let lists = Lists::open(folder, first.mark().unwrap_or_else(|| "run".to_owned()));
        let credential = Credential::new(first, &agent, folder, clock.clone());
        let shared = Arc::new(Shared {
            hub: Hub::new(line, credential),
            lists,
            outbox,
            letters: AtomicBool::new(false),
            supervisor: supervisor.clone(),
            options: Options { session, workspace, plain, clock, timing },
        });
        shared.look_for_letters().await;
        let stop = supervisor.stopping(Stage::Intake);
        let watched = watch::run(shared.clone());
        supervisor.spawn(Stage::Intake, "watch on the hub", until(stop.clone(), watched));
        if shared.outbox.is_some() {
            supervisor.spawn(Stage::Intake, "replay of writes", until(stop, replay::run(shared.clone())));
        }
        Ok(Self(shared))
    }
}

impl Proxy {
    /// Writes that wait for the hub; none where that cannot be told.
    pub async fn waiting(&self) -> Option<u64> {
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
