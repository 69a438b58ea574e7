//! Killing a proxy: runs this test binary again as a separate process.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use plexus_kit::Clock;
use plexus_store::outbox::{Limits, Outbox, WriteFilter};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{claim, deliver, write};
use crate::backend::bounded;

/// Runs one of the ignored tests below in a process whose folder is `folder`.
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

/// Environment variable with the folder, set by [`process`].
const MARK: &str = "run-by-another-test";

/// The folder of this process; `None` if it was not started by [`process`].
pub(super) fn own_folder() -> Option<PathBuf> {
    std::env::current_dir().ok().filter(|folder| folder.join(MARK).exists())
}

/// Kills the process on drop, even if the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n>{line}").and_then(|()| out.flush()).unwrap();
}

/// The lines that the process printed after `>`.
pub(super) fn output_lines(out: impl std::io::Read) -> impl Iterator<Item = String> {
    BufReader::new(out)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix('>').map(str::to_owned))
}

#[tokio::test]
#[ignore = "the process that another test kills"]
async fn enqueue_until_killed() {
    let Some(folder) = own_folder() else { return };
    let path = folder.join("box/outbox.db");
    let (outbox, _) = Outbox::open(&path, Clock::system(), Limits::default()).await.unwrap();
    let name = uuid::Uuid::now_v7();
    let ended = std::time::Instant::now() + std::time::Duration::from_secs(30);
    for number in 0.. {
        // Ends the process if its parent cannot kill it.
        if std::time::Instant::now() > ended {
            return;
        }
        let key = format!("{name}/{number:06}");
        outbox.enqueue(write(&format!("s{}", number % 2), &key)).await.unwrap();
        print_line(&key);
        if number % 5 == 4
            && let Some(claimed) = claim(&outbox, "child").await
        {
            // Printed before the operation: only settled writes may be missing afterwards.
            print_line(&format!("settles {}", claimed.key));
            outbox.settle(&claimed).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_process_loses_no_acknowledged_write() {
    bounded(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut acknowledged, mut settled) = (Vec::new(), HashSet::new());
        for seed in 0..6 {
            let until = StdRng::seed_from_u64(seed).random_range(1..60);
            // Two processes on the same file.
            let mut children: Vec<_> = (0..2)
                .map(|_| {
                    let mut command = process("outbox::crash::enqueue_until_killed", dir.path(), &[]);
                    Killed(command.spawn().unwrap())
                })
                .collect();
            let readers: Vec<_> = children
                .iter_mut()
                .map(|child| {
                    let (out, id) = (child.0.stdout.take().unwrap(), child.0.id());
                    std::thread::spawn(move || {
                        let mut lines = Vec::new();
                        for line in output_lines(out) {
                            lines.push(line);
                            if lines.len() == until {
                                // At some point of the next write.
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
        let there: HashSet<_> = outbox
            .list(WriteFilter::All, 0, 10_000)
            .await
            .unwrap()
            .into_iter()
            .map(|write| write.key)
            .collect();
        let lost: Vec<_> =
            acknowledged.iter().filter(|key| !there.contains(*key) && !settled.contains(*key)).collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert!(acknowledged.len() > 100, "{}", acknowledged.len());
        // For each process and session, in creation order.
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
