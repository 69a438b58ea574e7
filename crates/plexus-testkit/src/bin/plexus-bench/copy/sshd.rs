//! An SSH server for one run, with its own keys, port and configuration.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::process::ProcessTree;

const SSHD: &str = "/usr/sbin/sshd";

pub(super) struct Sshd {
    _server: ProcessTree,
    folder: PathBuf,
    port: u16,
}

impl Sshd {
    pub(super) async fn start(folder: &Path) -> Result<Self> {
        ensure!(Path::new(SSHD).is_file(), "{SSHD} does not exist (Debian: openssh-server)");
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for key in ["host", "user"] {
            let keygen = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join(key))
                .status()
                .context("cannot run ssh-keygen (Debian: openssh-client)")?;
            ensure!(keygen.success(), "ssh-keygen failed");
        }
        fs::copy(folder.join("user.pub"), folder.join("authorized")).context("the user's key")?;
        let port = free_port()?;
        let host = fs::read_to_string(folder.join("host.pub")).context("the host's key")?;
        fs::write(folder.join("known"), format!("[127.0.0.1]:{port} {host}")).context("known hosts")?;
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPidFile none\nSubsystem sftp internal-sftp\n",
            folder.display()
        );
        fs::write(folder.join("config"), settings).context("its configuration")?;
        // As root, sshd requires this folder.
        let _ = fs::create_dir_all("/run/sshd");
        let mut command = Command::new(SSHD);
        command.args(["-D", "-e", "-f"]).arg(folder.join("config")).stdout(Stdio::null());
        let mut server = ProcessTree::start(command, folder.join("log"))?;
        server.wait_for("it listened", || std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await?;
        Ok(Self { _server: server, folder: folder.to_owned(), port })
    }

    /// A path in the notation of scp.
    pub(super) fn remote(&self, path: &Path) -> String {
        format!("127.0.0.1:{}", path.display())
    }

    pub(super) fn scp(&self, from: &str, to: &str) -> Command {
        let mut command = Command::new("scp");
        let option = |name: &str, file: &str| format!("{name}={}", self.folder.join(file).display());
        command
            .args(["-q", "-F", "none", "-P", &self.port.to_string(), "-o", "BatchMode=yes"])
            .args(["-o", &option("UserKnownHostsFile", "known"), "-o", &option("IdentityFile", "user")])
            .args(["-o", "IdentitiesOnly=yes", from, to]);
        command
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a free port")?;
    Ok(listener.local_addr().context("its port")?.port())
}
