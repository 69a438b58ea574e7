use std::path::PathBuf;
use std::thread;

use super::{read, write_unsynced};

#[test]
fn concurrent_writes_of_files_with_one_stem_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = ["audit.head", "audit.verified"].map(|name| folder.path().join(name)).into();
    thread::scope(|scope| {
        // Two writers for each file.
        for path in files.iter().chain(&files) {
            scope.spawn(move || {
                for _ in 0..500 {
                    write_unsynced(path, path.as_os_str().as_encoded_bytes()).unwrap();
                    let content = read(path).unwrap().expect("a file");
                    assert_eq!(content, path.as_os_str().as_encoded_bytes());
                }
            });
        }
    });
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn failed_write_leaves_no_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taken");
    std::fs::create_dir(&path).unwrap();
    write_unsynced(&path, b"content").unwrap_err();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}
