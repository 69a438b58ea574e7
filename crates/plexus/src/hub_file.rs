//! Finds the hub that runs on a data folder: `hub.json` contains its URL, and the folder's lock shows whether it
//! runs.
//!
//! `hub.json` alone proves nothing, because it is also in a copy of the folder and in a folder whose hub was killed.
//! The lock belongs to the folder itself and ends with the process.

use std::fs::TryLockError;
use std::io;
use std::net::UdpSocket;
use std::path::Path;

use anyhow::Context as _;
use reqwest::Url;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::Deserialize;

use crate::failure::{Exit, Failure};
use crate::target;

/// The content of `hub.json`, which a running hub writes to its data folder.
#[derive(Debug)]
pub(crate) struct HubFile {
    pub(crate) url: Url,
    pub(crate) pid: i32,
    /// SHA-256 of its certificate, if it uses TLS.
    pub(crate) certificate: Option<String>,
}

/// The process that holds the lock of a data folder.
#[derive(Debug)]
pub(crate) enum Occupant {
    Hub(HubFile),
    /// A process without a `hub.json`: a hub that is starting, or a command that writes. Contains its process id, if
    /// known.
    Unready(Option<i32>),
    /// The lock is free.
    None,
}

impl Occupant {
    pub(crate) fn of(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join("plexus.lock");
        // If the lock file cannot be opened, the hub that takes the lock reports the error.
        let Ok(lock) = std::fs::File::open(&path) else { return Ok(Self::None) };
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {}
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Self::None),
        }
        let holder: Option<i32> = std::fs::read_to_string(&path).ok().and_then(|pid| pid.parse().ok());
        // The `hub.json` of a killed hub is replaced when the next hub is ready.
        let hub = HubFile::read(data_dir)?.filter(|hub| Some(hub.pid) == holder);
        Ok(hub.map_or(Self::Unready(holder), Self::Hub))
    }
}

#[derive(Deserialize)]
struct Content {
    url: String,
    #[serde(default)]
    pid: i32,
    #[serde(default)]
    certificate_sha256: Option<String>,
}

impl HubFile {
    /// Reads the file. None if there is none; a killed hub leaves its file behind.
    pub(crate) fn read(data_dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = data_dir.join("hub.json");
        let text = match fs_err::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).context("cannot find the hub"),
        };
        let name = path.display().to_string();
        let Content { url, pid, certificate_sha256: certificate } =
            serde_json::from_str(&text).map_err(|e| {
                Failure::new(Exit::Failed, format!("{name} is not valid: {e}"))
                    .hint("restart the hub, which writes the file again, or pass --hub URL")
            })?;
        Ok(Some(Self { url: target::parse_url(&url, &name)?, pid, certificate }))
    }

    /// The URL without the final slash.
    pub(crate) fn address(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Whether this is the hub's address. All loopback names are the same host.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        let is_loopback = |url: &Url| target::is_loopback(url) && target::is_loopback(&self.url);
        self.address() == address
            || Url::parse(address).is_ok_and(|url| is_loopback(&url) && target::is_same_hub(&self.url, &url))
    }

    /// Whether a process with the id in the file exists.
    pub(crate) fn is_alive(&self) -> bool {
        let alive = |pid| !matches!(test_kill_process(pid), Err(Errno::SRCH));
        Pid::from_raw(self.pid).is_some_and(alive)
    }

    /// Whether the hub's address belongs to this machine. Only local addresses can be bound.
    pub(crate) fn has_local_address(&self) -> bool {
        target::is_loopback(&self.url)
            || target::ip_address(&self.url)
                .is_some_and(|ip| !ip.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok())
    }
}

/// `plexus.lock`, which a running hub holds. The lock is released when the process ends, also if it is killed.
#[derive(Debug)]
pub(crate) struct HubLock;

impl HubLock {
    /// The id of the process that holds the lock, if known. None if the lock is free.
    pub(crate) fn holder(data_dir: &Path) -> Option<Option<i32>> {
        match Occupant::of(data_dir) {
            Ok(Occupant::Hub(hub)) => Some(Some(hub.pid)),
            Ok(Occupant::Unready(pid)) => Some(pid),
            Ok(Occupant::None) | Err(_) => None,
        }
    }

    /// Whether the process with this id holds the lock. A process in a container has another id inside it.
    pub(crate) fn is_held_by(data_dir: &Path, pid: i32) -> bool {
        let process = Path::new("/proc").join(pid.to_string());
        if !cfg!(target_os = "linux") {
            return Pid::from_raw(pid).is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)));
        }
        let is_program =
            || std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "plexus");
        let lock = std::fs::canonicalize(Self::path(data_dir)).ok();
        match std::fs::read_dir(process.join("fd")) {
            Ok(files) => {
                let mut open = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
                let holds = lock.is_some_and(|lock| open.any(|file| file == lock));
                holds || is_program() && Self::is_pid_in_hub_file(data_dir, pid)
            }
            // The open files of another user's process are not visible.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => is_program(),
            Err(_) => false,
        }
    }

    fn is_pid_in_hub_file(data_dir: &Path, pid: i32) -> bool {
        HubFile::read(data_dir).ok().flatten().is_some_and(|hub| hub.pid == pid)
    }

    fn path(data_dir: &Path) -> std::path::PathBuf {
        data_dir.join("plexus.lock")
    }
}
