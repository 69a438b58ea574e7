//! Metrics of the writer and the readers.

use std::time::Duration;

use plexus_kit::Metrics;
use plexus_kit::metrics::histogram::{Histogram, exponential_buckets};
use plexus_kit::metrics::{Counter, seconds};

#[derive(Debug, Clone)]
pub(crate) struct StoreMetrics {
    commit: Histogram,
    requests: Histogram,
    failed: Counter,
    reader_wait: Histogram,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            commit: seconds(),
            // Up to a full batch.
            requests: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            failed: Counter::default(),
            reader_wait: seconds(),
        }
    }
}

impl StoreMetrics {
    pub(crate) fn register(&self, metrics: &Metrics) {
        let about = "Time of a commit of the writer, all its work included";
        metrics.add("plexus_store_commit_seconds", about, self.commit.clone());
        metrics.add(
            "plexus_store_commit_requests",
            "Requests and records of the journal in one commit",
            self.requests.clone(),
        );
        metrics.add("plexus_store_commit_failures", "Commits that failed", self.failed.clone());
        let about = "Time until a connection for reading was free";
        metrics.add("plexus_store_reader_wait_seconds", about, self.reader_wait.clone());
    }

    pub(crate) fn ended(&self, requests: usize, took: Duration, committed: bool) {
        self.commit.observe(took.as_secs_f64());
        self.requests.observe(u32::try_from(requests).map_or(f64::MAX, f64::from));
        if !committed {
            self.failed.inc();
        }
    }

    pub(crate) fn waited(&self, took: Duration) {
        self.reader_wait.observe(took.as_secs_f64());
    }
}
