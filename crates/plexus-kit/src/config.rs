//! Configuration of the hub: defaults, a file, the environment and flags, merged and validated.
//!
//! [`SETTINGS`] lists every setting once: its key, variable, default, accepted values and field in
//! [`Config`]. Merging, errors, `plexus config`, the documented default file and the reference in `docs/` are
//! all derived from that list. Precedence: defaults < file < environment < flags.

mod document;
mod file;
mod live;
mod nearest;
mod problem;
mod registry;
mod secret_url;
mod settings;
mod value;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Secret;
use crate::env::{self, Environment};

pub use document::{default_file, reference};
pub use live::{Change, LiveConfig, Reloaded};
pub use nearest::nearest;
pub use problem::{ConfigError, Origin, Problem};
pub use registry::{SETTINGS, Setting};
pub(crate) use secret_url::redacted;
pub use settings::{EffectiveSetting, Settings};
pub use value::{Kind, Value};

/// Default listen address: reachable from this machine only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7420";
/// Default configuration file, in the data folder.
pub const FILE_NAME: &str = "plexus.toml";
/// Default folder of MCP server files, in the data folder.
pub const UPSTREAMS_FOLDER: &str = "mcp_servers.d";
/// Default folder of user-defined tools, in the data folder.
pub const TOOLS_FOLDER: &str = "tools.d";
/// Default folder of the agent instructions, in the data folder.
pub const WORKSPACE_FOLDER: &str = "workspace";
/// In the data folder: one folder for each pair of agent and hub that a local proxy serves.
pub const PROXY_FOLDER: &str = "proxy";
/// In the data folder: one folder for each run of an agent.
pub const RUNS_FOLDER: &str = "runs";

/// What acknowledged writes survive. Both modes survive `kill -9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// WAL with `synchronous=NORMAL`: survives a process crash; a power loss may drop the newest transactions
    /// but does not corrupt the database.
    #[default]
    Process,
    /// WAL with `synchronous=FULL`: also survives a power loss; every commit waits for the disk.
    Power,
}

impl Durability {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Power => "power",
        }
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people: short on a terminal, with all fields elsewhere.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "text" | "human" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Command-line values as written. The configuration file is passed separately.
#[derive(Debug, Clone, Default)]
pub struct RawConfig {
    pub data_dir: Option<PathBuf>,
    pub listen: Option<String>,
    pub database_url: Option<Secret>,
    /// The folder with the MCP server files.
    pub mcp_dir: Option<PathBuf>,
    /// The folder with user-defined tools.
    pub tools_dir: Option<PathBuf>,
    pub log_format: Option<String>,
}

/// The effective configuration of a hub.
#[derive(Debug, Clone)]
pub struct Config {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    /// `None` selects SQLite in the data folder.
    pub database_url: Option<Secret>,
    pub durability: Durability,
    /// Public URL of the hub, if it differs from the listen address.
    pub public_url: Option<String>,
    /// `Host` names accepted in addition to loopback and the listen address.
    pub allowed_hosts: Vec<String>,
    /// Browser origins that may call the hub, such as `https://hub.example.net`.
    pub allowed_origins: Vec<String>,
    /// OAuth servers listed in RFC 9728 metadata.
    pub authorization_servers: Vec<String>,
    pub tls: TlsConfig,
    pub auth: AuthConfig,
    pub limits: Limits,
    pub retention: Retention,
    pub upstreams: UpstreamsConfig,
    pub tools: ToolsConfig,
    pub nodes: NodesConfig,
    pub sync: SyncConfig,
    pub telemetry: TelemetryConfig,
    /// The settings as written, each with its origin.
    pub settings: Settings,
}

/// TLS files of the listener, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsConfig {
    /// The hub's certificate chain; `None` serves plain HTTP. Always set together with `key`.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// CA of node client certificates; requires `cert`.
    pub client_ca: Option<PathBuf>,
}

impl TlsConfig {
    /// Paths of the hub's certificate and its key.
    #[must_use]
    pub fn identity(&self) -> Option<(&Path, &Path)> {
        self.cert.as_deref().zip(self.key.as_deref())
    }

    fn files(&mut self) -> [(&'static str, &mut Option<PathBuf>); 3] {
        [("tls.cert", &mut self.cert), ("tls.key", &mut self.key), ("nodes.client_ca", &mut self.client_ca)]
    }

    /// A file that has no effect without another one, and the reason.
    fn incomplete_file(&self) -> Option<(&'static str, &'static str)> {
        match (&self.cert, &self.key, &self.client_ca) {
            (Some(_), None, _) => Some(("tls.cert", "a certificate needs its key: set `tls.key` as well")),
            (None, Some(_), _) => Some(("tls.key", "a key needs its certificate: set `tls.cert` as well")),
            (None, None, Some(_)) => Some((
                "nodes.client_ca",
                "client certificates need TLS: set `tls.cert` and `tls.key` as well",
            )),
            _ => None,
        }
    }
}

/// Limits for authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthConfig {
    /// Failed authentications per minute, counted per address and per presented token.
    pub failed_per_minute: u32,
    /// How long a replaced signing key still verifies tokens.
    pub key_overlap_hours: u32,
}

/// Limits per request; the error for an exceeded limit contains the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Maximum size of a request body.
    pub body_bytes: usize,
    /// Maximum nesting of arrays and objects in a request.
    pub json_depth: usize,
    /// Time to receive a request.
    pub request_seconds: u64,
    /// Concurrent calls of one principal; further calls fail with a retryable error.
    pub calls_per_principal: usize,
    /// Maximum size of a call result; longer text is truncated in the middle, with a note.
    pub output_bytes: usize,
    /// Session-era MCP sessions kept in memory; the least recently used one is evicted first.
    pub mcp_sessions: u64,
    /// Calls that take longer continue as tasks, for clients that support tasks.
    pub task_after_seconds: u64,
}

/// Retention periods; `None` keeps records forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    pub events_days: Option<u32>,
    pub audit_days: Option<u32>,
}

/// The hub's upstream MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamsConfig {
    /// The folder with one file per server.
    pub dir: PathBuf,
    /// Commands allowed for servers that are added over REST.
    pub commands: Vec<String>,
    /// Whether servers on private networks are allowed without a setting in their files.
    pub private_networks: bool,
}

impl UpstreamsConfig {
    /// Whether a server with this command may be added over REST. A name in the list matches only that name;
    /// a program of the same name in some folder must be listed with its path.
    #[must_use]
    pub fn allows(&self, command: &str) -> bool {
        self.commands.iter().any(|allowed| allowed == command)
    }
}

/// Tools implemented by the user's programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolsConfig {
    /// The folder with the manifests.
    pub dir: PathBuf,
    /// Names of the enabled tools.
    pub enabled: Vec<String>,
}

/// The machines that tools run on.
#[derive(Debug, Clone, Default)]
pub struct NodesConfig {
    /// Whether the hub's own machine is a node, `local`.
    pub local: bool,
    /// Interval between two heartbeats of a link.
    pub heartbeat: Duration,
    /// Number of consecutive heartbeats that a node may miss before it is offline.
    pub missed: u32,
    /// The key that unattended installations join with; `None` disables it.
    pub key: Option<Secret>,
}

/// Instructions for connected agents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncConfig {
    /// The folder with the instruction files.
    pub workspace: PathBuf,
    pub files: Vec<String>,
    /// Minutes between two checks of the agents' files.
    pub minutes: u64,
    /// Agents that receive the instructions; empty for all.
    pub agents: Vec<String>,
    /// Maximum size of the instructions in one file.
    pub max_bytes: usize,
}

/// Logs, metrics and traces.
#[derive(Debug, Clone, Default)]
pub struct TelemetryConfig {
    /// URL of the trace collector; `None` disables traces. May contain credentials of the collector.
    pub otlp_endpoint: Option<Secret>,
    /// Whether `/metrics` is served.
    pub metrics: bool,
    /// Log filter.
    pub log: String,
    pub log_format: LogFormat,
}

impl Config {
    /// Merges the layers. `file` is the one named on the command line.
    pub fn load(
        file: Option<&Path>,
        environment: &Environment,
        flags: RawConfig,
    ) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let read = match file_path(file, environment, &flags) {
            Some(path) => file::read(&path, environment, &mut problems),
            None => file::Layer::default(),
        };
        let mut config = Self::blank();
        let mut effective = Vec::with_capacity(SETTINGS.len());
        for setting in SETTINGS {
            let given = [
                Some((setting.default_value(), Origin::Default)),
                read.get(setting.key),
                from_environment(setting, environment, &mut problems),
                flags.get(setting),
            ];
            // Every layer is applied, in increasing order of precedence: an invalid value is reported even if
            // a stronger layer overrides it.
            let mut strongest = (setting.default_value(), Origin::Default);
            for (value, origin) in given.into_iter().flatten() {
                match setting.apply(&mut config, &value) {
                    Some(()) => strongest = (value, origin),
                    None => problems.push(setting.refuse(origin, value.shown())),
                }
            }
            effective.push(EffectiveSetting { setting, value: strongest.0, origin: strongest.1 });
        }
        // Uses the flag's original path, which need not be UTF-8.
        match data_dir(flags.data_dir.as_deref().unwrap_or(&config.data_dir), environment) {
            Ok(path) => config.data_dir = path,
            Err(problem) => problems.push(problem),
        }
        let folder = |given: &Path, usual: &str| match given.as_os_str().is_empty() {
            true => Ok(config.data_dir.join(usual)),
            false => absolute(given, environment),
        };
        let upstreams = flags.mcp_dir.as_deref().unwrap_or(&config.upstreams.dir);
        let tools = flags.tools_dir.as_deref().unwrap_or(&config.tools.dir);
        let folders = [
            folder(upstreams, UPSTREAMS_FOLDER),
            folder(tools, TOOLS_FOLDER),
            folder(&config.sync.workspace, WORKSPACE_FOLDER),
        ];
        match folders {
            [Ok(upstreams), Ok(tools), Ok(workspace)] => {
                config.upstreams.dir = upstreams;
                config.tools.dir = tools;
                config.sync.workspace = workspace;
            }
            folders => problems.extend(folders.into_iter().filter_map(Result::err)),
        }
        for (_, file) in config.tls.files() {
            let Some(given) = file else { continue };
            match absolute(given, environment) {
                Ok(path) => *given = path,
                Err(problem) => problems.push(problem),
            }
        }
        if let Some((key, message)) = config.tls.incomplete_file() {
            let given = effective.iter().find(|effective| effective.setting.key == key);
            let origin = given.map_or(Origin::Default, |effective| effective.origin.clone());
            problems.push(Problem::Reference { origin, key, message: message.to_owned() });
        }
        if !problems.is_empty() {
            problems.sort_by_key(Problem::line);
            return Err(ConfigError { problems, warnings: read.warnings });
        }
        config.settings = Settings::new(effective, read.warnings);
        config.settings.replace("data_dir", Value::Text(config.data_dir.display().to_string()));
        config.settings.replace("upstreams.dir", Value::Text(config.upstreams.dir.display().to_string()));
        config.settings.replace("tools.dir", Value::Text(config.tools.dir.display().to_string()));
        let workspace = config.sync.workspace.display().to_string();
        config.settings.replace("sync.workspace", Value::Text(workspace));
        for (key, file) in config.tls.files() {
            let shown = file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
            config.settings.replace(key, Value::Text(shown));
        }
        Ok(config)
    }

    /// An empty configuration, before any setting is applied.
    fn blank() -> Self {
        Self {
            data_dir: PathBuf::new(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            database_url: None,
            durability: Durability::default(),
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            authorization_servers: Vec::new(),
            tls: TlsConfig::default(),
            auth: AuthConfig::default(),
            limits: Limits::default(),
            retention: Retention::default(),
            upstreams: UpstreamsConfig::default(),
            tools: ToolsConfig::default(),
            nodes: NodesConfig::default(),
            sync: SyncConfig::default(),
            telemetry: TelemetryConfig::default(),
            settings: Settings::default(),
        }
    }
}

/// The file to read: the named one, or the one in the data folder if it exists.
#[must_use]
pub fn file_path(named: Option<&Path>, environment: &Environment, flags: &RawConfig) -> Option<PathBuf> {
    let named = named.map(PathBuf::from).or_else(|| environment.get(env::CONFIG).map(PathBuf::from));
    named.or_else(|| {
        let given = flags.data_dir.clone().or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from));
        let implied = data_dir(&given.unwrap_or_default(), environment).ok()?.join(FILE_NAME);
        implied.exists().then_some(implied)
    })
}

/// The value of a variable; `None` if it is unset or invalid.
fn from_environment(
    setting: &'static Setting,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Option<(Value, Origin)> {
    let names = [Some(setting.variable), setting.fallback];
    let (name, text) = names.into_iter().flatten().find_map(|name| Some((name, environment.value(name)?)))?;
    let origin = Origin::Variable(name);
    match Value::parse(setting.kind, text) {
        Some(value) => Some((value, origin)),
        None => {
            problems.push(setting.refuse(origin, format!("{text:?}")));
            None
        }
    }
}

impl RawConfig {
    fn get(&self, setting: &Setting) -> Option<(Value, Origin)> {
        let value = match setting.key {
            "data_dir" => Value::Text(self.data_dir.as_ref()?.display().to_string()),
            "listen" => Value::Text(self.listen.clone()?),
            "database_url" => Value::Secret(self.database_url.clone()?),
            "upstreams.dir" => Value::Text(self.mcp_dir.as_ref()?.display().to_string()),
            "tools.dir" => Value::Text(self.tools_dir.as_ref()?.display().to_string()),
            "telemetry.log_format" => Value::Text(self.log_format.clone()?),
            _ => return None,
        };
        Some((value, Origin::Flag(setting.flag?)))
    }
}

/// The data folder as an absolute path; expands `~/`.
fn data_dir(given: &Path, environment: &Environment) -> Result<PathBuf, Problem> {
    let path = match given.as_os_str().is_empty() {
        true => default_data_dir(environment).ok_or(Problem::NoDataDir)?,
        false => given.to_owned(),
    };
    absolute(&path, environment)
}

/// Makes the path absolute and expands `~/`.
fn absolute(path: &Path, environment: &Environment) -> Result<PathBuf, Problem> {
    let path = match (path.strip_prefix("~"), environment.get(env::HOME)) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        (Ok(_), None) => return Err(Problem::NoDataDir),
        (Err(_), _) => path.to_owned(),
    };
    std::path::absolute(&path).map_err(|source| Problem::Read { path, source })
}

/// `$XDG_DATA_HOME/plexus`, else `~/.local/share/plexus`.
#[must_use]
pub fn default_data_dir(environment: &Environment) -> Option<PathBuf> {
    environment
        .get(env::XDG_DATA_HOME)
        .map(PathBuf::from)
        .or_else(|| environment.get(env::HOME).map(|home| Path::new(home).join(".local/share")))
        .map(|base| base.join("plexus"))
}

#[cfg(test)]
mod tests;
