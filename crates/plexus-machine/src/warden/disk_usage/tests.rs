use std::fs;
use std::io::Write as _;

use super::*;

#[test]
fn hard_links_count_once_and_holes_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let own = [Stat::of(std::process::id()).unwrap()];
    let before = measure(folder.path(), 100, &[]);
    assert_eq!(before, SpaceUsed::default());
    fs::write(path("a"), vec![7; 1 << 20]).unwrap();
    let one = measure(folder.path(), 100, &[]);
    fs::hard_link(path("a"), path("b")).unwrap();
    std::os::unix::fs::symlink("/usr", path("c")).unwrap();
    fs::File::create(path("d")).unwrap().set_len(1 << 40).unwrap();
    let more = measure(folder.path(), 100, &[]);
    assert!(one.bytes >= 1 << 20 && more.bytes < one.bytes + (64 << 10), "{one:?} {more:?}");
    assert_eq!(more.entries, 4, "symlinks are not followed");
    assert_eq!(measure(folder.path(), 3, &[]).entries, 4, "one more than allowed is enough");

    let mut unnamed = fs::File::create(path("e")).unwrap();
    unnamed.write_all(&vec![7; 1 << 20]).unwrap();
    unnamed.sync_all().unwrap();
    fs::remove_file(path("e")).unwrap();
    assert!(
        measure(folder.path(), 100, &own).bytes >= more.bytes + (1 << 20),
        "deleted open files take space"
    );
}
