//! `plexus run`, `plexus ps` and `plexus stop`, with small scripts in the place of agents.

mod faults;
mod given;
mod life;
mod terminal;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Plexus, Ran};
use serde_json::Value;
use tokio::process::{Child, Command};

/// Far beyond what anything here should take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hub, and a folder of programs that comes first on the path.
struct Bench {
    plexus: Plexus,
    hub: Option<HubProcess>,
}

impl Bench {
    async fn new() -> Self {
        let plexus = crate::plexus();
        std::fs::create_dir(plexus.home().join("bin")).unwrap();
        let hub = plexus.up().await;
        Self { plexus, hub: Some(hub) }
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.plexus.home().join(path)
    }

    /// A script that stands in for an agent.
    fn agent(&self, name: &str, script: &str) {
        let path = self.at("bin").join(name);
        std::fs::write(&path, format!("#!/bin/bash\ncd '{}'\n{script}\n", self.plexus.home().display()))
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.plexus.command(env!("CARGO_BIN_EXE_plexus"), args);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.at("bin").display()));
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().expect("the program starts")
    }

    async fn run(&self, args: &[&str]) -> Ran {
        end(self.start(args)).await
    }

    /// Waits for a file that an agent writes, and reads it.
    async fn file(&self, path: &str) -> String {
        let path = self.at(path);
        until(&format!("{} is written", path.display()), async || {
            std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 0)
        })
        .await;
        std::fs::read_to_string(path).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// What `plexus ps` lists.
    async fn ps(&self) -> Vec<Value> {
        self.run(&["ps", "--json"]).await.json(0)["items"].as_array().expect("a list").clone()
    }

    /// Folders of runs.
    fn folders(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(self.plexus.data_dir().join("runs")).into_iter().flatten().flatten();
        folders.map(|folder| folder.path()).collect()
    }

    /// The tokens of runs that can still be used.
    async fn live_tokens(&self) -> Vec<Value> {
        let tokens = self.hub().list("/api/v1/tokens", |_| false).await;
        let is_live = |token: &Value| token["kind"] == "session" && token["revoked_at"].is_null();
        tokens.into_iter().filter(is_live).collect()
    }

    /// Sessions whose key begins like this.
    async fn sessions(&self, key: &str) -> Vec<Value> {
        let mut sessions = self.hub().list("/api/v1/sessions", |_| false).await;
        sessions.retain(|session| session["key"].as_str().is_some_and(|own| own.starts_with(key)));
        sessions
    }

    /// The key of the one session that runs have left, and what was told there of them.
    async fn told(&self) -> (String, Vec<Value>) {
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

    /// The states that were told, in order.
    async fn states(&self) -> Vec<String> {
        let (_, told) = self.told().await;
        told.iter().map(|payload| payload["state"].as_str().unwrap().to_owned()).collect()
    }

    async fn is_cleared(&self) {
        assert_eq!(self.folders(), Vec::<PathBuf>::new());
        assert_eq!(self.live_tokens().await, Vec::<Value>::new());
    }
}

/// The end of a program that was started.
async fn end(child: Child) -> Ran {
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output());
    let output = output.await.expect("it ends in time").expect("its output");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Waits until something holds.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "it does not come to pass that {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a process of this number is there and has not ended.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Every file below a folder, with its content.
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

impl Bench {
    /// The same for a program whose end nobody waits for.
    async fn is_cleared_soon(&self) {
        until("the run is cleared up", async || self.folders().is_empty()).await;
        self.is_cleared().await;
    }
}
