//! What connecting makes of files that the releases have written, and that nothing of them is lost.
//!
//! `scripts/golden-configs` makes the files. What is expected of them is in `snapshots`, byte by byte.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::entry;
use crate::SERVER;
use crate::agents::{AGENTS, Agent, Servers};

/// Fields of an entry that the release writes and we do not, or the other way round, and why it is the same to it.
const DEFAULTS: &[(&str, &[&str], &[&str])] = &[
    // No variables, as without it.
    ("claude-code", &["env"], &[]),
    // One that is not said to be off is on.
    ("opencode", &[], &["enabled"]),
    ("goose", &["description", "envs", "env_keys", "cwd", "bundled"], &[]),
];

fn folder(agent: &Agent) -> PathBuf {
    let version = agent.tested.unwrap_or("by-hand");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agents").join(agent.id).join(version)
}

/// A file of this name with what it ends in.
fn golden(agent: &Agent, name: &str) -> Option<(String, &'static str)> {
    let kinds = ["toml", "json", "jsonc", "yaml"].into_iter();
    let mut files = kinds.map(|kind| (folder(agent).join(format!("{name}.{kind}")), kind));
    files.find_map(|(file, kind)| Some((std::fs::read_to_string(file).ok()?, kind)))
}

fn scopes(agent: &Agent) -> impl Iterator<Item = (&'static str, &Servers)> {
    let scopes = [("user", agent.user.as_ref()), ("project", agent.project.as_ref())];
    scopes.into_iter().filter_map(|(scope, servers)| Some((scope, servers?)))
}

fn keys(agent: &Agent) -> Vec<&'static str> {
    agent.keys.iter().copied().chain([SERVER]).collect()
}

#[test]
fn every_agent_has_files_of_its_release_or_some_that_are_named_as_written_by_hand() {
    for agent in AGENTS {
        for (scope, _) in scopes(agent) {
            assert!(golden(agent, scope).is_some(), "no {scope} in {}", folder(agent).display());
        }
        // One of an older release, or one by hand beside a real one, is a leftover.
        let around = folder(agent).parent().map(Path::to_owned).unwrap();
        let versions: Vec<_> = std::fs::read_dir(around).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(versions, [folder(agent).file_name().unwrap()], "{}", agent.id);
    }
}

#[test]
fn connecting_changes_what_it_has_to_and_disconnecting_leaves_no_trace() {
    for agent in AGENTS {
        for (scope, servers) in scopes(agent) {
            let (before, kind) = golden(agent, scope).unwrap();
            let (keys, value) = (keys(agent), entry(agent));
            let edited = servers.syntax.set(&before, &keys, &value).unwrap();
            let name = format!("{}_{scope}.{kind}", agent.id);
            insta::assert_binary_snapshot!(&name, edited.text.clone().into_bytes());
            assert_eq!(servers.syntax.get(&edited.text, &keys).unwrap(), Some(value), "{name}");
            let after = servers.syntax.undo(&edited.text, &keys, &edited.undo).unwrap();
            assert_eq!(after, before, "{name}");
        }
    }
}

#[test]
fn what_is_there_stays_as_it_was_written() {
    for agent in AGENTS {
        for (scope, servers) in scopes(agent) {
            let (before, _) = golden(agent, scope).unwrap();
            let after = servers.syntax.set(&before, &keys(agent), &entry(agent)).unwrap().text;
            // Something was put in between, and that is all.
            let same = |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
            let front = same(&mut before.bytes().zip(after.bytes()));
            let back = same(&mut before.bytes().rev().zip(after.bytes().rev()));
            assert!(front + back >= before.len(), "{} {scope}: {after}", agent.id);
            let others = |text: &str| {
                let mut all = servers.syntax.get(text, &[]).unwrap().unwrap();
                let around = agent.keys.iter().try_fold(&mut all, |value, key| value.get_mut(key));
                if let Some(Value::Object(servers)) = around {
                    servers.remove(SERVER);
                }
                all
            };
            let (mut before, mut after) = (others(&before), others(&after));
            for all in [&mut before, &mut after] {
                // A table that was made for it is empty without it.
                all.as_object_mut().unwrap().retain(|_, value| *value != Value::Object(Map::new()));
            }
            assert_eq!(before, after, "{} {scope}", agent.id);
        }
    }
}

#[test]
fn the_entry_is_the_one_that_the_release_writes_for_the_same_command() {
    for agent in AGENTS.iter().filter(|agent| agent.tested.is_some()) {
        let defaults = DEFAULTS.iter().find(|(id, ..)| *id == agent.id);
        let (theirs, ours) = defaults.map_or((&[][..], &[][..]), |(_, theirs, ours)| (theirs, ours));
        let mut seen = 0;
        for (scope, servers) in scopes(agent) {
            let Some((text, _)) = golden(agent, &format!("{scope}.own")) else { continue };
            let without = |value: Value, names: &[&str]| match value {
                Value::Object(mut fields) => {
                    for name in names {
                        assert!(fields.remove(*name).is_some(), "{}: {name} is no such field", agent.id);
                    }
                    Value::Object(fields)
                }
                other => other,
            };
            let own = servers.syntax.get(&text, &keys(agent)).unwrap().unwrap();
            assert_eq!(without(own, theirs), without(entry(agent), ours), "{} {scope}", agent.id);
            seen += 1;
        }
        assert!(seen > 0, "{} has not shown an entry of its own", agent.id);
    }
}

/// Its own entry is there: connecting anew says so and does not write a second one.
#[test]
fn an_entry_of_the_release_is_replaced_in_its_place_and_comes_back() {
    for agent in AGENTS.iter().filter(|agent| agent.tested.is_some()) {
        for (scope, servers) in scopes(agent) {
            let Some((own, _)) = golden(agent, &format!("{scope}.own")) else { continue };
            let (keys, value) = (keys(agent), entry(agent));
            let edited = servers.syntax.set(&own, &keys, &value).unwrap();
            assert_eq!(servers.syntax.get(&edited.text, &keys).unwrap(), Some(value), "{} {scope}", agent.id);
            let back = servers.syntax.undo(&edited.text, &keys, &edited.undo).unwrap();
            assert_eq!(back, own, "{} {scope}", agent.id);
        }
    }
}

#[test]
fn no_file_names_a_machine_or_looks_like_a_credential() {
    for agent in AGENTS {
        for file in std::fs::read_dir(folder(agent)).unwrap() {
            let file = file.unwrap().path();
            let text = std::fs::read_to_string(&file).unwrap();
            for part in ["/tmp/", "/root", "/home/", "sk-", "Bearer "] {
                assert!(!text.contains(part), "{part} is in {}", file.display());
            }
            let is_key = |word: &str| word.len() >= 32 && word.contains(|c: char| c.is_ascii_digit());
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(!words.any(is_key), "{}", file.display());
        }
    }
}
