//! Servers whose files or folder other users can write.

use super::super::Exposure;
use super::{folder, plain, set_mode};

const FILES: [(&str, &str); 2] =
    [("process.json", r#"{"command": "npx"}"#), ("remote.toml", "url = \"https://mcp.example.net/mcp\"")];

/// Per server: whether it may run, and its messages, for these modes of the folder and its files.
fn outcomes(of_folder: u32, of_files: u32) -> Vec<(bool, Vec<String>)> {
    let (dir, folder) = folder(&FILES);
    for (name, _) in FILES {
        set_mode(&dir.path().join(name), of_files);
    }
    set_mode(dir.path(), of_folder);
    let plain_texts = |texts: Vec<String>| {
        texts
            .iter()
            .map(|outcomes| plain(dir.path(), outcomes).replace(&dir.path().display().to_string(), "DIR"))
            .collect()
    };
    let entries = folder.read().into_iter().map(|entry| match entry.server {
        Ok(server) => (true, plain_texts(server.warnings)),
        Err(problems) => (false, plain_texts(problems.iter().map(ToString::to_string).collect())),
    });
    entries.collect()
}

#[test]
fn files_writable_only_by_the_owner_have_no_warnings() {
    for (of_folder, of_files) in [(0o700, 0o600), (0o755, 0o644)] {
        assert_eq!(outcomes(of_folder, of_files), [(true, vec![]), (true, vec![])]);
    }
}

#[test]
fn group_writable_files_are_warned_about() {
    let of_folder = "DIR has mode 0775: every user of its group can write to it, and so run commands as the hub; \
                     chmod go-w DIR";
    let of_file = |name: &str| {
        format!(
            "{name} has mode 0664: every user of its group can write to it, and so run commands as the hub; \
             chmod go-w {name}"
        )
    };
    let warned = |name: &str| (true, vec![of_folder.to_owned(), of_file(name)]);
    assert_eq!(outcomes(0o775, 0o664), [warned("process.json"), warned("remote.toml")]);
}

#[test]
fn world_writable_process_is_refused() {
    let of_folder = "has mode 0777: every user of this machine can write to it, and so run commands as the hub; \
                     chmod go-w DIR";
    assert_eq!(
        outcomes(0o777, 0o600),
        [
            (false, vec![format!("process.json: is in a folder that {of_folder}")]),
            (true, vec![format!("DIR {of_folder}")]),
        ]
    );
    let of_file = "has mode 0606: every user of this machine can write to it, and so run commands as the hub; chmod go-w";
    let warning = |name: &str| (true, vec![format!("{name} {of_file} {name}")]);
    assert_eq!(
        outcomes(0o755, 0o606),
        [(false, vec![format!("process.json: {of_file} process.json")]), warning("remote.toml")]
    );
    assert_eq!(
        outcomes(0o700, 0o606),
        [warning("process.json"), warning("remote.toml")],
        "other users cannot access files in the folder"
    );
}

#[test]
fn fix_is_a_working_command() {
    let (dir, _folder) = folder(&[("my server.json", "{}")]);
    let file = dir.path().join("my server.json");
    assert_eq!(Exposure::of(&file), None);
    set_mode(&file, 0o666);
    let fix = Exposure::of(&file).unwrap().fix();
    assert!(std::process::Command::new("sh").args(["-c", &fix]).status().unwrap().success(), "{fix}");
    assert_eq!(Exposure::of(&file), None);
}
