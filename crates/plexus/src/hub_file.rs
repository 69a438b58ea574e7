//! `hub.json`: where the hub on a data folder is, as it says itself while it runs.

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
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
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
