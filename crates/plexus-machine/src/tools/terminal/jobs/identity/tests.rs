use super::*;

#[test]
fn process_is_identified_by_pid_and_start_time() {
    let own = Identity::of(std::process::id()).unwrap();
    assert!(own.is_alive());
    assert!(!Identity { born: own.born + 1, ..own.clone() }.is_alive(), "another process with the same pid");
}

#[test]
fn identity_round_trips_for_any_program_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("born");
    let own = Identity::of(std::process::id()).unwrap();
    for text in [own.text(), fs::read_to_string("/proc/self/stat").unwrap()] {
        fs::write(&path, text).unwrap();
        assert_eq!(Identity::written(&path), Some(own.clone()));
    }
}
