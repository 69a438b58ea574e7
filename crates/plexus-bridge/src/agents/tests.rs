//! Tests of the agent table, of file locations, of detection, and of edits to files that releases have written.

mod detection;
mod goldens;
mod locations;

use std::collections::BTreeSet;

use plexus_kit::Environment;
use serde_json::Value;

use super::{AGENTS, Agent, Location, Root, Scope, VersionOutput};

const PROGRAM: &str = "/usr/local/bin/plexus";

/// The entry that starts the proxy, as in the goldens.
fn entry(agent: &Agent) -> Value {
    agent.entry(PROGRAM, &["mcp".to_owned(), "--agent".to_owned(), agent.id.to_owned()])
}

fn files(agent: &Agent) -> impl Iterator<Item = &'static Location> {
    let servers = [&agent.user, &agent.project].into_iter().flatten().map(|servers| servers.files);
    let texts = [&agent.user_instructions, &agent.project_instructions]
        .into_iter()
        .flatten()
        .map(|texts| texts.files);
    servers.chain(texts).flatten()
}

#[test]
fn agent_names_are_unique() {
    let names = AGENTS.iter().flat_map(|agent| agent.aliases.iter().chain([&agent.id]));
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(seen.insert(*name), "{name} is a duplicate");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        assert!(Agent::by_name(name).is_some_and(|agent| agent.id == *name || agent.aliases.contains(name)));
    }
    assert!(Agent::by_name("nobody").is_none());
}

#[test]
fn entry_templates_are_filled_completely() {
    for agent in AGENTS {
        let template: Value = serde_json::from_str(agent.entry).unwrap();
        assert!(template.is_object(), "{}", agent.id);
        let entry = entry(agent).to_string();
        assert!(!entry.contains('$'), "{}: {entry}", agent.id);
        for word in [PROGRAM, "mcp", "--agent", agent.id] {
            assert!(entry.contains(&format!("\"{word}\"")), "{}: {entry}", agent.id);
        }
    }
}

#[test]
fn paths_are_plain_and_one_file_of_each_list_may_be_created() {
    for agent in AGENTS {
        assert!(agent.user.is_some(), "{}", agent.id);
        assert!(!agent.programs.is_empty() && !agent.folders.is_empty() && !agent.keys.is_empty());
        for file in files(agent) {
            let plain = file.relative_path.split('/').all(|part| !["", ".", ".."].contains(&part));
            assert!(plain, "{}: {}", agent.id, file.relative_path);
        }
        let lists = [
            agent.user.as_ref().map(|servers| servers.files),
            agent.project.as_ref().map(|servers| servers.files),
            agent.user_instructions.as_ref().map(|texts| texts.files),
            agent.project_instructions.as_ref().map(|texts| texts.files),
        ];
        for list in lists.into_iter().flatten() {
            let creatable = list.iter().filter(|file| !file.existing_only).count();
            assert_eq!(creatable, 1, "{}: {list:?}", agent.id);
        }
    }
}

#[test]
fn only_project_files_are_in_the_project() {
    for agent in AGENTS {
        let of_project = [
            agent.project.as_ref().map(|servers| servers.files),
            agent.project_instructions.as_ref().map(|texts| texts.files),
        ];
        let of_user = [
            agent.user.as_ref().map(|servers| servers.files),
            agent.user_instructions.as_ref().map(|texts| texts.files),
        ];
        assert!(
            of_project.into_iter().flatten().flatten().all(|file| file.root == Root::Project),
            "{}",
            agent.id
        );
        assert!(
            of_user.into_iter().flatten().flatten().all(|file| file.root != Root::Project),
            "{}",
            agent.id
        );
    }
}

#[test]
fn project_inherits_manual_step_of_user() {
    let project = Scope::Project("/project".into());
    for agent in AGENTS {
        assert!(agent.manual_step.is_none() || agent.manual_step(&project).is_some());
        assert_eq!(agent.manual_step(&Scope::User), agent.manual_step);
    }
    let codex = Agent::by_name("codex").unwrap();
    assert!(codex.manual_step(&Scope::User).is_none() && codex.manual_step(&project).is_some());
}

#[test]
fn ambiguous_program_names_require_a_version_output() {
    for id in ["goose", "zed", "codex"] {
        assert_ne!(Agent::by_name(id).unwrap().version_output, VersionOutput::Any, "{id}");
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn all_files_are_below_the_root_of_their_scope() {
    let environment = environment(&[("HOME", "/home/me"), ("CODEX_HOME", "/elsewhere/codex")]);
    for agent in AGENTS {
        for (scope, root) in [(Scope::User, "/home/me"), (Scope::Project("/src/p".into()), "/src/p")] {
            for file in agent.writable_paths(&environment, &scope) {
                let root =
                    if agent.id == "codex" && scope == Scope::User { "/elsewhere/codex" } else { root };
                assert!(file.path().starts_with(root), "{}: {}", agent.id, file.path().display());
            }
        }
    }
}

#[test]
fn user_files_need_an_absolute_home() {
    for home in [&[][..], &[("HOME", "relative/path")]] {
        let environment = environment(home);
        for agent in AGENTS {
            assert!(agent.writable_paths(&environment, &Scope::User).is_empty(), "{}", agent.id);
        }
    }
}

#[test]
fn relative_path_in_variable_is_ignored() {
    let environment = environment(&[("HOME", "/home/me"), ("CODEX_HOME", "../up")]);
    let files = Agent::by_name("codex").unwrap().writable_paths(&environment, &Scope::User);
    assert!(files.iter().all(|file| file.path().starts_with("/home/me/.codex")), "{files:?}");
}
