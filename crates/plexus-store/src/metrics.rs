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
        let about = "Duration of a commit, including all its work";
        metrics.add("plexus_store_commit_seconds", about, self.commit.clone());
        metrics.add(
            "plexus_store_commit_requests",
            "Requests and journal records per commit",
            self.requests.clone(),
        );
        metrics.add("plexus_store_commit_failures", "Failed commits", self.failed.clone());
        let about = "Waiting time for a reader connection";
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
