//! Reading the folder, and the files after changes.

use std::os::unix::fs::PermissionsExt as _;

use plexus_kit::Clock;
use serde_json::json;

use super::super::{Cause, Entry, FolderError, has_references};
use super::{folder, plain};

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn only_server_files_are_read_in_name_order() {
    let good = r#"{"command": "npx"}"#;
    let (dir, folder) = folder(&[
        ("b.json", good),
        ("a.toml", "command = \"npx\""),
        ("C.json", good),
        (".hidden.json", "x"),
        ("#b.json", "x"),
        ("b.json~", "x"),
        ("b.json.bak", "x"),
        (".b.json.swp", "x"),
        ("README.md", "x"),
        ("d.yaml", "x"),
    ]);
    std::fs::create_dir(dir.path().join("folder.json")).unwrap();
    let entries = folder.read();
    assert_eq!(names(&entries), ["C", "a", "b"]);
    assert!(entries.iter().all(|entry| entry.server.is_ok()), "{entries:?}");
    let missing = super::Folder::new(dir.path().join("nowhere"), super::environment());
    assert!(missing.read().is_empty() && missing.scan().is_ok());
    let file = super::Folder::new(dir.path().join("b.json"), super::environment());
    assert!(file.read().is_empty() && file.scan().is_err());
}

#[test]
fn invalid_file_disables_only_its_own_server() {
    let (_dir, folder) = folder(&[("bad.json", "{"), ("good.json", r#"{"command": "npx"}"#)]);
    let entries = folder.read();
    assert_eq!(names(&entries), ["bad", "good"]);
    assert!(entries[0].server.as_ref().unwrap_err().iter().all(|problem| problem.cause == Cause::File));
    assert!(entries[1].server.is_ok());
}

#[test]
fn clashing_names_are_refused_with_both_files() {
    let good = r#"{"command": "npx"}"#;
    let (dir, folder) = folder(&[
        ("my-git.json", good),
        ("My Git.json", good),
        ("other.json", good),
        ("twin.json", good),
        ("twin.toml", "command = 1"),
    ]);
    let entries = folder.read();
    let messages: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.server.as_ref().err())
        .flatten()
        .map(|problem| plain(dir.path(), &problem.to_string()))
        .collect();
    assert_eq!(
        messages,
        [
            "My Git.json: would give its tools the same names as those of my-git.json; rename one of the two files, or remove it",
            "my-git.json: would give its tools the same names as those of My Git.json; rename one of the two files, or remove it",
            "twin.json: would give its tools the same names as those of twin.toml; rename one of the two files, or remove it",
            "twin.toml: would give its tools the same names as those of twin.json; rename one of the two files, or remove it",
            "twin.toml: `command` is a number; write the name or path of a program as a string, such as \"npx\"",
        ]
    );
    assert!(entries.iter().find(|entry| entry.name == "other").unwrap().server.is_ok());
}

#[test]
fn excess_files_are_reported() {
    let (dir, folder) = folder(&[]);
    for index in 0..=super::super::folder::MAX_FILES {
        std::fs::write(dir.path().join(format!("s{index:04}.json")), r#"{"command": "npx"}"#).unwrap();
    }
    let entries = folder.read();
    assert_eq!(entries.iter().filter(|entry| entry.server.is_ok()).count(), 512);
    let refused = entries.last().unwrap().server.as_ref().unwrap_err();
    assert!(refused[0].to_string().contains("exceeds the limit of 512 files"), "{refused:?}");
}

#[test]
fn added_server_is_private_and_unique() {
    let (dir, folder) = folder(&[("git.toml", "command = \"npx\"")]);
    let document = json!({ "command": "npx", "args": ["-y", "x"] });
    let file = folder.add("time", &document).unwrap();
    assert_eq!(file, dir.path().join("time.json"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.document("time").unwrap(), document);
    for (name, expected) in [
        ("time", "there is already a server time (its file: time.json)"),
        ("Time!", "\"Time!\" cannot be added: its tools would have the same names as those of time.json"),
        ("git", "there is already a server git (its file: git.toml)"),
        (
            "../x",
            "\"../x\" cannot be the name of a server: it begins with a dot, or contains a slash or a control character",
        ),
        (
            "a/b",
            "\"a/b\" cannot be the name of a server: it begins with a dot, or contains a slash or a control character",
        ),
        (
            "a\nb",
            "\"a\\nb\" cannot be the name of a server: it begins with a dot, or contains a slash or a control character",
        ),
        ("", "\"\" cannot be the name of a server: it contains no ASCII letter or digit"),
        ("Plexus", "\"Plexus\" cannot be the name of a server: it is reserved for the hub itself"),
    ] {
        let error = folder.add(name, &document).unwrap_err();
        assert_eq!(plain(dir.path(), &error.to_string()), expected);
    }
    let error = folder.add("new", &json!({ "comand": "npx" })).unwrap_err();
    assert_eq!(
        plain(dir.path(), &error.to_string()),
        "new.json: `comand` is not a known key; did you mean `command`?"
    );
    assert!(matches!(folder.add("new", &json!([])), Err(FolderError::Problems(_))));
    let remaining: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(remaining.len(), 2, "{remaining:?}");
}

#[test]
fn removed_file_is_moved_aside() {
    let text = "# mine\ncommand = \"npx\"\n";
    let (dir, folder) = folder(&[("git.toml", text)]);
    let folder = folder.with_clock(Clock::manual("2026-11-16T06:00:00Z".parse().unwrap()));
    let backup = folder.remove("git").unwrap();
    assert_eq!(backup, dir.path().join(".removed/git.20261116T060000Z.toml"));
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), text);
    assert!(folder.read().is_empty());
    assert!(matches!(folder.remove("git"), Err(FolderError::NotFound { .. })));
    // Again within the same second.
    folder.add("git", &json!({ "command": "a" })).unwrap();
    folder.remove("git").unwrap();
    folder.add("git", &json!({ "command": "b" })).unwrap();
    assert_eq!(folder.remove("git").unwrap(), dir.path().join(".removed/git.20261116T060000Z-2.json"));
}

#[test]
fn enabling_changes_nothing_else_in_a_file() {
    for (file, before, off) in [
        (
            "a.json",
            "{\n  // why\n  \"command\": \"npx\", // and how\n  \"zebra\": 1\n}\n",
            "{\n  // why\n  \"command\": \"npx\", // and how\n  \"zebra\": 1,\n  \"enabled\": false\n}\n",
        ),
        (
            "a.json",
            "{ \"enabled\": true /* for now */, \"command\": \"npx\" }",
            "{ \"enabled\": false /* for now */, \"command\": \"npx\" }",
        ),
        (
            "a.toml",
            "# why\ncommand = \"npx\" # and how\n\n[tools]\nallow = [ \"a\" ]\n",
            "# why\ncommand = \"npx\" # and how\nenabled = false\n\n[tools]\nallow = [ \"a\" ]\n",
        ),
        (
            "a.toml",
            "enabled = true # for now\ncommand = 'npx'\n",
            "enabled = false # for now\ncommand = 'npx'\n",
        ),
    ] {
        let (dir, folder) = folder(&[(file, before)]);
        let text = || std::fs::read_to_string(dir.path().join(file)).unwrap();
        folder.set_enabled("a", true).unwrap();
        assert_eq!(text(), before, "it was already enabled");
        folder.set_enabled("a", false).unwrap();
        assert_eq!(text(), off);
        folder.set_enabled("a", true).unwrap();
        assert_eq!(text(), off.replace("false", "true"));
    }
    let (_dir, folder) = folder(&[("a.json", "{")]);
    assert!(matches!(folder.set_enabled("a", false), Err(FolderError::Problems(_))));
    assert!(matches!(folder.set_enabled("b", false), Err(FolderError::NotFound { .. })));
}

#[test]
fn references_to_the_machine_are_detected() {
    assert!(has_references(&json!({ "headers": { "a": "x${env:A}" } })));
    assert!(has_references(&json!({ "args": ["${file:/etc/passwd}"] })));
    assert!(has_references(&json!({ "auth": { "tls": { "ca": "ca.pem" } } })), "a file of the hub's machine");
    assert!(!has_references(&json!({ "auth": { "type": "oauth" } })));
    assert!(!has_references(&json!({ "args": ["$${env:A}", "$A"], "lazy": true })));
}

/// Two folders act like two processes, each with its own lock.
#[test]
fn concurrent_adds_of_one_name_have_one_winner() {
    let (dir, _folder) = folder(&[]);
    for round in 0..40 {
        let name = format!("n{round}");
        let start = std::sync::Barrier::new(2);
        let add = |command: &'static str| {
            let folder = super::Folder::new(dir.path().to_owned(), super::environment());
            start.wait();
            folder.add(&name, &json!({ "command": command })).map(|_| command)
        };
        let (one, two) = std::thread::scope(|scope| {
            let (one, two) = (scope.spawn(|| add("one")), scope.spawn(|| add("two")));
            (one.join().unwrap(), two.join().unwrap())
        });
        let written = std::fs::read_to_string(dir.path().join(format!("{name}.json"))).unwrap();
        let ((Ok(winner), Err(_)) | (Err(_), Ok(winner))) = (&one, &two) else { panic!("{one:?} {two:?}") };
        assert!(written.contains(winner), "{winner}: {written}");
    }
}
