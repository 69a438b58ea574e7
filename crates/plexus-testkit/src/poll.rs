//! Waiting for a state that no event announces.

use std::fmt::Display;
use std::time::Duration;

/// Far longer than anything should take, and below the time limit of a test.
const LIMIT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(5);

/// Polls until `condition` returns true. Panics with `what` after a minute.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    eventually(what, async || if condition().await { Ok(()) } else { Err("still false") }).await;
}

/// Polls until `look` returns `Ok`. Panics with `what` and the last error after a minute.
pub async fn eventually<T, E: Display>(what: &str, look: impl AsyncFnMut() -> Result<T, E>) -> T {
    eventually_within(LIMIT, what, look).await
}

/// The same with another time limit.
pub async fn eventually_within<T, E: Display>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let mut last = None;
    let found = tokio::time::timeout(limit, async {
        loop {
            match look().await {
                Ok(found) => return found,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    });
    if let Ok(found) = found.await {
        return found;
    }
    match last {
        Some(error) => panic!("not within {limit:?}: {what}: {error}"),
        None => panic!("not within {limit:?}: {what}: the first look did not end"),
    }
}
