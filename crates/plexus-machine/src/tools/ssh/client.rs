//! The system's ssh, and how it is started.
//!
//! Options that the owner's configuration must not change are given on the command line, where the first word wins. All
//! programs are started in the node's folder for sockets, so that the path of a socket is its name alone: a unix socket has
//! room for about a hundred bytes, and folders can be longer than that.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use plexus_kit::{Environment, env, private_file};
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::target::Target;
use crate::policy;

/// For ssh to say how it is configured; `Match exec` may take some time.
const ASKED: Duration = Duration::from_secs(10);
/// In the folder of the sockets: what takes the place of the configuration in the home folder.
const CONFIG: &str = "config";
/// What ssh calls the keys that are tried where no configuration names one.
const KEYS: [&str; 5] = ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"];

/// Of every connection, whatever the owner's configuration says.
const FIRM: &[&str] = &[
    // Nobody is there to be asked.
    "BatchMode=yes",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "StrictHostKeyChecking=yes",
    "NoHostAuthenticationForLocalhost=no",
    "UpdateHostKeys=no",
    // The host gets commands and files, and no way back to this machine or its keys.
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "EscapeChar=none",
    // A host that is gone is noticed.
    "ConnectTimeout=15",
    "ConnectionAttempts=1",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "TCPKeepAlive=yes",
    "ControlMaster=yes",
    "ControlPersist=no",
];

/// Of what uses a connection that is there. It reads no configuration, and where the connection is gone it makes none.
const ON_CONNECTION: &[&str] = &[
    "BatchMode=yes",
    "ControlMaster=no",
    "ProxyCommand=false",
    "RequestTTY=no",
    "EscapeChar=none",
    "LogLevel=ERROR",
];

#[derive(Debug)]
pub(super) struct Client {
    environment: Environment,
    home: PathBuf,
    /// Of the sockets.
    folder: PathBuf,
    /// Whether ssh and the node agree on where the home folder is.
    at_home: OnceCell<bool>,
}

impl Client {
    pub(super) fn new(environment: &Environment, folder: PathBuf) -> Self {
        Self {
            home: policy::home(environment),
            environment: environment.clone(),
            folder,
            at_home: OnceCell::new(),
        }
    }

    pub(super) fn socket(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes the connection and keeps it, and runs nothing.
    pub(super) async fn connecting(&self, target: &Target, socket: &str) -> io::Result<Command> {
        let mut command = self.ssh();
        // What was refused, and by whom, is only said at this level. It holds for jump hosts too.
        command.arg("-v");
        if !self.is_at_home().await? {
            command.arg("-F").arg(self.config()?);
            for identity in self.identities(target).await? {
                command.arg("-o").arg(format!("IdentityFile={}", quoted(&identity)?));
            }
        }
        for option in FIRM {
            command.args(["-o", option]);
        }
        command.arg("-o").arg(format!("ControlPath={socket}")).args(["-N", "-T"]);
        whereto(&mut command, target);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs `line` on a connection, by the shell that the user has there.
    pub(super) fn running(&self, target: &Target, socket: &str, line: &str) -> Command {
        let mut command = self.using(socket);
        command.arg("-T");
        whereto(&mut command, target);
        // One word: ssh would join several with spaces, and a shell would take them apart elsewhere.
        command.arg(line);
        command
    }

    /// Speaks to the part of a server that serves files.
    pub(super) fn sftp(&self, target: &Target, socket: &str) -> Command {
        let mut command = self.using(socket);
        command.arg("-s");
        whereto(&mut command, target);
        command.arg("sftp");
        command
    }

    fn using(&self, socket: &str) -> Command {
        let mut command = self.ssh();
        command.args(["-F", "none"]);
        for option in ON_CONNECTION {
            command.args(["-o", option]);
        }
        command.arg("-o").arg(format!("ControlPath={socket}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn ssh(&self) -> Command {
        let mut command = Command::new("ssh");
        command
            .env_clear()
            .envs(self.environment.passed_on())
            // Questions go to a program that has no answer, also those of a jump host, and never to the node's terminal.
            .env("SSH_ASKPASS", "/bin/false")
            .env("SSH_ASKPASS_REQUIRE", "force")
            .current_dir(&self.folder)
            .process_group(0)
            .kill_on_drop(true);
        if let Some(agent) = self.environment.get(env::SSH_AUTH_SOCK) {
            command.env(env::SSH_AUTH_SOCK.name, agent);
        }
        command
    }

    /// ssh takes the home folder from the system's list of users and not from `HOME`.
    async fn is_at_home(&self) -> io::Result<bool> {
        let asked = self.at_home.get_or_try_init(async || {
            let said = self.asked(&["-F", "none", "-G", "--", "localhost"]).await?;
            let known = said.lines().find_map(|line| line.strip_prefix("userknownhostsfile "));
            let home = known.and_then(|files| files.split("/.ssh/known_hosts").next()).unwrap_or_default();
            Ok::<_, io::Error>(is_same(Path::new(home), &self.home))
        });
        asked.await.copied()
    }

    /// Where the node has another home folder than its user: what ssh would read by itself, of that folder. It is also read
    /// for jump hosts, which see nothing of the command line.
    fn config(&self) -> io::Result<PathBuf> {
        let ssh = self.home.join(".ssh");
        let known = [ssh.join("known_hosts"), ssh.join("known_hosts2")];
        let mut text = format!(
            "Include {}\nHost *\n    UserKnownHostsFile {} {}\n",
            quoted(&ssh.join("config"))?,
            quoted(&known[0])?,
            quoted(&known[1])?
        );
        for key in KEYS.map(|name| ssh.join(name)).iter().filter(|key| key.exists()) {
            text.push_str(&format!("    IdentityFile {}\n", quoted(key)?));
        }
        text.push_str("Include /etc/ssh/ssh_config\n");
        let path = self.folder.join(CONFIG);
        if fs_err::read_to_string(&path).ok().as_ref() != Some(&text) {
            private_file::write_unsynced(&path, text.as_bytes())?;
        }
        Ok(path)
    }

    /// The files of keys that the owner's configuration has in the home folder: in that of the node.
    async fn identities(&self, target: &Target) -> io::Result<Vec<PathBuf>> {
        let config = self.config()?.display().to_string();
        let port = target.port.map(|port| port.to_string());
        let mut asking = vec!["-F", &config, "-G"];
        asking.extend(port.iter().flat_map(|port| ["-p", port]));
        asking.extend(target.user.iter().flat_map(|user| ["-l", user]));
        asking.extend(["--", &target.host]);
        let said = self.asked(&asking).await?;
        let below = said.lines().filter_map(|line| line.strip_prefix("identityfile ~/"));
        Ok(below.map(|path| self.home.join(path)).filter(|path| path.exists()).collect())
    }

    async fn asked(&self, arguments: &[&str]) -> io::Result<String> {
        let mut ssh = self.ssh();
        ssh.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        let output = tokio::time::timeout(ASKED, ssh.output()).await??;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn whereto(command: &mut Command, target: &Target) {
    if let Some(port) = target.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(user) = &target.user {
        command.args(["-l", user]);
    }
    command.args(["--", &target.host]);
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one.is_absolute() && real(one) == real(other)
}

/// A path as a configuration of ssh takes it. `%` would stand for something else there.
fn quoted(path: &Path) -> io::Result<String> {
    match path.to_str().filter(|text| !text.contains(['"', '\\', '%', '\n', '$'])) {
        Some(text) => Ok(format!("\"{text}\"")),
        None => Err(io::Error::other("the path of the home folder cannot be told to ssh")),
    }
}

#[cfg(test)]
pub(super) mod tests;
