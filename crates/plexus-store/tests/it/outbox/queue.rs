use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use futures_util::FutureExt;
use plexus_kit::backoff::Jitter;
use plexus_store::outbox::{
    self, Counts, LONGEST_LEASE, LONGEST_PAUSE, Limits, NewWrite, Outbox, OutboxError, WriteState,
};

use super::{Bench, LEASE, claim, deliver, fill, write};
use crate::backend::bounded;

#[tokio::test]
async fn accepted_writes_are_claimed_unchanged_and_in_order() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        let stamped = bench.clock.now();
        let queued = outbox.enqueue(write("codex:1", "a")).await.unwrap();
        assert_eq!((queued.occurred_at, queued.earlier, queued.dead), (stamped, false, false));
        bench.clock.advance(Duration::from_secs(60));
        fill(&outbox, "codex:1", &["b", "c"]).await;
        outbox.close().await.unwrap();

        let outbox = bench.open().await;
        let first = claim(&outbox, "me").await.unwrap();
        let sent = write("codex:1", "a");
        assert_eq!((&first.key, &first.client, &first.params), (&sent.key, &sent.client, &sent.params));
        assert_eq!((first.occurred_at, first.attempts, first.id), (stamped, 1, queued.id));
        assert!(outbox.settle(&first).await.unwrap());
        assert_eq!(deliver(&outbox).await, ["b", "c"]);
        assert_eq!(outbox.counts().await.unwrap(), Counts::default());
        assert_eq!(outbox.next_due().await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn file_is_private_to_its_owner() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a"]).await;
        let folder = bench.path().parent().unwrap().to_owned();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    })
    .await;
}

#[tokio::test]
async fn key_identifies_one_row_and_one_write() {
    bounded(async {
        let bench = Bench::new();
        let (one, other) = (bench.open().await, bench.open().await);
        let first = one.enqueue(write("s", "a")).await.unwrap();
        bench.clock.advance(Duration::from_secs(5));
        let again = other.enqueue(write("s", "a")).await.unwrap();
        assert_eq!((again.id, again.occurred_at, again.earlier), (first.id, first.occurred_at, true));
        let mut changed = write("s", "a");
        changed.params = "{}".to_owned();
        let error = one.enqueue(changed).await.unwrap_err();
        assert!(matches!(error, OutboxError::KeyTaken { .. }), "{error}");
        assert!(matches!(one.enqueue(write("s", "")).await, Err(OutboxError::Invalid(_))));
        assert!(matches!(one.enqueue(write("s", "a\0")).await, Err(OutboxError::Invalid(_))));
        assert_eq!(deliver(&other).await, ["a"]);
    })
    .await;
}

#[tokio::test]
async fn only_the_oldest_write_of_each_session_is_claimed() {
    bounded(async {
        let bench = Bench::new();
        let (one, other) = (bench.open().await, bench.open().await);
        fill(&one, "s", &["s1", "s2"]).await;
        fill(&other, "t", &["t1", "t2"]).await;
        let s1 = claim(&one, "one").await.unwrap();
        let t1 = claim(&other, "other").await.unwrap();
        assert_eq!((s1.key.as_str(), t1.key.as_str()), ("s1", "t1"));
        assert_eq!(claim(&one, "one").await, None);
        assert_eq!(claim(&other, "other").await, None);
        assert!(one.settle(&s1).await.unwrap());
        // Postponed together with the rows behind it.
        assert!(other.postpone(&t1, bench.clock.now() + LEASE, "HTTP 503").await.unwrap());
        assert_eq!(deliver(&other).await, ["s2"]);
        assert!(!one.has_pending("s").await.unwrap());
        assert!(one.has_pending("t").await.unwrap());
        assert_eq!(one.next_due().await.unwrap(), Some(bench.clock.now() + LEASE));
        let (waiting, _) = one.show(t1.id).await.unwrap().unwrap();
        assert!(matches!(waiting.state, WriteState::Waiting { why: Some(why), .. } if why == "HTTP 503"));
        bench.clock.advance(LEASE);
        assert_eq!(deliver(&one).await, ["t1", "t2"]);
    })
    .await;
}

#[tokio::test]
async fn dead_letter_does_not_block_the_queue() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a", "b"]).await;
        let first = claim(&outbox, "me").await.unwrap();
        assert!(outbox.dead_letter(&first, "the hub refused it (HTTP 409)").await.unwrap());
        assert!(!outbox.settle(&first).await.unwrap(), "it already ended");
        assert_eq!(deliver(&outbox).await, ["b"]);
        let counts = outbox.counts().await.unwrap();
        assert_eq!((counts.pending, counts.dead, counts.oldest), (0, 1, None));
    })
    .await;
}

#[tokio::test]
async fn lost_lease_cannot_change_the_row() {
    bounded(async {
        let bench = Bench::new();
        let (slow, quick) = (bench.open().await, bench.open().await);
        fill(&slow, "s", &["a", "b"]).await;
        let lost = claim(&slow, "slow").await.unwrap();
        assert_eq!(quick.next_due().await.unwrap(), Some(bench.clock.now() + LEASE));
        bench.clock.advance(LEASE - Duration::from_millis(1));
        assert_eq!(claim(&quick, "quick").await, None, "the lease is still valid");
        assert!(slow.renew_lease(&lost, LEASE).await.unwrap());
        bench.clock.advance(LEASE - Duration::from_millis(1));
        assert_eq!(claim(&quick, "quick").await, None, "it was renewed");
        bench.clock.advance(Duration::from_millis(1));
        let claimed = claim(&quick, "quick").await.unwrap();
        assert_eq!((claimed.key.as_str(), claimed.attempts), ("a", 2));
        let now = bench.clock.now();
        assert!(!slow.settle(&lost).await.unwrap());
        assert!(!slow.postpone(&lost, now, "late").await.unwrap());
        assert!(!slow.dead_letter(&lost, "late").await.unwrap());
        assert!(!slow.renew_lease(&lost, LEASE).await.unwrap());
        assert!(quick.settle(&claimed).await.unwrap());
        assert_eq!(deliver(&slow).await, ["b"]);
    })
    .await;
}

#[tokio::test]
async fn expired_lease_is_valid_until_taken_over() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a"]).await;
        let claimed = claim(&outbox, "me").await.unwrap();
        bench.clock.advance(LEASE * 2);
        assert!(outbox.settle(&claimed).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn clock_jumps_do_not_block_rows() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "leased", &["a"]).await;
        fill(&outbox, "postponed", &["b"]).await;
        let far = Duration::from_secs(365 * 24 * 60 * 60);
        claim(&outbox, "crashed").await.unwrap();
        let postponed = claim(&outbox, "me").await.unwrap();
        // Limited to the longest pause, however far in the future.
        outbox.postpone(&postponed, bench.clock.now() + far, "later").await.unwrap();
        assert_eq!(outbox.next_due().await.unwrap(), Some(bench.clock.now() + LEASE));
        bench.clock.advance(LONGEST_PAUSE - Duration::from_millis(1));
        assert_eq!(claim(&outbox, "me").await.unwrap().key, "a");
        assert_eq!(claim(&outbox, "me").await, None);
        // Back by a year: pauses written under the later clock are over.
        bench.clock.set(bench.clock.now() - far);
        assert_eq!(outbox.next_due().await.unwrap(), Some(bench.clock.now()));
        assert_eq!(deliver(&outbox).await, ["a", "b"]);
        assert!(LONGEST_LEASE >= LEASE);
    })
    .await;
}

#[tokio::test]
async fn future_timestamp_is_delivered_unchanged() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        let ahead = bench.clock.now() + Duration::from_secs(1_000_000);
        bench.clock.set(ahead);
        fill(&outbox, "s", &["a"]).await;
        bench.clock.set(ahead - Duration::from_secs(1_000_000));
        fill(&outbox, "s", &["b"]).await;
        let first = claim(&outbox, "me").await.unwrap();
        assert_eq!((first.key.as_str(), first.occurred_at), ("a", ahead));
    })
    .await;
}

#[tokio::test]
async fn expired_write_becomes_a_dead_letter() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["old"]).await;
        bench.clock.advance(bench.limits.age);
        fill(&outbox, "s", &["new"]).await;
        let held = claim(&outbox, "me").await.unwrap();
        assert_eq!(held.key, "old", "just within the age limit");
        bench.clock.advance(Duration::from_millis(1));
        assert_eq!(claim(&outbox, "me").await, None, "in flight, so it does not expire");
        assert!(outbox.postpone(&held, bench.clock.now(), "HTTP 503").await.unwrap());
        assert_eq!(deliver(&outbox).await, ["new"]);
        let (write, _) = outbox.show(held.id).await.unwrap().unwrap();
        let WriteState::Dead { reason, .. } = write.state else { panic!("{write:?}") };
        assert!(reason.starts_with("expired"), "{reason}");
        // A person allows it to be sent.
        let occurred = write.occurred_at;
        outbox.retry(held.id).await.unwrap().unwrap();
        let again = claim(&outbox, "me").await.unwrap();
        assert_eq!((again.key.as_str(), again.occurred_at), ("old", occurred));
    })
    .await;
}

#[tokio::test]
async fn full_outbox_rejects_until_there_is_space() {
    bounded(async {
        let mut bench = Bench::new();
        bench.limits.rows = 3;
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a", "b", "c"]).await;
        let error = outbox.enqueue(write("s", "d")).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(error.to_string().contains("3 waiting writes and 0 dead letters"), "{error}");
        // Existing keys are answered even if the outbox is full.
        assert!(outbox.enqueue(write("s", "a")).await.unwrap().earlier);
        let first = claim(&outbox, "me").await.unwrap();
        outbox.dead_letter(&first, "no").await.unwrap();
        assert!(outbox.enqueue(write("s", "d")).await.is_err(), "dead letters count towards the limit");
        let second = claim(&outbox, "me").await.unwrap();
        outbox.settle(&second).await.unwrap();
        outbox.enqueue(write("s", "d")).await.unwrap();
        assert_eq!(deliver(&outbox).await, ["c", "d"]);
    })
    .await;
}

#[tokio::test]
async fn outbox_size_in_bytes_is_limited() {
    bounded(async {
        let mut bench = Bench::new();
        let mut long = write("s", "long");
        long.params = format!("\"{}\"", "x".repeat(10_000));
        bench.limits = Limits { bytes: 25_000, ..Limits::default() };
        let outbox = bench.open().await;
        for key in ["one", "two"] {
            outbox.enqueue(NewWrite { key: key.to_owned(), ..long.clone() }).await.unwrap();
        }
        assert!(matches!(outbox.enqueue(long.clone()).await, Err(OutboxError::Full { .. })));
        fill(&outbox, "s", &["short"]).await;
        long.params = "x".repeat(30_000);
        let error = outbox.enqueue(long).await.unwrap_err();
        assert!(matches!(error, OutboxError::TooLarge { .. }) && !error.is_retryable(), "{error}");
        assert_eq!(deliver(&outbox).await, ["one", "two", "short"]);
    })
    .await;
}

#[tokio::test]
async fn waiting_consumer_is_woken_by_new_work() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        let clone: Outbox = outbox.clone();
        assert!(outbox.write_available().now_or_never().is_none());
        fill(&clone, "s", &["a"]).await;
        outbox.write_available().await;
        assert!(outbox.write_available().now_or_never().is_none());
        let claimed = claim(&outbox, "me").await.unwrap();
        outbox.postpone(&claimed, bench.clock.now() + LEASE, "no link").await.unwrap();
        assert_eq!(claim(&outbox, "me").await, None);
        outbox.make_all_due().await.unwrap();
        outbox.write_available().await;
        assert_eq!(deliver(&outbox).await, ["a"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_caller_leaves_no_partial_operation() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        for number in 0..30 {
            let _ = outbox.enqueue(write("s", &format!("{number:02}"))).now_or_never();
            let _ = outbox.claim("gone", LEASE).now_or_never();
        }
        outbox.enqueue(write("s", "last")).await.unwrap();
        bench.clock.advance(LEASE);
        let delivered = deliver(&outbox).await;
        assert!(delivered.is_sorted() && delivered.ends_with(&["last".to_owned()]), "{delivered:?}");
        assert_eq!(outbox.counts().await.unwrap(), Counts::default());
    })
    .await;
}

#[test]
fn retry_delays_grow_up_to_a_minute() {
    let pauses: Vec<_> = (1..=9).map(|n| outbox::pause(n, &Jitter::fixed(1.0)).as_millis()).collect();
    assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!(outbox::pause(u32::MAX, &Jitter::fixed(0.0)), Duration::from_secs(30));
    assert_eq!(outbox::pause(0, &Jitter::fixed(0.0)), Duration::from_millis(250));
}

#[tokio::test]
async fn file_of_a_newer_version_is_not_modified() {
    bounded(async {
        let bench = Bench::new();
        let outbox = bench.open().await;
        fill(&outbox, "s", &["a"]).await;
        outbox.close().await.unwrap();
        let newer = sqlx::SqlitePool::connect(&format!("sqlite:{}", bench.path().display())).await.unwrap();
        sqlx::query("PRAGMA user_version = 2000006").execute(&newer).await.unwrap();
        newer.close().await;
        let error = Outbox::open(&bench.path(), bench.clock.clone(), bench.limits).await.unwrap_err();
        assert!(matches!(error, OutboxError::Newer { version: 2, .. }), "{error}");
        assert!(error.to_string().contains("newer version of Plexus"), "{error}");
    })
    .await;
}
