//! The measured programs and how each is started.
//!
//! Every start is independent: a separate process and folder, in front of a separate echo server.

mod baselines;
mod hub;
mod peers;

use std::cell::Cell;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use self::baselines::EchoTransport;
pub(crate) use self::hub::{ECHO as UPSTREAM_ECHO, Mint, command, start_to_ready, up, up_at};
use self::peers::{PEERS, Peer};
use crate::process::ProcessTree;
use crate::wire::Endpoint;
use crate::workload::Workload;

/// The role of a contender in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The server itself, without a gateway.
    Direct,
    /// The minimum cost of a gateway.
    Floor,
    /// The hub.
    Plexus,
    Peer,
}

#[derive(Debug)]
pub(crate) struct Contender {
    /// Name in `--only` and in the JSON.
    pub(crate) name: &'static str,
    /// Name in the tables.
    pub(crate) label: String,
    pub(crate) role: Role,
    /// What it does with a call besides forwarding it.
    pub(crate) does: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Direct,
    PassThrough,
    Hub,
    HubWithUpstream(EchoTransport),
    HubWithTools,
    Peer(&'static Peer),
}

/// Files and programs of a run.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) plexus: PathBuf,
    pub(crate) scratch: PathBuf,
    starts: Cell<u32>,
}

impl Site {
    pub(crate) fn new(plexus: PathBuf, scratch: PathBuf) -> Self {
        Self { plexus, scratch, starts: Cell::new(0) }
    }

    /// A new folder.
    fn folder(&self) -> Result<PathBuf> {
        self.starts.set(self.starts.get() + 1);
        let folder = self.scratch.join(self.starts.get().to_string());
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}

/// A running contender.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) endpoint: Endpoint,
    /// The processes whose CPU and memory are measured.
    pub(crate) processes: ProcessTree,
    /// Creates tokens for more agents, if it requires tokens.
    pub(crate) mint: Option<Mint>,
    /// The echo server behind it.
    _echo_server: Option<ProcessTree>,
}

/// All contenders, in the order of the tables.
pub(crate) fn all() -> Vec<Contender> {
    let own =
        |name, label: &str, role, does, kind| Contender { name, label: label.to_owned(), role, does, kind };
    let recorded = "token, scopes, validation, session log, durable audit";
    let mut all = vec![
        own("direct", "direct", Role::Direct, "answers the call", Kind::Direct),
        own("floor", "bare axum pass-through", Role::Floor, "nothing", Kind::PassThrough),
        own("plexus", "Plexus", Role::Plexus, recorded, Kind::Hub),
        own(
            "upstream",
            "Plexus → HTTP, 2026-07-28",
            Role::Plexus,
            recorded,
            Kind::HubWithUpstream(EchoTransport::Http),
        ),
        own(
            "upstream-old",
            "Plexus → HTTP, 2025-11-25",
            Role::Plexus,
            recorded,
            Kind::HubWithUpstream(EchoTransport::HttpWithSessions),
        ),
        own(
            "upstream-stdio",
            "Plexus → stdio",
            Role::Plexus,
            recorded,
            Kind::HubWithUpstream(EchoTransport::Stdio),
        ),
        own(
            "upstream-sse",
            "Plexus → HTTP+SSE",
            Role::Plexus,
            recorded,
            Kind::HubWithUpstream(EchoTransport::Sse),
        ),
        own("plexus-list", "Plexus, tools of its own", Role::Plexus, recorded, Kind::HubWithTools),
    ];
    all.extend(PEERS.iter().map(|peer| Contender {
        name: peer.name,
        label: peer.label(),
        role: Role::Peer,
        does: peer.does,
        kind: Kind::Peer(peer),
    }));
    all
}

impl Contender {
    /// Installs a peer into the cache folder; other contenders need no installation.
    pub(crate) async fn install(&self) -> Result<()> {
        match self.kind {
            Kind::Peer(peer) => peer.install().await.map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The workloads it is measured with.
    pub(crate) fn calls(&self) -> Vec<Workload> {
        match self.kind {
            Kind::Hub => vec![Workload::TodoList, Workload::TodoUpdate],
            Kind::HubWithTools => vec![],
            Kind::HubWithUpstream(_) => vec![Workload::Echo(UPSTREAM_ECHO)],
            Kind::Peer(peer) => vec![Workload::Echo(peer.echo)],
            _ => vec![Workload::Echo("echo")],
        }
    }

    /// Whether it is measured with long tool lists. The hub caches lists whatever their origin.
    pub(crate) fn lists(&self) -> bool {
        match self.kind {
            Kind::Hub => false,
            Kind::HubWithUpstream(echo_transport) => echo_transport == EchoTransport::Http,
            _ => true,
        }
    }

    /// Whether it is measured with idle sessions: the echo server has none, and all hubs behave alike.
    pub(crate) fn keeps_sessions(&self) -> bool {
        matches!(self.kind, Kind::PassThrough | Kind::Hub | Kind::Peer(_))
    }

    /// Starts it in front of a server with this many idle tools.
    pub(crate) async fn start(&self, site: &Site, tools: usize) -> Result<Running> {
        let folder = site.folder()?;
        match self.kind {
            Kind::Direct => baselines::direct(&folder, tools),
            Kind::PassThrough => baselines::pass_through(&folder, tools),
            Kind::Hub => hub::native(&site.plexus, &folder).await,
            Kind::HubWithUpstream(echo_transport) => {
                hub::with_upstream(&site.plexus, &folder, echo_transport, tools).await
            }
            Kind::HubWithTools => hub::with_tools(&folder, tools),
            Kind::Peer(peer) => peer.start(&folder, tools).await,
        }
        .with_context(|| format!("cannot start {}", self.label))
    }
}

/// The contenders with these names, or all.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Contender>> {
    let all = all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|contender| contender.name != **name)) {
        let known: Vec<&str> = all.iter().map(|contender| contender.name).collect();
        bail!("unknown contender `{unknown}`; the contenders are: {}", known.join(", "));
    }
    let wanted = |contender: &Contender| names.is_empty() || names.iter().any(|name| name == contender.name);
    Ok(all.into_iter().filter(wanted).collect())
}
