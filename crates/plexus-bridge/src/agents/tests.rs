//! The table as such, where files are, who is found, and what the files of releases become.

mod detection;
mod goldens;
mod places;

use std::collections::BTreeSet;

use plexus_kit::Environment;
use serde_json::Value;

use super::{AGENTS, Agent, Location, Root, Says, Scope};

const PROGRAM: &str = "/usr/local/bin/plexus";

/// How an agent is told to start the proxy, in the goldens too.
fn entry(agent: &Agent) -> Value {
    agent.entry(PROGRAM, &["mcp".to_owned(), "--agent".to_owned(), agent.id.to_owned()])
}

fn files(agent: &Agent) -> impl Iterator<Item = &'static Location> {
    let servers = [&agent.user, &agent.project].into_iter().flatten().map(|servers| servers.files);
    let texts = [&agent.user_text, &agent.project_text].into_iter().flatten().map(|texts| texts.files);
    servers.chain(texts).flatten()
}

#[test]
fn every_name_means_one_agent() {
    let names = AGENTS.iter().flat_map(|agent| agent.aliases.iter().chain([&agent.id]));
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(seen.insert(*name), "{name} is there twice");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        assert!(Agent::named(name).is_some_and(|agent| agent.id == *name || agent.aliases.contains(name)));
    }
    assert!(Agent::named("nobody").is_none());
}

#[test]
fn every_entry_is_filled_in() {
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
fn every_path_is_plain_and_one_file_may_be_made() {
    for agent in AGENTS {
        assert!(agent.user.is_some(), "{}", agent.id);
        assert!(!agent.programs.is_empty() && !agent.folders.is_empty() && !agent.keys.is_empty());
        for file in files(agent) {
            let plain = file.below.split('/').all(|part| !["", ".", ".."].contains(&part));
            assert!(plain, "{}: {}", agent.id, file.below);
        }
        let lists = [
            agent.user.as_ref().map(|servers| servers.files),
            agent.project.as_ref().map(|servers| servers.files),
            agent.user_text.as_ref().map(|texts| texts.files),
            agent.project_text.as_ref().map(|texts| texts.files),
        ];
        for list in lists.into_iter().flatten() {
            let made = list.iter().filter(|file| !file.only_there).count();
            assert_eq!(made, 1, "{}: {list:?}", agent.id);
        }
    }
}

#[test]
fn files_of_a_project_are_in_the_project_and_no_others() {
    for agent in AGENTS {
        let of_project = [
            agent.project.as_ref().map(|servers| servers.files),
            agent.project_text.as_ref().map(|texts| texts.files),
        ];
        let of_user = [
            agent.user.as_ref().map(|servers| servers.files),
            agent.user_text.as_ref().map(|texts| texts.files),
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
fn who_is_told_of_a_project_is_told_of_what_holds_for_all() {
    let project = Scope::Project("/project".into());
    for agent in AGENTS {
        assert!(agent.afterwards.is_none() || agent.afterwards(&project).is_some());
        assert_eq!(agent.afterwards(&Scope::User), agent.afterwards);
    }
    let codex = Agent::named("codex").unwrap();
    assert!(codex.afterwards(&Scope::User).is_none() && codex.afterwards(&project).is_some());
}

#[test]
fn an_agent_whose_name_others_have_is_told_from_them() {
    for id in ["goose", "zed", "codex"] {
        assert_ne!(Agent::named(id).unwrap().says, Says::Anything, "{id}");
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
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
    assert!(places.iter().all(|place| place.path().starts_with("/home/me/.codex")), "{places:?}");
}
