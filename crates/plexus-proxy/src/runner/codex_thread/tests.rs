use super::*;

const FIRST: &str = "0199a213-81c0-7800-8aa1-bbab2a035a53";
const SECOND: &str = "0199a213-81c0-7800-8aa1-bbab2a035a54";

#[test]
fn thread_is_that_of_the_open_or_only_new_transcript() {
    let home = tempfile::tempdir().unwrap();
    let day = home.path().join("sessions/2026/11/18");
    std::fs::create_dir_all(&day).unwrap();
    let (own, since, here) = (std::process::id(), SystemTime::UNIX_EPOCH, Path::new("/here"));
    let path = |thread: &str| day.join(format!("rollout-2026-11-18T05-00-00-{thread}.jsonl"));
    let ended = |since| ended_codex_thread(home.path(), since, here);
    assert_eq!((codex_thread(own), ended(since)), (None, None));
    let about =
        |cwd: &str| format!("{{\"type\":\"session_meta\",\"payload\":{{\"cwd\":\"{cwd}\"}}}}\n{{}}\n");
    std::fs::write(path(SECOND), about("/here")).unwrap();
    std::fs::write(path("0199a213-81c0-7800-8aa1-bbab2a035a55"), about("/elsewhere")).unwrap();
    assert_eq!(ended(since).as_deref(), Some(SECOND), "the only one here");
    let later = SystemTime::now() + std::time::Duration::from_secs(60);
    assert_eq!(ended(later), None, "from before");
    std::fs::write(path(FIRST), about("/here")).unwrap();
    assert_eq!(ended(since), None, "one of two");
    let _second = std::fs::File::open(path(SECOND)).unwrap();
    let _first = std::fs::File::open(path(FIRST)).unwrap();
    assert_eq!(codex_thread(own).as_deref(), Some(FIRST));
}
