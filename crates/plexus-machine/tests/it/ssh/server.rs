//! A private sshd on loopback with its own keys, run by the test's user and stopped on drop.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::workbench::poll_until;

const SSHD: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];

/// The path of sshd. `None`: the test is skipped with a message; in CI that is a failure.
#[expect(clippy::print_stdout, reason = "a skipped test prints a message")]
pub(super) fn sshd() -> Option<&'static str> {
    let sshd_path = SSHD.into_iter().find(|path| Path::new(path).exists());
    let clients = ["ssh", "ssh-keygen", "ssh-agent", "ssh-add"];
    let has =
        |name: &&str| Command::new("which").arg(name).output().is_ok_and(|output| output.status.success());
    if let Some(path) = sshd_path.filter(|_| clients.iter().all(has)) {
        return Some(path);
    }
    let left_out = "left out: there is no OpenSSH client and server (Debian: apt-get install openssh-client openssh-server)";
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{left_out}");
    println!("{left_out}");
    None
}

pub(super) fn keygen(file: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file).status();
    assert!(made.unwrap().success());
}

/// The name of the user that runs the test.
pub(super) fn me() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(super) struct Server {
    dir: tempfile::TempDir,
    pub(super) port: u16,
    child: Child,
}

impl Server {
    /// Accepts the given public key; `more` is appended to its configuration.
    pub(super) async fn start(sshd: &str, authorized: &str, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        keygen(&dir.path().join("host_key"));
        fs::write(dir.path().join("authorized_keys"), authorized).unwrap();
        if me() == "root" {
            // sshd changes into this folder, which a service would have created.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let mut log_text = String::new();
        for _ in 0..5 {
            // If another process takes the port first, sshd does not start, and another port is tried.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            // A shell level at which bash does not read the user's ~/.bashrc.
            let config = format!(
                "{more}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\n\
                 PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nLogLevel VERBOSE\nUseDNS no\n\
                 MaxStartups 100\nSubsystem sftp internal-sftp\nSetEnv SHLVL=5\n",
                at = dir.path().display()
            );
            fs::write(dir.path().join("config"), config).unwrap();
            let log = fs::File::create(dir.path().join("log")).unwrap();
            let mut child = Command::new(sshd)
                .args(["-D", "-e", "-f"])
                .arg(dir.path().join("config"))
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            let log = dir.path().join("log");
            let listens = poll_until(async || {
                let log_text = fs::read_to_string(&log).unwrap();
                match child.try_wait().unwrap() {
                    Some(_) => Some(false),
                    None => log_text.contains("Server listening").then_some(true),
                }
            });
            if listens.await {
                return Self { dir, port, child };
            }
            log_text = fs::read_to_string(&log).unwrap();
        }
        panic!("sshd does not start: {log_text}");
    }

    pub(super) fn config(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    pub(super) fn host_key(&self) -> String {
        fs::read_to_string(self.dir.path().join("host_key.pub")).unwrap()
    }

    /// The fingerprint as a person compares it.
    pub(super) fn fingerprint(&self) -> String {
        let output =
            Command::new("ssh-keygen").arg("-lf").arg(self.dir.path().join("host_key.pub")).output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        line.split(' ').nth(1).unwrap().to_owned()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// The number of logins.
    pub(super) fn logins(&self) -> usize {
        self.log().matches("Accepted publickey").count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
