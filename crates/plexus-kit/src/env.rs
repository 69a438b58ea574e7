//! Every environment variable that Plexus reads.
//!
//! The environment is a value passed down from `main`; no other code reads the process environment.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::{SETTINGS, nearest};

/// Prefix of all Plexus variables.
const PREFIX: &str = "PLEXUS_";

/// A variable: its name and its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    pub about: &'static str,
}

pub const HUB: Variable = Variable { name: "PLEXUS_HUB", about: "URL of the hub that commands connect to" };
pub const TOKEN: Variable =
    Variable { name: "PLEXUS_TOKEN", about: "token for commands; defaults to the local admin token" };
pub const DATA_DIR: Variable = Variable { name: "PLEXUS_DATA_DIR", about: "data folder of the hub" };
pub const CONFIG: Variable = Variable { name: "PLEXUS_CONFIG", about: "configuration file of the hub" };
pub const NODE_DATA_DIR: Variable =
    Variable { name: "PLEXUS_NODE_DATA_DIR", about: "data folder of the node on this machine" };
pub const LOG: Variable =
    Variable { name: "PLEXUS_LOG", about: "log filter, such as info or plexus_mcp=debug" };
pub const LOG_FORMAT: Variable = Variable { name: "PLEXUS_LOG_FORMAT", about: "text (default) or json" };
pub const XDG_DATA_HOME: Variable =
    Variable { name: "XDG_DATA_HOME", about: "parent of the default data folder" };
pub const XDG_CONFIG_HOME: Variable =
    Variable { name: "XDG_CONFIG_HOME", about: "folder for systemd user units" };
pub const HOME: Variable = Variable { name: "HOME", about: "home folder, used if XDG_DATA_HOME is not set" };
pub const PATH: Variable = Variable { name: "PATH", about: "search path for commands" };
pub const OTLP_ENDPOINT: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    about: "trace collector, used if Plexus has no setting for it",
};
pub const NODE_KEY: Variable = Variable {
    name: "PLEXUS_NODE_KEY",
    about: "join key of unattended nodes, the same on the hub and on the node",
};
pub const NO_COLOR: Variable = Variable { name: "NO_COLOR", about: "any value disables colours" };
/// Set by nodes and not read by Plexus: identifies the job that a process belongs to.
pub const JOB: Variable =
    Variable { name: "PLEXUS_JOB", about: "terminal job that a process belongs to; set by nodes" };
pub const SSH_AUTH_SOCK: Variable =
    Variable { name: "SSH_AUTH_SOCK", about: "SSH agent that provides keys for a node's ssh" };
pub const TERM: Variable = Variable { name: "TERM", about: "terminal type; `dumb` disables colours" };

pub const PROXY: Variable = Variable {
    name: "PLEXUS_PROXY",
    about: "0, false or off: agents connect without a proxy, and `plexus mcp` stores nothing",
};
pub const PROXY_SECRET: Variable =
    Variable { name: "PLEXUS_PROXY_SECRET", about: "token for clients of `plexus mcp --http`" };

pub const AGENTS: Variable = Variable {
    name: "PLEXUS_AGENTS",
    about: "agents that `plexus connect` connects if none is named, such as codex,claude-code",
};

/// Variables passed to third-party programs; see [`Environment::inherited`].
const INHERITED: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM", "TMPDIR"];
const INHERITED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// Prefix of the variables that `plexus run` sets for an agent; never reported as misspelt.
pub const RUN_PREFIX: &str = "PLEXUS_RUN_";

/// Plexus variables without secrets that a program which runs `plexus` itself may need.
const AGENT_VARIABLES: &[Variable] = &[HUB, DATA_DIR, LOG, LOG_FORMAT];

/// Variables that are not settings of the hub; [`SETTINGS`] contains the others.
const NON_SETTINGS: &[Variable] = &[HUB, TOKEN, CONFIG, NODE_DATA_DIR, JOB, PROXY, PROXY_SECRET, AGENTS];

/// Whether Plexus reads a variable of this name.
fn is_known(name: &str) -> bool {
    known().any(|known| known == name)
}

/// Names of all Plexus variables.
fn known() -> impl Iterator<Item = &'static str> {
    NON_SETTINGS.iter().map(|own| own.name).chain(SETTINGS.iter().map(|setting| setting.variable))
}

/// The variable that a misspelt name most likely stands for. The common prefix does not count towards the
/// similarity.
fn similar_name(name: &str) -> Option<&'static str> {
    // Some settings have a variable shorter than their key.
    let derived = |key: &str| format!("{PREFIX}{}", key.to_uppercase().replace('.', "_"));
    if let Some(setting) = SETTINGS.iter().find(|setting| derived(setting.key) == name) {
        return Some(setting.variable);
    }
    let without_prefix = |name: &'static str| name.strip_prefix(PREFIX).unwrap_or(name);
    let nearest_name = nearest(name.strip_prefix(PREFIX)?, known().map(without_prefix))?;
    known().find(|known| without_prefix(known) == nearest_name)
}

/// The environment variables of a process.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the environment of this process; called once, in `main`.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect()
    }

    /// The value of a variable that is set and not empty.
    #[must_use]
    pub fn get(&self, variable: Variable) -> Option<&str> {
        self.value(variable.name)
    }

    /// As [`Self::get`], for a name from a user's file.
    #[must_use]
    pub fn get_by_name(&self, name: &str) -> Option<&str> {
        self.value(name)
    }

    /// As [`Self::get`], by name, for the variables of settings.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All variables.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The variables passed to third-party programs: those needed to find programs and files and to format
    /// text. All others may contain secrets and are not passed.
    pub fn inherited(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_inherited = |name: &str| {
            INHERITED.contains(&name) || INHERITED_PREFIXES.iter().any(|family| name.starts_with(family))
        };
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(move |(name, _)| is_inherited(name))
    }

    /// Names that start with `PLEXUS_` but are not read by Plexus, each with the most similar known name.
    #[must_use]
    pub fn unknown(&self) -> Vec<(&str, Option<&'static str>)> {
        let plexus_names = self.0.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
        let plexus_names = plexus_names.filter(|name| !name.starts_with(RUN_PREFIX));
        plexus_names.filter(|name| !is_known(name)).map(|name| (name, similar_name(name))).collect()
    }

    /// Names of all Plexus variables withheld from third-party agents because they may contain secrets,
    /// including those that are unset or unreadable.
    #[must_use]
    pub fn withheld_from_agents(&self) -> Vec<String> {
        let set = self.0.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
        let plexus_names = set.map(str::to_owned).chain(known().map(str::to_owned));
        plexus_names.filter(|name| !AGENT_VARIABLES.iter().any(|passed| passed.name == name)).collect()
    }

    /// A copy without the hub's settings, for commands that must work even if those are invalid.
    #[must_use]
    pub fn without_settings(&self) -> Self {
        let setting = |name: &str| SETTINGS.iter().any(|setting| setting.variable == name);
        let retained = self.0.iter().filter(|(name, _)| !setting(name) || *name == DATA_DIR.name);
        retained.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether to write colours to a stream: only to terminals that support them, and not if the user
    /// disabled them.
    #[must_use]
    pub fn wants_colours(&self, is_terminal: bool) -> bool {
        is_terminal && self.get(NO_COLOR).is_none() && self.get(TERM) != Some("dumb")
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(vars: I) -> Self {
        Self(vars.into_iter().collect())
    }
}

/// Prints names only: values may be secret.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().filter(|name| name.starts_with(PREFIX))).finish()
    }
}
