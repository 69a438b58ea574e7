//! What is known of a server before it is talked to: its file, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::Secret;
use plexus_proto::api::UpstreamTransport;

/// A server whose file is in order, with every `${…}` filled in.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Name of its file, without the ending.
    pub name: String,
    /// Its part of the names of its tools.
    pub slug: String,
    pub file: PathBuf,
    pub enabled: bool,
    /// Started by the first call and not with the hub.
    pub lazy: bool,
    /// A connection (and process) for each session instead of one for all.
    pub per_session: bool,
    pub transport: Transport,
    /// Group to tools: names as the server has them, or globs.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Said to models beside what the server says itself.
    pub instructions: Option<String>,
    pub tools: ToolRules,
    /// For one call.
    pub timeout: Duration,
    /// Calls at the same time; more wait.
    pub max_concurrency: Option<usize>,
    /// List its tools by their own names where no other tool has them.
    pub bare_names: bool,
    /// Argument to what the hub fills in for it.
    pub inject: BTreeMap<String, Inject>,
    /// What is strange about the file but stops nothing.
    pub warnings: Vec<String>,
    /// Changes when anything does that a running server must be restarted for.
    pub fingerprint: u64,
}

#[derive(Debug, Clone)]
pub enum Transport {
    Stdio(StdioConfig),
    Sse(HttpConfig),
    StreamableHttp(HttpConfig),
}

impl Transport {
    #[must_use]
    pub fn kind(&self) -> UpstreamTransport {
        match self {
            Self::Stdio(_) => UpstreamTransport::Stdio,
            Self::Sse(_) => UpstreamTransport::Sse,
            Self::StreamableHttp(_) => UpstreamTransport::StreamableHttp,
        }
    }
}

#[derive(Debug, Clone)]
pub struct StdioConfig {
    pub command: String,
    pub args: Vec<String>,
    /// Added to the minimal environment.
    pub env: BTreeMap<String, Secret>,
    pub cwd: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct HttpConfig {
    pub url: Secret,
    pub headers: BTreeMap<String, Secret>,
    /// The file says that addresses of private networks are meant. Loopback needs no saying.
    pub allow_private: bool,
    /// The file does not name the transport: a server that turns out to be an older one may be talked to as such.
    pub guessed: bool,
}

/// Which of a server's tools there are, and by what name. Names and globs are the server's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Empty: all.
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// The server's name to the one to use here.
    pub rename: BTreeMap<String, String>,
    /// Tools that may be run again when it is not known whether they ran.
    pub idempotent: Vec<String>,
}

/// What the hub puts into an argument, so that a model never has to type it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inject {
    /// The id of the caller's session; the argument is not shown.
    SessionId,
    /// The folder for files of the caller's session; the argument is not shown.
    SessionFiles,
    /// The path that the model gave, made absolute: `~` is the home folder, a relative one is inside the folder for
    /// files of the session.
    Path,
}
