//! A proxy that is killed: this test run again, as a process of its own.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use plexus_kit::Clock;
use plexus_store::outbox::{Limits, Outbox, Which};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{claim, deliver, write};
use crate::backend::bounded;

/// One of the ignored tests below, in a process whose folder is `folder`.
pub(super) fn process(test: &str, folder: &Path, under: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    std::fs::write(folder.join(MARK), "").unwrap();
    let mut command = match under {
        [] => Command::new(own),
        [program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args).arg(own);
            command
        }
    };
    command
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", test])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

/// In the folder of a process that was started by [`process`].
const MARK: &str = "run-by-another-test";

/// The folder of this process; none where it is just one of all ignored tests.
pub(super) fn own_folder() -> Option<PathBuf> {
    std::env::current_dir().ok().filter(|folder| folder.join(MARK).exists())
}

/// Killed when it is dropped, whatever became of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n>{line}").and_then(|()| out.flush()).unwrap();
}

/// What the process said after `>`.
pub(super) fn said(out: impl std::io::Read) -> impl Iterator<Item = String> {
    BufReader::new(out)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix('>').map(str::to_owned))
}

#[tokio::test]
#[ignore = "the process that another test kills"]
async fn queues_for_ever() {
    let Some(folder) = own_folder() else { return };
    let path = folder.join("box/outbox.db");
    let (outbox, _) = Outbox::open(&path, Clock::system(), Limits::default()).await.unwrap();
    let name = uuid::Uuid::now_v7();
    let ended = std::time::Instant::now() + std::time::Duration::from_secs(30);
    for number in 0.. {
        // Should its parent not be there to kill it.
        if std::time::Instant::now() > ended {
            return;
        }
        let key = format!("{name}/{number:06}");
        outbox.enqueue(write(&format!("s{}", number % 2), &key)).await.unwrap();
        say(&key);
        if number % 5 == 4
            && let Some(claimed) = claim(&outbox, "child").await
        {
            // Said before it is done: what was settled may be missing afterwards, nothing else.
            say(&format!("settles {}", claimed.key));
            outbox.settle(&claimed).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_acknowledged_is_lost_when_the_process_is_killed() {
    bounded(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut acknowledged, mut settled) = (Vec::new(), HashSet::new());
        for seed in 0..6 {
            let until = StdRng::seed_from_u64(seed).random_range(1..60);
            // Two at once on the same file.
            let mut children: Vec<_> = (0..2)
                .map(|_| {
                    let mut command = process("outbox::crash::queues_for_ever", dir.path(), &[]);
                    Killed(command.spawn().unwrap())
                })
                .collect();
            let readers: Vec<_> = children
                .iter_mut()
                .map(|child| {
                    let (out, id) = (child.0.stdout.take().unwrap(), child.0.id());
                    std::thread::spawn(move || {
                        let mut lines = Vec::new();
                        for line in said(out) {
                            lines.push(line);
                            if lines.len() == until {
                                // At some moment of the next write.
                                let pid = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
                                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
                            }
                        }
                        lines
                    })
                })
                .collect();
            for reader in readers {
                let lines = reader.join().unwrap();
                assert!(lines.len() >= until, "seed {seed}: it ended after {} lines", lines.len());
                for line in lines {
                    match line.strip_prefix("settles ") {
                        Some(key) => drop(settled.insert(key.to_owned())),
                        None => acknowledged.push(line),
                    }
                }
            }
        }
        let path = dir.path().join("box/outbox.db");
        let later = Clock::manual(Clock::system().now() + super::LEASE * 2);
        let (outbox, opened) = Outbox::open(&path, later, Limits::default()).await.unwrap();
        assert_eq!(opened.recovered, None);
        let there: HashSet<_> =
            outbox.list(Which::All, 0, 10_000).await.unwrap().into_iter().map(|write| write.key).collect();
        let lost: Vec<_> =
            acknowledged.iter().filter(|key| !there.contains(*key) && !settled.contains(*key)).collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert!(acknowledged.len() > 100, "{}", acknowledged.len());
        // Of each process and session, in the order in which they were made.
        let mut last = std::collections::HashMap::new();
        for key in deliver(&outbox).await {
            let (name, number) = key.split_once('/').unwrap();
            let number: u32 = number.parse().unwrap();
            let before = last.insert((name.to_owned(), number % 2), number);
            assert!(before.is_none_or(|before| before < number), "{key} after {before:?}");
        }
    })
    .await;
}
