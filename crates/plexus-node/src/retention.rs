//! What a node does not keep for ever: the events of its sessions and its own audit. The hub has both too.

use std::time::Duration;

use plexus_kit::clock::from_millis;
use plexus_kit::{Clock, Stage, Supervisor};
use plexus_proto::Timestamp;
use plexus_store::{Store, StoreError};

const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
const KEEP_AUDIT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Entries of the audit, two for each call: about 200 MB.
const MOST_AUDIT: i64 = 500_000;
const SWEEP: Duration = Duration::from_secs(3600);

pub(crate) fn start(store: Store, clock: Clock, supervisor: &Supervisor) {
    let stop = supervisor.stopping(Stage::Work);
    supervisor.spawn(Stage::Work, "sweep of the node", async move {
        loop {
            // At once: a node that is started often would never come to it.
            if let Err(error) = sweep(&store, clock.now(), MOST_AUDIT).await {
                tracing::warn!(%error, "old events and records cannot be removed");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(SWEEP) => {}
            }
        }
    });
}

async fn sweep(store: &Store, now: Timestamp, most_audit: i64) -> Result<(), StoreError> {
    let before = |keep: Duration| {
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        from_millis(now.as_millisecond().saturating_sub(keep))
    };
    while let removed @ 1.. = store.prune_events(before(KEEP)).await? {
        tracing::debug!(removed, "old events were removed");
    }
    while let removed @ 1.. = store.prune_unsigned_audit(before(KEEP_AUDIT), most_audit).await? {
        tracing::debug!(removed, "old entries of the audit were removed");
    }
    Ok(())
}
