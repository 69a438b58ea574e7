//! The metrics of one hub.
//!
//! The registry is a value: several hubs in one process do not mix. Each component owns its metrics and
//! registers them here; counting never touches the registry. Values that can be computed on demand, such as
//! the length of a queue, are not counted but [read](Metrics::read) on scrape.

mod process;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::family::Family;
pub use prometheus_client::metrics::gauge::Gauge;
pub use prometheus_client::metrics::histogram;

/// Media type of the output of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Cheap to clone; all clones share one registry.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    /// A registry with process metrics: version, start time, memory and open files.
    #[must_use]
    pub fn new(version: &'static str) -> Self {
        let metrics = Self(Arc::default());
        metrics.add("plexus_build", "Version of the hub", Info::new([("version", version)]));
        process::register(&metrics);
        metrics
    }

    /// Registers a metric. The name is complete except for `_total` and `_info`, which the encoder appends to
    /// counters and infos.
    pub fn add(&self, name: &'static str, about: &'static str, metric: impl Metric) {
        self.lock().register(name, about, metric);
    }

    /// Adds a gauge that is computed on each scrape; it is omitted while the value is `None`.
    pub fn read(
        &self,
        name: &'static str,
        about: &'static str,
        value: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.lock().register_collector(Box::new(Reading { name, about, value: Box::new(value) }));
    }

    /// All metrics as OpenMetrics text.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 << 10);
        prometheus_client::encoding::text::encode(&mut text, &self.lock())?;
        Ok(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Reading {
    name: &'static str,
    about: &'static str,
    value: Box<dyn Fn() -> Option<f64> + Send + Sync>,
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(value) = (self.value)() else { return Ok(()) };
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(self.name, self.about, None, gauge.metric_type())?)
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reading").field(&self.name).finish()
    }
}

/// One label and its value.
pub type Label<V> = [(&'static str, V); 1];

/// One metric per name, for a bounded set of names; lookups do not allocate.
#[derive(Debug)]
pub struct ByName<M>(RwLock<HashMap<Arc<str>, M>>);

impl<M> Default for ByName<M> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<M: Clone> ByName<M> {
    pub fn get(&self, name: &str, make: impl FnOnce(Arc<str>) -> M) -> M {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        known.unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            all.entry(name.clone()).or_insert_with(|| make(name)).clone()
        })
    }
}

/// Buckets from a tenth of a millisecond, the duration of a trivial call, to half a minute.
#[must_use]
pub fn seconds() -> Histogram {
    Histogram::new([
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        10.0, 30.0,
    ])
}

/// A count as the value of a gauge.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub fn count(number: usize) -> Option<f64> {
    Some(number as f64)
}

#[cfg(test)]
mod tests;
