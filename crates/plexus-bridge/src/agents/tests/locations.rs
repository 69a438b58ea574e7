//! Locations of files, by environment and by order of precedence.

use std::path::{Path, PathBuf};

use plexus_kit::Environment;

use crate::agents::{Agent, Scope, choose_file};

fn environment(home: &Path, more: &[(&str, &Path)]) -> Environment {
    let all = more.iter().copied().chain([("HOME", home)]);
    all.map(|(name, value)| (name.to_owned(), value.display().to_string())).collect()
}

fn config(id: &str, environment: &Environment) -> PathBuf {
    let agent = Agent::by_name(id).unwrap();
    choose_file(agent.servers(&Scope::User).unwrap().files, environment, &Scope::User)
        .unwrap()
        .unwrap()
        .path()
}

fn text(id: &str, environment: &Environment, scope: &Scope) -> PathBuf {
    let agent = Agent::by_name(id).unwrap();
    choose_file(agent.instructions(scope).unwrap().files, environment, scope).unwrap().unwrap().path()
}

#[test]
fn variable_of_agent_relocates_its_files() {
    let (home, moved) = (Path::new("/home/me"), Path::new("/elsewhere"));
    let cases = [
        ("codex", "CODEX_HOME", ".codex/config.toml", "config.toml"),
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json", ".claude.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", ".config/opencode/opencode.jsonc", "opencode/opencode.jsonc"),
        ("goose", "XDG_CONFIG_HOME", ".config/goose/config.yaml", "goose/config.yaml"),
    ];
    for (id, variable, default, relocated) in cases {
        assert_eq!(config(id, &environment(home, &[])), home.join(default));
        assert_eq!(config(id, &environment(home, &[(variable, moved)])), moved.join(relocated));
        // A relative path is ignored.
        assert_eq!(config(id, &environment(home, &[(variable, Path::new("here"))])), home.join(default));
    }
    let user = Scope::User;
    let moved_claude = environment(home, &[("CLAUDE_CONFIG_DIR", moved)]);
    assert_eq!(text("claude-code", &moved_claude, &user), moved.join("CLAUDE.md"));
    assert_eq!(text("claude-code", &environment(home, &[]), &user), home.join(".claude/CLAUDE.md"));
}

#[test]
fn user_files_need_a_home() {
    let empty = Environment::default();
    for agent in crate::agents::AGENTS {
        let files = agent.servers(&Scope::User).unwrap().files;
        assert!(choose_file(files, &empty, &Scope::User).unwrap().is_none(), "{}", agent.id);
        assert!(agent.writable_paths(&empty, &Scope::User).is_empty());
    }
}

/// The expected files follow the observed behavior of the releases.
#[test]
fn created_file_does_not_shadow_an_existing_one() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("codex", &[], "AGENTS.md"),
        ("codex", &["AGENTS.md", "AGENTS.override.md"], "AGENTS.override.md"),
        ("claude-code", &[], "CLAUDE.md"),
        ("claude-code", &["AGENTS.md"], "AGENTS.md"),
        ("claude-code", &["AGENTS.md", "CLAUDE.md"], "CLAUDE.md"),
        ("claude-code", &["AGENTS.md", ".claude/CLAUDE.md"], ".claude/CLAUDE.md"),
        ("opencode", &[], "AGENTS.md"),
        ("opencode", &["CLAUDE.md"], "CLAUDE.md"),
        ("gemini", &["AGENTS.md"], "GEMINI.md"),
        ("goose", &[".goosehints"], "AGENTS.md"),
        ("zed", &[], "AGENTS.md"),
        ("zed", &["CLAUDE.md"], "CLAUDE.md"),
        ("zed", &["AGENTS.md", ".rules"], ".rules"),
    ];
    for (id, existing, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        for file in *existing {
            let file = folder.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "Mine.\n").unwrap();
        }
        let environment = environment(folder.path(), &[]);
        let chosen = text(id, &environment, &Scope::Project(folder.path().to_owned()));
        assert_eq!(chosen, folder.path().join(expected), "{id} with {existing:?}");
    }
}

#[test]
fn user_instructions_do_not_shadow_those_shared_with_another_agent() {
    let home = tempfile::tempdir().unwrap();
    let environment = environment(home.path(), &[]);
    assert_eq!(text("codex", &environment, &Scope::User), home.path().join(".codex/AGENTS.md"));
    assert_eq!(text("opencode", &environment, &Scope::User), home.path().join(".config/opencode/AGENTS.md"));
    std::fs::create_dir(home.path().join(".claude")).unwrap();
    std::fs::write(home.path().join(".claude/CLAUDE.md"), "Mine.\n").unwrap();
    assert_eq!(text("opencode", &environment, &Scope::User), home.path().join(".claude/CLAUDE.md"));
}
