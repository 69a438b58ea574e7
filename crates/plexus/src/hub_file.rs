//! Which hub runs on a data folder: `hub.json` says where it is, and the lock of the folder whether it runs.
//!
//! `hub.json` alone proves nothing: a copy of the folder has it too, and so has a folder whose hub was killed. The lock
//! belongs to the folder itself and ends with the process.

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

/// What a running hub wrote into its data folder.
#[derive(Debug)]
pub(crate) struct HubFile {
    pub(crate) url: Url,
    pub(crate) pid: i32,
    /// SHA-256 of the certificate that it shows, where it speaks TLS.
    pub(crate) certificate: Option<String>,
}

/// Which hub runs on a data folder.
#[derive(Debug)]
pub(crate) enum Occupant {
    Hub(HubFile),
    /// A process holds the folder that has not said where it is: a hub that starts, or a command that writes.
    Unready(Option<i32>),
    Nobody,
}

impl Occupant {
    pub(crate) fn of(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join("plexus.lock");
        // A lock file that cannot be opened is a problem of the hub that would take the lock.
        let Ok(lock) = std::fs::File::open(&path) else { return Ok(Self::Nobody) };
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {}
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Self::Nobody),
        }
        let holder: Option<i32> = std::fs::read_to_string(&path).ok().and_then(|pid| pid.parse().ok());
        // The file of a hub that was killed is replaced when the next one is ready.
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
    /// None where no hub runs; one that was killed leaves its file behind.
    pub(crate) fn read(data_dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = data_dir.join("hub.json");
        let text = match fs_err::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).context("cannot tell where the hub is"),
        };
        let name = path.display().to_string();
        let Content { url, pid, certificate_sha256: certificate } =
            serde_json::from_str(&text).map_err(|e| {
                Failure::new(Exit::Failed, format!("{name} does not say where the hub is: {e}"))
                    .hint("restart the hub, which writes it anew, or pass --hub URL")
            })?;
        Ok(Some(Self { url: target::parse(&url, &name)?, pid, certificate }))
    }

    /// Its URL without a path.
    pub(crate) fn address(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Whether the process that wrote it is there, or at least one with its number.
    pub(crate) fn is_alive(&self) -> bool {
        let alive = |pid| !matches!(test_kill_process(pid), Err(Errno::SRCH));
        Pid::from_raw(self.pid).is_some_and(alive)
    }

    /// Whether the hub's address is one of this machine now: only such a one can be bound here.
    pub(crate) fn is_here(&self) -> bool {
        target::is_loopback(&self.url)
            || target::ip_address(&self.url)
                .is_some_and(|ip| !ip.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok())
    }
}

/// `plexus.lock`: held by the hub on a data folder while it runs, and free after it was killed.
#[derive(Debug)]
pub(crate) struct HubLock;

impl HubLock {
    /// The process that runs a hub on the folder, where it has said which one it is. None: no hub runs there.
    pub(crate) fn holder(data_dir: &Path) -> Option<Option<i32>> {
        match Occupant::of(data_dir) {
            Ok(Occupant::Hub(hub)) => Some(Some(hub.pid)),
            Ok(Occupant::Unready(pid)) => Some(pid),
            Ok(Occupant::Nobody) | Err(_) => None,
        }
    }

    /// Whether this process of this machine is the hub: a process in a container has another number in there.
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
                holds || is_program() && Self::names(data_dir, pid)
            }
            // The process of another user, whose files cannot be seen.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => is_program(),
            Err(_) => false,
        }
    }

    /// Whether `hub.json` says that the hub is this process.
    fn names(data_dir: &Path, pid: i32) -> bool {
        HubFile::read(data_dir).ok().flatten().is_some_and(|hub| hub.pid == pid)
    }

    fn path(data_dir: &Path) -> std::path::PathBuf {
        data_dir.join("plexus.lock")
    }
}
