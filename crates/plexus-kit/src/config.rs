//! Configuration of the hub: what a file, the environment and flags said, merged and checked.
//!
//! `RawConfig` is one layer as written, every field optional; `Config` is the result, valid as a
//! whole. Layers: defaults < file < environment < flags.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Secret;
use crate::env::{self, Environment};

/// What a power cut may take. `kill -9` takes nothing in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
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

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file: {0}")]
    Read(std::io::Error),
    #[error("{}: {message}", path.display())]
    Parse { path: PathBuf, message: String },
    #[error("{source_name}: {value:?} is not {expected}")]
    Value { source_name: String, value: String, expected: &'static str },
    #[error("no data folder: set --data-dir or {}, or HOME", env::DATA_DIR.name)]
    NoDataDir,
}

/// One layer, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    pub data_dir: Option<PathBuf>,
    pub listen: Option<String>,
    pub database_url: Option<Secret>,
    pub durability: Option<Durability>,
    /// Where clients reach the hub, when that is not the address it listens on.
    pub public_url: Option<String>,
    /// `Host` names the hub answers to besides loopback and its own address.
    pub allowed_hosts: Option<Vec<String>>,
    /// Browser origins that may call the hub, such as `https://hub.example.net`.
    pub allowed_origins: Option<Vec<String>>,
    pub auth: Option<RawAuth>,
    pub limits: Option<RawLimits>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAuth {
    /// OAuth servers to name in RFC 9728 metadata.
    pub authorization_servers: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawLimits {
    pub body_bytes: Option<usize>,
    pub json_depth: Option<usize>,
    pub request_seconds: Option<u64>,
    pub calls_per_principal: Option<usize>,
    pub output_bytes: Option<usize>,
    pub mcp_sessions: Option<u64>,
}

/// The configuration a hub runs with.
#[derive(Debug, Clone)]
pub struct Config {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    /// None: SQLite in the data folder.
    pub database_url: Option<Secret>,
    pub durability: Durability,
    pub public_url: Option<String>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub authorization_servers: Vec<String>,
    pub limits: Limits,
}

/// Bounds that hold for every request; what is over them is refused with the number in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 4 << 20,
            json_depth: 64,
            request_seconds: 60,
            calls_per_principal: 64,
            output_bytes: 2 << 20,
            mcp_sessions: 10_000,
        }
    }
}

/// Where the hub listens when nobody says otherwise: this machine only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7420";

impl Config {
    /// Merges the layers. `flags` names the configuration file through its own field in the command
    /// line, so the file is given separately.
    pub fn load(
        file: Option<&Path>,
        environment: &Environment,
        flags: RawConfig,
    ) -> Result<Self, ConfigError> {
        let file = match file.map(PathBuf::from).or_else(|| environment.get(env::CONFIG).map(PathBuf::from)) {
            None => RawConfig::default(),
            Some(path) => {
                let text = fs_err::read_to_string(&path).map_err(ConfigError::Read)?;
                toml::from_str(&text)
                    .map_err(|e| ConfigError::Parse { path, message: e.to_string().trim_end().to_owned() })?
            }
        };
        let from_env = RawConfig {
            data_dir: environment.get(env::DATA_DIR).map(PathBuf::from),
            listen: environment.get(env::LISTEN).map(str::to_owned),
            database_url: environment.get(env::DATABASE_URL).map(Secret::from),
            ..RawConfig::default()
        };
        Self::merge([flags, from_env, file], environment)
    }

    /// `layers` from strongest to weakest.
    fn merge(layers: [RawConfig; 3], environment: &Environment) -> Result<Self, ConfigError> {
        let mut merged = RawConfig::default();
        for layer in layers {
            merged.data_dir = merged.data_dir.or(layer.data_dir);
            merged.listen = merged.listen.or(layer.listen);
            merged.database_url = merged.database_url.or(layer.database_url);
            merged.durability = merged.durability.or(layer.durability);
            merged.public_url = merged.public_url.or(layer.public_url);
            merged.allowed_hosts = merged.allowed_hosts.or(layer.allowed_hosts);
            merged.allowed_origins = merged.allowed_origins.or(layer.allowed_origins);
            merged.auth = merged.auth.or(layer.auth);
            merged.limits = merged.limits.or(layer.limits);
        }
        let listen = merged.listen.unwrap_or_else(|| DEFAULT_LISTEN.to_owned());
        let limits = merged.limits.unwrap_or_default();
        let defaults = Limits::default();
        Ok(Self {
            data_dir: data_dir(merged.data_dir, environment)?,
            listen: listen.parse().map_err(|_| ConfigError::Value {
                source_name: "listen".to_owned(),
                value: listen,
                expected: "an address with a port, such as 127.0.0.1:7420 or [::1]:7420",
            })?,
            database_url: merged.database_url,
            durability: merged.durability.unwrap_or_default(),
            public_url: merged.public_url.map(public_url).transpose()?,
            allowed_hosts: each(
                "allowed_hosts",
                merged.allowed_hosts,
                is_host,
                "a host name, such as hub.example.net or hub.example.net:7420",
            )?,
            allowed_origins: each(
                "allowed_origins",
                merged.allowed_origins,
                is_origin,
                "an origin, such as https://app.example.net",
            )?,
            authorization_servers: merged.auth.unwrap_or_default().authorization_servers.unwrap_or_default(),
            limits: Limits {
                body_bytes: limits.body_bytes.unwrap_or(defaults.body_bytes),
                json_depth: limits.json_depth.unwrap_or(defaults.json_depth),
                request_seconds: limits.request_seconds.unwrap_or(defaults.request_seconds),
                calls_per_principal: limits.calls_per_principal.unwrap_or(defaults.calls_per_principal),
                output_bytes: limits.output_bytes.unwrap_or(defaults.output_bytes),
                mcp_sessions: limits.mcp_sessions.unwrap_or(defaults.mcp_sessions),
            },
        })
    }
}

/// The data folder as an absolute path; `~/` stands for the home folder here too.
fn data_dir(given: Option<PathBuf>, environment: &Environment) -> Result<PathBuf, ConfigError> {
    let path = given.or_else(|| default_data_dir(environment)).ok_or(ConfigError::NoDataDir)?;
    let path = match (path.strip_prefix("~"), environment.get(env::HOME)) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        (Ok(_), None) => return Err(ConfigError::NoDataDir),
        (Err(_), _) => path,
    };
    std::path::absolute(path).map_err(ConfigError::Read)
}

/// Entries of a list, each of the form that can ever match.
fn each(
    name: &str,
    list: Option<Vec<String>>,
    fits: fn(&str) -> bool,
    expected: &'static str,
) -> Result<Vec<String>, ConfigError> {
    let list = list.unwrap_or_default();
    match list.iter().find(|entry| !fits(entry)) {
        None => Ok(list),
        Some(wrong) => {
            Err(ConfigError::Value { source_name: name.to_owned(), value: wrong.clone(), expected })
        }
    }
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && !text.contains("//") && !text.contains(['/', '@', ' '])
}

fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(is_host)
}

/// An address for people and programs, without a slash at its end.
fn public_url(text: String) -> Result<String, ConfigError> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest.filter(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace)) {
        Some(_) => Ok(text.trim_end_matches('/').to_owned()),
        None => Err(ConfigError::Value {
            source_name: "public_url".to_owned(),
            value: text,
            expected: "a URL such as https://hub.example.net",
        }),
    }
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
