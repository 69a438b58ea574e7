//! What is said of the agents is complete, and tells them apart.

use std::collections::BTreeSet;
use std::path::Path;

use plexus_kit::Environment;
use serde_json::Value;

use super::{AGENTS, Agent, Scope};

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn each_entry_starts_the_program_with_all_its_words() {
    let args = ["mcp".to_owned(), "--as".to_owned()];
    for agent in AGENTS {
        let entry = agent.entry("/bin/plexus", &args);
        let mut words: Vec<&str> = Vec::new();
        for key in ["command", "cmd", "args"] {
            match entry.get(key) {
                Some(Value::Array(items)) => words.extend(items.iter().filter_map(Value::as_str)),
                Some(Value::String(word)) => words.push(word),
                _ => {}
            }
        }
        assert_eq!(words, ["/bin/plexus", "mcp", "--as"], "{}", agent.id);
        assert!(!entry.to_string().contains('$'), "{}", agent.id);
    }
}

#[test]
fn names_are_of_one_agent_each() {
    let mut names = BTreeSet::new();
    for name in AGENTS.iter().flat_map(|agent| agent.aliases.iter().chain([&agent.id])) {
        assert!(names.insert(*name), "{name}");
    }
}

#[test]
fn all_files_are_below_a_folder_that_was_said() {
    let environment = environment(&[("HOME", "/home/me"), ("CODEX_HOME", "/elsewhere/codex")]);
    for agent in AGENTS {
        for (scope, root) in [(Scope::User, "/home/me"), (Scope::Project("/src/p".into()), "/src/p")] {
            for place in agent.places(&environment, &scope) {
                let root =
                    if agent.id == "codex" && scope == Scope::User { "/elsewhere/codex" } else { root };
                assert!(place.path().starts_with(root), "{}: {}", agent.id, place.path().display());
            }
        }
    }
}

#[test]
fn without_a_home_there_is_no_file_of_a_user() {
    for home in [&[][..], &[("HOME", "relative/path")]] {
        let environment = environment(home);
        for agent in AGENTS {
            assert!(agent.places(&environment, &Scope::User).is_empty(), "{}", agent.id);
        }
    }
}

#[test]
fn a_variable_that_is_no_whole_path_does_not_count() {
    let environment = environment(&[("HOME", "/home/me"), ("CODEX_HOME", "../up")]);
    let places = Agent::named("codex").unwrap().places(&environment, &Scope::User);
    assert_eq!(places[0].path(), Path::new("/home/me/.codex/config.toml"));
}
