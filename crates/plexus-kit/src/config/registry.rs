//! Every setting of the hub, in the order in which they are documented.
//!
//! A new setting is one entry here and a field in [`Config`]: its variable, its place in the file,
//! its line in the reference and its errors follow from the entry.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use tracing_subscriber::EnvFilter;

use super::{Config, DEFAULT_LISTEN, Durability, Kind, LogFormat, Origin, Problem, Value};
use crate::{Secret, env};

/// Stores a value in its field; none where the value is not one that the setting takes.
type Apply = fn(&mut Config, &Value) -> Option<()>;

/// One setting: where it can be given, what it takes and what it is for.
#[derive(Debug)]
pub struct Setting {
    /// Its path in the file, such as `limits.body_bytes`.
    pub key: &'static str,
    pub variable: &'static str,
    /// A variable of others that says the same, used where ours is not set.
    pub fallback: Option<&'static str>,
    pub flag: Option<&'static str>,
    pub kind: Kind,
    /// As a variable would give it; empty where nothing is set.
    pub default: &'static str,
    /// What holds while nothing is set.
    pub unset: &'static str,
    pub about: &'static str,
    /// What it takes, to go on after "is not".
    pub expected: &'static str,
    /// Whether a running hub takes a new value on SIGHUP.
    pub reload: bool,
    apply: Apply,
}

impl Setting {
    /// The section of the file it stands in; empty at the top.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.key.rsplit_once('.').map_or("", |(section, _)| section)
    }

    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.kind == Kind::Secret
    }

    pub(super) fn default_value(&self) -> Value {
        // A default that is not of its own kind is found by the tests.
        Value::parse(self.kind, self.default).unwrap_or(Value::Text(String::new()))
    }

    pub(super) fn apply(&self, config: &mut Config, value: &Value) -> Option<()> {
        (self.apply)(config, value)
    }

    /// The problem with a value that this setting does not take.
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
/// Characters that the key of unattended installations has at least.
const NODE_KEY_LENGTH: usize = 32;
/// Files that instructions are made of, and bytes of what is made of them.
const INSTRUCTION_FILES: usize = 16;
const INSTRUCTION_BYTES: usize = 64 << 10;
const COUNT: &str = "a whole number from 1";
const DAYS: &str = "a whole number of days, or 0 to keep them for ever";

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
    .about("Address to listen on; port 0 takes any free one.")
    .expects("an address with a port, such as 127.0.0.1:7420, [::1]:7420 or localhost:7420"),
    Setting::new("database_url", "PLEXUS_DATABASE_URL", Kind::Secret, |config, value| {
        config.database_url = Some(value.secret()?.clone()).filter(|url| !url.expose_secret().is_empty());
        Some(())
    })
    .flag("--database-url")
    .unset("SQLite in the data folder")
    .about("Database: `sqlite:/path/to/file.db` or `postgres://user@host/name`. A password does not belong in this file: set the variable, or name what holds it with `${env:NAME}` or `${file:PATH}`.")
    .expects("a URL in which every `${env:NAME}` and `${file:PATH}` is there"),
    Setting::new("durability", "PLEXUS_DURABILITY", Kind::Text, |config, value| {
        config.durability = match value.text()? {
            "process" => Durability::Process,
            "power" => Durability::Power,
            _ => return None,
        };
        Some(())
    })
    .default("process")
    .about("What an acknowledged write survives: `process` is the death of the process, `power` a power cut too.")
    .expects("`process` or `power`"),
    Setting::new("public_url", "PLEXUS_PUBLIC_URL", Kind::Text, |config, value| {
        config.public_url = optional_url(value.text()?)?;
        Some(())
    })
    .unset("the address it listens on")
    .about("Where clients reach the hub, if not at the address it listens on.")
    .expects(URL)
    .live(),
    Setting::new("allowed_hosts", "PLEXUS_ALLOWED_HOSTS", Kind::List, |config, value| {
        config.allowed_hosts = each(value.list()?, is_host)?;
        Some(())
    })
    .unset("none")
    .about("Names besides `localhost` and addresses that may stand in `Host`.")
    .expects("a list of host names, such as hub.example.net or hub.example.net:7420")
    .live(),
    Setting::new("allowed_origins", "PLEXUS_ALLOWED_ORIGINS", Kind::List, |config, value| {
        config.allowed_origins = each(value.list()?, is_origin)?;
        Some(())
    })
    .unset("none")
    .about("Browser origins besides loopback that may call the hub.")
    .expects("a list with an origin in each entry, such as https://app.example.net")
    .live(),
    Setting::new("tls.cert", "PLEXUS_TLS_CERT", Kind::Text, |config, value| {
        config.tls.cert = optional_file(value.text()?);
        Some(())
    })
    .unset("none: plain HTTP")
    .about("Certificate of the hub and those between it and an authority, as a PEM file: the hub then speaks HTTPS only. The file is read again on SIGHUP.")
    .expects("a file"),
    Setting::new("tls.key", "PLEXUS_TLS_KEY", Kind::Text, |config, value| {
        config.tls.key = optional_file(value.text()?);
        Some(())
    })
    .unset("none")
    .about("Private key of `tls.cert`, as a PEM file that others cannot read. It is read again with the certificate.")
    .expects("a file"),
    Setting::new("auth.authorization_servers", "PLEXUS_AUTH_AUTHORIZATION_SERVERS", Kind::List, |config, value| {
        config.authorization_servers = each(value.list()?, is_url)?;
        Some(())
    })
    .unset("none")
    .about("OAuth servers named in RFC 9728 metadata.")
    .expects("a list of URLs, such as https://login.example.net")
    .live(),
    Setting::new("auth.failed_per_minute", "PLEXUS_AUTH_FAILED_PER_MINUTE", Kind::Number, |config, value| {
        config.auth.failed_per_minute = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("30")
    .about("Failed authentications in a minute, for each address and each presented token; more are answered with 429.")
    .expects(COUNT)
    .live(),
    Setting::new("auth.key_overlap_hours", "PLEXUS_AUTH_KEY_OVERLAP_HOURS", Kind::Number, |config, value| {
        config.auth.key_overlap_hours = value.number()?;
        Some(())
    })
    .default("24")
    .about("How long a signing key that was replaced still verifies.")
    .expects("a whole number of hours")
    .live(),
    Setting::new("limits.body_bytes", "PLEXUS_LIMITS_BODY_BYTES", Kind::Number, |config, value| {
        config.limits.body_bytes = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("4194304")
    .about("Body of a request; a longer one is refused with 413.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.json_depth", "PLEXUS_LIMITS_JSON_DEPTH", Kind::Number, |config, value| {
        config.limits.json_depth = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("64")
    .about("Nesting of arrays and objects in an MCP request (REST bodies: 128); more is refused with 400.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.request_seconds", "PLEXUS_LIMITS_REQUEST_SECONDS", Kind::Number, |config, value| {
        config.limits.request_seconds = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("60")
    .about("Time for the body of a request to arrive; then it is refused with 408.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.calls_per_principal", "PLEXUS_LIMITS_CALLS_PER_PRINCIPAL", Kind::Number, |config, value| {
        config.limits.calls_per_principal = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("64")
    .about("Calls of one principal at the same time; one more is refused as retryable.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.output_bytes", "PLEXUS_LIMITS_OUTPUT_BYTES", Kind::Number, |config, value| {
        config.limits.output_bytes = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("2097152")
    .about("Result of a call; longer text is cut in the middle and says so, longer data is refused.")
    .expects(COUNT)
    .live(),
    Setting::new("limits.mcp_sessions", "PLEXUS_LIMITS_MCP_SESSIONS", Kind::Number, |config, value| {
        config.limits.mcp_sessions = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("10000")
    .about("MCP sessions in memory; over it the longest unused one leaves memory and stays in the database.")
    .expects(COUNT),
    Setting::new("limits.task_after_seconds", "PLEXUS_LIMITS_TASK_AFTER_SECONDS", Kind::Number, |config, value| {
        config.limits.task_after_seconds = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("10")
    .about("A call that takes longer is answered with a task that can be asked after, where the client knows tasks.")
    .expects(COUNT),
    Setting::new("retention.events_days", "PLEXUS_RETENTION_EVENTS_DAYS", Kind::Number, |config, value| {
        config.retention.events_days = Some(value.number()?).filter(|days| *days > 0);
        Some(())
    })
    .default("0")
    .about("Days for which events of sessions are kept; 0 is for ever.")
    .expects(DAYS)
    .live(),
    Setting::new("retention.audit_days", "PLEXUS_RETENTION_AUDIT_DAYS", Kind::Number, |config, value| {
        config.retention.audit_days = Some(value.number()?).filter(|days| *days > 0);
        Some(())
    })
    .default("0")
    .about("Days for which the audit is kept; 0 is for ever.")
    .expects(DAYS)
    .live(),
    Setting::new("upstreams.dir", "PLEXUS_MCP_DIR", Kind::Text, |config, value| {
        config.upstreams.dir = value.text()?.into();
        Some(())
    })
    .flag("--mcp-dir")
    .unset("`mcp_servers.d` in the data folder")
    .about("Folder with one file for each MCP server behind the hub.")
    .expects("a folder"),
    Setting::new("upstreams.commands", "PLEXUS_UPSTREAMS_COMMANDS", Kind::List, |config, value| {
        config.upstreams.commands = each(value.list()?, is_command)?;
        Some(())
    })
    .default("npx,uvx,uv,node,deno,bun,bunx,python,python3,pipx,docker,podman")
    .about("Commands that an MCP server may be added or tested with over REST; a full path matches itself. Files in the folder may have any.")
    .expects("a list of commands, each a name such as npx or a full path such as /usr/bin/server")
    .live(),
    Setting::new("upstreams.private_networks", "PLEXUS_UPSTREAMS_PRIVATE_NETWORKS", Kind::Switch, |config, value| {
        config.upstreams.private_networks = value.switch()?;
        Some(())
    })
    .default("false")
    .about("Whether MCP servers may be on private networks without `allow_private` in their file. Loopback always may.")
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
    .about("User-defined tools that may be run, by name, besides those that were switched on with `plexus tools enable`.")
    .expects("a list of names of tools, such as disk_usage, without `*`")
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
    .about("Heartbeats in a row that a node may miss before it is taken to be offline.")
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
    .about("What unattended installations join with, beside invitations: whoever has it can add nodes. It does not belong in this file: set the variable, or name what holds it with `${env:NAME}` or `${file:PATH}`.")
    .expects("a secret of 32 characters or more, such as `openssl rand -hex 32` makes")
    .live(),
    Setting::new("nodes.client_ca", "PLEXUS_NODES_CLIENT_CA", Kind::Text, |config, value| {
        config.tls.client_ca = optional_file(value.text()?);
        Some(())
    })
    .unset("none")
    .about("Authority whose certificates nodes may show instead of a credential, as a PEM file: a certificate with the name or the id of a node is that node. Needs `tls.cert`; read again with it.")
    .expects("a file"),
    Setting::new("sync.workspace", "PLEXUS_SYNC_WORKSPACE", Kind::Text, |config, value| {
        config.sync.workspace = value.text()?.into();
        Some(())
    })
    .unset("`workspace` in the data folder")
    .about("Folder with the files that tell agents who they are and whom they work for; connected agents get them into their own instructions.")
    .expects("a folder"),
    Setting::new("sync.files", "PLEXUS_SYNC_FILES", Kind::List, |config, value| {
        let files = each(value.list()?, is_plain_file)?;
        config.sync.files = Some(files).filter(|files| files.len() <= INSTRUCTION_FILES)?;
        Some(())
    })
    .default("SOUL.md,IDENTITY.md,USER.md,TOOLS.md,MEMORY.md")
    .about("Files of that folder, in the order in which they are written; those that are not there are not missed.")
    .expects("a list of at most 16 names of files, such as USER.md, without a folder")
    .live(),
    Setting::new("sync.minutes", "PLEXUS_SYNC_MINUTES", Kind::Number, |config, value| {
        config.sync.minutes = value.number().filter(|count| *count > 0)?;
        Some(())
    })
    .default("15")
    .about("Minutes between two looks at the files of connected agents; a change in the folder is taken up at once.")
    .expects(COUNT)
    .live(),
    Setting::new("sync.agents", "PLEXUS_SYNC_AGENTS", Kind::List, |config, value| {
        config.sync.agents = each(value.list()?, is_tool)?;
        Some(())
    })
    .unset("all that are connected")
    .about("Agents that get the instructions, such as `codex` and `claude-code`.")
    .expects("a list of names of agents, such as codex")
    .live(),
    Setting::new("sync.max_bytes", "PLEXUS_SYNC_MAX_BYTES", Kind::Number, |config, value| {
        config.sync.max_bytes = value.number().filter(|count| (256..=INSTRUCTION_BYTES).contains(count))?;
        Some(())
    })
    .default("16384")
    .about("Longest instructions in a file of an agent; what does not fit is cut, and that is said there.")
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
    .about("Form of log lines: `text`, which is short on a terminal, or `json`.")
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
    .about("Where traces are sent, as OTLP over HTTP, such as http://127.0.0.1:4318.")
    .expects("a URL such as http://127.0.0.1:4318"),
];

/// An address with a port; the one name that always means this machine is taken for one.
fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

/// The entries, if each is of the form that can ever match.
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

/// The name of a file in a folder, and no way out of it.
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

/// A URL without a slash at its end, or nothing.
fn optional_url(text: &str) -> Option<Option<String>> {
    match text {
        "" => Some(None),
        url => is_url(url).then(|| Some(url.trim_end_matches('/').to_owned())),
    }
}
