//! An agent that writes its own file at the same moment: nothing of it is lost, at whichever step it does.

use std::io::{Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plexus_bridge::agents::Scope;
use plexus_bridge::{Policy, Steps};
use plexus_proto::api::ExternalAgentFileState;

use crate::home::{Home, PROGRAM, content};

const FILE: &str = ".codex/config.toml";
const BEFORE: &str = "model = \"o3\"\n\n[tui]\ntheme = 1\n";
const THEIRS: &str = "model = \"o3\"\n\n[tui]\ntheme = 2\nnew = true\n";

/// How somebody else writes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    /// A new file takes the place of the old one.
    Rename,
    /// The file is cut to nothing and written anew.
    InPlace,
    /// The same in a file that was opened before anything was done.
    Opened,
    /// The file goes, and another one comes.
    Anew,
    /// As in place, but it is not written before the test says so.
    Begun,
}

const MANNERS: [Manner; 4] = [Manner::Rename, Manner::InPlace, Manner::Opened, Manner::Anew];

/// Writes the file at one step, and keeps the names of all.
struct Agent {
    path: PathBuf,
    text: String,
    manner: Manner,
    at: usize,
    step: AtomicUsize,
    open: Mutex<Option<std::fs::File>>,
    seen: Mutex<Vec<&'static str>>,
}

impl Agent {
    fn new(home: &Home, text: &str, manner: Manner, at: usize) -> Arc<Self> {
        let path = home.path(FILE);
        let open = std::fs::OpenOptions::new().write(true).open(&path).ok();
        Arc::new(Self {
            path,
            text: text.to_owned(),
            manner,
            at,
            step: AtomicUsize::new(0),
            open: Mutex::new(open),
            seen: Mutex::default(),
        })
    }

    /// The step that it wrote at; none where there are not so many.
    fn wrote_at(&self) -> Option<&'static str> {
        self.seen.lock().unwrap().get(self.at).copied()
    }
}

impl Steps for Agent {
    fn about_to(&self, step: &'static str) {
        self.seen.lock().unwrap().push(step);
        if self.step.fetch_add(1, Ordering::SeqCst) != self.at {
            return;
        }
        match self.manner {
            Manner::Rename => {
                let beside = self.path.with_extension("agent");
                std::fs::write(&beside, &self.text).unwrap();
                std::fs::rename(&beside, &self.path).unwrap();
            }
            Manner::Begun => *self.open.lock().unwrap() = Some(std::fs::File::create(&self.path).unwrap()),
            Manner::InPlace => std::fs::write(&self.path, &self.text).unwrap(),
            Manner::Opened => {
                let mut open = self.open.lock().unwrap();
                let file = open.as_mut().unwrap();
                file.set_len(0).unwrap();
                file.rewind().unwrap();
                file.write_all(self.text.as_bytes()).unwrap();
            }
            Manner::Anew => {
                let _ = std::fs::remove_file(&self.path);
                std::fs::write(&self.path, &self.text).unwrap();
            }
        }
    }
}

/// Steps after which the new file has the name: who writes by the name then, writes over ours.
const IN_PLACE: [&str; 7] = [
    "look at the old file",
    "sync the folder",
    "look at the old file again",
    "remove the old file",
    "remove the folders",
    "write the ledger",
    "end",
];

/// What is too late to be seen: the old file is gone, or about to be.
const TOO_LATE: [&str; 4] = ["remove the old file", "write the ledger", "end", "remove the folders"];

fn no_strays(home: &Home) {
    let strays: Vec<String> = home.tree().into_keys().filter(|name| name.contains(".plexus-")).collect();
    assert!(strays.is_empty(), "{strays:?}");
}

#[test]
fn what_an_agent_writes_while_it_is_connected_stays() {
    for manner in MANNERS {
        for at in 0.. {
            let home = Home::new();
            home.write(FILE, BEFORE);
            let agent = Agent::new(&home, THEIRS, manner, at);
            let home = home.watched(agent.clone());
            home.connect_user("codex").unwrap();
            let Some(step) = agent.wrote_at() else { break };
            let (text, state) = (home.read(FILE), home.states()[FILE]);
            let told = format!("{manner:?} when about to {step}: {text}");
            if manner == Manner::Opened && TOO_LATE.contains(&step) {
                // It writes to a file that has no name any more, which nobody can see.
                assert!(text.starts_with(BEFORE), "{told}");
            } else if manner != Manner::Opened && IN_PLACE.contains(&step) {
                assert_eq!(text, THEIRS, "{told}");
                assert_eq!(state, ExternalAgentFileState::Removed, "{told}");
            } else {
                assert!(text.starts_with(THEIRS) && text.contains(PROGRAM), "{told}");
                assert_eq!(state, ExternalAgentFileState::Current, "{told}");
            }
            no_strays(&home);
            // Whatever it was, connecting again and disconnecting leaves what is theirs.
            let theirs = if text.starts_with(THEIRS) { THEIRS } else { BEFORE };
            home.connect_user("codex").unwrap();
            assert!(home.read(FILE).contains(PROGRAM), "{told}");
            home.disconnect("codex", Policy::Skip).unwrap();
            assert_eq!(home.read(FILE), theirs, "{told}");
        }
    }
}

/// The worst moment: the file is empty, and all that the agent knows is still to be written to it.
#[test]
fn a_file_that_an_agent_is_writing_is_left_to_it() {
    for at in 0.. {
        let home = Home::new();
        home.write(FILE, BEFORE);
        let agent = Agent::new(&home, THEIRS, Manner::Begun, at);
        let home = home.watched(agent.clone());
        let connected = home.connect_user("codex");
        let Some(step) = agent.wrote_at() else { break };
        agent.open.lock().unwrap().as_mut().unwrap().write_all(THEIRS.as_bytes()).unwrap();
        assert_eq!(home.read(FILE), THEIRS, "{step}");
        match connected {
            Ok(()) => assert!(IN_PLACE.contains(&step), "{step}"),
            Err(error) => assert!(error.is_retryable(), "{step}: {error}"),
        }
        no_strays(&home);
        home.connect_user("codex").unwrap();
        home.disconnect("codex", Policy::Skip).unwrap();
        assert_eq!(home.read(FILE), THEIRS, "{step}");
    }
}

#[test]
fn what_an_agent_writes_while_it_is_disconnected_stays() {
    for manner in MANNERS {
        for at in 0.. {
            let home = Home::new();
            home.write(FILE, BEFORE);
            home.connect_user("codex").unwrap();
            let theirs = home.read(FILE).replace(BEFORE, THEIRS);
            let agent = Agent::new(&home, &theirs, manner, at);
            let home = home.watched(agent.clone());
            home.disconnect("codex", Policy::Skip).unwrap();
            let Some(step) = agent.wrote_at() else { break };
            let (text, told) = (home.read(FILE), format!("{manner:?} when about to {step}"));
            if manner == Manner::Opened && TOO_LATE.contains(&step) {
                assert_eq!(text, BEFORE, "{told}");
            } else if manner != Manner::Opened && IN_PLACE.contains(&step) {
                assert_eq!(text, theirs, "{told}");
            } else {
                assert_eq!(text, THEIRS, "{told}");
            }
            no_strays(&home);
        }
    }
}

/// A file that was made by us is taken away, unless somebody has written in it.
#[test]
fn what_an_agent_writes_while_its_file_is_taken_away_stays() {
    for manner in MANNERS {
        for at in 0.. {
            let home = Home::new();
            std::fs::create_dir(home.path(".codex")).unwrap();
            home.connect_user("codex").unwrap();
            let theirs = format!("theme = 2\n\n{}", home.read(FILE));
            let agent = Agent::new(&home, &theirs, manner, at);
            let home = home.watched(agent.clone());
            home.disconnect("codex", Policy::Skip).unwrap();
            let Some(step) = agent.wrote_at() else { break };
            let text = std::fs::read_to_string(home.path(FILE)).ok();
            let told = format!("{manner:?} when about to {step}: {text:?}");
            let after = ["remove what was taken away", "remove the folders", "write the ledger", "end"];
            let moved = ["sync the folder", "look at what was taken away"];
            match manner {
                Manner::Opened if after.contains(&step) => assert_eq!(text, None, "{told}"),
                // By its name it is a new file, which has all that the agent knows.
                Manner::Opened => assert_eq!(text.as_deref(), Some("theme = 2\n\n"), "{told}"),
                _ if after.contains(&step) || moved.contains(&step) => {
                    assert_eq!(text.as_deref(), Some(theirs.as_str()), "{told}");
                }
                _ => assert_eq!(text.as_deref(), Some("theme = 2\n\n"), "{told}"),
            }
            no_strays(&home);
        }
    }
}

/// A link that is put in the way at any step is not followed, and keeps no other command from its work.
#[test]
fn symlink_created_during_the_walk_is_not_followed() {
    struct Linker {
        path: PathBuf,
        at: usize,
        step: AtomicUsize,
    }
    impl Steps for Linker {
        fn about_to(&self, _step: &'static str) {
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
        let home = home.watched(linker.clone());
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
        no_strays(&home);
        home.connect("claude-code", &Scope::User, Some(&content("Be kind.")), Policy::Skip).unwrap();
        home.disconnect("claude-code", Policy::Skip).unwrap();
    }
}

/// No step is agreed on here: an agent writes as fast as it can, and what it wrote last is there.
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
        for result in [home.connect_user("codex"), home.disconnect("codex", Policy::Skip)] {
            let known = |error: &plexus_bridge::BridgeError| error.is_retryable();
            assert!(result.as_ref().err().is_none_or(known), "{result:?}");
        }
    }
    agent.join().unwrap();
    home.connect_user("codex").unwrap();
    assert!(home.read(FILE).contains(PROGRAM));
    home.disconnect("codex", Policy::Skip).unwrap();
    assert_eq!(home.read(FILE), "count = 2000\n");
    no_strays(&home);
}
