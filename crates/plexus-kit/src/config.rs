//! Configuration of the hub: what defaults, a file, the environment and flags said, merged and
//! checked.
//!
//! [`SETTINGS`] lists every setting once: its key, its variable, its default, what it takes and
//! where it goes in [`Config`]. Merging, errors, `plexus config`, the documented default file and
//! the reference in `docs/` all come from that list. Layers: defaults < file < environment < flags.

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
pub use settings::{Effective, Settings};
pub use value::{Kind, Value};

/// Where the hub listens when nobody says otherwise: this machine only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7420";
/// Read from the data folder where no other file is named.
pub const FILE_NAME: &str = "plexus.toml";
/// In the data folder: the files of MCP servers, where no other folder is named.
pub const UPSTREAMS_FOLDER: &str = "mcp_servers.d";
/// In the data folder: user-defined tools, where no other folder is named.
pub const TOOLS_FOLDER: &str = "tools.d";
/// In the data folder: what agents are told of who they are, where no other folder is named.
pub const WORKSPACE_FOLDER: &str = "workspace";

/// What a power cut may take. `kill -9` takes nothing in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// WAL with `synchronous=NORMAL`: survives the death of the process; a power cut may lose the
    /// newest transactions, never the database.
    #[default]
    Process,
    /// WAL with `synchronous=FULL`: survives a power cut too; every commit waits for the disk.
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

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people: short on a terminal, with all fields elsewhere.
    #[default]
    Text,
    /// One object a line.
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

/// What the command line said, as written. The configuration file is named beside it.
#[derive(Debug, Clone, Default)]
pub struct RawConfig {
    pub data_dir: Option<PathBuf>,
    pub listen: Option<String>,
    pub database_url: Option<Secret>,
    /// The folder with the files of MCP servers.
    pub mcp_dir: Option<PathBuf>,
    /// The folder with user-defined tools.
    pub tools_dir: Option<PathBuf>,
    pub log_format: Option<String>,
}

/// The configuration a hub runs with.
#[derive(Debug, Clone)]
pub struct Config {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    /// None: SQLite in the data folder.
    pub database_url: Option<Secret>,
    pub durability: Durability,
    /// Where clients reach the hub, when that is not the address it listens on.
    pub public_url: Option<String>,
    /// `Host` names the hub answers to besides loopback and its own address.
    pub allowed_hosts: Vec<String>,
    /// Browser origins that may call the hub, such as `https://hub.example.net`.
    pub allowed_origins: Vec<String>,
    /// OAuth servers to name in RFC 9728 metadata.
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
    /// The same as written, with where each value came from.
    pub settings: Settings,
}

/// Encryption of what the hub listens for, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsConfig {
    /// The hub's certificate and what leads from it to an authority; none: plain HTTP. With a key, always.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Authority of nodes that show a certificate; only with a certificate of the hub.
    pub client_ca: Option<PathBuf>,
}

impl TlsConfig {
    /// The hub's certificate and its key.
    #[must_use]
    pub fn identity(&self) -> Option<(&Path, &Path)> {
        self.cert.as_deref().zip(self.key.as_deref())
    }

    fn files(&mut self) -> [(&'static str, &mut Option<PathBuf>); 3] {
        [("tls.cert", &mut self.cert), ("tls.key", &mut self.key), ("nodes.client_ca", &mut self.client_ca)]
    }

    /// A file that is of no use without another one, and why.
    fn lone(&self) -> Option<(&'static str, &'static str)> {
        match (&self.cert, &self.key, &self.client_ca) {
            (Some(_), None, _) => Some(("tls.cert", "a certificate needs its key: set `tls.key` as well")),
            (None, Some(_), _) => Some(("tls.key", "a key needs its certificate: set `tls.cert` as well")),
            (None, None, Some(_)) => Some((
                "nodes.client_ca",
                "certificates are shown over TLS only: set `tls.cert` and `tls.key` as well",
            )),
            _ => None,
        }
    }
}

/// How strict the hub is with those who present tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthConfig {
    /// Failed authentications per address and per presented token in a minute.
    pub failed_per_minute: u32,
    /// How long a signing key that was replaced still verifies.
    pub key_overlap_hours: u32,
}

/// Bounds that hold for every request; what is over them is refused with the number in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Request body.
    pub body_bytes: usize,
    /// Nesting of arrays and objects in a request.
    pub json_depth: usize,
    /// Time to receive a request.
    pub request_seconds: u64,
    /// Calls of one principal at the same time; one more is refused as retryable.
    pub calls_per_principal: usize,
    /// Result of one call; longer text is cut in the middle and says so.
    pub output_bytes: usize,
    /// Session-era MCP sessions kept in memory; the longest unused one is let go first.
    pub mcp_sessions: u64,
    /// A call that takes longer goes on as a task, for clients that know tasks.
    pub task_after_seconds: u64,
}

/// How long records are kept; none: for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    pub events_days: Option<u32>,
    pub audit_days: Option<u32>,
}

/// The MCP servers behind the hub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamsConfig {
    /// The folder with one file per server.
    pub dir: PathBuf,
    /// Commands that a server may be added with over REST.
    pub commands: Vec<String>,
    /// Servers may be on private networks without their files saying so.
    pub private_networks: bool,
}

impl UpstreamsConfig {
    /// Whether a server with this command may be added over REST. A name in the list is that name alone and not a
    /// program of the same name in some folder; that one is listed with its path.
    #[must_use]
    pub fn allows(&self, command: &str) -> bool {
        self.commands.iter().any(|allowed| allowed == command)
    }
}

/// Tools that are programs of the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolsConfig {
    /// The folder with a manifest for each.
    pub dir: PathBuf,
    /// Those that may be run.
    pub enabled: Vec<String>,
}

/// The machines that tools run on.
#[derive(Debug, Clone, Default)]
pub struct NodesConfig {
    /// Whether the hub's own machine is one of them, `local`.
    pub local: bool,
    /// Between two heartbeats of a link.
    pub heartbeat: Duration,
    /// Heartbeats in a row that a node may miss before it is offline.
    pub missed: u32,
    /// What unattended installations join with; none: they cannot.
    pub key: Option<Secret>,
}

/// What connected agents are told of who they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncConfig {
    /// The folder with the files.
    pub workspace: PathBuf,
    pub files: Vec<String>,
    /// Between two looks at the files of agents.
    pub minutes: u64,
    /// Agents that are told; empty: all.
    pub agents: Vec<String>,
    /// Most of it in one file.
    pub max_bytes: usize,
}

/// What the hub tells about itself, and to whom.
#[derive(Debug, Clone, Default)]
pub struct TelemetryConfig {
    /// Where traces are sent; none: nowhere. It may carry what the collector asks for.
    pub otlp_endpoint: Option<Secret>,
    /// Whether `/metrics` is served.
    pub metrics: bool,
    /// Log filter.
    pub log: String,
    pub log_format: LogFormat,
}

impl Config {
    /// Merges the layers. `file` is the one that was named on the command line.
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
            // Each is tried, the strongest last: what is wrong in a layer that another one covers
            // is wrong all the same.
            let mut strongest = (setting.default_value(), Origin::Default);
            for (value, origin) in given.into_iter().flatten() {
                match setting.apply(&mut config, &value) {
                    Some(()) => strongest = (value, origin),
                    None => problems.push(setting.refuse(origin, value.shown())),
                }
            }
            effective.push(Effective { setting, value: strongest.0, origin: strongest.1 });
        }
        // As it was given, also where it is not UTF-8.
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
        if let Some((key, message)) = config.tls.lone() {
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

    /// Before the first setting was applied.
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

/// The file that is read: the one that was named, else the one in the data folder if it is there.
#[must_use]
pub fn file_path(named: Option<&Path>, environment: &Environment, flags: &RawConfig) -> Option<PathBuf> {
    let named = named.map(PathBuf::from).or_else(|| environment.get(env::CONFIG).map(PathBuf::from));
    named.or_else(|| {
        let given = flags.data_dir.clone().or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from));
        let implied = data_dir(&given.unwrap_or_default(), environment).ok()?.join(FILE_NAME);
        implied.exists().then_some(implied)
    })
}

/// What a variable says; nothing where it is not set, or where it is of the wrong form.
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

/// The data folder as an absolute path; `~/` stands for the home folder here too.
fn data_dir(given: &Path, environment: &Environment) -> Result<PathBuf, Problem> {
    let path = match given.as_os_str().is_empty() {
        true => default_data_dir(environment).ok_or(Problem::NoDataDir)?,
        false => given.to_owned(),
    };
    absolute(&path, environment)
}

/// The path as an absolute one.
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
