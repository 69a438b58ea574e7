//! A third-party agent as its users run it, with its own home folder.
//!
//! It inherits neither the test's environment nor credentials, is configured not to contact its vendor, and has a
//! closed port as the proxy for everything but loopback. Its whole process group is killed with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::process::Child;
use tokio::task::JoinHandle;

use crate::{Pinned, ProgramOutput, loopback};

/// Time limit for an agent's task.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for its output to end after it has exited.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// The discard port of this machine, which has no listener.
const CLOSED_PROXY: &str = "http://127.0.0.1:9";

/// Folders in the home for programs that are not configured otherwise.
const FOLDERS: [(&str, &str); 5] = [
    ("TMPDIR", TEMPORARY_FOLDER),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];
const TEMPORARY_FOLDER: &str = "tmp";

/// The installed agents of a set, and the home folder in which they run.
#[derive(Debug)]
pub struct AgentHome {
    dir: TempDir,
    programs: Pinned,
    variables: Vec<(String, String)>,
}

impl AgentHome {
    /// Runs the body of a `#[test]` with a fresh home, on loopback only; see [`on_loopback`].
    ///
    /// [`on_loopback`]: crate::on_loopback
    pub fn on_loopback<F: AsyncFnOnce(Self)>(set: &str, body: F) {
        let runtime = loopback::runtime();
        // Install missing programs outside the namespace, which has no network.
        let Some(home) = runtime.block_on(Self::of(set)) else { return };
        loopback::run(runtime, &loopback::test_name::<F>(), body(home));
    }

    /// A fresh home for the agents of this set of `scripts/node/`; `None` on a machine without npm, except in CI.
    pub async fn of(set: &str) -> Option<Self> {
        let programs = Pinned::npm(set).await?;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let home = Self { dir, programs, variables: vec![] };
        for folder in [home.work(), home.path().join(TEMPORARY_FOLDER)] {
            std::fs::create_dir(folder).expect("a folder");
        }
        Some(home)
    }

    /// Adds a variable to the environment of every program that is run.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A file of the installed set.
    pub fn installed(&self, file: &str) -> PathBuf {
        self.programs.path(file)
    }

    /// The agent's working folder: empty, and not a repository.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Writes a file in the home, and creates its folders as needed.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// Starts a program of the set without waiting.
    pub fn start(&self, program: &str, args: &[&str]) -> Agent {
        let home = self.dir.path();
        let mut command = self.programs.command(program, home);
        command
            .args(args)
            .env("LANG", "C.UTF-8")
            .envs(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, CLOSED_PROXY)))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        for (name, folder) in FOLDERS {
            command.env(name, home.join(folder));
        }
        command.current_dir(self.work()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().expect("the agent starts");
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("a running process");
        let stdout = read(child.stdout.take().expect("its output"));
        let stderr = read(child.stderr.take().expect("its errors"));
        Agent { child, group, stdout, stderr }
    }

    /// Runs a program of the set to its end.
    pub async fn run(&self, program: &str, args: &[&str]) -> ProgramOutput {
        self.start(program, args).end().await
    }
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    /// Its process group: the program that npm installs may only start another one.
    group: Pid,
    // Read continuously, because an agent with a full pipe would stop.
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

impl Agent {
    /// Waits until it has finished its task.
    pub async fn end(mut self) -> ProgramOutput {
        let exit_status = tokio::time::timeout(RUN_TIMEOUT, self.child.wait()).await;
        // Remaining child processes would keep the output open.
        self.kill();
        let outputs = async { tokio::join!(&mut self.stdout, &mut self.stderr) };
        let (stdout, stderr) =
            tokio::time::timeout(OUTPUT_TIMEOUT, outputs).await.expect("an end of its output");
        let (stdout, stderr) = (stdout.expect("its output"), stderr.expect("its errors"));
        let Ok(status) = exit_status else {
            panic!("the agent did not finish; its output:\n{stdout}\n{stderr}")
        };
        ProgramOutput { code: status.expect("a status").code(), stdout, stderr }
    }

    fn kill(&self) {
        // The process group may already be gone.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read(mut pipe: impl tokio::io::AsyncRead + Unpin + Send + 'static) -> JoinHandle<String> {
    let all = async move {
        let mut bytes = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut pipe, &mut bytes).await;
        String::from_utf8_lossy(&bytes).into_owned()
    };
    tokio::runtime::Handle::current().spawn(all)
}
