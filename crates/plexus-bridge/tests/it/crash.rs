//! A process that is killed at every step of every operation: each file is the old one or the new one, and the ledger
//! agrees with it.

use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_bridge::agents::Scope;
use plexus_bridge::{Policy, Steps};
use plexus_proto::api::ExternalAgentFileState;

use crate::home::{Home, PROGRAM, Tree, content};

/// Set for the process that is killed: what it does, at which step it dies, and where.
const DOES: &str = "PLEXUS_TEST_BRIDGE";

const TOML: &str = "# mine\nmodel = \"o3\" # the one\n\n[tui]\ntheme = 1\n";
const JSON: &str = "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"x\": {}\n  }\n}";

/// What may be cut short.
struct Scenario {
    name: &'static str,
    /// What is there at first, and in the end.
    files: fn(&Home),
    /// What is done to them before.
    prepare: fn(&Home),
    act: fn(&Home),
    /// Takes all of it back.
    undo: fn(&Home),
}

fn connect_codex(home: &Home) {
    home.connect("codex", &Scope::User, Some(&content("Be kind.")), Policy::Skip).unwrap();
}

fn disconnect_codex(home: &Home) {
    home.disconnect("codex", Policy::Skip).unwrap();
}

fn codex_files(home: &Home) {
    home.write(".codex/config.toml", TOML);
    home.write(".codex/AGENTS.md", "My rules, without a line end");
}

fn connect_project(home: &Home) {
    home.connect("vscode", &home.project(), Some(&content("Be kind.")), Policy::Skip).unwrap();
}

fn disconnect_project(home: &Home) {
    home.disconnect(&home.key("vscode", &home.project()), Policy::Skip).unwrap();
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "connect, with files",
        files: codex_files,
        prepare: |_| {},
        act: connect_codex,
        undo: disconnect_codex,
    },
    Scenario {
        name: "connect, with nothing there",
        files: |_| {},
        prepare: |_| {},
        act: connect_codex,
        undo: disconnect_codex,
    },
    Scenario {
        name: "connect a project",
        files: |home| home.write("project/README.md", "x"),
        prepare: |_| {},
        act: connect_project,
        undo: disconnect_project,
    },
    Scenario {
        name: "connect in JSON",
        files: |home| home.write(".claude.json", JSON),
        prepare: |_| {},
        act: |home| home.connect_user("claude-code").unwrap(),
        undo: |home| home.disconnect("claude-code", Policy::Skip).unwrap(),
    },
    Scenario {
        name: "connect in YAML",
        files: |home| home.write(".config/goose/config.yaml", "extensions:\n  dev: {}\n"),
        prepare: |_| {},
        act: |home| home.connect_user("goose").unwrap(),
        undo: |home| home.disconnect("goose", Policy::Skip).unwrap(),
    },
    Scenario {
        name: "sync",
        files: codex_files,
        prepare: connect_codex,
        act: |home| {
            let synced = home.bridge.sync(&content("Be brief.\nAnd kind."), None).unwrap();
            assert!(synced.problems.is_empty(), "{:?}", synced.problems);
        },
        undo: disconnect_codex,
    },
    Scenario {
        name: "disconnect",
        files: codex_files,
        prepare: connect_codex,
        act: disconnect_codex,
        undo: |_| {},
    },
    Scenario {
        name: "disconnect what somebody has written since",
        files: |home| {
            home.write(".codex/config.toml", TOML.replace("theme = 1", "theme = 2"));
            home.write(".codex/AGENTS.md", "First of all.\nMy rules");
        },
        prepare: |home| {
            home.write(".codex/config.toml", TOML);
            home.write(".codex/AGENTS.md", "My rules");
            connect_codex(home);
            let text = home.read(".codex/config.toml").replace("theme = 1", "theme = 2");
            home.write(".codex/config.toml", text);
            let text = home.read(".codex/AGENTS.md");
            home.write(".codex/AGENTS.md", format!("First of all.\n{text}"));
        },
        act: disconnect_codex,
        undo: |_| {},
    },
    Scenario {
        name: "disconnect, with nothing left",
        files: |home| home.write("project/README.md", "x"),
        prepare: connect_project,
        act: disconnect_project,
        undo: |_| {},
    },
    Scenario {
        name: "restore",
        files: codex_files,
        prepare: connect_codex,
        act: |home| {
            // The two from before it was connected.
            for backup in home.bridge.backups().unwrap().iter().rev().take(2) {
                home.bridge.apply(&home.bridge.plan_restore(&backup.id).unwrap(), None).unwrap();
            }
        },
        undo: disconnect_codex,
    },
];

/// Ends the process when it is about to take a step.
struct Killer {
    left: AtomicUsize,
}

impl Steps for Killer {
    fn about_to(&self, _step: &'static str) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

/// No test, but what the other one starts.
#[test]
#[ignore = "is started by the test below"]
fn acts_until_it_is_killed() {
    let Some((_, does)) = std::env::vars().find(|(name, _)| name == DOES) else { return };
    let mut words = does.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
    let (scenario, step) = (number(), number());
    let home = Home::at(Path::new(words.next().unwrap()));
    let home = home.watched(Arc::new(Killer { left: AtomicUsize::new(step) }));
    (SCENARIOS[scenario].act)(&home);
}

/// Whether it was killed. Else it has ended well.
fn killed(scenario: usize, step: usize, root: &Path) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::acts_until_it_is_killed", "--ignored"])
        .env(DOES, format!("{scenario} {step} {}", root.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    !status.success()
}

/// What was left is, file by file, what was before or what comes after.
fn is_old_or_new(now: &Tree, before: &Tree, after: &Tree, beside: bool) {
    for (name, is) in now {
        let known = [before.get(name), after.get(name)].contains(&Some(is));
        // Folders that are made for a file come before it, and go after it.
        let stray = beside && (name.contains(".plexus-") || is.is_none());
        assert!(known || stray, "{name} is neither the old one nor the new one: {is:?}");
    }
    for (name, old) in before {
        assert!(now.contains_key(name) || !after.contains_key(name), "{name} is gone, and was {old:?}");
    }
}

/// What is ours is in a file exactly where the ledger says so.
fn ledger_agrees(home: &Home) {
    let states = home.states();
    for (name, state) in &states {
        assert_eq!(*state, ExternalAgentFileState::Current, "{name}");
    }
    for (name, file) in home.tree() {
        let Some((_, text)) = file else { continue };
        let text = String::from_utf8(text).unwrap();
        let ours = [PROGRAM, "plexus:begin", "Kept by Plexus"].iter().any(|word| text.contains(word));
        assert_eq!(ours, states.contains_key(&name), "{name} holds {text:?}");
    }
}

#[test]
fn a_kill_at_any_step_leaves_the_old_file_or_the_new_one() {
    // Side by side, since each of them mostly waits for the disk.
    std::thread::scope(|threads| {
        for (number, scenario) in SCENARIOS.iter().enumerate() {
            threads.spawn(move || kill_at_each_step(number, scenario));
        }
    });
}

fn kill_at_each_step(number: usize, scenario: &Scenario) {
    let whole = Home::new();
    (scenario.files)(&whole);
    let original = whole.tree();
    (scenario.prepare)(&whole);
    (scenario.act)(&whole);
    let after = whole.tree();
    (scenario.undo)(&whole);
    assert_eq!(whole.tree(), original, "{}", scenario.name);
    let mut step = 0;
    loop {
        let home = Home::new();
        (scenario.files)(&home);
        (scenario.prepare)(&home);
        let before = home.tree();
        if !killed(number, step, home.root()) {
            assert_eq!(home.tree(), after, "{}", scenario.name);
            break;
        }
        let said = catch_unwind(AssertUnwindSafe(|| {
            is_old_or_new(&home.tree(), &before, &after, true);
            home.bridge.ledger().unwrap();
            // Whoever looks first cleans up, and so does whoever acts at once.
            if step % 2 == 0 {
                home.states();
                is_old_or_new(&home.tree(), &before, &after, false);
                ledger_agrees(&home);
            }
            (scenario.act)(&home);
            assert_eq!(home.tree(), after, "when it is done again");
            ledger_agrees(&home);
            (scenario.undo)(&home);
            assert_eq!(home.tree(), original, "when it is taken back");
        }));
        assert!(said.is_ok(), "{}: killed at step {step}", scenario.name);
        step += 1;
    }
    assert!(step > 8, "{} has only {step} steps", scenario.name);
}

/// An agent had the old file open and wrote to it after it had lost its name, and then the process was killed: what the agent
/// wrote gets the name back.
#[test]
fn a_kill_after_an_agent_wrote_leaves_what_the_agent_wrote() {
    const THEIRS: &str = "{}\n";
    let mut times = 0;
    for (number, scenario) in SCENARIOS.iter().enumerate() {
        let name = scenario.name;
        if !["connect in JSON", "disconnect, with nothing left"].contains(&name) {
            continue;
        }
        for step in 0.. {
            let home = Home::new();
            (scenario.files)(&home);
            (scenario.prepare)(&home);
            let before = home.tree();
            if !killed(number, step, home.root()) {
                break;
            }
            let now = home.tree();
            let Some(beside) = now.keys().find(|name| name.contains(".plexus-")) else { continue };
            // The one that stands beside it is the old one.
            let old = before.iter().find(|(_, old)| **old == now[beside] && old.is_some());
            let Some((file, _)) = old.filter(|(file, old)| now.get(*file) != Some(*old)) else { continue };
            home.write(beside, THEIRS);
            home.bridge.sync(&content("x"), Some("nobody")).unwrap();
            assert_eq!(home.read(file), THEIRS, "{name}, killed at step {step}");
            assert!(!home.path(beside).exists(), "{name}, killed at step {step}");
            times += 1;
        }
    }
    assert!(times > 6, "only {times} times");
}
