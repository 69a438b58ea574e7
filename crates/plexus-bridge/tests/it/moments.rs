//! An agent writes its own file during each step of a change: its content is never lost.

use std::io::{Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plexus_bridge::agents::Scope;
use plexus_bridge::{ConflictPolicy, StepObserver};
use plexus_proto::api::ExternalAgentFileState;

use crate::home::{Home, PROGRAM, content};

const FILE: &str = ".codex/config.toml";
const BEFORE: &str = "model = \"o3\"\n\n[tui]\ntheme = 1\n";
const THEIRS: &str = "model = \"o3\"\n\n[tui]\ntheme = 2\nnew = true\n";

/// How the agent writes its file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WriteMethod {
    /// Renames a new file over the old one.
    Rename,
    /// Truncates the file and writes it again.
    InPlace,
    /// Like `InPlace`, through a descriptor that was opened before the change began.
    ThroughOpenFile,
    /// Removes the file and creates another one.
    RemoveAndCreate,
    /// Truncates the file; the test writes the content later.
    TruncateOnly,
}

const WRITE_METHODS: [WriteMethod; 4] =
    [WriteMethod::Rename, WriteMethod::InPlace, WriteMethod::ThroughOpenFile, WriteMethod::RemoveAndCreate];

/// Writes the file before one step, and records the names of all steps.
struct Agent {
    path: PathBuf,
    text: String,
    method: WriteMethod,
    at: usize,
    step: AtomicUsize,
    open: Mutex<Option<std::fs::File>>,
    observed_steps: Mutex<Vec<&'static str>>,
}

impl Agent {
    fn new(home: &Home, text: &str, method: WriteMethod, at: usize) -> Arc<Self> {
        let path = home.path(FILE);
        let open = std::fs::OpenOptions::new().write(true).open(&path).ok();
        Arc::new(Self {
            path,
            text: text.to_owned(),
            method,
            at,
            step: AtomicUsize::new(0),
            open: Mutex::new(open),
            observed_steps: Mutex::default(),
        })
    }

    /// The step before which it wrote; none if there were fewer steps.
    fn write_step(&self) -> Option<&'static str> {
        self.observed_steps.lock().unwrap().get(self.at).copied()
    }
}

impl StepObserver for Agent {
    fn before_step(&self, step: &'static str) {
        self.observed_steps.lock().unwrap().push(step);
        if self.step.fetch_add(1, Ordering::SeqCst) != self.at {
            return;
        }
        match self.method {
            WriteMethod::Rename => {
                let beside = self.path.with_extension("agent");
                std::fs::write(&beside, &self.text).unwrap();
                std::fs::rename(&beside, &self.path).unwrap();
            }
            WriteMethod::TruncateOnly => {
                *self.open.lock().unwrap() = Some(std::fs::File::create(&self.path).unwrap())
            }
            WriteMethod::InPlace => std::fs::write(&self.path, &self.text).unwrap(),
            WriteMethod::ThroughOpenFile => {
                let mut open = self.open.lock().unwrap();
                let file = open.as_mut().unwrap();
                file.set_len(0).unwrap();
                file.rewind().unwrap();
                file.write_all(self.text.as_bytes()).unwrap();
            }
            WriteMethod::RemoveAndCreate => {
                let _ = std::fs::remove_file(&self.path);
                std::fs::write(&self.path, &self.text).unwrap();
            }
        }
    }
}

/// Steps at which the new file has the name: an agent that opens the path then overwrites our file.
const AFTER_REPLACEMENT: [&str; 7] = [
    "look at the old file",
    "sync the folder",
    "look at the old file again",
    "remove the old file",
    "remove the folders",
    "write the ledger",
    "end",
];

/// Steps after the last check of the old file, which is removed then or about to be.
const AFTER_LAST_CHECK: [&str; 4] = ["remove the old file", "write the ledger", "end", "remove the folders"];

fn check_no_temporary_files(home: &Home) {
    let temporary_files: Vec<String> =
        home.tree().into_keys().filter(|name| name.contains(".plexus-")).collect();
    assert!(temporary_files.is_empty(), "{temporary_files:?}");
}

#[test]
fn what_an_agent_writes_while_it_is_connected_stays() {
    for method in WRITE_METHODS {
        for at in 0.. {
            let home = Home::new();
            home.write(FILE, BEFORE);
            let agent = Agent::new(&home, THEIRS, method, at);
            let home = home.with_observer(agent.clone());
            home.connect_user("codex").unwrap();
            let Some(step) = agent.write_step() else { break };
            let (text, state) = (home.read(FILE), home.states()[FILE]);
            let context = format!("{method:?} when about to {step}: {text}");
            if method == WriteMethod::ThroughOpenFile && AFTER_LAST_CHECK.contains(&step) {
                // It wrote to a file that no longer has a name, which cannot be detected.
                assert!(text.starts_with(BEFORE), "{context}");
            } else if method != WriteMethod::ThroughOpenFile && AFTER_REPLACEMENT.contains(&step) {
                assert_eq!(text, THEIRS, "{context}");
                assert_eq!(state, ExternalAgentFileState::Removed, "{context}");
            } else {
                assert!(text.starts_with(THEIRS) && text.contains(PROGRAM), "{context}");
                assert_eq!(state, ExternalAgentFileState::Current, "{context}");
            }
            check_no_temporary_files(&home);
            // In every case, connecting again and disconnecting leaves the content of the agent.
            let theirs = if text.starts_with(THEIRS) { THEIRS } else { BEFORE };
            home.connect_user("codex").unwrap();
            assert!(home.read(FILE).contains(PROGRAM), "{context}");
            home.disconnect("codex", ConflictPolicy::Skip).unwrap();
            assert_eq!(home.read(FILE), theirs, "{context}");
        }
    }
}

/// The worst moment: the agent has truncated its file and not yet written the content.
#[test]
fn a_file_that_an_agent_is_writing_is_left_to_it() {
    for at in 0.. {
        let home = Home::new();
        home.write(FILE, BEFORE);
        let agent = Agent::new(&home, THEIRS, WriteMethod::TruncateOnly, at);
        let home = home.with_observer(agent.clone());
        let connected = home.connect_user("codex");
        let Some(step) = agent.write_step() else { break };
        agent.open.lock().unwrap().as_mut().unwrap().write_all(THEIRS.as_bytes()).unwrap();
        assert_eq!(home.read(FILE), THEIRS, "{step}");
        match connected {
            Ok(()) => assert!(AFTER_REPLACEMENT.contains(&step), "{step}"),
            Err(error) => assert!(error.is_retryable(), "{step}: {error}"),
        }
        check_no_temporary_files(&home);
        home.connect_user("codex").unwrap();
        home.disconnect("codex", ConflictPolicy::Skip).unwrap();
        assert_eq!(home.read(FILE), THEIRS, "{step}");
    }
}

#[test]
fn what_an_agent_writes_while_it_is_disconnected_stays() {
    for method in WRITE_METHODS {
        for at in 0.. {
            let home = Home::new();
            home.write(FILE, BEFORE);
            home.connect_user("codex").unwrap();
            let theirs = home.read(FILE).replace(BEFORE, THEIRS);
            let agent = Agent::new(&home, &theirs, method, at);
            let home = home.with_observer(agent.clone());
            home.disconnect("codex", ConflictPolicy::Skip).unwrap();
            let Some(step) = agent.write_step() else { break };
            let (text, context) = (home.read(FILE), format!("{method:?} when about to {step}"));
            if method == WriteMethod::ThroughOpenFile && AFTER_LAST_CHECK.contains(&step) {
                assert_eq!(text, BEFORE, "{context}");
            } else if method != WriteMethod::ThroughOpenFile && AFTER_REPLACEMENT.contains(&step) {
                assert_eq!(text, theirs, "{context}");
            } else {
                assert_eq!(text, THEIRS, "{context}");
            }
            check_no_temporary_files(&home);
        }
    }
}

/// A file that we created is removed, unless another program has written it.
#[test]
fn what_an_agent_writes_while_its_file_is_taken_away_stays() {
    for method in WRITE_METHODS {
        for at in 0.. {
            let home = Home::new();
            std::fs::create_dir(home.path(".codex")).unwrap();
            home.connect_user("codex").unwrap();
            let theirs = format!("theme = 2\n\n{}", home.read(FILE));
            let agent = Agent::new(&home, &theirs, method, at);
            let home = home.with_observer(agent.clone());
            home.disconnect("codex", ConflictPolicy::Skip).unwrap();
            let Some(step) = agent.write_step() else { break };
            let text = std::fs::read_to_string(home.path(FILE)).ok();
            let context = format!("{method:?} when about to {step}: {text:?}");
            let after = ["remove what was taken away", "remove the folders", "write the ledger", "end"];
            let moved = ["sync the folder", "look at what was taken away"];
            match method {
                WriteMethod::ThroughOpenFile if after.contains(&step) => assert_eq!(text, None, "{context}"),
                // The content of the agent remains in a new file under the name.
                WriteMethod::ThroughOpenFile => {
                    assert_eq!(text.as_deref(), Some("theme = 2\n\n"), "{context}")
                }
                _ if after.contains(&step) || moved.contains(&step) => {
                    assert_eq!(text.as_deref(), Some(theirs.as_str()), "{context}");
                }
                _ => assert_eq!(text.as_deref(), Some("theme = 2\n\n"), "{context}"),
            }
            check_no_temporary_files(&home);
        }
    }
}

/// A symlink created before any step is not followed, and does not block other commands.
#[test]
fn symlink_created_during_the_walk_is_not_followed() {
    struct Linker {
        path: PathBuf,
        at: usize,
        step: AtomicUsize,
    }
    impl StepObserver for Linker {
        fn before_step(&self, _step: &'static str) {
            if self.step.fetch_add(1, Ordering::SeqCst) == self.at {
                let beside = self.path.with_extension("link");
                std::os::unix::fs::symlink("elsewhere.toml", &beside).unwrap();
                std::fs::rename(&beside, &self.path).unwrap();
            }
        }
    }
    for at in 0.. {
        let home = Home::new();
        home.write(FILE, BEFORE);
        home.write(".codex/elsewhere.toml", "other = 1\n");
        home.write(".codex/AGENTS.md", "Mine.\n");
        let linker = Arc::new(Linker { path: home.path(FILE), at, step: AtomicUsize::new(0) });
        let home = home.with_observer(linker.clone());
        let connected = home.connect_user("codex");
        if linker.step.load(Ordering::SeqCst) <= at {
            break;
        }
        if let Err(error) = connected {
            let why = "is a symbolic link to elsewhere.toml; links are not followed";
            assert_eq!(error.to_string(), format!("{} {why}", home.path(FILE).display()), "step {at}");
        }
        assert_eq!(home.read(".codex/elsewhere.toml"), "other = 1\n", "step {at}");
        assert!(home.path(FILE).is_symlink(), "step {at}");
        check_no_temporary_files(&home);
        home.connect("claude-code", &Scope::User, Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
        home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    }
}

/// Without synchronization with the steps, an agent writes as fast as it can: its last version remains.
#[test]
fn constantly_rewritten_file_is_left_to_its_agent() {
    let home = Home::new();
    home.write(FILE, "count = 0\n");
    let path = home.path(FILE);
    let agent = std::thread::spawn(move || {
        for count in 1..=2000 {
            let beside = path.with_extension("agent");
            std::fs::write(&beside, format!("count = {count}\n")).unwrap();
            std::fs::rename(&beside, &path).unwrap();
        }
    });
    while !agent.is_finished() {
        for result in [home.connect_user("codex"), home.disconnect("codex", ConflictPolicy::Skip)] {
            let is_expected = |error: &plexus_bridge::BridgeError| error.is_retryable();
            assert!(result.as_ref().err().is_none_or(is_expected), "{result:?}");
        }
    }
    agent.join().unwrap();
    home.connect_user("codex").unwrap();
    assert!(home.read(FILE).contains(PROGRAM));
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "count = 2000\n");
    check_no_temporary_files(&home);
}
