//! A process that is killed while it writes: the file has either its old or its new content.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::workbench::Workbench;

/// Set for the process that writes: the file to write.
const WRITES: &str = "PLEXUS_TEST_WRITES";
const ROUNDS: u64 = 12;
const SIZE: usize = 3 << 20;

/// A file that consists of one letter; the letter determines its length.
fn content(letter: char) -> String {
    letter.to_string().repeat(SIZE)
}

/// Not a test by itself: started by the other test, and writes until it is killed.
#[tokio::test]
#[ignore = "is started by the test below"]
async fn writes_until_it_is_killed() {
    let Some(path) = std::env::vars().find(|(name, _)| name == WRITES).map(|(_, path)| path) else { return };
    let bench = Workbench::new().await;
    for letter in ('a'..='z').cycle() {
        let call = json!({ "action": "write", "path": path, "text": content(letter) });
        bench.filesystem(call).await.unwrap();
    }
}

#[test]
fn kill_during_writes_leaves_a_complete_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let (mut contents_seen, mut left) = (std::collections::HashSet::new(), 0);
    for round in 0..ROUNDS {
        std::fs::write(&path, content('A')).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "filesystem::crash::writes_until_it_is_killed", "--ignored"])
            .env(WRITES, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The first write is done once the content has changed.
        let begun = std::time::Instant::now();
        while std::fs::read(&path).unwrap().first() == Some(&b'A') {
            assert!(begun.elapsed() < Duration::from_secs(60), "the process does not write");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Each round kills a little later within a write.
        std::thread::sleep(Duration::from_micros(round * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        let is = std::fs::read(&path).unwrap();
        assert_eq!(is.len(), SIZE, "round {round}");
        assert!(is.iter().all(|byte| *byte == is[0]), "round {round}: neither the old file nor the new one");
        contents_seen.insert(is[0]);
        for entry in std::fs::read_dir(folder.path()).unwrap().flatten().filter(|entry| entry.path() != path)
        {
            let name = entry.file_name().into_string().unwrap();
            assert!(
                name.starts_with(".plexus-") && name.ends_with(".tmp"),
                "{name} is not known by its name"
            );
            std::fs::remove_file(entry.path()).unwrap();
            left += 1;
        }
    }
    println!("{ROUNDS} kills: {} different files, {left} unfinished ones left", contents_seen.len());
}
