//! Deletes old session events and audit entries of a node. The hub has both too.

use std::time::Duration;

use plexus_kit::clock::from_millis;
use plexus_kit::{Clock, Stage, Supervisor};
use plexus_proto::Timestamp;
use plexus_store::{Store, StoreError};

const KEEP_EVENTS: Duration = Duration::from_secs(7 * 24 * 3600);
const KEEP_AUDIT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum number of audit entries; there are two per call. About 200 MB.
const MAX_AUDIT: i64 = 500_000;
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

pub(crate) fn start(store: Store, clock: Clock, supervisor: &Supervisor) {
    let stop = supervisor.stopping(Stage::Work);
    supervisor.spawn(Stage::Work, "sweep of the node", async move {
        loop {
            // Sweep first: a node that is restarted often would never reach the end of the interval.
            if let Err(error) = sweep(&store, clock.now(), MAX_AUDIT).await {
                tracing::warn!(%error, "cannot delete old events and audit entries");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
            }
        }
    });
}

async fn sweep(store: &Store, now: Timestamp, max_audit: i64) -> Result<(), StoreError> {
    let before = |keep: Duration| {
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        from_millis(now.as_millisecond().saturating_sub(keep))
    };
    while let removed @ 1.. = store.prune_events(before(KEEP_EVENTS)).await? {
        tracing::debug!(removed, "deleted old events");
    }
    while let removed @ 1.. = store.prune_unsigned_audit(before(KEEP_AUDIT), max_audit).await? {
        tracing::debug!(removed, "deleted old audit entries");
    }
    Ok(())
}
