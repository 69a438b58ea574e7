//! A home folder with agents in it, and a bridge to them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_bridge::agents::{Agent, Scope};
use plexus_bridge::{Bridge, BridgeError, Bundle, Connection, Content, Plan, Policy, Steps, Wiring};
use plexus_kit::{Clock, Environment};
use plexus_proto::api::ExternalAgentFileState;

/// What starts the proxy, wherever it is told.
pub(crate) const PROGRAM: &str = "/opt/plexus/bin/plexus";

pub(crate) struct Home {
    /// Removed with the test, unless it was given.
    _folder: Option<tempfile::TempDir>,
    root: PathBuf,
    pub(crate) bridge: Bridge,
}

/// All that is in a folder: files with their mode and content, folders without.
pub(crate) type Tree = BTreeMap<String, Option<(u32, Vec<u8>)>>;

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Self::at(folder.path());
        Self { _folder: Some(folder), ..home }
    }

    /// The same in a folder of somebody else.
    pub(crate) fn at(root: &Path) -> Self {
        let home = root.join("home");
        std::fs::create_dir_all(&home).unwrap();
        let environment: Environment =
            [("HOME".to_owned(), home.to_str().unwrap().to_owned())].into_iter().collect();
        let clock = Clock::manual("2026-01-02T03:04:05Z".parse().unwrap());
        let bridge = Bridge::new(&root.join("data/connect"), &environment, clock);
        Self { _folder: None, root: root.to_owned(), bridge }
    }

    /// The same with somebody who watches what is done.
    pub(crate) fn watched(self, steps: Arc<dyn Steps>) -> Self {
        Self { bridge: self.bridge.clone().watched(steps), ..self }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the ledger is.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data/connect")
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join("home").join(below)
    }

    pub(crate) fn project(&self) -> Scope {
        Scope::Project(self.path("project"))
    }

    pub(crate) fn write(&self, below: &str, text: impl AsRef<[u8]>) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).unwrap()
    }

    pub(crate) fn plan(
        &self,
        agent: &str,
        scope: &Scope,
        content: Option<&Content>,
        policy: Policy,
    ) -> Result<Plan, BridgeError> {
        let wiring = Wiring { program: PROGRAM.to_owned(), args: vec!["mcp".to_owned()] };
        self.bridge.plan_connect(Agent::named(agent).unwrap(), scope, &wiring, content, policy)
    }

    /// Connects an agent; the first problem ends it.
    pub(crate) fn connect(
        &self,
        agent: &str,
        scope: &Scope,
        content: Option<&Content>,
        policy: Policy,
    ) -> Result<(), BridgeError> {
        let plan = self.plan(agent, scope, content, policy)?;
        let connection = connection(agent, scope, content.is_some());
        for change in &plan.changes {
            self.bridge.apply(change, Some(&connection))?;
        }
        plan.problems.into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn connect_user(&self, agent: &str) -> Result<(), BridgeError> {
        self.connect(agent, &Scope::User, None, Policy::Skip)
    }

    /// The same for what is ours in all files of a connection.
    pub(crate) fn disconnect(&self, key: &str, policy: Policy) -> Result<(), BridgeError> {
        let plan = self.bridge.plan_disconnect(key, policy)?;
        for change in &plan.changes {
            self.bridge.apply(change, None)?;
        }
        self.bridge.forget(key)?;
        plan.problems.into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn key(&self, agent: &str, scope: &Scope) -> String {
        Bridge::key(Agent::named(agent).unwrap(), scope)
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        walk(&self.path(""), &self.path(""), &mut tree);
        tree
    }

    /// How each file of each connection is, by its path in the home.
    pub(crate) fn states(&self) -> BTreeMap<String, ExternalAgentFileState> {
        let agents = self.bridge.status("here", &[]).unwrap();
        let home = self.path("");
        let name = |path: &str| Path::new(path).strip_prefix(&home).unwrap().to_str().unwrap().to_owned();
        agents.iter().flat_map(|agent| &agent.files).map(|file| (name(&file.path), file.state)).collect()
    }
}

fn walk(folder: &Path, root: &Path, tree: &mut Tree) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            tree.insert(name, None);
            walk(&path, root, tree);
        } else if metadata.is_file() {
            let mode = metadata.permissions().mode() & 0o7777;
            tree.insert(name, Some((mode, std::fs::read(&path).unwrap())));
        }
    }
}

pub(crate) fn connection(agent: &str, scope: &Scope, instructions: bool) -> Connection {
    Connection {
        agent: agent.to_owned(),
        project: match scope {
            Scope::User => None,
            Scope::Project(folder) => Some(folder.clone()),
        },
        connected_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        version: None,
        hub: None,
        variables: Default::default(),
        paused: false,
        instructions,
        last_sync_at: None,
        files: Vec::new(),
        troubles: Vec::new(),
    }
}

/// Instructions with this in them.
pub(crate) fn content(text: &str) -> Content {
    let files = vec![("SOUL.md".to_owned(), text.to_owned())];
    Content {
        bundle: Bundle { folder: PathBuf::from("/workspace"), files, left_out: Vec::new() },
        most: 32 << 10,
    }
}

/// What went wrong, in words.
pub(crate) fn why(result: Result<(), BridgeError>) -> String {
    result.expect_err("it should be refused").to_string()
}
