//! The system's ssh program and its command lines.
//!
//! Options that the owner's configuration must not change are given on the command line, where the first value wins.
//! All programs are started in the node's folder for sockets, so that the path of a socket is only its name: a Unix
//! socket path is limited to about 100 bytes, and folder paths can be longer.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use plexus_kit::{Environment, env, private_file};
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::target::Target;
use crate::policy;

/// The timeout for ssh to print its configuration; `Match exec` may take some time.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(10);
/// The file in the socket folder that replaces the configuration in the home folder.
const CONFIG: &str = "config";
/// The key files that ssh tries by default.
const KEYS: [&str; 5] = ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"];

/// Options of every connection, which the owner's configuration cannot change.
const FIXED_OPTIONS: &[&str] = &[
    // Nobody can answer prompts.
    "BatchMode=yes",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "StrictHostKeyChecking=yes",
    "NoHostAuthenticationForLocalhost=no",
    "UpdateHostKeys=no",
    // The host receives commands and files, but no access to this machine or its keys.
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "EscapeChar=none",
    // Detect unreachable hosts.
    "ConnectTimeout=15",
    "ConnectionAttempts=1",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "TCPKeepAlive=yes",
    "ControlMaster=yes",
    "ControlPersist=no",
];

/// Options for using an existing connection. ssh reads no configuration, and opens no connection if this one is lost.
const REUSE_OPTIONS: &[&str] = &[
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
    /// The folder of the sockets.
    folder: PathBuf,
    /// Whether ssh and the node use the same home folder.
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

    /// The command that opens a connection and holds it without running anything.
    pub(super) async fn connect_command(&self, target: &Target, socket: &str) -> io::Result<Command> {
        let mut command = self.base_command();
        // Only this log level reports what was refused and by which host. It also applies to jump hosts.
        command.arg("-v");
        if !self.uses_own_home().await? {
            command.arg("-F").arg(self.config()?);
            for identity in self.identities(target).await? {
                command.arg("-o").arg(format!("IdentityFile={}", quote(&identity)?));
            }
        }
        for option in FIXED_OPTIONS {
            command.args(["-o", option]);
        }
        command.arg("-o").arg(format!("ControlPath={socket}")).args(["-N", "-T"]);
        push_target(&mut command, target);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }

    /// The command that runs `line` over a connection, in the user's login shell.
    pub(super) fn run_command(&self, target: &Target, socket: &str, line: &str) -> Command {
        let mut command = self.reuse_command(socket);
        command.arg("-T");
        push_target(&mut command, target);
        // A single word: ssh would join several with spaces, and the remote shell would split them differently.
        command.arg(line);
        command
    }

    /// The command that starts the SFTP subsystem.
    pub(super) fn sftp_command(&self, target: &Target, socket: &str) -> Command {
        let mut command = self.reuse_command(socket);
        command.arg("-s");
        push_target(&mut command, target);
        command.arg("sftp");
        command
    }

    fn reuse_command(&self, socket: &str) -> Command {
        let mut command = self.base_command();
        command.args(["-F", "none"]);
        for option in REUSE_OPTIONS {
            command.args(["-o", option]);
        }
        command.arg("-o").arg(format!("ControlPath={socket}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn base_command(&self) -> Command {
        let mut command = Command::new("ssh");
        command
            .env_clear()
            .envs(self.environment.inherited())
            // Prompts, including those of a jump host, go to a program that never answers, and never to the node's
            // terminal.
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

    /// ssh takes the home folder from the user database, not from `HOME`.
    async fn uses_own_home(&self) -> io::Result<bool> {
        let is_own_home = self.at_home.get_or_try_init(async || {
            let config_text = self.query_config(&["-F", "none", "-G", "--", "localhost"]).await?;
            let known = config_text.lines().find_map(|line| line.strip_prefix("userknownhostsfile "));
            let home = known.and_then(|files| files.split("/.ssh/known_hosts").next()).unwrap_or_default();
            Ok::<_, io::Error>(is_same(Path::new(home), &self.home))
        });
        is_own_home.await.copied()
    }

    /// If the node's home folder is not the user's: a configuration that includes the files of the node's home
    /// folder. It also applies to jump hosts, which do not see the command line.
    fn config(&self) -> io::Result<PathBuf> {
        let ssh = self.home.join(".ssh");
        let known = [ssh.join("known_hosts"), ssh.join("known_hosts2")];
        let mut text = format!(
            "Include {}\nHost *\n    UserKnownHostsFile {} {}\n",
            quote(&ssh.join("config"))?,
            quote(&known[0])?,
            quote(&known[1])?
        );
        for key in KEYS.map(|name| ssh.join(name)).iter().filter(|key| key.exists()) {
            text.push_str(&format!("    IdentityFile {}\n", quote(key)?));
        }
        text.push_str("Include /etc/ssh/ssh_config\n");
        let path = self.folder.join(CONFIG);
        if fs_err::read_to_string(&path).ok().as_ref() != Some(&text) {
            private_file::write_unsynced(&path, text.as_bytes())?;
        }
        Ok(path)
    }

    /// The key files that the owner's configuration names in the home folder, resolved against the node's home
    /// folder.
    async fn identities(&self, target: &Target) -> io::Result<Vec<PathBuf>> {
        let config = self.config()?.display().to_string();
        let port = target.port.map(|port| port.to_string());
        let mut asking = vec!["-F", &config, "-G"];
        asking.extend(port.iter().flat_map(|port| ["-p", port]));
        asking.extend(target.user.iter().flat_map(|user| ["-l", user]));
        asking.extend(["--", &target.host]);
        let config_text = self.query_config(&asking).await?;
        let below = config_text.lines().filter_map(|line| line.strip_prefix("identityfile ~/"));
        Ok(below.map(|path| self.home.join(path)).filter(|path| path.exists()).collect())
    }

    async fn query_config(&self, arguments: &[&str]) -> io::Result<String> {
        let mut ssh = self.base_command();
        ssh.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        let output = tokio::time::timeout(CONFIG_TIMEOUT, ssh.output()).await??;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn push_target(command: &mut Command, target: &Target) {
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

/// Quotes a path for an ssh configuration. `%` would be expanded there.
fn quote(path: &Path) -> io::Result<String> {
    match path.to_str().filter(|text| !text.contains(['"', '\\', '%', '\n', '$'])) {
        Some(text) => Ok(format!("\"{text}\"")),
        None => {
            Err(io::Error::other("the path of the home folder contains characters that ssh does not support"))
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
