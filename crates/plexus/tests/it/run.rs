//! `plexus run`, `plexus ps` and `plexus stop`, with scripts in place of agents.

mod faults;
mod launch;
mod lifecycle;
mod terminal;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, ProgramOutput, until};
use serde_json::Value;
use tokio::process::{Child, Command};

/// Far longer than anything here should take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A home with a hub, and a folder of scripts that is first on the path.
struct RunnerHome {
    plexus: Plexus,
    hub: Option<HubProcess>,
}

impl RunnerHome {
    async fn new() -> Self {
        let plexus = crate::plexus();
        std::fs::create_dir(plexus.home().join("bin")).unwrap();
        let hub = plexus.up().await;
        Self { plexus, hub: Some(hub) }
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    fn path(&self, file: &str) -> PathBuf {
        self.plexus.home().join(file)
    }

    /// Adds a script in place of an agent.
    fn add_agent(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/bash\ncd '{}'\n{script}\n", self.plexus.home().display()))
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.plexus.command(env!("CARGO_BIN_EXE_plexus"), args);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().expect("the program starts")
    }

    async fn run(&self, args: &[&str]) -> ProgramOutput {
        end(self.start(args)).await
    }

    /// Waits for a file that an agent writes; returns its content.
    async fn file(&self, path: &str) -> String {
        let path = self.path(path);
        until(&format!("{} is written", path.display()), async || {
            std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 0)
        })
        .await;
        std::fs::read_to_string(path).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The runs that `plexus ps` lists.
    async fn ps(&self) -> Vec<Value> {
        self.run(&["ps", "--json"]).await.json(0)["items"].as_array().expect("a list").clone()
    }

    /// The folders of runs.
    fn folders(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(self.plexus.data_dir().join("runs")).into_iter().flatten().flatten();
        folders.map(|folder| folder.path()).collect()
    }

    /// The tokens of runs that are not revoked.
    async fn live_tokens(&self) -> Vec<Value> {
        let tokens = self.hub().list("/api/v1/tokens", |_| false).await;
        let is_live = |token: &Value| token["kind"] == "session" && token["revoked_at"].is_null();
        tokens.into_iter().filter(is_live).collect()
    }

    /// Sessions with this prefix of their key.
    async fn sessions(&self, key: &str) -> Vec<Value> {
        let mut sessions = self.hub().list("/api/v1/sessions", |_| false).await;
        sessions.retain(|session| session["key"].as_str().is_some_and(|own| own.starts_with(key)));
        sessions
    }

    /// The key of the only session of runs, and the notifications in it.
    async fn notifications(&self) -> (String, Vec<Value>) {
        let sessions = self.hub().list("/api/v1/sessions", |_| false).await;
        let of_runs: Vec<&Value> = sessions
            .iter()
            .filter(|session| session["owner"].as_str().is_some_and(|owner| owner.starts_with("session:")))
            .collect();
        let [session] = of_runs.as_slice() else { panic!("{sessions:#?}") };
        let events = self.hub().events(session["id"].as_str().unwrap()).await;
        let payloads = events.iter().filter(|event| event["kind"] == "notification");
        let payloads: Vec<Value> = payloads.map(|event| event["payload"].clone()).collect();
        assert!(payloads.iter().all(|payload| payload["source"] == "run"), "{events:#?}");
        (session["key"].as_str().unwrap().to_owned(), payloads)
    }

    /// The states in the notifications, in order.
    async fn states(&self) -> Vec<String> {
        let (_, notifications) = self.notifications().await;
        notifications.iter().map(|payload| payload["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until no folder of a run is left, when the test does not wait for the end of the program.
    async fn wait_until_cleaned_up(&self) {
        until("the folders of runs are removed", async || self.folders().is_empty()).await;
        self.assert_cleaned_up().await;
    }

    async fn assert_cleaned_up(&self) {
        assert_eq!(self.folders(), Vec::<PathBuf>::new());
        assert_eq!(self.live_tokens().await, Vec::<Value>::new());
    }
}

/// Waits for the end of a program.
async fn end(child: Child) -> ProgramOutput {
    let output = tokio::time::timeout(TIMEOUT, child.wait_with_output());
    let output = output.await.expect("it ends in time").expect("its output");
    ProgramOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Whether a process with this id is running.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// All files below a folder, with their contents.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(tree(&entry.path())),
            false => found.push((entry.path(), std::fs::read(entry.path()).unwrap_or_default())),
        }
    }
    found.sort();
    found
}
