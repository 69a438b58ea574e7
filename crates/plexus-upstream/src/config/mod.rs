//! The configuration of servers: their files, validated.
//!
//! Text ([`syntax`](plexus_kit::syntax)) is parsed into a document that matches the schema ([`document`],
//! [`schema`]), its references are resolved, and the result is checked as a whole ([`check`], [`transport`]).
//! All problems of a file are reported at once and disable only that server. No error and no `Debug` output
//! repeats a value, because any value may be a credential.

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
pub use import::{AppliedImport, ImportPlan, ImportRefusal, PlannedServer, SkippedServer, ThisHub};
pub use literals::has_references;
pub use migrate::{LEGACY_FILE, Migration, migrate};
pub use outline::{Inward, inward, outline};
pub use problem::{Cause, FolderError, Problem};
pub use schema::schema_file;
pub(crate) use transport::is_of_the_hub;

/// A server with a valid file, with every `${…}` resolved.
#[derive(Clone)]
pub struct ServerConfig {
    /// The file name without the extension.
    pub name: String,
    /// The server's part of its tools' names.
    pub slug: String,
    pub file: PathBuf,
    pub enabled: bool,
    /// Started once to learn its tools; then stopped while idle.
    pub lazy: bool,
    /// One connection (and process) per session instead of one for all sessions.
    pub per_session: bool,
    /// Whether the server may ask callers questions.
    pub questions: bool,
    pub transport: Transport,
    /// Group name to tools: the server's own names, or globs.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Additional instructions for models, besides the server's own.
    pub instructions: Option<String>,
    pub tools: ToolRules,
    /// Time limit for one call.
    pub timeout: Duration,
    /// Maximum number of concurrent calls; further calls wait.
    pub max_concurrency: Option<usize>,
    /// Lists its tools under their own names if no other tool has them.
    pub bare_names: bool,
    /// Which definitions are trusted.
    pub approve: Approve,
    /// Argument name to the value that the hub fills in.
    pub inject: BTreeMap<String, Inject>,
    /// Oddities in the file that do not prevent the server from running.
    pub warnings: Vec<String>,
    /// Changes with every setting that requires a restart of a running server.
    pub fingerprint: u64,
    /// Changes with every other setting except `enabled`: a running server continues, and its tools are
    /// listed again.
    pub presentation: u64,
}

impl ServerConfig {
    /// The groups of a tool, by the server's own name of the tool.
    pub fn groups_of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a str> {
        let holds = move |patterns: &Vec<String>| any_matches(patterns, tool);
        self.groups.iter().filter(move |(_, patterns)| holds(patterns)).map(|(group, _)| group.as_str())
    }
}

/// Omits every value that may hold a resolved credential.
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

    /// The HTTP settings, if the server is reached at a URL.
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
    /// A name to look up on the `PATH`, or an absolute path.
    pub command: String,
    pub args: Vec<String>,
    /// Added to the minimal environment.
    pub env: BTreeMap<String, Secret>,
    pub cwd: Option<PathBuf>,
}

/// Arguments are omitted, since they can be credentials too.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig").field("env", &self.env.keys()).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub struct HttpConfig {
    pub url: Secret,
    /// By lower-case name.
    pub headers: BTreeMap<String, Secret>,
    /// The file allows addresses of private networks. Loopback is always allowed.
    pub allow_private: bool,
    /// The file does not name the transport, so the client may fall back to the older HTTP+SSE transport.
    pub guessed: bool,
    pub auth: HttpAuth,
}

/// Which of a server's tools are available, and under which names. Names and globs are the server's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Empty: all.
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// The server's name to the name to use here.
    pub rename: BTreeMap<String, String>,
    /// Tools that may be run again when it is unknown whether they ran.
    pub idempotent: Vec<String>,
}

impl ToolRules {
    /// Whether a tool is available, by the server's own name of the tool.
    #[must_use]
    pub fn admit(&self, tool: &str) -> bool {
        (self.allow.is_empty() || any_matches(&self.allow, tool)) && !any_matches(&self.deny, tool)
    }

    /// The name of a tool here, without the server's prefix.
    #[must_use]
    pub fn name_of<'a>(&'a self, tool: &'a str) -> &'a str {
        self.rename.get(tool).map_or(tool, String::as_str)
    }

    /// Whether the file allows running a tool again when it is unknown whether it ran.
    #[must_use]
    pub fn is_idempotent(&self, tool: &str) -> bool {
        any_matches(&self.idempotent, tool)
    }
}

fn any_matches(patterns: &[String], tool: &str) -> bool {
    patterns.iter().any(|pattern| glob::matches(pattern, tool))
}

/// Which definitions of a server's tools are trusted without approval.
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

/// A value that the hub fills in for an argument, so that a model does not have to provide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inject {
    /// The id of the caller's session; the argument is hidden from models.
    SessionId,
    /// The folder for files of the caller's session; the argument is hidden from models.
    SessionFiles,
    /// The path that the model provides, made absolute: `~` is the home folder, and a relative path is
    /// resolved against the folder for files of the session.
    Path,
}
