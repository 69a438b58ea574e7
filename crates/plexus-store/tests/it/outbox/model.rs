//! Random operations of two proxies on one file, compared with a model.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use plexus_store::outbox::{ClaimedWrite, Outbox, WriteFilter};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Bench, LEASE, write};

#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        session: u8,
    },
    Claim,
    Settle {
        which: usize,
    },
    Postpone {
        which: usize,
        seconds: u64,
    },
    DeadLetter {
        which: usize,
    },
    Renew {
        which: usize,
    },
    Retry {
        which: usize,
    },
    Drop {
        which: usize,
    },
    Advance {
        seconds: u64,
    },
    Back {
        seconds: u64,
    },
    /// Killed and restarted: its claims are abandoned.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
    let step = prop_oneof![
        5 => (0..3_u8).prop_map(|session| Step::Enqueue { session }),
        6 => Just(Step::Claim),
        4 => any::<usize>().prop_map(|which| Step::Settle { which }),
        2 => (any::<usize>(), 0..400_u64).prop_map(|(which, seconds)| Step::Postpone { which, seconds }),
        2 => any::<usize>().prop_map(|which| Step::DeadLetter { which }),
        1 => any::<usize>().prop_map(|which| Step::Renew { which }),
        1 => any::<usize>().prop_map(|which| Step::Retry { which }),
        1 => any::<usize>().prop_map(|which| Step::Drop { which }),
        2 => (0..60_u64).prop_map(|seconds| Step::Advance { seconds }),
        1 => (0..5_000_u64).prop_map(|seconds| Step::Back { seconds }),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec((any::<bool>(), step), 1..60)
}

/// The expected content of the file.
#[derive(Debug, Default)]
struct Model {
    /// Keys by their position, per session.
    queues: HashMap<String, BTreeMap<i64, String>>,
    dead: BTreeMap<i64, String>,
    /// The valid claim of each claimed row.
    claims: HashMap<i64, ClaimedWrite>,
    ended: HashMap<String, &'static str>,
}

impl Model {
    fn is_newest(&self, claimed: &ClaimedWrite) -> bool {
        self.claims.get(&claimed.id) == Some(claimed)
    }

    fn take(&mut self, claimed: &ClaimedWrite) {
        self.claims.remove(&claimed.id);
        self.queues.get_mut(&claimed.session).unwrap().remove(&claimed.id).unwrap();
    }

    fn end(&mut self, key: &str, how: &'static str) {
        assert_eq!(self.ended.insert(key.to_owned(), how), None, "{key} ended twice");
    }
}

async fn run(steps: Vec<(bool, Step)>) {
    let bench = Bench::new();
    let mut boxes = [bench.open().await, bench.open().await];
    let mut claims: [Vec<ClaimedWrite>; 2] = [Vec::new(), Vec::new()];
    let (mut model, mut made) = (Model::default(), 0);
    for (who, step) in steps {
        let who = usize::from(who);
        let (outbox, held) = (&boxes[who], &mut claims[who]);
        let chosen = |which: usize| held.get(which % held.len().max(1)).cloned();
        match step {
            Step::Enqueue { session } => {
                let session = format!("s{session}");
                made += 1;
                let key = format!("key-{made}");
                let queued = outbox.enqueue(write(&session, &key)).await.unwrap();
                let queue = model.queues.entry(session).or_default();
                assert!(queue.last_key_value().is_none_or(|(last, _)| *last < queued.id));
                queue.insert(queued.id, key);
            }
            Step::Claim => {
                if let Some(claimed) = outbox.claim(&who.to_string(), LEASE).await.unwrap() {
                    let oldest = model.queues[&claimed.session].first_key_value();
                    assert_eq!(oldest, Some((&claimed.id, &claimed.key)), "the oldest of its session");
                    model.claims.insert(claimed.id, claimed.clone());
                    held.push(claimed);
                }
            }
            Step::Settle { which } => {
                let Some(claimed) = chosen(which) else { continue };
                let newest = model.is_newest(&claimed);
                assert_eq!(outbox.settle(&claimed).await.unwrap(), newest);
                if newest {
                    model.take(&claimed);
                    model.end(&claimed.key, "settled");
                }
            }
            Step::Postpone { which, seconds } => {
                let Some(claimed) = chosen(which) else { continue };
                let newest = model.is_newest(&claimed);
                let at = bench.clock.now() + Duration::from_secs(seconds);
                assert_eq!(outbox.postpone(&claimed, at, "later").await.unwrap(), newest);
                if newest {
                    model.claims.remove(&claimed.id);
                }
            }
            Step::DeadLetter { which } => {
                let Some(claimed) = chosen(which) else { continue };
                let newest = model.is_newest(&claimed);
                assert_eq!(outbox.dead_letter(&claimed, "no").await.unwrap(), newest);
                if newest {
                    model.take(&claimed);
                    model.dead.insert(claimed.id, claimed.key.clone());
                }
            }
            Step::Renew { which } => {
                let Some(claimed) = chosen(which) else { continue };
                assert_eq!(outbox.renew_lease(&claimed, LEASE).await.unwrap(), model.is_newest(&claimed));
            }
            Step::Retry { which } => {
                let Some(id) = model.dead.keys().nth(which % model.dead.len().max(1)).copied() else {
                    continue;
                };
                let key = model.dead.remove(&id).unwrap();
                let new = outbox.retry(id).await.unwrap().unwrap();
                let (retried, _) = outbox.show(new).await.unwrap().unwrap();
                model.queues.get_mut(&retried.session).unwrap().insert(new, key);
            }
            Step::Drop { which } => {
                let Some(id) = model.dead.keys().nth(which % model.dead.len().max(1)).copied() else {
                    continue;
                };
                outbox.drop(id, false).await.unwrap();
                let key = model.dead.remove(&id).unwrap();
                model.end(&key, "dropped");
            }
            Step::Advance { seconds } => bench.clock.advance(Duration::from_secs(seconds)),
            Step::Back { seconds } => bench.clock.set(bench.clock.now() - Duration::from_secs(seconds)),
            Step::Restart => {
                boxes[who].close().await.unwrap();
                boxes[who] = bench.open().await;
                held.clear();
            }
        }
    }
    finish(&bench, &boxes[0], model, made).await;
}

/// Delivers all remaining rows in order; then every row has ended once.
async fn finish(bench: &Bench, outbox: &Outbox, mut model: Model, made: usize) {
    let counts = outbox.counts().await.unwrap();
    let waiting: usize = model.queues.values().map(BTreeMap::len).sum();
    assert_eq!((counts.pending, counts.dead), (waiting as u64, model.dead.len() as u64));
    while let Some(due) = outbox.next_due().await.unwrap() {
        assert!(due <= bench.clock.now() + Duration::from_secs(300), "no row is blocked: {due}");
        bench.clock.set(due.max(bench.clock.now()));
        let claimed = outbox.claim("last", LEASE).await.unwrap().expect("it is due");
        let queue = model.queues.get_mut(&claimed.session).unwrap();
        assert_eq!(queue.pop_first(), Some((claimed.id, claimed.key.clone())));
        assert!(outbox.settle(&claimed).await.unwrap());
        model.end(&claimed.key, "settled");
    }
    let dead = outbox.list(WriteFilter::All, 0, 1_000).await.unwrap();
    assert_eq!(dead.into_iter().map(|write| (write.id, write.key)).collect::<BTreeMap<_, _>>(), model.dead);
    assert_eq!(model.ended.len() + model.dead.len(), made, "every write ended once or is a dead letter");
    outbox.close().await.unwrap();
}

#[test]
fn every_write_ends_once_and_in_order_with_two_proxies() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases: 48, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    TestRunner::new(config)
        .run(&steps(), |steps| {
            runtime.block_on(run(steps));
            Ok(())
        })
        .unwrap();
}
