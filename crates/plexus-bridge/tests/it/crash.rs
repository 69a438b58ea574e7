//! A process is killed at every step of every operation: each file has its old or its new content, and the ledger is
//! consistent with it.

use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_bridge::agents::Scope;
use plexus_bridge::{ConflictPolicy, StepObserver};
use plexus_proto::api::ExternalAgentFileState;

use crate::home::{Home, PROGRAM, Tree, content};

/// Set for the process to kill: the number of its scenario, the step at which it dies, and its folder.
const SCENARIO_VARIABLE: &str = "PLEXUS_TEST_BRIDGE";

const TOML: &str = "# mine\nmodel = \"o3\" # the one\n\n[tui]\ntheme = 1\n";
const JSON: &str = "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"x\": {}\n  }\n}";

/// An operation that is interrupted.
struct Scenario {
    name: &'static str,
    /// Creates the initial files, which are also the final ones.
    files: fn(&Home),
    /// Prepares the files before the operation.
    prepare: fn(&Home),
    operation: fn(&Home),
    /// Undoes the operation.
    undo: fn(&Home),
}

fn connect_codex(home: &Home) {
    home.connect("codex", &Scope::User, Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
}

fn disconnect_codex(home: &Home) {
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
}

fn codex_files(home: &Home) {
    home.write(".codex/config.toml", TOML);
    home.write(".codex/AGENTS.md", "My rules, without a line end");
}

fn connect_project(home: &Home) {
    home.connect("vscode", &home.project(), Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
}

fn disconnect_project(home: &Home) {
    home.disconnect(&home.key("vscode", &home.project()), ConflictPolicy::Skip).unwrap();
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "connect, with files",
        files: codex_files,
        prepare: |_| {},
        operation: connect_codex,
        undo: disconnect_codex,
    },
    Scenario {
        name: "connect, with nothing there",
        files: |_| {},
        prepare: |_| {},
        operation: connect_codex,
        undo: disconnect_codex,
    },
    Scenario {
        name: "connect a project",
        files: |home| home.write("project/README.md", "x"),
        prepare: |_| {},
        operation: connect_project,
        undo: disconnect_project,
    },
    Scenario {
        name: "connect in JSON",
        files: |home| home.write(".claude.json", JSON),
        prepare: |_| {},
        operation: |home| home.connect_user("claude-code").unwrap(),
        undo: |home| home.disconnect("claude-code", ConflictPolicy::Skip).unwrap(),
    },
    Scenario {
        name: "connect in YAML",
        files: |home| home.write(".config/goose/config.yaml", "extensions:\n  dev: {}\n"),
        prepare: |_| {},
        operation: |home| home.connect_user("goose").unwrap(),
        undo: |home| home.disconnect("goose", ConflictPolicy::Skip).unwrap(),
    },
    Scenario {
        name: "sync",
        files: codex_files,
        prepare: connect_codex,
        operation: |home| {
            let synced = home.bridge.sync(&content("Be brief.\nAnd kind."), None).unwrap();
            assert!(synced.problems.is_empty(), "{:?}", synced.problems);
        },
        undo: disconnect_codex,
    },
    Scenario {
        name: "disconnect",
        files: codex_files,
        prepare: connect_codex,
        operation: disconnect_codex,
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
        operation: disconnect_codex,
        undo: |_| {},
    },
    Scenario {
        name: "disconnect, with nothing left",
        files: |home| home.write("project/README.md", "x"),
        prepare: connect_project,
        operation: disconnect_project,
        undo: |_| {},
    },
    Scenario {
        name: "restore",
        files: codex_files,
        prepare: connect_codex,
        operation: |home| {
            // The two backups from before it was connected.
            for backup in home.bridge.backups().unwrap().iter().rev().take(2) {
                home.bridge.apply(&home.bridge.plan_restore(&backup.id).unwrap(), None).unwrap();
            }
        },
        undo: disconnect_codex,
    },
];

/// Kills the process before a step.
struct Killer {
    steps_left: AtomicUsize,
}

impl StepObserver for Killer {
    fn before_step(&self, _step: &'static str) {
        if self.steps_left.fetch_sub(1, Ordering::SeqCst) == 0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

/// Not a test itself: the test below starts it as a process.
#[test]
#[ignore = "is started by the test below"]
fn operation_until_killed() {
    let Some((_, argument)) = std::env::vars().find(|(name, _)| name == SCENARIO_VARIABLE) else { return };
    let mut words = argument.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
    let (scenario, step) = (number(), number());
    let home = Home::at(Path::new(words.next().unwrap()));
    let home = home.with_observer(Arc::new(Killer { steps_left: AtomicUsize::new(step) }));
    (SCENARIOS[scenario].operation)(&home);
}

/// Runs a scenario in another process; returns whether it was killed. Otherwise it succeeded.
fn run_and_kill(scenario: usize, step: usize, root: &Path) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::operation_until_killed", "--ignored"])
        .env(SCENARIO_VARIABLE, format!("{scenario} {step} {}", root.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    !status.success()
}

/// Checks that each remaining file has its content from before or after the operation.
fn check_old_or_new(now: &Tree, before: &Tree, after: &Tree, beside: bool) {
    for (name, is) in now {
        let known = [before.get(name), after.get(name)].contains(&Some(is));
        // Folders for a file are created before it and removed after it.
        let is_temporary = beside && (name.contains(".plexus-") || is.is_none());
        assert!(known || is_temporary, "{name} is neither the old one nor the new one: {is:?}");
    }
    for (name, old) in before {
        assert!(now.contains_key(name) || !after.contains_key(name), "{name} is gone, and was {old:?}");
    }
}

/// Checks that exactly the files in the ledger contain our content.
fn check_ledger(home: &Home) {
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
    // Run concurrently, because each scenario mostly waits for the disk.
    std::thread::scope(|threads| {
        for (number, scenario) in SCENARIOS.iter().enumerate() {
            threads.spawn(move || kill_at_each_step(number, scenario));
        }
    });
}

fn kill_at_each_step(number: usize, scenario: &Scenario) {
    let undisturbed = Home::new();
    (scenario.files)(&undisturbed);
    let original = undisturbed.tree();
    (scenario.prepare)(&undisturbed);
    (scenario.operation)(&undisturbed);
    let after = undisturbed.tree();
    (scenario.undo)(&undisturbed);
    assert_eq!(undisturbed.tree(), original, "{}", scenario.name);
    let mut step = 0;
    loop {
        let home = Home::new();
        (scenario.files)(&home);
        (scenario.prepare)(&home);
        let before = home.tree();
        if !run_and_kill(number, step, home.root()) {
            assert_eq!(home.tree(), after, "{}", scenario.name);
            break;
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            check_old_or_new(&home.tree(), &before, &after, true);
            home.bridge.ledger().unwrap();
            // Reading the state recovers first, and so does repeating the operation.
            if step % 2 == 0 {
                home.states();
                check_old_or_new(&home.tree(), &before, &after, false);
                check_ledger(&home);
            }
            (scenario.operation)(&home);
            assert_eq!(home.tree(), after, "when it is done again");
            check_ledger(&home);
            (scenario.undo)(&home);
            assert_eq!(home.tree(), original, "when it is taken back");
        }));
        assert!(result.is_ok(), "{}: killed at step {step}", scenario.name);
        step += 1;
    }
    assert!(step > 8, "{} has only {step} steps", scenario.name);
}

/// An agent had the old file open and wrote to it after it had lost its name, and then the process was killed: recovery
/// gives that file its name back.
#[test]
fn a_kill_after_an_agent_wrote_leaves_what_the_agent_wrote() {
    const THEIRS: &str = "{}\n";
    let mut restored_files = 0;
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
            if !run_and_kill(number, step, home.root()) {
                break;
            }
            let now = home.tree();
            let Some(beside) = now.keys().find(|name| name.contains(".plexus-")) else { continue };
            // The temporary file is the old file.
            let old = before.iter().find(|(_, old)| **old == now[beside] && old.is_some());
            let Some((file, _)) = old.filter(|(file, old)| now.get(*file) != Some(*old)) else { continue };
            home.write(beside, THEIRS);
            home.bridge.sync(&content("x"), Some("nobody")).unwrap();
            assert_eq!(home.read(file), THEIRS, "{name}, killed at step {step}");
            assert!(!home.path(beside).exists(), "{name}, killed at step {step}");
            restored_files += 1;
        }
    }
    assert!(restored_files > 6, "only {restored_files} times");
}
