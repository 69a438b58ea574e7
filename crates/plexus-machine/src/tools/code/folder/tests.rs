use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn snippet_folder(parent: &Path) -> SnippetFolder {
    let files = [InputFile { name: "main.py".to_owned(), content: b"pass".to_vec() }];
    SnippetFolder::create(parent, "x", &files, Some("in")).unwrap()
}

#[test]
fn folder_is_private_and_contains_the_given_files() {
    let parent = tempfile::tempdir().unwrap();
    let files = [InputFile { name: "a/b/é".to_owned(), content: vec![0, 255] }];
    let snippet_folder = SnippetFolder::create(parent.path(), "x", &files, None).unwrap();
    for folder in [snippet_folder.path().to_owned(), snippet_folder.work(), snippet_folder.work().join("a/b")]
    {
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
    }
    assert_eq!(std::fs::read(snippet_folder.work().join("a/b/é")).unwrap(), [0, 255]);
    assert!(SnippetFolder::create(parent.path(), "x", &files, None).is_err(), "an id is used once");
    assert!(
        leftover_folders(parent.path()).unwrap().is_empty(),
        "a folder that could not be filled is removed"
    );
}

#[test]
fn folder_is_removed_whatever_a_program_leaves_in_it() {
    let parent = tempfile::tempdir().unwrap();
    let outside = parent.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("keep"), "").unwrap();
    let snippet_folder = snippet_folder(parent.path());
    let work = snippet_folder.work();
    symlink(&outside, work.join("link")).unwrap();
    symlink("nowhere", work.join("dangling")).unwrap();
    std::fs::hard_link(outside.join("keep"), work.join("hard")).unwrap();
    for n in 0..4500 {
        std::fs::write(work.join(format!("file {n}")), "").unwrap();
    }
    // Deeper than a process can have files open, and than a path can be long.
    let mut deepest = open(CWD, &work).unwrap();
    for _ in 0..2500 {
        rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).unwrap();
        deepest = open(&deepest, "d").unwrap();
    }
    rustix::fs::mkdirat(&deepest, "1", Mode::RWXU).unwrap();
    drop(deepest);
    for shut in ["shut", "shut/in"] {
        std::fs::create_dir(work.join(shut)).unwrap();
    }
    for shut in ["shut/in", "shut"] {
        std::fs::set_permissions(work.join(shut), std::fs::Permissions::from_mode(0o0)).unwrap();
    }
    snippet_folder.remove();
    assert!(!snippet_folder.path().exists());
    assert!(outside.join("keep").exists(), "a symlink is removed, not followed");
}
