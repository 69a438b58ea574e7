//! Agents are found by programs that stand in for theirs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use plexus_kit::{Clock, Environment};
use tempfile::TempDir;

use crate::agents::detect::detect_within;
use crate::agents::{Agent, Installed, Versions, detect, detect_all, present};

/// A home and a folder of programs.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for inner in ["home", "bin"] {
            std::fs::create_dir(folder.path().join(inner)).unwrap();
        }
        Self { folder }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn environment(&self) -> Environment {
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        let home = self.home().display().to_string();
        [("HOME".to_owned(), home), ("PATH".to_owned(), path)].into_iter().collect()
    }

    /// Another process writes it: where this one had it open, a child of another thread might have it open still when it
    /// is to be run.
    fn program(&self, name: &str, script: &str) -> PathBuf {
        let file = self.folder.path().join("bin").join(name);
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
        let status = Command::new("/bin/sh").args(["-c", write, "sh"]).arg(&file).arg(script).status();
        assert!(status.unwrap().success());
        file
    }

    fn says(&self, name: &str, what: &str) -> PathBuf {
        self.program(name, &format!("[ \"$*\" = --version ] && printf '%s\\n' '{what}'"))
    }

    fn detect(&self, id: &str) -> Option<Installed> {
        detect(Agent::named(id).unwrap(), &self.environment(), &Versions::nowhere())
    }

    fn is_present(&self, id: &str) -> bool {
        present(Agent::named(id).unwrap(), &self.environment())
    }
}

fn found(program: PathBuf, version: Option<&str>) -> Option<Installed> {
    Some(Installed { program: Some(program), version: version.map(str::to_owned), folder: None })
}

#[test]
fn an_agent_is_found_with_what_it_says_of_its_version() {
    // As the releases say it.
    let cases = [
        ("codex", "codex", "codex-cli 0.166.0", "0.166.0"),
        ("claude-code", "claude", "2.1.325 (Claude Code)", "2.1.325"),
        ("gemini", "gemini", "0.61.0", "0.61.0"),
        ("opencode", "opencode", "1.18.33", "1.18.33"),
        ("goose", "goose", " 1.52.0", "1.52.0"),
        ("zed", "zeditor", "Zed 1.3.5 /usr/lib/zed/zed-editor", "1.3.5"),
        ("vscode", "code", "1.120.0\n0000000\nx64", "1.120.0"),
        ("cursor", "cursor-agent", "2026.09.18-7ae6800", "2026.09.18-7ae6800"),
    ];
    for (id, program, says, version) in cases {
        let machine = Machine::new();
        assert_eq!(machine.detect(id), None, "{id}");
        assert!(!machine.is_present(id), "{id}");
        let program = machine.says(program, says);
        assert_eq!(machine.detect(id), found(program, Some(version)), "{id}");
        assert!(machine.is_present(id), "{id}");
    }
}

#[test]
fn another_program_of_the_same_name_is_not_the_agent() {
    let machine = Machine::new();
    let cases = [
        ("goose", "goose", "goose version: v3.24.2"),
        ("zed", "zed", "zed-2.3.1"),
        ("codex", "codex", "1.0.0"),
        ("claude-code", "claude", "claude 0.3"),
        ("opencode", "opencode", "opencode version 0.0.55"),
        ("gemini", "gemini", "gemini, a browser, 1.2"),
    ];
    for (id, program, says) in cases {
        machine.says(program, says);
        assert_eq!(machine.detect(id), None, "{id}");
    }
    // The one that the table has next may be it all the same.
    let editor = machine.says("zeditor", "Zed 1.3.5");
    assert_eq!(machine.detect("zed"), found(editor, Some("1.3.5")));
}

#[test]
fn a_program_that_fails_is_no_answer() {
    let machine = Machine::new();
    machine.program("codex", "echo codex-cli 0.166.0; exit 1");
    assert_eq!(machine.detect("codex"), None);
    let code = machine.program("code", "exit 1");
    assert_eq!(machine.detect("vscode"), found(code, None));
}

#[test]
fn a_program_that_hangs_is_given_up_with_all_it_started() {
    let machine = Machine::new();
    let mark = machine.home().join("alive");
    let script = format!("(sleep 60; echo alive) & echo $! >{}; sleep 60", mark.display());
    machine.program("codex", &script);
    let began = Instant::now();
    let codex = Agent::named("codex").unwrap();
    assert_eq!(
        detect_within(codex, &machine.environment(), &Versions::nowhere(), Duration::from_secs(1)),
        None
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let inner = std::fs::read_to_string(mark).unwrap();
    let stat = Path::new("/proc").join(inner.trim()).join("stat");
    // A killed process takes its moment, and stays by name until somebody asks how it ended.
    let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    while is_alive() {
        assert!(began.elapsed() < Duration::from_secs(20), "{stat:?} goes on");
        std::thread::yield_now();
    }
}

#[test]
fn who_leaves_somebody_behind_is_not_waited_for() {
    let machine = Machine::new();
    let codex = machine.program("codex", "sleep 60 & echo codex-cli 0.166.0");
    let began = Instant::now();
    assert_eq!(machine.detect("codex"), found(codex, Some("0.166.0")));
    assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
}

#[test]
fn much_talk_is_cut() {
    let machine = Machine::new();
    let codex = machine.program("codex", "echo codex-cli 0.166.0; head -c 60000 /dev/zero");
    assert_eq!(machine.detect("codex"), found(codex, Some("0.166.0")));
}

#[test]
fn a_folder_is_enough() {
    let machine = Machine::new();
    let folder = machine.home().join(".codeium/windsurf");
    std::fs::create_dir_all(&folder).unwrap();
    assert!(machine.is_present("windsurf"));
    let expected = Installed { program: None, version: None, folder: Some(folder) };
    assert_eq!(machine.detect("windsurf"), Some(expected));
}

#[test]
fn asking_for_a_version_leaves_nothing_in_the_home() {
    let machine = Machine::new();
    let makes = "mkdir -p \"$HOME/.gemini\" \"${XDG_CONFIG_HOME:-$HOME/.config}/gemini\"; echo 0.61.0";
    let gemini = machine.program("gemini", makes);
    let config = ("XDG_CONFIG_HOME".to_owned(), machine.home().join("config").display().to_string());
    let environment = machine.environment();
    let all = environment.all().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment: Environment = all.chain([config]).collect();
    let agent = Agent::named("gemini").unwrap();
    assert_eq!(detect(agent, &environment, &Versions::nowhere()), found(gemini, Some("0.61.0")));
    assert_eq!(std::fs::read_dir(machine.home()).unwrap().count(), 0);
}

#[test]
fn a_package_names_its_version_without_being_run() {
    let cases = [
        ("codex", "codex", "lib/node_modules/@openai/codex", "bin/codex.js", "@openai/codex", "0.166.0"),
        (
            "gemini",
            "gemini",
            "lib/node_modules/@google/gemini-cli",
            "dist/index.js",
            "@google/gemini-cli",
            "0.61.0",
        ),
        ("vscode", "code", "share/code/resources/app", "../../bin/code", "Code", "1.120.0"),
    ];
    for (id, name, package, program, called, version) in cases {
        let machine = Machine::new();
        let folder = machine.folder.path().join(package);
        let target = folder.join(program);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let package = serde_json::json!({ "name": called, "version": version });
        std::fs::write(folder.join("package.json"), package.to_string()).unwrap();
        let made = machine.program(name, "touch \"$0.ran\"; exit 1");
        std::fs::rename(&made, &target).unwrap();
        std::os::unix::fs::symlink(&target, &made).unwrap();
        assert_eq!(machine.detect(id), found(made.clone(), Some(version)), "{id}");
        assert!(!made.with_extension("ran").exists(), "{id}");
        // A package of another name says nothing.
        let other = serde_json::json!({ "name": "other", "version": version });
        std::fs::write(folder.join("package.json"), other.to_string()).unwrap();
        assert_ne!(machine.detect(id), found(made, Some(version)), "{id}");
    }
}

#[test]
fn a_path_with_a_version_names_it_without_a_run() {
    let machine = Machine::new();
    let versions = machine.folder.path().join("share/claude/versions");
    std::fs::create_dir_all(&versions).unwrap();
    let claude = machine.program("claude", "exit 1");
    std::fs::rename(&claude, versions.join("2.1.325")).unwrap();
    std::os::unix::fs::symlink(versions.join("2.1.325"), &claude).unwrap();
    assert_eq!(machine.detect("claude-code"), found(claude, Some("2.1.325")));
}

#[test]
fn a_program_is_asked_again_only_when_it_has_changed_or_a_week_is_over() {
    let machine = Machine::new();
    let count = machine.folder.path().join("count");
    let script = |version: &str| format!("echo x >>{}; echo codex-cli {version}", count.display());
    let asked = || std::fs::read_to_string(&count).unwrap_or_default().lines().count();
    let clock = Clock::manual("2026-11-18T06:00:00Z".parse().unwrap());
    let folder = machine.folder.path().join("data/connect");
    let versions = Versions::in_folder(&folder, clock.clone());
    let codex = Agent::named("codex").unwrap();
    let version = || detect(codex, &machine.environment(), &versions).and_then(|codex| codex.version);
    machine.program("codex", &script("0.166.0"));
    // Without a folder around it nothing is made.
    assert_eq!((version().as_deref(), asked()), (Some("0.166.0"), 1));
    assert!(!folder.parent().unwrap().exists());
    std::fs::create_dir(folder.parent().unwrap()).unwrap();
    for _ in 0..3 {
        assert_eq!((version().as_deref(), asked()), (Some("0.166.0"), 2));
        let all = detect_all(&machine.environment(), &versions);
        assert_eq!(all[0].1.version.as_deref(), Some("0.166.0"));
    }
    machine.program("codex", &script("0.167.0"));
    assert_eq!((version().as_deref(), asked()), (Some("0.167.0"), 3));
    clock.advance(Duration::from_secs(8 * 24 * 60 * 60));
    assert_eq!((version().as_deref(), asked()), (Some("0.167.0"), 4));
    std::fs::write(folder.join("versions.json"), "{").unwrap();
    assert_eq!((version().as_deref(), asked()), (Some("0.167.0"), 5));
}

#[test]
fn to_look_runs_nothing() {
    let machine = Machine::new();
    machine.program("codex", "touch \"$0.ran\"");
    assert!(machine.is_present("codex"));
    assert!(!machine.folder.path().join("bin/codex.ran").exists());
}

#[test]
fn no_secret_reaches_a_program_that_is_asked() {
    let machine = Machine::new();
    machine.program("codex", "env >\"${0%/bin/codex}/env\"; echo codex-cli 1.0");
    let secret = [("PLEXUS_TOKEN", "plx"), ("OPENAI_API_KEY", "mine")];
    let more = secret.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = machine.environment();
    let all = environment.all().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment: Environment = all.chain(more).collect();
    assert!(detect(Agent::named("codex").unwrap(), &environment, &Versions::nowhere()).is_some());
    let seen = std::fs::read_to_string(machine.folder.path().join("env")).unwrap();
    assert!(seen.contains("HOME=") && secret.iter().all(|(name, _)| !seen.contains(name)), "{seen}");
}

#[test]
fn all_are_asked_at_once_and_named_in_order() {
    let machine = Machine::new();
    // Each waits for the other to be asked, so one after the other would never end well.
    let meet = |mine: &str, other: &str, says: &str| {
        let folder = machine.folder.path().display();
        let wait = format!("until [ -e '{folder}/{other}' ]; do sleep 0.01; done");
        format!("touch '{folder}/{mine}'; {wait}; echo '{says}'")
    };
    machine.program("goose", &meet("goose", "codex", "1.52.0"));
    machine.program("codex", &meet("codex", "goose", "codex-cli 0.166.0"));
    machine.says("opencode", "not it");
    std::fs::create_dir_all(machine.home().join(".cursor")).unwrap();
    let all = detect_all(&machine.environment(), &Versions::nowhere());
    let names: Vec<_> = all.iter().map(|(agent, it)| (agent.id, it.version.as_deref())).collect();
    assert_eq!(names, [("codex", Some("0.166.0")), ("cursor", None), ("goose", Some("1.52.0"))]);
}
