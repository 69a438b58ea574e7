//! Edits of files that releases have written keep all their content.
//!
//! `scripts/golden-configs` creates the files. `snapshots` contains the expected results, byte by byte.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::entry;
use crate::SERVER;
use crate::agents::{AGENTS, Agent, ServerFiles};

/// By agent: fields of an entry that only the release writes, and those that only we write. They do not change the
/// meaning.
const DEFAULTS: &[(&str, &[&str], &[&str])] = &[
    // An empty `env` means the same as none.
    ("claude-code", &["env"], &[]),
    // An entry is enabled by default.
    ("opencode", &[], &["enabled"]),
    ("goose", &["description", "envs", "env_keys", "cwd", "bundled"], &[]),
];

fn folder(agent: &Agent) -> PathBuf {
    let version = agent.tested.unwrap_or("by-hand");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agents").join(agent.id).join(version)
}

/// The file with this name, and its extension.
fn golden(agent: &Agent, name: &str) -> Option<(String, &'static str)> {
    let extensions = ["toml", "json", "jsonc", "yaml"].into_iter();
    let mut files =
        extensions.map(|extension| (folder(agent).join(format!("{name}.{extension}")), extension));
    files.find_map(|(file, extension)| Some((std::fs::read_to_string(file).ok()?, extension)))
}

fn scopes(agent: &Agent) -> impl Iterator<Item = (&'static str, &ServerFiles)> {
    let scopes = [("user", agent.user.as_ref()), ("project", agent.project.as_ref())];
    scopes.into_iter().filter_map(|(scope, servers)| Some((scope, servers?)))
}

fn keys(agent: &Agent) -> Vec<&'static str> {
    agent.keys.iter().copied().chain([SERVER]).collect()
}

#[test]
fn every_agent_has_goldens_of_exactly_one_release() {
    for agent in AGENTS {
        for (scope, _) in scopes(agent) {
            assert!(golden(agent, scope).is_some(), "no {scope} in {}", folder(agent).display());
        }
        // Any other folder is a leftover, of an older release or written by hand.
        let parent = folder(agent).parent().map(Path::to_owned).unwrap();
        let versions: Vec<_> =
            std::fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(versions, [folder(agent).file_name().unwrap()], "{}", agent.id);
    }
}

#[test]
fn connecting_matches_the_snapshot_and_disconnecting_restores_the_file() {
    for agent in AGENTS {
        for (scope, servers) in scopes(agent) {
            let (before, extension) = golden(agent, scope).unwrap();
            let (keys, value) = (keys(agent), entry(agent));
            let edited = servers.syntax.set(&before, &keys, &value).unwrap();
            let name = format!("{}_{scope}.{extension}", agent.id);
            insta::assert_binary_snapshot!(&name, edited.text.clone().into_bytes());
            assert_eq!(servers.syntax.get(&edited.text, &keys).unwrap(), Some(value), "{name}");
            let after = servers.syntax.undo(&edited.text, &keys, &edited.undo).unwrap();
            assert_eq!(after, before, "{name}");
        }
    }
}

#[test]
fn existing_text_and_values_are_kept() {
    for agent in AGENTS {
        for (scope, servers) in scopes(agent) {
            let (before, _) = golden(agent, scope).unwrap();
            let after = servers.syntax.set(&before, &keys(agent), &entry(agent)).unwrap().text;
            // The edit is a single insertion.
            let same = |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
            let start = same(&mut before.bytes().zip(after.bytes()));
            let end = same(&mut before.bytes().rev().zip(after.bytes().rev()));
            assert!(start + end >= before.len(), "{} {scope}: {after}", agent.id);
            let others = |text: &str| {
                let mut all = servers.syntax.get(text, &[]).unwrap().unwrap();
                let table = agent.keys.iter().try_fold(&mut all, |value, key| value.get_mut(key));
                if let Some(Value::Object(servers)) = table {
                    servers.remove(SERVER);
                }
                all
            };
            let (mut before, mut after) = (others(&before), others(&after));
            for all in [&mut before, &mut after] {
                // A table that was created for the entry is empty without it.
                all.as_object_mut().unwrap().retain(|_, value| *value != Value::Object(Map::new()));
            }
            assert_eq!(before, after, "{} {scope}", agent.id);
        }
    }
}

#[test]
fn entry_equals_the_one_that_the_release_writes() {
    for agent in AGENTS.iter().filter(|agent| agent.tested.is_some()) {
        let defaults = DEFAULTS.iter().find(|(id, ..)| *id == agent.id);
        let (theirs, ours) = defaults.map_or((&[][..], &[][..]), |(_, theirs, ours)| (theirs, ours));
        let mut seen = 0;
        for (scope, servers) in scopes(agent) {
            let Some((text, _)) = golden(agent, &format!("{scope}.own")) else { continue };
            let without = |value: Value, names: &[&str]| match value {
                Value::Object(mut fields) => {
                    for name in names {
                        assert!(
                            fields.remove(*name).is_some(),
                            "{}: the field {name} does not exist",
                            agent.id
                        );
                    }
                    Value::Object(fields)
                }
                other => other,
            };
            let own = servers.syntax.get(&text, &keys(agent)).unwrap().unwrap();
            assert_eq!(without(own, theirs), without(entry(agent), ours), "{} {scope}", agent.id);
            seen += 1;
        }
        assert!(seen > 0, "{} has no golden of an entry that the release wrote", agent.id);
    }
}

#[test]
fn entry_of_the_release_is_replaced_in_place_and_restored() {
    for agent in AGENTS.iter().filter(|agent| agent.tested.is_some()) {
        for (scope, servers) in scopes(agent) {
            let Some((own, _)) = golden(agent, &format!("{scope}.own")) else { continue };
            let (keys, value) = (keys(agent), entry(agent));
            let edited = servers.syntax.set(&own, &keys, &value).unwrap();
            assert_eq!(servers.syntax.get(&edited.text, &keys).unwrap(), Some(value), "{} {scope}", agent.id);
            let restored = servers.syntax.undo(&edited.text, &keys, &edited.undo).unwrap();
            assert_eq!(restored, own, "{} {scope}", agent.id);
        }
    }
}

#[test]
fn goldens_contain_no_machine_paths_or_credentials() {
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
