//! Every setting of the hub, in documentation order.
//!
//! A new setting is one entry here and a field in [`Config`]: its variable, its place in the file, its line
//! in the reference and its errors follow from the entry.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use tracing_subscriber::EnvFilter;

use super::{Config, DEFAULT_LISTEN, Durability, Kind, LogFormat, Origin, Problem, Value};
use crate::{Secret, env};

/// Stores a value in its field; `None` if the setting does not accept the value.
type Apply = fn(&mut Config, &Value) -> Option<()>;

/// One setting: its names, accepted values and description.
#[derive(Debug)]
pub struct Setting {
    /// Path in the file, such as `limits.body_bytes`.
    pub key: &'static str,
    pub variable: &'static str,
    /// A third-party variable with the same meaning, used if the Plexus variable is not set.
    pub fallback: Option<&'static str>,
    pub flag: Option<&'static str>,
    pub kind: Kind,
    /// In the syntax of a variable; empty if there is no default.
    pub default: &'static str,
    /// Description of the behaviour while the setting is unset.
    pub unset: &'static str,
    pub about: &'static str,
    /// The accepted values, as a continuation of "is not".
    pub expected: &'static str,
    /// Whether a running hub applies a new value on SIGHUP.
    pub reload: bool,
    apply: Apply,
}

impl Setting {
    /// The section of the file that contains the key; empty for the top level.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.key.rsplit_once('.').map_or("", |(section, _)| section)
    }

    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.kind == Kind::Secret
    }

    pub(super) fn default_value(&self) -> Value {
        // The tests ensure that every default parses.
        Value::parse(self.kind, self.default).unwrap_or(Value::Text(String::new()))
    }

    pub(super) fn apply(&self, config: &mut Config, value: &Value) -> Option<()> {
        (self.apply)(config, value)
    }

    /// The error for a value that this setting does not accept.
    pub(super) fn refuse(&self, origin: Origin, shown: String) -> Problem {
        let shown = (!self.is_secret()).then_some(shown);
        Problem::Value { origin, key: self.key, shown, expected: self.expected }
    }

    const fn new(key: &'static str, variable: &'static str, kind: Kind, apply: Apply) -> Self {
        Self {
            key,
            variable,
            fallback: None,
            flag: None,
            kind,
            default: "",
            unset: "",
            about: "",
            expected: "",
            reload: false,
            apply,
        }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn or_variable(self, name: &'static str) -> Self {
        Self { fallback: Some(name), ..self }
    }

    const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    const fn unset(self, unset: &'static str) -> Self {
        Self { unset, ..self }
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    const fn expects(self, expected: &'static str) -> Self {
        Self { expected, ..self }
    }

    const fn live(self) -> Self {
        Self { reload: true, ..self }
    }
}

const URL: &str = "a URL such as https://hub.example.net";
/// Minimum length of the key for unattended installations.
const NODE_KEY_LENGTH: usize = 32;
/// Maximum number of instruction files, and maximum size of the rendered instructions.
const INSTRUCTION_FILES: usize = 16;
const INSTRUCTION_BYTES: usize = 64 << 10;
const COUNT: &str = "a whole number from 1";
const DAYS: &str = "a whole number of days, or 0 for no limit";

pub const SETTINGS: &[Setting] = &[
    Setting::new("data_dir", env::DATA_DIR.name, Kind::Text, |config, value| {
        config.data_dir = value.text()?.into();
        Some(())
    })
    .flag("--data-dir")
    .unset("`$XDG_DATA_HOME/plexus`, else `~/.local/share/plexus`")
    .about("Data folder: database, keys, admin token.")
    .expects("a folder"),
    Setting::new("listen", "PLEXUS_LISTEN", Kind::Text, |config, value| {
        config.listen = address(value.text()?)?;
        Some(())
    })
    .flag("--listen")
    .default(DEFAULT_LISTEN)
    .about("Address to listen on; port 0 selects any free port.")
    .expects("an address with a port, such as 127.0.0.1:7420, [::1]:7420 or localhost:7420"),
    Setting::new("database_url", "PLEXUS_DATABASE_URL", Kind::Secret, |config, value| {
        config.database_url = Some(value.secret()?.clone()).filter(|url| !url.expose_secret().is_empty());
        Some(())
    })
    .flag("--database-url")
    .unset("SQLite in the data folder")
    .about("Database: `sqlite:/path/to/file.db` or `postgres://user@host/name`. Do not put a password in this file: set the variable, or use a reference `${env:NAME}` or `${file:PATH}`.")
    .expects("a URL in which every `${env:NAME}` and `${file:PATH}` exists"),
    Setting::new("durability", "PLEXUS_DURABILITY", Kind::Text, |config, value| {
        config.durability = match value.text()? {
            "process" => Durability::Process,
            "power" => Durability::Power,
            _ => return None,
        };
        Some(())
    })
    .default("process")
    .about("What acknowledged writes survive: `process` a crash of the process, `power` also a power loss.")
    .expects("`process` or `power`"),
    Setting::new("public_url", "PLEXUS_PUBLIC_URL", Kind::Text, |config, value| {
        config.public_url = optional_url(value.text()?)?;
        Some(())
    })
    .unset("the address it listens on")
    .about("URL of the hub for clients, if it differs from the listen address.")
    .expects(URL)
    .live(),
    Setting::new("allowed_hosts", "PLEXUS_ALLOWED_HOSTS", Kind::List, |config, value| {
        config.allowed_hosts = each(value.list()?, is_host)?;
        Some(())
    })
    .unset("none")
    .about("Names accepted in `Host`, in addition to `localhost` and addresses.")
    .expects("a list of host names, such as hub.example.net or hub.example.net:7420")
    .live(),
    Setting::new("allowed_origins", "PLEXUS_ALLOWED_ORIGINS", Kind::List, |config, value| {
        config.allowed_origins = each(value.list()?, is_origin)?;
        Some(())
    })
    .unset("none")
    .about("Browser origins that may call the hub, in addition to loopback.")
    .expects("a list with an origin in each entry, such as https://app.example.net")
    .live(),
    Setting::new("tls.cert", "PLEXUS_TLS_CERT", Kind::Text, |config, value| {
        config.tls.cert = optional_file(value.text()?);
        Some(())
    })
    .unset("none: plain HTTP")
    .about("Certificate chain of the hub, as a PEM file: the hub then serves HTTPS only. The file is reloaded on SIGHUP.")
    .expects("a file"),
    Setting::new("tls.key", "PLEXUS_TLS_KEY", Kind::Text, |config, value| {
        config.tls.key = optional_file(value.text()?);
        Some(())
    })
    .unset("none")
    .about("Private key of `tls.cert`, as a PEM file that other users cannot read. It is reloaded with the certificate.")
    .expects("a file"),
    Setting::new("auth.authorization_servers", "PLEXUS_AUTH_AUTHORIZATION_SERVERS", Kind::List, |config, value| {
        config.authorization_servers = each(value.list()?, is_url)?;
        Some(())
    })
    .unset("none")
    .about("OAuth servers listed in RFC 9728 metadata.")
    .expects("a list of URLs, such as https://login.example.net")
    .live(),
    Setting::new("auth.failed_per_minute", "PLEXUS_AUTH_FAILED_PER_MINUTE", Kind::Number, |config, value| {
        config.auth.failed_per_minute = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("30")
    .about("Failed authentications per minute, for each address and each presented token; further ones are answered with 429.")
    .expects(COUNT)
    .live(),
    Setting::new("auth.key_overlap_hours", "PLEXUS_AUTH_KEY_OVERLAP_HOURS", Kind::Number, |config, value| {
        config.auth.key_overlap_hours = value.number()?;
        Some(())
    })
    .default("24")
    .about("How long a replaced signing key still verifies tokens.")
    .expects("a whole number of hours")
    .live(),
    Setting::new("limits.body_bytes", "PLEXUS_LIMITS_BODY_BYTES", Kind::Number, |config, value| {
        config.limits.body_bytes = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("4194304")
    .about("Maximum size of a request body; larger ones are rejected with 413.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.json_depth", "PLEXUS_LIMITS_JSON_DEPTH", Kind::Number, |config, value| {
        config.limits.json_depth = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("64")
    .about("Maximum nesting of arrays and objects in an MCP request (REST bodies: 128); deeper ones are rejected with 400.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.request_seconds", "PLEXUS_LIMITS_REQUEST_SECONDS", Kind::Number, |config, value| {
        config.limits.request_seconds = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("60")
    .about("Time limit for receiving a request body; then the request is rejected with 408.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.calls_per_principal", "PLEXUS_LIMITS_CALLS_PER_PRINCIPAL", Kind::Number, |config, value| {
        config.limits.calls_per_principal = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("64")
    .about("Concurrent calls of one principal; further calls fail with a retryable error.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.output_bytes", "PLEXUS_LIMITS_OUTPUT_BYTES", Kind::Number, |config, value| {
        config.limits.output_bytes = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("2097152")
    .about("Maximum size of a call result; longer text is truncated in the middle with a note, longer data is rejected.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.mcp_sessions", "PLEXUS_LIMITS_MCP_SESSIONS", Kind::Number, |config, value| {
        config.limits.mcp_sessions = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("10000")
    .about("MCP sessions kept in memory; beyond that the least recently used one is evicted and remains in the database.")
    .expects(COUNT),
    Setting::new("limits.task_after_seconds", "PLEXUS_LIMITS_TASK_AFTER_SECONDS", Kind::Number, |config, value| {
        config.limits.task_after_seconds = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("10")
    .about("Calls that take longer are answered with a task that can be polled, if the client supports tasks.")
    .expects(COUNT),
    Setting::new("retention.events_days", "PLEXUS_RETENTION_EVENTS_DAYS", Kind::Number, |config, value| {
        config.retention.events_days = Some(value.number()?).filter(|days| *days > 0);
        Some(())
    })
    .default("0")
    .about("Days to keep session events; 0 keeps them forever.")
    .expects(DAYS)
    .live(),
    Setting::new("retention.audit_days", "PLEXUS_RETENTION_AUDIT_DAYS", Kind::Number, |config, value| {
        config.retention.audit_days = Some(value.number()?).filter(|days| *days > 0);
        Some(())
    })
    .default("0")
    .about("Days to keep the audit log; 0 keeps it forever.")
    .expects(DAYS)
    .live(),
    Setting::new("upstreams.dir", "PLEXUS_MCP_DIR", Kind::Text, |config, value| {
        config.upstreams.dir = value.text()?.into();
        Some(())
    })
    .flag("--mcp-dir")
    .unset("`mcp_servers.d` in the data folder")
    .about("Folder with one file for each upstream MCP server.")
    .expects("a folder"),
    Setting::new("upstreams.commands", "PLEXUS_UPSTREAMS_COMMANDS", Kind::List, |config, value| {
        config.upstreams.commands = each(value.list()?, is_command)?;
        Some(())
    })
    .default("npx,uvx,uv,node,deno,bun,bunx,python,python3,pipx,docker,podman")
    .about("Commands allowed for MCP servers that are added or tested over REST; a full path matches only itself. Files in the folder may use any command.")
    .expects("a list of commands, each a name such as npx or a full path such as /usr/bin/server")
    .live(),
    Setting::new("upstreams.private_networks", "PLEXUS_UPSTREAMS_PRIVATE_NETWORKS", Kind::Switch, |config, value| {
        config.upstreams.private_networks = value.switch()?;
        Some(())
    })
    .default("false")
    .about("Whether MCP servers may be on private networks without `allow_private` in their file. Loopback is always allowed.")
    .expects("`true` or `false`"),
    Setting::new("tools.dir", "PLEXUS_TOOLS_DIR", Kind::Text, |config, value| {
        config.tools.dir = value.text()?.into();
        Some(())
    })
    .flag("--tools-dir")
    .unset("`tools.d` in the data folder")
    .about("Folder with the manifests and programs of user-defined tools.")
    .expects("a folder"),
    Setting::new("tools.enabled", "PLEXUS_TOOLS_ENABLED", Kind::List, |config, value| {
        config.tools.enabled = each(value.list()?, is_tool)?;
        Some(())
    })
    .unset("none")
    .about("Names of enabled user-defined tools, in addition to those enabled with `plexus tools enable`.")
    .expects("a list of tool names, such as disk_usage, without `*`")
    .live(),
    Setting::new("nodes.local", "PLEXUS_NODES_LOCAL", Kind::Switch, |config, value| {
        config.nodes.local = value.switch()?;
        Some(())
    })
    .default("true")
    .about("Whether tools may run on the hub's own machine, the node `local`.")
    .expects("`true` or `false`"),
    Setting::new("nodes.heartbeat_seconds", "PLEXUS_NODES_HEARTBEAT_SECONDS", Kind::Number, |config, value| {
        config.nodes.heartbeat = Duration::from_secs(value.number().filter(|count| *count > 0)?);
        Some(())
    })
    .default("10")
    .about("Seconds between two heartbeats of the link to a node.")
    .expects(COUNT),
    Setting::new("nodes.missed_heartbeats", "PLEXUS_NODES_MISSED_HEARTBEATS", Kind::Number, |config, value| {
        config.nodes.missed = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("3")
    .about("Consecutive heartbeats that a node may miss before it counts as offline.")
    .expects(COUNT),
    Setting::new("nodes.key", env::NODE_KEY.name, Kind::Secret, |config, value| {
        let key = Some(value.secret()?.clone()).filter(|key| !key.expose_secret().is_empty());
        config.nodes.key = match key {
            Some(key) if key.expose_secret().len() < NODE_KEY_LENGTH => return None,
            key => key,
        };
        Some(())
    })
    .unset("none: nodes join by invitation only")
    .about("Key for unattended installations to join with, in addition to invitations: anyone who has it can add nodes. Do not put it in this file: set the variable, or use a reference `${env:NAME}` or `${file:PATH}`.")
    .expects("a secret of at least 32 characters, such as the output of `openssl rand -hex 32`")
    .live(),
    Setting::new("nodes.client_ca", "PLEXUS_NODES_CLIENT_CA", Kind::Text, |config, value| {
        config.tls.client_ca = optional_file(value.text()?);
        Some(())
    })
    .unset("none")
    .about("CA whose certificates nodes may present instead of a credential, as a PEM file: a certificate with the name or id of a node identifies that node. Requires `tls.cert`; reloaded with it.")
    .expects("a file"),
    Setting::new("sync.workspace", "PLEXUS_SYNC_WORKSPACE", Kind::Text, |config, value| {
        config.sync.workspace = value.text()?.into();
        Some(())
    })
    .unset("`workspace` in the data folder")
    .about("Folder with the instruction files for agents, such as identity and user; they are copied into the instructions of connected agents.")
    .expects("a folder"),
    Setting::new("sync.files", "PLEXUS_SYNC_FILES", Kind::List, |config, value| {
        let files = each(value.list()?, is_plain_file)?;
        config.sync.files = Some(files).filter(|files| files.len() <= INSTRUCTION_FILES)?;
        Some(())
    })
    .default("SOUL.md,IDENTITY.md,USER.md,TOOLS.md,MEMORY.md")
    .about("Files of that folder, in the order in which they are written; missing files are skipped.")
    .expects("a list of at most 16 file names, such as USER.md, without a folder")
    .live(),
    Setting::new("sync.minutes", "PLEXUS_SYNC_MINUTES", Kind::Number, |config, value| {
        config.sync.minutes = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("15")
    .about("Minutes between two checks of the files of connected agents; a change in the folder is applied immediately.")
    .expects(COUNT)
    .live(),
    Setting::new("sync.agents", "PLEXUS_SYNC_AGENTS", Kind::List, |config, value| {
        config.sync.agents = each(value.list()?, is_tool)?;
        Some(())
    })
    .unset("all connected agents")
    .about("Agents that receive the instructions, such as `codex` and `claude-code`.")
    .expects("a list of agent names, such as codex")
    .live(),
    Setting::new("sync.max_bytes", "PLEXUS_SYNC_MAX_BYTES", Kind::Number, |config, value| {
        config.sync.max_bytes = value.number().filter(|count| (256..=INSTRUCTION_BYTES).contains(count))?;
        Some(())
    })
    .default("16384")
    .about("Maximum size of the instructions in an agent's file; longer text is truncated with a note.")
    .expects("a whole number from 256 to 65536")
    .live(),
    Setting::new("telemetry.log", env::LOG.name, Kind::Text, |config, value| {
        let text = value.text()?;
        EnvFilter::try_new(text).ok().filter(|_| !text.is_empty())?;
        text.clone_into(&mut config.telemetry.log);
        Some(())
    })
    .default("info")
    .about("Log filter, such as `debug` or `warn,plexus_mcp=debug`.")
    .expects("a log filter, such as info or warn,plexus_mcp=debug")
    .live(),
    Setting::new("telemetry.log_format", env::LOG_FORMAT.name, Kind::Text, |config, value| {
        config.telemetry.log_format = LogFormat::parse(value.text()?)?;
        Some(())
    })
    .default("text")
    .about("Format of log lines: `text`, which is short on a terminal, or `json`.")
    .expects("`text` or `json`")
    .flag("--log-format"),
    Setting::new("telemetry.metrics", "PLEXUS_TELEMETRY_METRICS", Kind::Switch, |config, value| {
        config.telemetry.metrics = value.switch()?;
        Some(())
    })
    .default("true")
    .about("Whether `/metrics` is served.")
    .expects("`true` or `false`"),
    Setting::new("telemetry.otlp_endpoint", "PLEXUS_TELEMETRY_OTLP_ENDPOINT", Kind::Secret, |config, value| {
        let url = optional_url(value.secret()?.expose_secret())?;
        config.telemetry.otlp_endpoint = url.map(Secret::from);
        Some(())
    })
    .or_variable(env::OTLP_ENDPOINT.name)
    .unset("nowhere")
    .about("Trace collector, for OTLP over HTTP, such as http://127.0.0.1:4318.")
    .expects("a URL such as http://127.0.0.1:4318"),
];

/// Parses an address with a port; `localhost`, which always means this machine, is accepted as a host.
fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

/// The entries, if all of them have a form that can match.
fn each(list: &[String], fits: fn(&str) -> bool) -> Option<Vec<String>> {
    list.iter().all(|entry| fits(entry)).then(|| list.to_vec())
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '@', ' '])
}

fn is_command(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace) && (!text.contains('/') || text.starts_with('/'))
}

fn is_tool(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The name of a file in a folder, without path components that lead out of it.
fn is_plain_file(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '\0']) && text != "." && text != ".."
}

fn is_origin(text: &str) -> bool {
    after_scheme(text).is_some_and(is_host)
}

fn is_url(text: &str) -> bool {
    after_scheme(text).is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

fn after_scheme(text: &str) -> Option<&str> {
    text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))
}

fn optional_file(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// A URL without a trailing slash, or an unset value.
fn optional_url(text: &str) -> Option<Option<String>> {
    match text {
        "" => Some(None),
        url => is_url(url).then(|| Some(url.trim_end_matches('/').to_owned())),
    }
}
