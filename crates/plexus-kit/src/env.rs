//! Every environment variable Plexus reads, in one place.
//!
//! The environment is a value handed down from `main`; nothing else touches the process's own.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::{SETTINGS, nearest};

/// What the names of our own variables begin with.
const PREFIX: &str = "PLEXUS_";

/// A variable: its name and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    pub about: &'static str,
}

pub const HUB: Variable = Variable { name: "PLEXUS_HUB", about: "URL of the hub that commands talk to" };
pub const TOKEN: Variable =
    Variable { name: "PLEXUS_TOKEN", about: "token that commands present; else the local admin token" };
pub const DATA_DIR: Variable = Variable { name: "PLEXUS_DATA_DIR", about: "data folder of the hub" };
pub const CONFIG: Variable = Variable { name: "PLEXUS_CONFIG", about: "configuration file of the hub" };
pub const NODE_DATA_DIR: Variable =
    Variable { name: "PLEXUS_NODE_DATA_DIR", about: "data folder of the node on this machine" };
pub const LOG: Variable =
    Variable { name: "PLEXUS_LOG", about: "log filter, such as info or plexus_mcp=debug" };
pub const LOG_FORMAT: Variable = Variable { name: "PLEXUS_LOG_FORMAT", about: "text (default) or json" };
pub const XDG_DATA_HOME: Variable =
    Variable { name: "XDG_DATA_HOME", about: "where the default data folder is made" };
pub const XDG_CONFIG_HOME: Variable =
    Variable { name: "XDG_CONFIG_HOME", about: "where units of the user's systemd are written" };
pub const HOME: Variable = Variable { name: "HOME", about: "home folder, when XDG_DATA_HOME is not set" };
pub const PATH: Variable = Variable { name: "PATH", about: "where the shell looks for commands" };
pub const OTLP_ENDPOINT: Variable =
    Variable { name: "OTEL_EXPORTER_OTLP_ENDPOINT", about: "where traces are sent, when Plexus is not told" };
pub const NODE_KEY: Variable = Variable {
    name: "PLEXUS_NODE_KEY",
    about: "what unattended nodes join with, on the hub and on the node",
};
pub const NO_COLOR: Variable = Variable { name: "NO_COLOR", about: "set to anything: no colours" };
/// Set by nodes and not read by anybody: whose a process is.
pub const JOB: Variable =
    Variable { name: "PLEXUS_JOB", about: "job of the terminal that a process belongs to; set by nodes" };
pub const SSH_AUTH_SOCK: Variable =
    Variable { name: "SSH_AUTH_SOCK", about: "agent with the keys that a node's ssh uses" };
pub const TERM: Variable = Variable { name: "TERM", about: "kind of terminal; `dumb` has no colours" };

pub const PROXY: Variable = Variable {
    name: "PLEXUS_PROXY",
    about: "0, false or off: agents are connected without a proxy, and `plexus mcp` keeps nothing",
};
pub const PROXY_SECRET: Variable = Variable {
    name: "PLEXUS_PROXY_SECRET",
    about: "what clients of `plexus mcp --http` present as their token",
};

pub const AGENTS: Variable = Variable {
    name: "PLEXUS_AGENTS",
    about: "agents that `plexus connect` connects where none is named, such as codex,claude-code",
};

/// What a program of someone else gets; see [`Environment::passed_on`].
const PASSED_ON: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM", "TMPDIR"];
const PASSED_ON_FAMILIES: &[&str] = &["LC_", "XDG_"];

/// What the variables of an agent that `plexus run` has started begin with: the run's own, and not a slip of anybody's.
pub const RUN_FAMILY: &str = "PLEXUS_RUN_";

/// Of our variables, those that hold no secret and that a program which calls `plexus` itself may want.
const FOR_AGENTS: &[Variable] = &[HUB, DATA_DIR, LOG, LOG_FORMAT];

/// Those that are not a setting of the hub; [`SETTINGS`] has the others.
const OWN: &[Variable] = &[HUB, TOKEN, CONFIG, NODE_DATA_DIR, JOB, PROXY, PROXY_SECRET, AGENTS];

/// Whether something reads a variable of this name.
fn is_known(name: &str) -> bool {
    known().any(|known| known == name)
}

/// Names of the variables that are ours.
fn known() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|own| own.name).chain(SETTINGS.iter().map(|setting| setting.variable))
}

/// What all have in front is no likeness.
fn meant(name: &str) -> Option<&'static str> {
    // Some settings have a shorter name than their key says.
    let derived = |key: &str| format!("{PREFIX}{}", key.to_uppercase().replace('.', "_"));
    if let Some(setting) = SETTINGS.iter().find(|setting| derived(setting.key) == name) {
        return Some(setting.variable);
    }
    let own = |name: &'static str| name.strip_prefix(PREFIX).unwrap_or(name);
    let near = nearest(name.strip_prefix(PREFIX)?, known().map(own))?;
    known().find(|known| own(known) == near)
}

/// The variables a process was given.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// What the operating system gave this process; called once, in `main`.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect()
    }

    /// A variable that is set and not empty.
    #[must_use]
    pub fn get(&self, variable: Variable) -> Option<&str> {
        self.value(variable.name)
    }

    /// The same for a name that a person wrote into a file.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&str> {
        self.value(name)
    }

    /// The same by name, for the variables of settings.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All of them, for who chooses by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The little that a program of someone else is given of it: what it needs to be found, to find its files and to
    /// write its texts. All else, which may be secret, stays here.
    pub fn passed_on(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_passed_on = |name: &str| {
            PASSED_ON.contains(&name) || PASSED_ON_FAMILIES.iter().any(|family| name.starts_with(family))
        };
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(move |(name, _)| is_passed_on(name))
    }

    /// Names that start with `PLEXUS_` and that nothing reads, each with the one that was most likely
    /// meant.
    #[must_use]
    pub fn unknown(&self) -> Vec<(&str, Option<&'static str>)> {
        let ours = self.0.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
        let ours = ours.filter(|name| !name.starts_with(RUN_FAMILY));
        ours.filter(|name| !is_known(name)).map(|name| (name, meant(name))).collect()
    }

    /// Names of all variables of ours that an agent of someone else does not get, because they hold secrets or may do so;
    /// also of those that are not set here, or cannot be read.
    #[must_use]
    pub fn kept_from_agents(&self) -> Vec<String> {
        let set = self.0.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
        let ours = set.map(str::to_owned).chain(known().map(str::to_owned));
        ours.filter(|name| !FOR_AGENTS.iter().any(|passed| passed.name == name)).collect()
    }

    /// The same without what configures the hub, for whoever must go on although that is wrong.
    #[must_use]
    pub fn without_settings(&self) -> Self {
        let setting = |name: &str| SETTINGS.iter().any(|setting| setting.variable == name);
        let kept = self.0.iter().filter(|(name, _)| !setting(name) || *name == DATA_DIR.name);
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether a stream may carry colours: a terminal that has them, and a person who wants them.
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

/// Names only: values can be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().filter(|name| name.starts_with(PREFIX))).finish()
    }
}
