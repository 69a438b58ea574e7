//! What is known of a server before it is talked to: its file, checked.
//!
//! Text ([`syntax`](plexus_kit::syntax)) becomes a document whose keys and forms the schema knows ([`document`], [`schema`]), its references
//! are filled in, and what is left is looked at as a whole ([`check`], [`transport`]). Everything that is wrong with a
//! file is said at once, and takes out that server only. No error and no `Debug` repeats a value: any may be a credential.

mod auth;
mod check;
mod document;
mod exposure;
mod folder;
mod import;
mod literals;
mod migrate;
mod outline;
mod problem;
mod read_cache;
mod schema;
#[cfg(test)]
mod tests;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::{ExposeSecret, Secret, glob};
use plexus_proto::api::UpstreamTransport;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use auth::is_protected;
pub use auth::{Grant, HttpAuth, OauthConfig};
pub use exposure::Exposure;
pub use folder::{Entry, Folder, Reading};
pub use import::{Applied, ImportPlan, Planned, Refused, Skipped, ThisHub};
pub use literals::has_references;
pub use migrate::{LEGACY_FILE, Migration, migrate};
pub use outline::{Inward, inward, outline};
pub use problem::{Cause, FolderError, Problem};
pub use schema::schema_file;
pub(crate) use transport::is_of_the_hub;

/// A server whose file is in order, with every `${…}` filled in.
#[derive(Clone)]
pub struct ServerConfig {
    /// Name of its file, without the ending.
    pub name: String,
    /// Its part of the names of its tools.
    pub slug: String,
    pub file: PathBuf,
    pub enabled: bool,
    /// Started once to learn its tools; then it rests while nobody calls it.
    pub lazy: bool,
    /// A connection (and process) for each session instead of one for all.
    pub per_session: bool,
    /// Whether the server may ask callers something.
    pub questions: bool,
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
    /// Which definitions are trusted.
    pub approve: Approve,
    /// Argument to what the hub fills in for it.
    pub inject: BTreeMap<String, Inject>,
    /// What is strange about the file but stops nothing.
    pub warnings: Vec<String>,
    /// Changes when anything does that a running server must be restarted for.
    pub fingerprint: u64,
    /// Changes when anything else does, except `enabled`: a running server goes on, and its tools are listed anew.
    pub presentation: u64,
}

impl ServerConfig {
    /// The groups that a tool is in, by the server's own name of it.
    pub fn groups_of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a str> {
        let holds = move |patterns: &Vec<String>| any_matches(patterns, tool);
        self.groups.iter().filter(move |(_, patterns)| holds(patterns)).map(|(group, _)| group.as_str())
    }
}

/// Nothing of what may have been filled in.
impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("name", &self.name)
            .field("file", &self.file)
            .field("enabled", &self.enabled)
            .field("transport", &self.transport.kind())
            .finish_non_exhaustive()
    }
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

    /// Of a server that is reached at an address.
    #[must_use]
    pub fn http(&self) -> Option<&HttpConfig> {
        match self {
            Self::Stdio(_) => None,
            Self::Sse(config) | Self::StreamableHttp(config) => Some(config),
        }
    }

    fn hash_into(&self, hasher: &mut impl Hasher) {
        let exposed = |values: &BTreeMap<String, Secret>, hasher: &mut _| {
            values.len().hash(hasher);
            for (name, value) in values {
                (name, value.expose_secret()).hash(hasher);
            }
        };
        self.kind().hash(hasher);
        match self {
            Self::Stdio(StdioConfig { command, args, env, cwd }) => {
                (command, args, cwd).hash(hasher);
                exposed(env, hasher);
            }
            Self::Sse(HttpConfig { url, headers, allow_private, guessed, auth })
            | Self::StreamableHttp(HttpConfig { url, headers, allow_private, guessed, auth }) => {
                (url.expose_secret(), allow_private, guessed).hash(hasher);
                exposed(headers, hasher);
                auth.hash_into(hasher);
            }
        }
    }
}

#[derive(Clone)]
pub struct StdioConfig {
    /// A name to look for on the `PATH`, or an absolute path.
    pub command: String,
    pub args: Vec<String>,
    /// Added to the minimal environment.
    pub env: BTreeMap<String, Secret>,
    pub cwd: Option<PathBuf>,
}

/// Arguments can be credentials too.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig").field("env", &self.env.keys()).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub struct HttpConfig {
    pub url: Secret,
    /// By name, in small letters.
    pub headers: BTreeMap<String, Secret>,
    /// The file says that addresses of private networks are meant. Loopback needs no saying.
    pub allow_private: bool,
    /// The file does not name the transport: a server that turns out to be an older one may be talked to as such.
    pub guessed: bool,
    pub auth: HttpAuth,
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

impl ToolRules {
    /// Whether there is such a tool here, by the server's own name of it.
    #[must_use]
    pub fn admit(&self, tool: &str) -> bool {
        (self.allow.is_empty() || any_matches(&self.allow, tool)) && !any_matches(&self.deny, tool)
    }

    /// What a tool is called here, before the server's name is put in front.
    #[must_use]
    pub fn name_of<'a>(&'a self, tool: &'a str) -> &'a str {
        self.rename.get(tool).map_or(tool, String::as_str)
    }

    /// Whether the file says that a tool may be run again when it is not known whether it ran.
    #[must_use]
    pub fn is_idempotent(&self, tool: &str) -> bool {
        any_matches(&self.idempotent, tool)
    }
}

fn any_matches(patterns: &[String], tool: &str) -> bool {
    patterns.iter().any(|pattern| glob::matches(pattern, tool))
}

/// Which definitions of a server's tools are trusted without being asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approve {
    /// None.
    Manual,
    /// Those that the server has when it is first seen.
    #[default]
    Tofu,
    /// All.
    Auto,
}

/// What the hub puts into an argument, so that a model never has to type it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inject {
    /// The id of the caller's session; the argument is not shown.
    SessionId,
    /// The folder for files of the caller's session; the argument is not shown.
    SessionFiles,
    /// The path that the model gave, made absolute: `~` is the home folder, a relative one is inside the folder for
    /// files of the session.
    Path,
}
