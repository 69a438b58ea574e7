//! Full and read-only disks, using a real mount in a mount namespace.

use std::path::Path;
use std::process::Command;

use plexus_kit::Clock;
use plexus_store::outbox::{Limits, Outbox, OutboxError};

use super::crash::{output_lines, own_folder, print_line, process};
use super::{claim, deliver, write};
use crate::backend::bounded;

/// Runs an ignored test with a small disk at `disk` in its folder; `None` if the system does not allow it.
fn on_small_disk(test: &str, folder: &Path) -> Option<Vec<String>> {
    let allowed = Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("left out: no mount namespaces here");
        return None;
    }
    std::fs::create_dir(folder.join("disk")).unwrap();
    let script = "mount -t tmpfs -o size=512k tmpfs disk && cd . && exec \"$@\"";
    let output = process(test, folder, &["timeout", "60", "unshare", "-rm", "sh", "-c", script, "sh"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(output_lines(&*output.stdout).collect())
}

async fn open(path: &Path) -> Result<Outbox, OutboxError> {
    Outbox::open(path, Clock::system(), Limits::default()).await.map(|(outbox, _)| outbox)
}

#[tokio::test]
#[ignore = "the process of another test, on its small disk"]
async fn fill_the_disk() {
    let Some(folder) = own_folder() else { return };
    let path = folder.join("disk/box/outbox.db");
    let outbox = open(&path).await.unwrap();
    let mut accepted = Vec::new();
    let error = loop {
        let mut new = write("s", &format!("key-{:04}", accepted.len()));
        new.params = "x".repeat(3_000);
        match outbox.enqueue(new).await {
            Ok(queued) if !queued.earlier => accepted.push(format!("key-{:04}", accepted.len())),
            Ok(queued) => panic!("a rejected write was stored: {queued:?}"),
            Err(error) => break error,
        }
        assert!(accepted.len() < 1_000);
    };
    assert!(matches!(error, OutboxError::DiskFull { .. }) && error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("no disk space left"), "{error}");
    // The disk is still full, for every attempt.
    for _ in 0..3 {
        assert!(outbox.enqueue(write("s", "refused")).await.is_err());
    }
    outbox.close().await.ok();
    // The next process can still open and read the existing rows.
    let again = open(&path).await.unwrap();
    assert_eq!(again.counts().await.unwrap().pending, accepted.len() as u64);
    // Space is available again.
    let output = Command::new("mount").args(["-o", "remount,size=8m", "disk"]).status().unwrap();
    assert!(output.success());
    again.enqueue(write("s", "refused")).await.unwrap();
    accepted.push("refused".to_owned());
    assert_eq!(deliver(&again).await, accepted);
    print_line("done");
}

#[tokio::test]
async fn full_disk_rejects_writes_and_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    if let Some(output) = on_small_disk("outbox::disk::fill_the_disk", dir.path()) {
        assert_eq!(output, ["done"]);
    }
}

#[tokio::test]
#[ignore = "the process of another test, on its small disk"]
async fn make_the_disk_read_only() {
    let Some(here) = own_folder() else { return };
    let path = here.join("disk/box/outbox.db");
    let outbox = open(&path).await.unwrap();
    outbox.enqueue(write("s", "a")).await.unwrap();
    let mount = |options: &str| {
        assert!(Command::new("mount").args(["-o", options, "disk"]).status().unwrap().success());
    };
    outbox.close().await.unwrap();
    drop(outbox);
    mount("remount,ro");
    let error = open(&path).await.unwrap_err();
    assert!(error.to_string().contains("writable folder"), "{error}");
    let error = open(&here.join("disk/new/outbox.db")).await.unwrap_err();
    assert!(error.to_string().contains("writable folder"), "{error}");
    mount("remount,rw");
    let outbox = open(&path).await.unwrap();
    outbox.enqueue(write("s", "c")).await.unwrap();
    assert_eq!(deliver(&outbox).await, ["a", "c"]);
    print_line("done");
}

#[tokio::test]
async fn read_only_folder_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    if let Some(output) = on_small_disk("outbox::disk::make_the_disk_read_only", dir.path()) {
        assert_eq!(output, ["done"]);
    }
}

/// Something else is in the place of the folder or the file.
#[tokio::test]
async fn obstructing_file_is_named_in_the_error() {
    bounded(async {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "not a folder").unwrap();
        let error = open(&dir.path().join("file/outbox.db")).await.unwrap_err();
        assert!(error.to_string().contains("/file"), "{error}");
        std::fs::create_dir_all(dir.path().join("box/outbox.db")).unwrap();
        let error = open(&dir.path().join("box/outbox.db")).await.unwrap_err();
        assert!(error.to_string().contains("outbox.db"), "{error}");
        // A foreign file is moved aside, not overwritten.
        let path = dir.path().join("other/outbox.db");
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::fs::write(&path, "my notes, which are longer than the header of a database, and no database")
            .unwrap();
        let (outbox, opened) = Outbox::open(&path, Clock::system(), Limits::default()).await.unwrap();
        let recovery = opened.recovered.unwrap();
        assert_eq!(recovery.rows, Some(0));
        assert!(std::fs::read_to_string(recovery.moved_to).unwrap().starts_with("my notes"));
        outbox.enqueue(write("s", "a")).await.unwrap();
        assert_eq!(claim(&outbox, "me").await.unwrap().key, "a");
    })
    .await;
}
