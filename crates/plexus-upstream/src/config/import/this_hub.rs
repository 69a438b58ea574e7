//! The hub's own entry in the file of an agent, which `plexus connect` has put there.
//!
//! The entry is recognized by its command or URL, not by its name: another hub's server may be called `plexus`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use url::{Host, Url};

/// The name of the program, and its subcommand that agents start.
const PROGRAM: &str = "plexus";
const PROXY: &str = "mcp";
/// The flags and variables that name another hub or another data folder.
const HUB: (&str, &str) = ("--hub", "PLEXUS_HUB");
const DATA_DIR: (&str, &str) = ("--data-dir", "PLEXUS_DATA_DIR");

/// The importing hub, as the configuration of agents refers to it.
#[derive(Debug, Clone, Default)]
pub struct ThisHub {
    /// Addresses at which it is reached.
    pub urls: Vec<String>,
    /// Its data folder; none where the file is from another machine, on which paths mean something else.
    pub data_dir: Option<PathBuf>,
}

impl ThisHub {
    /// Whether a server, with the keys that the hub uses, is this hub.
    pub(super) fn matches_entry(&self, document: &Map<String, Value>) -> bool {
        match (document.get("command"), document.get("url")) {
            (Some(Value::String(command)), _) => self.is_proxy(command, document),
            (_, Some(Value::String(url))) => self.is_at(url),
            _ => false,
        }
    }

    fn is_proxy(&self, command: &str, document: &Map<String, Value>) -> bool {
        let args = document.get("args").and_then(Value::as_array).into_iter().flatten();
        let args: Vec<&str> = args.filter_map(Value::as_str).collect();
        let is_program = Path::new(command).file_name().is_some_and(|name| name == PROGRAM);
        if !is_program || args.first() != Some(&PROXY) {
            return false;
        }
        let setting = |(flag, variable): (&str, &str)| -> Option<String> {
            let joined = args.iter().find_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
            let next = || args.iter().position(|arg| *arg == flag).and_then(|at| args.get(at + 1).copied());
            let set = || document.get("env")?.get(variable)?.as_str();
            joined.or_else(next).or_else(set).map(str::to_owned)
        };
        if setting(HUB).is_some_and(|url| !self.is_at(&url)) {
            return false;
        }
        let folder = setting(DATA_DIR);
        match (folder, &self.data_dir) {
            (Some(folder), Some(hub_url)) => is_same_folder(Path::new(&folder), hub_url),
            _ => true,
        }
    }

    fn is_at(&self, url: &str) -> bool {
        let Ok(url) = Url::parse(url) else { return false };
        let hub_url = self.urls.iter().filter_map(|hub_url| Url::parse(hub_url).ok());
        hub_url.into_iter().any(|hub_url| is_same_origin(&hub_url, &url))
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// Names and addresses of loopback are one host; a hub that listens everywhere listens there too.
fn is_same_origin(hub_url: &Url, other: &Url) -> bool {
    let is_here = |url: &Url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    };
    hub_url.scheme() == other.scheme()
        && hub_url.port_or_known_default() == other.port_or_known_default()
        && (hub_url.host() == other.host() || (is_here(hub_url) && is_here(other)))
}
