//! Every environment variable Plexus reads, in one place.
//!
//! The environment is a value handed down from `main`; nothing else touches the process's own.

use std::collections::BTreeMap;
use std::fmt;

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
pub const LISTEN: Variable = Variable { name: "PLEXUS_LISTEN", about: "address the hub listens on" };
pub const DATABASE_URL: Variable =
    Variable { name: "PLEXUS_DATABASE_URL", about: "database of the hub; else SQLite in the data folder" };
pub const CONFIG: Variable = Variable { name: "PLEXUS_CONFIG", about: "configuration file of the hub" };
pub const LOG: Variable =
    Variable { name: "PLEXUS_LOG", about: "log filter, such as info or plexus_mcp=debug" };
pub const LOG_FORMAT: Variable = Variable { name: "PLEXUS_LOG_FORMAT", about: "human (default) or json" };
pub const OTLP_ENDPOINT: Variable = Variable {
    name: "PLEXUS_TELEMETRY_OTLP_ENDPOINT",
    about: "collector that traces are sent to, over OTLP with HTTP",
};
pub const OTEL_ENDPOINT: Variable =
    Variable { name: "OTEL_EXPORTER_OTLP_ENDPOINT", about: "the same, as other programs are told" };
pub const XDG_DATA_HOME: Variable =
    Variable { name: "XDG_DATA_HOME", about: "where the default data folder is made" };
pub const HOME: Variable = Variable { name: "HOME", about: "home folder, when XDG_DATA_HOME is not set" };
pub const PATH: Variable = Variable { name: "PATH", about: "where the shell looks for commands" };

/// All of them, for documentation and for finding misspelt ones.
pub const ALL: &[Variable] = &[
    HUB,
    TOKEN,
    DATA_DIR,
    LISTEN,
    DATABASE_URL,
    CONFIG,
    LOG,
    LOG_FORMAT,
    OTLP_ENDPOINT,
    OTEL_ENDPOINT,
    XDG_DATA_HOME,
    HOME,
    PATH,
];

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
        self.0.get(variable.name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Names that start with `PLEXUS_` and that nothing reads: most likely misspelt.
    #[must_use]
    pub fn unknown(&self) -> Vec<&str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|name| name.starts_with("PLEXUS_") && !ALL.iter().any(|known| known.name == *name))
            .collect()
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
        f.debug_set().entries(self.0.keys().filter(|name| name.starts_with("PLEXUS_"))).finish()
    }
}
