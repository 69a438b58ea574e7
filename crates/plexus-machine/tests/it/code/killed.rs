//! A node that is killed while code runs: the code ends too, and its folder is removed when the node starts again.

use std::process::{Command, Stdio};

use serde_json::json;

use super::ends::sleeper;
use super::{SMALL, folders, nothing_will_be_left};
use crate::terminal::ends::{is_process_alive, read_pid};
use crate::workbench::{Workbench, poll_until};

/// Set in the environment of the process that plays the node.
const FOLDER: &str = "PLEXUS_TEST_CODE_FOLDER";
const FILE: &str = "PLEXUS_TEST_CODE_FILE";

/// Not a test by itself: the process that [`code_ends_with_a_node_that_is_killed`] kills. Without its folder it does
/// nothing.
#[tokio::test]
#[ignore = "a part of another test, which starts it"]
async fn a_node_that_is_to_be_killed() {
    let (Some(folder), Some(file)) = (std::env::var_os(FOLDER), std::env::var_os(FILE)) else { return };
    let folder = tempfile::Builder::new().prefix("node").tempdir_in(folder).unwrap();
    let bench = Workbench::with_launcher_in(folder, SMALL).await;
    let _ = bench.code(sleeper(file.as_ref())).await;
}

#[tokio::test]
async fn code_ends_with_a_node_that_is_killed() {
    let outer = tempfile::tempdir().unwrap();
    let file = outer.path().join("pid");
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "code::killed::a_node_that_is_to_be_killed", "--ignored", "--nocapture"])
        .env(FOLDER, outer.path())
        .env(FILE, &file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = read_pid(&file).await;
    assert!(is_process_alive(pid));
    node.kill().unwrap();
    node.wait().unwrap();
    poll_until(async || (!is_process_alive(pid)).then_some(())).await;
    let data =
        std::fs::read_dir(outer.path()).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap();
    let left = std::fs::read_dir(data.path().join("code")).unwrap().count();
    assert_eq!(left, 1, "no node was running to remove it");

    // On the same folder, in another process.
    let again = tempfile::Builder::new().prefix("again").tempdir_in(outer.path()).unwrap();
    std::fs::remove_dir(again.path()).unwrap();
    std::fs::rename(data.path(), again.path()).unwrap();
    let bench = Workbench::with_launcher_in(again, SMALL).await;
    poll_until(async || (folders(&bench) == 0).then_some(())).await;
    nothing_will_be_left(&bench).await;
    let answer = bench.code(json!({ "language": "shell", "code": "echo back" })).await.unwrap();
    assert_eq!(answer["stdout"]["text"], "back\n");
}
