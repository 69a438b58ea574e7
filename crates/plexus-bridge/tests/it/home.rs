//! A home folder with agents in it, and a bridge to them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_bridge::agents::{Agent, Scope};
use plexus_bridge::{
    Bridge, BridgeError, Bundle, ConflictPolicy, Connection, InstructionContent, Plan, ProxyCommand,
    StepObserver,
};
use plexus_kit::{Clock, Environment};
use plexus_proto::api::ExternalAgentFileState;

/// The program that starts the proxy.
pub(crate) const PROGRAM: &str = "/opt/plexus/bin/plexus";

pub(crate) struct Home {
    /// Removed after the test, unless the test passed its own folder.
    _folder: Option<tempfile::TempDir>,
    root: PathBuf,
    pub(crate) bridge: Bridge,
}

/// The content of a folder: files with their mode and bytes, and folders.
pub(crate) type Tree = BTreeMap<String, Option<(u32, Vec<u8>)>>;

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Self::at(folder.path());
        Self { _folder: Some(folder), ..home }
    }

    /// A home in an existing folder, which is not removed.
    pub(crate) fn at(root: &Path) -> Self {
        let home = root.join("home");
        std::fs::create_dir_all(&home).unwrap();
        let environment: Environment =
            [("HOME".to_owned(), home.to_str().unwrap().to_owned())].into_iter().collect();
        let clock = Clock::manual("2026-01-02T03:04:05Z".parse().unwrap());
        let bridge = Bridge::new(&root.join("data/connect"), &environment, clock);
        Self { _folder: None, root: root.to_owned(), bridge }
    }

    /// The same home with an observer of each step.
    pub(crate) fn with_observer(self, steps: Arc<dyn StepObserver>) -> Self {
        Self { bridge: self.bridge.clone().with_observer(steps), ..self }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the ledger.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data/connect")
    }

    pub(crate) fn path(&self, relative_path: &str) -> PathBuf {
        self.root.join("home").join(relative_path)
    }

    pub(crate) fn project(&self) -> Scope {
        Scope::Project(self.path("project"))
    }

    pub(crate) fn write(&self, relative_path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(relative_path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, relative_path: &str) -> String {
        std::fs::read_to_string(self.path(relative_path)).unwrap()
    }

    pub(crate) fn plan(
        &self,
        agent: &str,
        scope: &Scope,
        content: Option<&InstructionContent>,
        policy: ConflictPolicy,
    ) -> Result<Plan, BridgeError> {
        let proxy_command = ProxyCommand { program: PROGRAM.to_owned(), args: vec!["mcp".to_owned()] };
        self.bridge.plan_connect(Agent::by_name(agent).unwrap(), scope, &proxy_command, content, policy)
    }

    /// Connects an agent and returns its first problem.
    pub(crate) fn connect(
        &self,
        agent: &str,
        scope: &Scope,
        content: Option<&InstructionContent>,
        policy: ConflictPolicy,
    ) -> Result<(), BridgeError> {
        let plan = self.plan(agent, scope, content, policy)?;
        let connection = connection(agent, scope, content.is_some());
        for change in &plan.changes {
            self.bridge.apply(change, Some(&connection))?;
        }
        plan.problems.into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn connect_user(&self, agent: &str) -> Result<(), BridgeError> {
        self.connect(agent, &Scope::User, None, ConflictPolicy::Skip)
    }

    /// Removes our content from all files of a connection and returns the first problem.
    pub(crate) fn disconnect(&self, key: &str, policy: ConflictPolicy) -> Result<(), BridgeError> {
        let plan = self.bridge.plan_disconnect(key, policy)?;
        for change in &plan.changes {
            self.bridge.apply(change, None)?;
        }
        self.bridge.forget(key)?;
        plan.problems.into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn key(&self, agent: &str, scope: &Scope) -> String {
        Bridge::key(Agent::by_name(agent).unwrap(), scope)
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        walk(&self.path(""), &self.path(""), &mut tree);
        tree
    }

    /// The state of each file of each connection, by its path in the home.
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

/// Instructions with this text.
pub(crate) fn content(text: &str) -> InstructionContent {
    let files = vec![("SOUL.md".to_owned(), text.to_owned())];
    InstructionContent {
        bundle: Bundle { folder: PathBuf::from("/workspace"), files, omitted: Vec::new() },
        max_bytes: 32 << 10,
    }
}

/// The error message of a refused change.
pub(crate) fn error_text(result: Result<(), BridgeError>) -> String {
    result.expect_err("it should be refused").to_string()
}
