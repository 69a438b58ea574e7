//! Damaged files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plexus_store::outbox::{Files, LocalFiles, NewWrite, Outbox, Recovery, WriteFilter, WriteState};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Bench, claim, deliver, fill, write};
use crate::backend::bounded;

const SEEDS: u64 = 32;
const ROWS: usize = 60;

/// Rows of different lengths in three sessions, some of them dead, some settled.
async fn accepted(outbox: &Outbox, rng: &mut StdRng) -> HashMap<String, NewWrite> {
    let mut accepted = HashMap::new();
    for number in 0..ROWS {
        let mut new = write(&format!("s{}", number % 3), &format!("key-{number}"));
        let length =
            if number % 10 == 0 { rng.random_range(5_000..20_000) } else { rng.random_range(0..600) };
        new.params = format!("{{\"name\":\"todo\",\"arguments\":\"{}\"}}", "x".repeat(length));
        outbox.enqueue(new.clone()).await.unwrap();
        accepted.insert(new.key.clone(), new);
    }
    for turn in 0..12 {
        let claimed = claim(outbox, "me").await.unwrap();
        if turn % 2 == 0 {
            outbox.dead_letter(&claimed, "HTTP 409").await.unwrap();
        } else {
            outbox.settle(&claimed).await.unwrap();
            accepted.remove(&claimed.key);
        }
    }
    accepted
}

/// Opens a damaged file, checks the remaining rows against the accepted ones, and counts them.
async fn survivors(bench: &Bench, accepted: &HashMap<String, NewWrite>) -> (usize, Option<Recovery>) {
    let (outbox, opened) = Outbox::open(&bench.path(), bench.clock.clone(), bench.limits).await.unwrap();
    let left = outbox.list(WriteFilter::All, 0, 1_000).await.unwrap();
    let mut last: HashMap<String, usize> = HashMap::new();
    for found in &left {
        let (found, params) = outbox.show(found.id).await.unwrap().unwrap();
        let was = accepted
            .get(&found.key)
            .unwrap_or_else(|| panic!("{} was never accepted or is settled", found.key));
        assert_eq!((&was.session, &was.params, &was.client), (&found.session, &params, &found.client));
        let number: usize = found.key["key-".len()..].parse().unwrap();
        if !matches!(found.state, WriteState::Dead { .. }) {
            assert!(
                last.insert(found.session, number).is_none_or(|before| before < number),
                "order of {number}"
            );
        }
    }
    // The outbox is still usable.
    fill(&outbox, "new", &["after"]).await;
    bench.clock.advance(Duration::from_secs(3600));
    let delivered = deliver(&outbox).await;
    assert!(delivered.contains(&"after".to_owned()));
    outbox.close().await.unwrap();
    (left.len(), opened.recovered)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_anywhere_costs_only_the_affected_rows() {
    let (mut damaged, mut total_rows) = (0_u64, 0);
    for seed in 0..SEEDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let bench = Bench::new();
        let outbox = bench.open().await;
        let accepted = accepted(&outbox, &mut rng).await;
        outbox.close().await.unwrap();
        let mut bytes = std::fs::read(bench.path()).unwrap();
        match seed % 4 {
            // A single byte.
            0 => {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            // A page.
            1 => {
                let page = rng.random_range(0..bytes.len() / 4096);
                rng.fill(&mut bytes[page * 4096..(page + 1) * 4096]);
            }
            // The end.
            2 => bytes.truncate(rng.random_range(1..bytes.len())),
            // The beginning, without which SQLite cannot open the file.
            _ => {
                let length = rng.random_range(1..200);
                bytes[..length].fill(0);
            }
        }
        std::fs::write(bench.path(), &bytes).unwrap();
        let (left, recovered) = bounded(survivors(&bench, &accepted)).await;
        total_rows += left;
        if let Some(recovery) = recovered {
            damaged += 1;
            assert_eq!(recovery.rows, Some(left as u64), "seed {seed}");
            assert_eq!(
                std::fs::read(&recovery.moved_to).unwrap(),
                bytes,
                "seed {seed}: the damaged file is kept"
            );
            // Only the rows of the damaged page are lost, and the loss is reported on opening.
            let most = if seed % 4 == 2 { 0 } else { accepted.len() / 3 };
            assert!(left >= most, "seed {seed}: {left} of {}", accepted.len());
            if seed % 4 == 3 {
                assert_eq!(left, accepted.len(), "seed {seed}: the first page contains no rows");
            }
        } else {
            assert_eq!(left, accepted.len(), "seed {seed}: missing rows were not reported");
        }
    }
    assert!(damaged * 3 >= SEEDS * 2, "damage was detected in {damaged} files");
    assert!(total_rows > 30 * SEEDS as usize, "{total_rows} rows were kept");
}

#[tokio::test]
async fn damaged_log_keeps_earlier_writes() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let bench = Bench::new();
        let outbox = bench.open().await;
        let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
        for key in &keys {
            outbox.enqueue(write("s", key)).await.unwrap();
        }
        // As after a crash: copied while it is open.
        let crashed = Bench::new();
        std::fs::create_dir_all(crashed.path().parent().unwrap()).unwrap();
        std::fs::copy(bench.path(), crashed.path()).unwrap();
        let log = |bench: &Bench| bench.path().with_extension("db-wal");
        let mut bytes = std::fs::read(log(&bench)).unwrap();
        match seed % 2 {
            0 => bytes.truncate(rng.random_range(0..bytes.len())),
            _ => {
                let at = rng.random_range(32..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
        }
        std::fs::write(log(&crashed), &bytes).unwrap();
        let reopened = crashed.open().await;
        let delivered = deliver(&reopened).await;
        assert_eq!(delivered, keys[..delivered.len()], "seed {seed}");
    }
}

#[tokio::test]
async fn empty_file_is_recovered_from_its_log() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a", "b", "c"]).await;
        let crashed = Bench::new();
        std::fs::create_dir_all(crashed.path().parent().unwrap()).unwrap();
        std::fs::write(crashed.path(), b"").unwrap();
        let log = |bench: &Bench| bench.path().with_extension("db-wal");
        std::fs::copy(log(&bench), log(&crashed)).unwrap();
        let (reopened, opened) =
            Outbox::open(&crashed.path(), crashed.clock.clone(), crashed.limits).await.unwrap();
        assert_eq!(opened.recovered.unwrap().rows, Some(3));
        assert_eq!(deliver(&reopened).await, ["a", "b", "c"]);
    })
    .await;
}

/// Damage is found while two processes have the file open: both continue on the same new file.
#[tokio::test]
async fn damage_is_repaired_while_the_file_is_in_use() {
    bounded(async {
        let bench = Bench::new();
        let (one, other) = (bench.open().await, bench.open().await);
        let mut long = write("s", "long");
        long.params = "x".repeat(50_000);
        one.enqueue(long).await.unwrap();
        fill(&other, "t", &["a", "b"]).await;
        one.close().await.unwrap();
        other.close().await.unwrap();
        fill(&other, "t", &["c"]).await;
        // In the middle of the long text, where only the checksum detects it.
        let mut bytes = std::fs::read(bench.path()).unwrap();
        let at = bytes.windows(100).rposition(|window| window == [b'x'; 100]).unwrap();
        bytes[at + 50] = b'y';
        let file = std::fs::OpenOptions::new().write(true).open(bench.path()).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        let first = one.claim("one", super::LEASE).await.unwrap().unwrap();
        assert_eq!(first.key, "a", "rows with a wrong checksum are not sent");
        let recovery = one.take_recovery().unwrap();
        assert_eq!((recovery.rows, one.take_recovery()), (Some(3), None));
        fill(&other, "t", &["d"]).await;
        assert!(other.settle(&first).await.unwrap(), "the claim was preserved");
        assert_eq!(deliver(&one).await, ["b", "c", "d"]);
        assert!(recovery.moved_to.exists());
    })
    .await;
}

/// File operations that fail at one numbered step.
#[derive(Debug)]
struct Failing {
    fails_at: usize,
    steps: AtomicUsize,
    kind: io::ErrorKind,
}

impl Failing {
    fn step(&self) -> io::Result<()> {
        match self.steps.fetch_add(1, Ordering::SeqCst) {
            step if step == self.fails_at => Err(self.kind.into()),
            _ => Ok(()),
        }
    }
}

impl Files for Failing {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.step().and_then(|()| LocalFiles.create_folder(path))
    }
    fn open(&self, path: &Path) -> io::Result<std::fs::File> {
        self.step().and_then(|()| LocalFiles.open(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step().and_then(|()| LocalFiles.rename(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step().and_then(|()| LocalFiles.remove(path))
    }
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.step().and_then(|()| LocalFiles.write(path, content))
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step().and_then(|()| LocalFiles.sync_folder(path))
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

/// A file with one damaged page, which SQLite can open.
async fn with_a_damaged_index(bench: &Bench) {
    let outbox = bench.open().await;
    fill(&outbox, "s", &["a", "b", "c", "d"]).await;
    outbox.close().await.unwrap();
    let mut bytes = std::fs::read(bench.path()).unwrap();
    bytes[6 * 4096..7 * 4096].fill(0xff);
    std::fs::write(bench.path(), &bytes).unwrap();
}

/// A file of which only the log is left, which SQLite would discard.
async fn with_its_log_only(bench: &Bench) {
    let outbox = bench.open().await;
    fill(&outbox, "s", &["a", "b", "c", "d"]).await;
    let log = bench.path().with_extension("db-wal");
    let bytes = std::fs::read(&log).unwrap();
    outbox.close().await.unwrap();
    std::fs::write(&log, bytes).unwrap();
    std::fs::write(bench.path(), b"").unwrap();
}

/// A recovery that was interrupted at any step is completed by the next, with the same result.
#[tokio::test]
async fn interrupted_recovery_is_completed_by_the_next() {
    bounded(async {
        for log_only in [false, true] {
            let mut fails_at = 0;
            while !stopped_at(fails_at, log_only).await {
                fails_at += 1;
            }
            assert!(fails_at > 10, "only {fails_at} steps");
        }
    })
    .await;
}

/// Returns true if there was no such step any more.
async fn stopped_at(fails_at: usize, log_only: bool) -> bool {
    let bench = Bench::new();
    match log_only {
        true => with_its_log_only(&bench).await,
        false => with_a_damaged_index(&bench).await,
    }
    let full = fails_at.is_multiple_of(2);
    let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::PermissionDenied };
    let failing = Arc::new(Failing { fails_at, steps: AtomicUsize::new(0), kind });
    let opened = Outbox::open_with(&bench.path(), bench.clock.clone(), bench.limits, failing).await;
    let done = match opened {
        Ok((outbox, opened)) => {
            assert_eq!(opened.recovered.unwrap().rows, Some(4));
            outbox.close().await.unwrap();
            true
        }
        Err(error) => {
            let advice = if full { "free some" } else { "writable folder" };
            assert!(error.to_string().contains(advice), "{error}");
            false
        }
    };
    bench.clock.advance(Duration::from_secs(60));
    let (reopened, _) = Outbox::open(&bench.path(), bench.clock.clone(), bench.limits).await.unwrap();
    assert_eq!(deliver(&reopened).await, ["a", "b", "c", "d"], "after step {fails_at}");
    reopened.close().await.unwrap();
    let left = names(bench.path().parent().unwrap());
    let named = |part: &str| left.iter().filter(|name| name.to_string_lossy().contains(part)).count();
    assert_eq!(named(".corrupt-"), if log_only { 2 } else { 1 }, "after step {fails_at}: {left:?}");
    assert_eq!(named(".recovering") + named(".new"), 0, "after step {fails_at}: {left:?}");
    done
}
