//! Detection of agents with scripts in place of their programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use plexus_kit::{Clock, Environment};
use tempfile::TempDir;

use crate::agents::detect::detect_within;
use crate::agents::{Agent, InstalledAgent, VersionCache, detect, detect_all, is_present};

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

    /// Another process writes the file: if this one had it open, a child of another thread could inherit the
    /// descriptor, and the program could not be run.
    fn program(&self, name: &str, script: &str) -> PathBuf {
        let file = self.folder.path().join("bin").join(name);
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
        let status = Command::new("/bin/sh").args(["-c", write, "sh"]).arg(&file).arg(script).status();
        assert!(status.unwrap().success());
        file
    }

    fn program_printing(&self, name: &str, what: &str) -> PathBuf {
        self.program(name, &format!("[ \"$*\" = --version ] && printf '%s\\n' '{what}'"))
    }

    fn detect(&self, id: &str) -> Option<InstalledAgent> {
        detect(Agent::by_name(id).unwrap(), &self.environment(), &VersionCache::disabled())
    }

    fn is_present(&self, id: &str) -> bool {
        is_present(Agent::by_name(id).unwrap(), &self.environment())
    }
}

fn installed(program: PathBuf, version: Option<&str>) -> Option<InstalledAgent> {
    Some(InstalledAgent { program: Some(program), version: version.map(str::to_owned), folder: None })
}

#[test]
fn agent_version_is_detected() {
    // The output of the releases.
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
        let program = machine.program_printing(program, says);
        assert_eq!(machine.detect(id), installed(program, Some(version)), "{id}");
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
        machine.program_printing(program, says);
        assert_eq!(machine.detect(id), None, "{id}");
    }
    // The next program in the table may still be the agent.
    let editor = machine.program_printing("zeditor", "Zed 1.3.5");
    assert_eq!(machine.detect("zed"), installed(editor, Some("1.3.5")));
}

#[test]
fn failing_program_has_no_version() {
    let machine = Machine::new();
    machine.program("codex", "echo codex-cli 0.166.0; exit 1");
    assert_eq!(machine.detect("codex"), None);
    let code = machine.program("code", "exit 1");
    assert_eq!(machine.detect("vscode"), installed(code, None));
}

#[test]
fn hanging_program_is_killed_with_its_children() {
    let machine = Machine::new();
    let mark = machine.home().join("alive");
    let script = format!("(sleep 60; echo alive) & echo $! >{}; sleep 60", mark.display());
    machine.program("codex", &script);
    let began = Instant::now();
    let codex = Agent::by_name("codex").unwrap();
    assert_eq!(
        detect_within(codex, &machine.environment(), &VersionCache::disabled(), Duration::from_secs(1)),
        None
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let inner = std::fs::read_to_string(mark).unwrap();
    let stat = Path::new("/proc").join(inner.trim()).join("stat");
    // A killed process ends after a moment, and stays a zombie until its parent waits for it.
    let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    while is_alive() {
        assert!(began.elapsed() < Duration::from_secs(20), "{stat:?} goes on");
        std::thread::yield_now();
    }
}

#[test]
fn leftover_child_process_does_not_delay_detection() {
    let machine = Machine::new();
    let codex = machine.program("codex", "sleep 60 & echo codex-cli 0.166.0");
    let began = Instant::now();
    assert_eq!(machine.detect("codex"), installed(codex, Some("0.166.0")));
    assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
}

#[test]
fn long_version_output_is_truncated() {
    let machine = Machine::new();
    let codex = machine.program("codex", "echo codex-cli 0.166.0; head -c 60000 /dev/zero");
    assert_eq!(machine.detect("codex"), installed(codex, Some("0.166.0")));
}

#[test]
fn agent_is_detected_by_its_folder() {
    let machine = Machine::new();
    let folder = machine.home().join(".codeium/windsurf");
    std::fs::create_dir_all(&folder).unwrap();
    assert!(machine.is_present("windsurf"));
    let expected = InstalledAgent { program: None, version: None, folder: Some(folder) };
    assert_eq!(machine.detect("windsurf"), Some(expected));
}

#[test]
fn version_detection_creates_no_files_in_the_home() {
    let machine = Machine::new();
    let makes = "mkdir -p \"$HOME/.gemini\" \"${XDG_CONFIG_HOME:-$HOME/.config}/gemini\"; echo 0.61.0";
    let gemini = machine.program("gemini", makes);
    let config = ("XDG_CONFIG_HOME".to_owned(), machine.home().join("config").display().to_string());
    let environment = machine.environment();
    let all = environment.all().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment: Environment = all.chain([config]).collect();
    let agent = Agent::by_name("gemini").unwrap();
    assert_eq!(detect(agent, &environment, &VersionCache::disabled()), installed(gemini, Some("0.61.0")));
    assert_eq!(std::fs::read_dir(machine.home()).unwrap().count(), 0);
}

#[test]
fn version_is_read_from_the_package_without_running_it() {
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
        assert_eq!(machine.detect(id), installed(made.clone(), Some(version)), "{id}");
        assert!(!made.with_extension("ran").exists(), "{id}");
        // A package of another name is ignored.
        let other = serde_json::json!({ "name": "other", "version": version });
        std::fs::write(folder.join("package.json"), other.to_string()).unwrap();
        assert_ne!(machine.detect(id), installed(made, Some(version)), "{id}");
    }
}

#[test]
fn version_is_read_from_the_path_without_running_it() {
    let machine = Machine::new();
    let versions = machine.folder.path().join("share/claude/versions");
    std::fs::create_dir_all(&versions).unwrap();
    let claude = machine.program("claude", "exit 1");
    std::fs::rename(&claude, versions.join("2.1.325")).unwrap();
    std::os::unix::fs::symlink(versions.join("2.1.325"), &claude).unwrap();
    assert_eq!(machine.detect("claude-code"), installed(claude, Some("2.1.325")));
}

#[test]
fn cached_version_expires_after_a_change_or_a_week() {
    let machine = Machine::new();
    let count = machine.folder.path().join("count");
    let script = |version: &str| format!("echo x >>{}; echo codex-cli {version}", count.display());
    let run_count = || std::fs::read_to_string(&count).unwrap_or_default().lines().count();
    let clock = Clock::manual("2026-11-18T06:00:00Z".parse().unwrap());
    let folder = machine.folder.path().join("data/connect");
    let versions = VersionCache::in_folder(&folder, clock.clone());
    let codex = Agent::by_name("codex").unwrap();
    let version = || detect(codex, &machine.environment(), &versions).and_then(|codex| codex.version);
    machine.program("codex", &script("0.166.0"));
    // The folder is not created without its parent.
    assert_eq!((version().as_deref(), run_count()), (Some("0.166.0"), 1));
    assert!(!folder.parent().unwrap().exists());
    std::fs::create_dir(folder.parent().unwrap()).unwrap();
    for _ in 0..3 {
        assert_eq!((version().as_deref(), run_count()), (Some("0.166.0"), 2));
        let all = detect_all(&machine.environment(), &versions);
        assert_eq!(all[0].1.version.as_deref(), Some("0.166.0"));
    }
    machine.program("codex", &script("0.167.0"));
    assert_eq!((version().as_deref(), run_count()), (Some("0.167.0"), 3));
    clock.advance(Duration::from_secs(8 * 24 * 60 * 60));
    assert_eq!((version().as_deref(), run_count()), (Some("0.167.0"), 4));
    std::fs::write(folder.join("versions.json"), "{").unwrap();
    assert_eq!((version().as_deref(), run_count()), (Some("0.167.0"), 5));
}

#[test]
fn presence_check_runs_no_program() {
    let machine = Machine::new();
    machine.program("codex", "touch \"$0.ran\"");
    assert!(machine.is_present("codex"));
    assert!(!machine.folder.path().join("bin/codex.ran").exists());
}

#[test]
fn secrets_are_not_passed_to_the_program() {
    let machine = Machine::new();
    machine.program("codex", "env >\"${0%/bin/codex}/env\"; echo codex-cli 1.0");
    let secret = [("PLEXUS_TOKEN", "plx"), ("OPENAI_API_KEY", "mine")];
    let more = secret.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = machine.environment();
    let all = environment.all().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment: Environment = all.chain(more).collect();
    assert!(detect(Agent::by_name("codex").unwrap(), &environment, &VersionCache::disabled()).is_some());
    let variables = std::fs::read_to_string(machine.folder.path().join("env")).unwrap();
    assert!(
        variables.contains("HOME=") && secret.iter().all(|(name, _)| !variables.contains(name)),
        "{variables}"
    );
}

#[test]
fn agents_are_detected_concurrently_in_table_order() {
    let machine = Machine::new();
    // Each program waits until the other runs, so sequential detection would time out.
    let rendezvous = |mine: &str, other: &str, says: &str| {
        let folder = machine.folder.path().display();
        let wait = format!("until [ -e '{folder}/{other}' ]; do sleep 0.01; done");
        format!("touch '{folder}/{mine}'; {wait}; echo '{says}'")
    };
    machine.program("goose", &rendezvous("goose", "codex", "1.52.0"));
    machine.program("codex", &rendezvous("codex", "goose", "codex-cli 0.166.0"));
    machine.program_printing("opencode", "not it");
    std::fs::create_dir_all(machine.home().join(".cursor")).unwrap();
    let all = detect_all(&machine.environment(), &VersionCache::disabled());
    let names: Vec<_> = all.iter().map(|(agent, it)| (agent.id, it.version.as_deref())).collect();
    assert_eq!(names, [("codex", Some("0.166.0")), ("cursor", None), ("goose", Some("1.52.0"))]);
}
