//! Malicious commands at each sandbox level, checked by their effects.
//!
//! Each command is also run without a sandbox, where it has to succeed: a command that does no harm without a
//! sandbox proves nothing about one. Exceptions state their reason.

mod callers;
mod credentials;
mod devices;
mod network;
mod processes;
mod system_calls;
mod variables;
mod writing;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use plexus_machine::launch::SandboxLevel;
use serde_json::{Value, json};

use crate::sandbox::{LEVELS, is_available};
use crate::workbench::Workbench;

/// The content of every protected file.
const SECRET: &str = "what-nobody-is-to-read";

/// A command, and the check whether it has done harm.
struct Case {
    name: &'static str,
    /// `{HOME}` and `{NODE}` are folders, `{PID}` is the node's process, `{OTHER}` another process of the same user.
    command: &'static str,
    harm: fn(&Scene, &Value) -> bool,
    free: WithoutSandbox,
}

/// The effect without a sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WithoutSandbox {
    /// Does harm as any user.
    HarmsAnyUser,
    /// Does harm only as root.
    AsRoot,
    /// Its prerequisites may be missing.
    Unknown,
}

/// A machine with secrets and files to protect.
struct Scene {
    bench: Workbench,
    other: Child,
}

const FILES: &[(&str, &str)] = &[
    (".ssh/id_ed25519", SECRET),
    (".gnupg/private-keys-v1.d/a.key", SECRET),
    (".aws/credentials", SECRET),
    (".local/share/keyrings/login.keyring", SECRET),
    (".config/gh/hosts.yml", SECRET),
    (".netrc", SECRET),
    (".bashrc", "# mine\n"),
    (".config/systemd/user/mine.service", "# mine\n"),
    ("work/notes.txt", "notes\n"),
];

impl Scene {
    async fn new(policy: &str) -> Self {
        let bench = Workbench::with_launcher(policy).await;
        for (name, text) in FILES {
            let path = bench.home().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(bench.folder().join("node.key"), SECRET).unwrap();
        let ssh = bench.home().join(".ssh");
        let other = Command::new("sleep")
            .arg("1000")
            .env("SOMEBODYS", SECRET)
            .current_dir(&ssh)
            .stdin(fs::File::open(ssh.join("id_ed25519")).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { bench, other }
    }

    fn home(&self, name: &str) -> PathBuf {
        self.bench.home().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.home(name)).unwrap_or_default()
    }

    fn fill_placeholders(&self, text: &str) -> String {
        text.replace("{HOME}", &self.bench.home().display().to_string())
            .replace("{NODE}", &self.bench.folder().display().to_string())
            .replace("{PID}", &std::process::id().to_string())
            .replace("{OTHER}", &self.other.id().to_string())
    }

    async fn run(&self, command: &str) -> Value {
        let command = self.fill_placeholders(command);
        self.bench
            .terminal(json!({ "action": "run", "command": command, "cwd": "~/work", "timeout_seconds": 20 }))
            .await
            .unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

/// The output contains the secret.
fn contains_secret(_: &Scene, ran: &Value) -> bool {
    output_text(ran).contains(SECRET)
}

/// All output.
fn output_text(ran: &Value) -> String {
    ["stdout", "stderr"].map(|stream| ran[stream]["text"].as_str().unwrap_or_default().to_owned()).concat()
}

/// The command reported success.
fn reports_success(_: &Scene, ran: &Value) -> bool {
    output_text(ran).lines().any(|line| line == "done")
}

fn policy_with_level(level: SandboxLevel, more: &str) -> String {
    format!("{more}\n[sandbox]\nlevel = \"{level}\"\n")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs all of them at every level, and without a sandbox.
async fn check(cases: &[Case]) {
    check_with_policy("", cases).await;
}

async fn check_with_policy(policy: &str, cases: &[Case]) {
    let mut failures = Vec::new();
    for case in cases {
        let scene = Scene::new(&policy_with_level(SandboxLevel::None, policy)).await;
        let ran = scene.run(case.command).await;
        let expected = match case.free {
            WithoutSandbox::HarmsAnyUser => true,
            WithoutSandbox::AsRoot => is_root(),
            WithoutSandbox::Unknown => (case.harm)(&scene, &ran),
        };
        if (case.harm)(&scene, &ran) != expected {
            failures.push(format!("{}: shows nothing, it fails with nothing to hold it: {ran}", case.name));
        }
    }
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        for case in cases {
            let scene = Scene::new(&policy_with_level(level, policy)).await;
            let ran = scene.run(case.command).await;
            if (case.harm)(&scene, &ran) || contains_secret(&scene, &ran) {
                failures.push(format!("{} is not held by {level}: {ran}", case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A file that exists only after harm was done.
fn remove_if_exists(path: &str) -> bool {
    let existed = Path::new(path).exists();
    let _ = fs::remove_file(path);
    existed
}
