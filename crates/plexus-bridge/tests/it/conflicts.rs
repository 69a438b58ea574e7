//! Changes by a person are overwritten only on request, and stored ledgers and backups are used only if they are
//! intact.

use std::os::unix::fs::symlink;

use plexus_bridge::ConflictPolicy;
use plexus_bridge::agents::Scope;
use plexus_proto::api::{ExternalAgentFileState, ExternalAgentState};
use serde_json::{Value, json};

use crate::home::{Home, PROGRAM, content, error_text};

const FILE: &str = ".claude.json";

fn home_with(text: &str) -> Home {
    let home = Home::new();
    home.write(FILE, text);
    home
}

fn entry(home: &Home) -> Value {
    let value: Value = serde_json::from_str(&home.read(FILE)).unwrap();
    value["mcpServers"]["plexus"].clone()
}

fn ours() -> Value {
    json!({ "type": "stdio", "command": PROGRAM, "args": ["mcp"] })
}

#[test]
fn foreign_entry_with_our_name_is_a_conflict() {
    let theirs = "{\n  \"mcpServers\": {\n    \"plexus\": { \"command\": \"other\", \"env\": {\"A\": \"1\"} }\n  }\n}\n";
    let cases = [
        (
            ConflictPolicy::Merge,
            json!({ "type": "stdio", "command": PROGRAM, "args": ["mcp"], "env": { "A": "1" } }),
        ),
        (ConflictPolicy::Replace, ours()),
    ];
    for (policy, expected) in cases {
        let home = home_with(theirs);
        let path = home.path(FILE);
        let why = error_text(home.connect_user("claude-code"));
        assert_eq!(
            why,
            format!("{} has an entry \"plexus\" that this command did not create", path.display())
        );
        assert_eq!(home.read(FILE), theirs);
        assert!(home.bridge.ledger().unwrap().connections.is_empty());
        home.connect("claude-code", &Scope::User, None, policy).unwrap();
        assert_eq!(entry(&home), expected);
        // This also works if other content was written in between.
        let text = home.read(FILE).replacen("{\n", "{\n  \"n\": 1,\n", 1);
        home.write(FILE, text);
        home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
        assert_eq!(home.read(FILE), theirs.replacen("{\n", "{\n  \"n\": 1,\n", 1));
    }
}

#[test]
fn entry_changed_by_hand_is_a_conflict() {
    let home = home_with("{}\n");
    home.connect_user("claude-code").unwrap();
    let changed = home.read(FILE).replace(PROGRAM, "/home/me/plexus");
    home.write(FILE, &changed);
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Changed);
    assert_eq!(home.bridge.status("here", &[]).unwrap()[0].state, ExternalAgentState::Attention);
    let expected = format!(
        "{} has an entry \"plexus\" that was changed since it was written",
        home.path(FILE).display()
    );
    assert_eq!(error_text(home.connect_user("claude-code")), expected);
    assert_eq!(error_text(home.disconnect("claude-code", ConflictPolicy::Skip)), expected);
    assert!(home.bridge.sync(&content("x"), None).unwrap().problems.is_empty());
    assert_eq!(home.read(FILE), changed);
    home.connect("claude-code", &Scope::User, None, ConflictPolicy::Replace).unwrap();
    assert_eq!(entry(&home), ours());
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "{}\n");
}

/// An agent adds fields such as the tools that need no confirmation.
#[test]
fn what_an_agent_adds_to_our_entry_is_no_conflict() {
    let home = home_with("{}\n");
    home.connect_user("claude-code").unwrap();
    let more = home.read(FILE).replace("\"type\": \"stdio\"", "\"type\": \"stdio\",\n      \"trust\": true");
    home.write(FILE, &more);
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Current);
    home.connect_user("claude-code").unwrap();
    assert_eq!(home.read(FILE), more);
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "{}\n");
}

#[test]
fn entry_removed_by_hand_can_be_written_again_or_forgotten() {
    let home = home_with("{\n  \"a\": 1\n}\n");
    home.connect_user("claude-code").unwrap();
    home.write(FILE, "{\n  \"a\": 2\n}\n");
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Removed);
    // It can be written again or forgotten; both leave the rest unchanged.
    home.connect_user("claude-code").unwrap();
    assert_eq!(entry(&home), ours());
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "{\n  \"a\": 2\n}\n");
    home.connect_user("claude-code").unwrap();
    std::fs::remove_file(home.path(FILE)).unwrap();
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Removed);
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert!(!home.path(FILE).exists());
    assert!(home.bridge.ledger().unwrap().connections.is_empty());
}

/// A person changes other content, we write again, and then disconnect: their change stays.
#[test]
fn what_was_changed_between_two_writes_of_ours_stays() {
    let home = Home::new();
    home.write(".codex/AGENTS.md", "Mine.\n");
    home.connect("codex", &Scope::User, Some(&content("One.")), ConflictPolicy::Skip).unwrap();
    let text = home.read(".codex/AGENTS.md").replace("Mine.", "Mine, and more.");
    home.write(".codex/AGENTS.md", text);
    home.bridge.sync(&content("Two."), None).unwrap();
    assert!(home.read(".codex/AGENTS.md").contains("Two."));
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(".codex/AGENTS.md"), "Mine, and more.\n");
}

/// A plan is applied to the new content if the file has changed since it was planned.
#[test]
fn plan_is_applied_to_the_current_content() {
    let home = home_with("{}\n");
    let plan = home.plan("claude-code", &Scope::User, None, ConflictPolicy::Skip).unwrap();
    home.write(FILE, "{\n\t\"b\": 2\n}\n");
    let connection = crate::home::connection("claude-code", &Scope::User, false);
    assert!(home.bridge.apply(&plan.changes[0], Some(&connection)).unwrap());
    assert_eq!(entry(&home), ours());
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "{\n\t\"b\": 2\n}\n");
}

#[test]
fn a_copy_that_somebody_has_changed_is_not_put_back() {
    let home = home_with("{\n  \"a\": 1\n}\n");
    home.connect_user("claude-code").unwrap();
    let id = home.bridge.backups().unwrap()[0].id.clone();
    let copy = home.data().join("backups").join(&id);
    std::fs::write(&copy, "{\"evil\": true}").unwrap();
    let error = home.bridge.plan_restore(&id).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} cannot be used: its content has changed since the backup was made", copy.display())
    );
    // The inserted entry can still be removed.
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "{\n  \"a\": 1\n}\n");
}

#[test]
fn unreadable_ledger_is_not_changed() {
    let cases = [
        ("{\"version\": 2, \"unheard\": []}", "it has version 2, but this program supports version 1"),
        ("{\"version\": 1, \"conn", "EOF while parsing a string at line 1 column 20"),
        ("", "EOF while parsing a value at line 1 column 0"),
    ];
    for (text, why) in cases {
        let home = home_with("{}\n");
        home.connect_user("claude-code").unwrap();
        let (ledger, before) = (home.data().join("ledger.json"), home.tree());
        std::fs::write(&ledger, text).unwrap();
        let expected = format!("{} cannot be used: {why}", ledger.display());
        let change = home.disconnect("claude-code", ConflictPolicy::Skip);
        assert_eq!(change.unwrap_err().to_string(), expected);
        assert_eq!(home.connect_user("codex").unwrap_err().to_string(), expected);
        assert_eq!(home.bridge.sync(&content("x"), None).unwrap_err().to_string(), expected);
        assert_eq!(home.tree(), before);
        assert_eq!(std::fs::read_to_string(&ledger).unwrap(), text);
    }
}

/// A process died during a change, and the file cannot be read now: other agents can still be connected.
#[test]
fn unreadable_pending_change_does_not_block_other_agents() {
    let home = home_with("{}\n");
    home.connect_user("claude-code").unwrap();
    let ledger = home.data().join("ledger.json");
    let mut ledger_json: Value = serde_json::from_slice(&std::fs::read(&ledger).unwrap()).unwrap();
    let record = ledger_json["connections"]["claude-code"]["files"][0].clone();
    ledger_json["connections"]["claude-code"]["files"] = json!([]);
    ledger_json["pending"] = json!({
        "connection": "claude-code",
        "root": home.path(""),
        "below": FILE,
        "beside": ".claude.json.plexus-00000000",
        "from": "0",
        "to": record["hash"],
        "path": home.path(FILE),
        "record": record,
    });
    std::fs::write(&ledger, ledger_json.to_string()).unwrap();
    let text = home.read(FILE);
    std::fs::rename(home.path(FILE), home.path("elsewhere")).unwrap();
    symlink("elsewhere", home.path(FILE)).unwrap();
    home.connect_user("codex").unwrap();
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Blocked);
    assert_eq!(home.read("elsewhere"), text);
    // Once the file is readable again, the entry can be removed.
    std::fs::rename(home.path("elsewhere"), home.path(FILE)).unwrap();
    assert_eq!(home.states()[FILE], ExternalAgentFileState::Current);
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(FILE), "{}\n");
}

/// Each command reads and writes the ledger: without a lock, one would lose the changes of the other.
#[test]
fn commands_at_the_same_time_take_turns() {
    let home = home_with("{}\n");
    let before = home.tree();
    std::thread::scope(|threads| {
        for agent in ["claude-code", "codex", "goose", "gemini"] {
            let home = &home;
            threads.spawn(move || {
                for _ in 0..5 {
                    home.connect_user(agent).unwrap();
                    home.disconnect(agent, ConflictPolicy::Skip).unwrap();
                }
                home.connect_user(agent).unwrap();
            });
        }
    });
    let ledger = home.bridge.ledger().unwrap();
    assert_eq!(ledger.connections.keys().collect::<Vec<_>>(), ["claude-code", "codex", "gemini", "goose"]);
    for agent in ledger.connections.keys() {
        home.disconnect(agent, ConflictPolicy::Skip).unwrap();
    }
    assert_eq!(home.tree(), before);
}
