//! What a node does not keep for ever: the events of its sessions, which the hub has too.

use std::time::Duration;

use plexus_kit::clock::from_millis;
use plexus_kit::{Clock, Stage, Supervisor};
use plexus_store::Store;

const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
const SWEEP: Duration = Duration::from_secs(3600);

pub(crate) fn start(store: Store, clock: Clock, supervisor: &Supervisor) {
    let stop = supervisor.stopping(Stage::Work);
    supervisor.spawn(Stage::Work, "sweep of the node", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(SWEEP) => {}
            }
            let keep = i64::try_from(KEEP.as_millis()).unwrap_or(i64::MAX);
            let before = from_millis(clock.now().as_millisecond().saturating_sub(keep));
            loop {
                match store.prune_events(before).await {
                    Ok(0) => break,
                    Ok(removed) => tracing::debug!(removed, "old events were removed"),
                    Err(error) => {
                        tracing::warn!(%error, "old events cannot be removed");
                        break;
                    }
                }
            }
        }
    });
}
