use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use super::*;

const ROOM: usize = 10_000;

fn names(found: &CollectedFiles) -> Vec<&str> {
    found.files.iter().map(|file| file.name.as_str()).collect()
}

fn left_out(found: &CollectedFiles) -> Vec<(&str, OmittedReason)> {
    found.left_out.iter().map(|file| (file.name.as_str(), file.why)).collect()
}

#[test]
fn only_new_and_changed_files_are_collected() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("d")).unwrap();
    for name in ["a", "b", "d/c"] {
        std::fs::write(path(name), "same").unwrap();
    }
    let before = FileSelection::Changed(FileSnapshot::of(dir.path()).unwrap());
    assert_eq!(collect(dir.path(), &before, ROOM).unwrap(), CollectedFiles::default());
    std::fs::write(path("b"), "diff").unwrap();
    // Resetting the modification time does not hide a change.
    let earlier = std::time::SystemTime::UNIX_EPOCH;
    File::options().write(true).open(path("b")).unwrap().set_modified(earlier).unwrap();
    std::fs::write(path("d/new é"), [0, 255]).unwrap();
    let found = collect(dir.path(), &before, ROOM).unwrap();
    assert_eq!(names(&found), ["b", "d/new é"]);
    assert_eq!(found.files[0].text.as_deref(), Some("diff"));
    assert_eq!((found.files[1].base64.as_deref(), found.files[1].bytes), (Some("AP8="), 2));
    let named =
        collect(dir.path(), &FileSelection::Named(vec!["d/*".to_owned(), "a".to_owned()]), ROOM).unwrap();
    assert_eq!(names(&named), ["a", "d/c", "d/new é"]);
    assert_eq!(collect(dir.path(), &FileSelection::Named(vec![]), ROOM).unwrap(), CollectedFiles::default());
}

#[test]
fn links_pipes_and_huge_files_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("id"), "the secret").unwrap();
    let path = |name: &str| dir.path().join(name);
    symlink(secret.path().join("id"), path("file link")).unwrap();
    symlink(secret.path(), path("folder link")).unwrap();
    symlink("/dev/zero", path("zero")).unwrap();
    rustix::fs::mkfifoat(CWD, path("pipe"), Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    File::create(path("sparse")).unwrap().set_len(1 << 40).unwrap();
    std::fs::write(path("fits"), "x").unwrap();
    std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"n\xffme")), "y").unwrap();
    let found = collect(dir.path(), &FileSelection::Named(vec!["*".to_owned()]), ROOM).unwrap();
    assert_eq!(names(&found), ["fits", "n\u{fffd}me"]);
    let expected = [
        ("file link", OmittedReason::Link),
        ("folder link", OmittedReason::Link),
        ("pipe", OmittedReason::Special),
        ("socket", OmittedReason::Special),
        ("sparse", OmittedReason::TooLarge),
        ("zero", OmittedReason::Link),
    ];
    assert_eq!(left_out(&found), expected);
    assert!(!format!("{found:?}").contains("the secret"));
    assert_eq!(found.left_out[4].bytes, 1 << 40);
}

#[test]
fn answer_size_is_limited_and_omitted_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..400 {
        std::fs::write(dir.path().join(format!("{n:03}")), "x").unwrap();
    }
    let all = FileSelection::Named(vec!["*".to_owned()]);
    let found = collect(dir.path(), &all, 1 << 20).unwrap();
    assert_eq!((found.files.len(), found.left_out.len(), found.more), (MAX_FILES, MAX_NAMED, 400 - 256 - 50));
    assert_eq!(found.left_out[0].why, OmittedReason::TooMany);
    // The limit applies to the JSON size, which may be larger than the size in bytes.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), vec![1; 9_000]).unwrap();
    std::fs::write(dir.path().join("b"), "small").unwrap();
    let found = collect(dir.path(), &all, ROOM).unwrap();
    assert_eq!((names(&found), left_out(&found)), (vec!["b"], vec![("a", OmittedReason::TooLarge)]));
    let answer_bytes = super::super::report::json_length(&found.files);
    assert!(answer_bytes < ROOM, "{answer_bytes}");
}
