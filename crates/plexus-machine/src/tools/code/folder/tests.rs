use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn scratch(parent: &Path) -> Scratch {
    let files = [Given { name: "main.py".to_owned(), content: b"pass".to_vec() }];
    Scratch::create(parent, "x", &files, Some("in")).unwrap()
}

#[test]
fn it_is_for_its_owner_alone_and_has_what_was_given() {
    let parent = tempfile::tempdir().unwrap();
    let files = [Given { name: "a/b/é".to_owned(), content: vec![0, 255] }];
    let scratch = Scratch::create(parent.path(), "x", &files, None).unwrap();
    for folder in [scratch.path().to_owned(), scratch.work(), scratch.work().join("a/b")] {
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
    }
    assert_eq!(std::fs::read(scratch.work().join("a/b/é")).unwrap(), [0, 255]);
    assert!(Scratch::create(parent.path(), "x", &files, None).is_err(), "it is used once");
    assert!(left(parent.path()).unwrap().is_empty(), "what could not be filled is removed");
}

#[test]
fn nothing_that_a_program_leaves_keeps_its_folder_there() {
    let parent = tempfile::tempdir().unwrap();
    let outside = parent.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("keep"), "").unwrap();
    let scratch = scratch(parent.path());
    let work = scratch.work();
    symlink(&outside, work.join("link")).unwrap();
    symlink("nowhere", work.join("dangling")).unwrap();
    std::fs::hard_link(outside.join("keep"), work.join("hard")).unwrap();
    for n in 0..4500 {
        std::fs::write(work.join(format!("file {n}")), "").unwrap();
    }
    // Deeper than a process may have files open, and than a path can be.
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
    scratch.remove();
    assert!(!scratch.path().exists());
    assert!(outside.join("keep").exists(), "a link is removed and not followed");
}
