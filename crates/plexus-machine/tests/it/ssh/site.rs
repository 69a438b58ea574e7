//! A machine with keys and an ssh configuration in its home folder, and a host that it can reach.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plexus_tools::CallError;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::server::{Server, keygen, sshd};
use crate::workbench::Workbench;

pub(super) struct Site {
    pub(super) bench: Workbench,
    pub(super) server: Server,
    /// A folder on the host, which is the same machine.
    pub(super) host_folder: tempfile::TempDir,
}

impl Site {
    /// The host is known by its address and accepts the key in the home folder.
    pub(super) async fn new() -> Option<Self> {
        Self::with(Vec::new(), "").await
    }

    pub(super) async fn with(variables: Vec<(&'static str, String)>, server: &str) -> Option<Self> {
        let sshd = sshd()?;
        let bench = Workbench::with_variables(variables).await;
        let ssh = bench.home().join(".ssh");
        fs::create_dir(&ssh).unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).unwrap();
        keygen(&ssh.join("id_ed25519"));
        let public = fs::read_to_string(ssh.join("id_ed25519.pub")).unwrap();
        let server = Server::start(sshd, &public, server).await;
        let site = Self { bench, server, host_folder: tempfile::tempdir().unwrap() };
        site.know(site.server.port);
        Some(site)
    }

    pub(super) fn ssh(&self) -> PathBuf {
        self.bench.home().join(".ssh")
    }

    pub(super) fn public_key(&self) -> String {
        fs::read_to_string(self.ssh().join("id_ed25519.pub")).unwrap()
    }

    /// Records the key of the host in known_hosts.
    pub(super) fn know(&self, port: u16) {
        let file = self.ssh().join("known_hosts");
        let known = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, format!("{known}[127.0.0.1]:{port} {}", self.server.host_key())).unwrap();
    }

    pub(super) fn forget(&self) {
        fs::write(self.ssh().join("known_hosts"), "").unwrap();
    }

    pub(super) fn configure(&self, config: &str) {
        fs::write(self.ssh().join("config"), config).unwrap();
    }

    /// Adds the host to arguments that name none.
    pub(super) fn arguments(&self, mut arguments: Value) -> Value {
        if arguments.get("host").is_none() {
            arguments["host"] = json!("127.0.0.1");
            arguments["port"] = json!(self.server.port);
        }
        arguments
    }

    pub(super) async fn ask(&self, arguments: Value) -> Result<Value, CallError> {
        self.ask_in("test", self.arguments(arguments)).await
    }

    pub(super) async fn ask_in(&self, session: &str, arguments: Value) -> Result<Value, CallError> {
        let call = self.bench.call_in(session, "ssh_exec", arguments, CancellationToken::new(), None);
        Ok(call.await?.structured().unwrap().into_owned())
    }

    /// Runs a shell line on the host to its end.
    pub(super) async fn sh(&self, command: &str) -> Value {
        self.ask(json!({ "action": "run", "command": command })).await.unwrap()
    }

    pub(super) fn policy(&self, text: &str) {
        let file = self.bench.folder().join("node.toml");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.server.port).into()
    }

    /// The content of the socket folder, without the configuration.
    pub(super) fn sockets(&self) -> Vec<String> {
        names(&self.bench.folder().join("ssh")).into_iter().filter(|name| name != "config").collect()
    }
}

/// The names in a folder.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
