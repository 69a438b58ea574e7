use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::Snapshot;
use crate::supervision::Timing;

#[test]
fn change_is_applied_within_a_second() {
    let Timing { watch, confirm, .. } = Timing::default();
    assert!(watch + confirm <= Duration::from_secs(1), "{watch:?} + {confirm:?}");
}

#[test]
fn added_changed_and_removed_files_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.json");
    let look = || Snapshot::of(dir.path());
    let set_mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    set_mode(dir.path(), 0o700);
    let nothing = look();
    assert_eq!(nothing, Snapshot::of(&dir.path().join("missing")));
    std::fs::write(&file, "{}").unwrap();
    let one = look();
    assert_ne!(one, nothing);
    assert_eq!(one, look());
    std::fs::write(&file, "{ }").unwrap();
    assert_ne!(one, look());
    let before = look();
    set_mode(&file, 0o666);
    assert_ne!(before, look(), "the mode counts");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(nothing, look());
    set_mode(dir.path(), 0o777);
    assert_ne!(nothing, look());
}
