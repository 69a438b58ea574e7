//! The file as its owner and as others leave it.

use std::os::unix::fs::PermissionsExt as _;

use super::{FILE, add, read};

#[test]
fn allowed_commands_are_kept_once_each_in_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    assert!(read(folder.path()).unwrap().is_empty());
    add(folder.path(), &["/opt/server".to_owned(), "go".to_owned()]).unwrap();
    add(folder.path(), &["go".to_owned(), "java".to_owned()]).unwrap();
    assert_eq!(read(folder.path()).unwrap(), ["/opt/server", "go", "java"]);
    let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_damaged_file_allows_nothing_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    crate::private_file::write(&folder.path().join(FILE), b"[").unwrap();
    assert!(read(folder.path()).is_err() && add(folder.path(), &["go".to_owned()]).is_err());
    assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), b"[");
}
