//! Unusual files: they are refused with a clear message and left unchanged, or changed with all their properties.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use plexus_bridge::agents::Scope;
use plexus_bridge::{BridgeError, ConflictPolicy};

use crate::home::{Home, PROGRAM, content, error_text};

const FILE: &str = ".codex/config.toml";

fn set_mode(home: &Home, file: &str, mode: u32) {
    std::fs::set_permissions(home.path(file), std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(home: &Home, file: &str) -> u32 {
    home.path(file).metadata().unwrap().permissions().mode() & 0o7777
}

/// Files that are not changed: how each is created, and the expected error.
#[test]
fn files_that_are_left_alone() {
    type Setup = fn(&Home);
    let cases: &[(&str, Setup, &str)] = &[
        (
            "read-only",
            |home| {
                home.write(FILE, "a = 1\n");
                set_mode(home, FILE, 0o444);
            },
            "FILE is read-only",
        ),
        (
            "a link",
            |home| {
                home.write(".codex/real.toml", "a = 1\n");
                symlink("real.toml", home.path(FILE)).unwrap();
            },
            "FILE is a symbolic link to real.toml; links are not followed",
        ),
        (
            "a link to nothing",
            |home| {
                std::fs::create_dir(home.path(".codex")).unwrap();
                symlink("nothing", home.path(FILE)).unwrap();
            },
            "FILE is a symbolic link to nothing; links are not followed",
        ),
        (
            "a folder that is a link",
            |home| {
                home.write("dotfiles/config.toml", "a = 1\n");
                symlink("dotfiles", home.path(".codex")).unwrap();
            },
            "FOLDER is a symbolic link to dotfiles; links are not followed",
        ),
        (
            "a folder that is a file",
            |home| home.write(".codex", "x"),
            "cannot open the folder FOLDER: not a directory",
        ),
        (
            "another name",
            |home| {
                home.write(FILE, "a = 1\n");
                std::fs::hard_link(home.path(FILE), home.path("other")).unwrap();
            },
            "FILE has several hard links, which replacing the file would break",
        ),
        (
            "a folder in its place",
            |home| std::fs::create_dir_all(home.path(FILE)).unwrap(),
            "FILE is not a regular file",
        ),
        (
            "a pipe in its place",
            |home| {
                std::fs::create_dir(home.path(".codex")).unwrap();
                assert!(Command::new("mkfifo").arg(home.path(FILE)).status().unwrap().success());
            },
            "FILE is not a regular file",
        ),
        ("too long", |home| home.write(FILE, vec![b'#'; (16 << 20) + 1]), "FILE is larger than 16 MiB"),
        (
            "not UTF-8",
            |home| home.write(FILE, b"a = \"\xff\"\n"),
            "FILE is not UTF-8: byte 5 is not part of a valid character",
        ),
        (
            "UTF-16",
            |home| home.write(FILE, b"\xff\xfea\0=\x001\0"),
            "FILE is not UTF-8: byte 0 is not part of a valid character",
        ),
        ("zeros", |home| home.write(FILE, [0; 64]), "FILE is not valid TOML: key with no value on line 1"),
    ];
    for (name, setup, expected) in cases {
        let home = Home::new();
        setup(&home);
        let before = home.tree();
        let expected = expected
            .replace("FILE", home.path(FILE).to_str().unwrap())
            .replace("FOLDER", home.path(".codex").to_str().unwrap());
        assert_eq!(error_text(home.connect_user("codex")), expected, "{name}");
        assert_eq!(home.tree(), before, "{name}");
        assert!(home.bridge.ledger().unwrap().connections.is_empty(), "{name}");
    }
}

#[test]
fn a_long_file_is_changed_and_put_back() {
    let home = Home::new();
    let text =
        format!("{{\n  \"history\": [\n{}    \"end\"\n  ]\n}}\n", "    \"a line of it\",\n".repeat(100_000));
    home.write(".claude.json", &text);
    home.connect_user("claude-code").unwrap();
    assert!(home.read(".claude.json").contains(PROGRAM));
    home.disconnect("claude-code", ConflictPolicy::Skip).unwrap();
    assert!(home.read(".claude.json") == text);
}

#[test]
fn mode_and_owner_stay() {
    let home = Home::new();
    home.write(FILE, "a = 1\n");
    set_mode(&home, FILE, 0o640);
    // Only root may change the owner.
    let owner_changed = std::os::unix::fs::chown(home.path(FILE), Some(1234), Some(2345)).is_ok();
    let owner = |home: &Home| home.path(FILE).metadata().map(|is| (is.uid(), is.gid())).unwrap();
    let before = owner(&home);
    assert!(!owner_changed || before == (1234, 2345));
    home.connect_user("codex").unwrap();
    assert_eq!((mode(&home, FILE), owner(&home)), (0o640, before));
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!((mode(&home, FILE), owner(&home)), (0o640, before));
    assert_eq!(home.read(FILE), "a = 1\n");
}

#[test]
fn created_folders_are_removed_unless_in_use() {
    let home = Home::new();
    let nothing = home.tree();
    home.connect("goose", &Scope::User, Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
    assert_eq!(mode(&home, ".config/goose/config.yaml"), 0o600);
    assert_eq!(mode(&home, ".config/goose"), 0o700);
    home.disconnect("goose", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.tree(), nothing);
    home.connect_user("goose").unwrap();
    home.write(".config/goose/history", "x");
    home.disconnect("goose", ConflictPolicy::Skip).unwrap();
    assert_eq!(
        home.tree().into_keys().collect::<Vec<_>>(),
        [".config", ".config/goose", ".config/goose/history"]
    );
}

#[test]
fn files_of_a_project_are_for_all_to_read() {
    let home = Home::new();
    home.write("project/README.md", "x");
    home.connect("cursor", &home.project(), Some(&content("Be kind.")), ConflictPolicy::Skip).unwrap();
    for file in ["project/.cursor/mcp.json", "project/.cursor/rules/plexus.mdc"] {
        assert_eq!(mode(&home, file), 0o644, "{file}");
    }
}

#[test]
fn a_copy_is_put_back_also_when_nothing_is_connected_any_more() {
    let home = Home::new();
    home.write("project/.mcp.json", "{\"a\": 1}\n");
    home.connect("claude-code", &home.project(), None, ConflictPolicy::Skip).unwrap();
    home.disconnect(&home.key("claude-code", &home.project()), ConflictPolicy::Skip).unwrap();
    home.write("project/.mcp.json", "{}\n");
    let backups = home.bridge.backups().unwrap();
    let first = backups.last().unwrap();
    assert!(first.id.starts_with("20260102-030405-mcp.json-"), "{}", first.id);
    let change = home.bridge.plan_restore(&first.id).unwrap();
    assert_eq!(change.after.as_deref(), Some("{\"a\": 1}\n"));
    assert!(home.bridge.apply(&change, None).unwrap());
    assert_eq!(home.read("project/.mcp.json"), "{\"a\": 1}\n");
    assert!(matches!(home.bridge.plan_restore("../ledger.json"), Err(BridgeError::NoBackup(_))));
}

/// Frequent rewrites do not fill the disk with backups, and the first backup is kept.
#[test]
fn old_copies_go_and_the_first_one_stays() {
    let home = Home::new();
    home.write(".codex/AGENTS.md", "Mine.\n");
    home.connect("codex", &Scope::User, Some(&content("0")), ConflictPolicy::Skip).unwrap();
    for round in 1..40 {
        home.bridge.sync(&content(&round.to_string()), None).unwrap();
    }
    let backups = home.bridge.backups().unwrap();
    let of_text = backups.iter().filter(|backup| backup.path.ends_with("AGENTS.md")).count();
    assert_eq!(of_text, 21);
    let backup_files = std::fs::read_dir(home.data().join("backups")).unwrap().count();
    assert_eq!(backup_files, backups.len());
    home.disconnect("codex", ConflictPolicy::Skip).unwrap();
    assert_eq!(home.read(".codex/AGENTS.md"), "Mine.\n");
}
