//! Third-party programs in pinned versions, installed by `scripts/node-env` and `scripts/python-env`.
//!
//! They run with their own home and without the test's environment, and are killed when their handle is dropped.
//! Tests on a machine without npm or Python skip them and print that; in CI that is a failure.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Time limit for the installation, once per machine.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(150);
/// Time limit for the next line of a script, or for its end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder whose `bin/` contains the programs: a virtual environment, or a set of npm packages.
#[derive(Debug, Clone)]
pub struct Pinned {
    folder: PathBuf,
}

impl Pinned {
    /// A set of npm packages: a folder of `scripts/node/`.
    pub async fn npm(set: &str) -> Option<Self> {
        let folder = installed("node-env", &[set]).await?;
        Some(Self { folder })
    }

    /// A Python package with its dependencies.
    pub async fn python(package: &str, version: &str) -> Option<Self> {
        let interpreter = installed("python-env", &[package, version]).await?;
        let folder = interpreter.ancestors().nth(2).expect("a virtual environment").to_owned();
        Some(Self { folder })
    }

    /// A file of the installation.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// One of the programs, with this folder as its home.
    pub fn command(&self, program: &str, home: &Path) -> Command {
        let programs = self.folder.join("bin");
        let mut command = Command::new(programs.join(program));
        command
            .env_clear()
            .env("HOME", home)
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("NO_PROXY", "127.0.0.1,localhost")
            .current_dir(home)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Starts a script (`.py` or `.mjs`) that communicates in lines of JSON and may import the installed packages.
    ///
    /// It gets the token as `PLEXUS_TOKEN`, because arguments are visible to all users of the machine.
    pub fn script(&self, script: &Path, args: &[&str], token: &str) -> Script {
        let home = tempfile::tempdir().expect("a temporary folder");
        let name = script.file_name().expect("the name of a file");
        // Node.js resolves packages relative to the script, whatever the working folder.
        let copy = home.path().join(name);
        std::fs::copy(script, &copy).unwrap_or_else(|e| panic!("{}: {e}", script.display()));
        let interpreter = if script.extension().is_some_and(|kind| kind == "py") { "python" } else { "node" };
        if interpreter == "node" {
            let modules = self.folder.join("node_modules");
            std::os::unix::fs::symlink(modules, home.path().join("node_modules")).expect("a link");
        }
        let mut command = self.command(interpreter, home.path());
        command.arg(copy).args(args).env("PLEXUS_TOKEN", token).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the interpreter runs");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Script { child, lines, _home: home }
    }
}

/// A script in `scripts/` of this crate that drives an SDK, such as `node/client_v1.mjs`.
pub fn sdk_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

/// A running script; its standard error goes to the output of the test.
#[derive(Debug)]
pub struct Script {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _home: TempDir,
}

impl Script {
    /// The next line.
    pub async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await.expect("a line in time");
        let line = line.expect("UTF-8").expect("the script ended early; its output is above");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Waits for its end, which must be successful.
    pub async fn end(mut self) {
        let status = tokio::time::timeout(TIMEOUT, self.child.wait()).await.expect("an end in time");
        let status = status.expect("a status");
        assert!(status.success(), "{status}");
    }
}

/// Runs an installation script of `scripts/`; returns the printed path.
#[expect(clippy::print_stdout, reason = "skipped tests are reported")]
pub(crate) async fn installed(script: &str, args: &[&str]) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let installation = Command::new(path).args(args).kill_on_drop(true).output();
    let installation = tokio::time::timeout(INSTALL_TIMEOUT, installation).await.expect("installed in time");
    let Output { status, stdout, stderr } = installation.expect("the script runs");
    if status.success() {
        return Some(String::from_utf8(stdout).expect("UTF-8").trim().into());
    }
    let why = String::from_utf8_lossy(&stderr);
    // 3: npm, Python or a library is missing on this machine. Any other code is an error.
    assert_eq!(status.code(), Some(3), "{why}");
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI must not leave this out: {why}");
    println!("skipped, because it needs {script} {}: {why}", args.join(" "));
    None
}
