//! Logs and traces of this process.
//!
//! Logs go to standard error: standard output belongs to what a command answers. A line carries the
//! fields of the spans it was written in, so all lines of a request share its `request_id` and all
//! of a call its `call_id`. Spans that give lines their context have the level ERROR: they are there
//! whatever the filter lets through.
//!
//! Traces are the same spans, sent to a collector where one is configured. Neither depends on the
//! other: the log filter does not thin out traces, and a collector that is away costs one warning.

mod json;
mod traces;

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{ParseError, filter_fn};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt as log, reload};

use crate::env::{self, Environment};
use traces::Traces;

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Human,
    /// One object per line.
    Json,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which lines are written, such as `info` or `plexus_mcp=debug`.
    pub filter: Option<String>,
    /// Holds where no filter is given, or one that does not parse.
    pub default_filter: &'static str,
    pub format: Format,
    /// Collector that traces are sent to, over OTLP with HTTP; none: no traces.
    pub otlp_endpoint: Option<String>,
}

impl Options {
    /// What the environment says of logs; `default_filter` holds where it says nothing.
    #[must_use]
    pub fn of_logs(environment: &Environment, default_filter: &'static str) -> Self {
        Self {
            filter: environment.get(env::LOG).map(str::to_owned),
            default_filter,
            format: match environment.get(env::LOG_FORMAT) {
                Some("json") => Format::Json,
                _ => Format::Human,
            },
            otlp_endpoint: None,
        }
    }

    /// With traces, if the environment names a collector.
    #[must_use]
    pub fn with_traces(mut self, environment: &Environment) -> Self {
        let endpoint = environment.get(env::OTLP_ENDPOINT).or_else(|| environment.get(env::OTEL_ENDPOINT));
        self.otlp_endpoint = endpoint.map(str::to_owned);
        self
    }
}

/// A log filter that does not parse.
#[derive(Debug, thiserror::Error)]
#[error("{filter:?} is not a log filter; write a level or target=level, such as plexus_mcp=debug")]
pub struct InvalidFilter {
    filter: String,
    source: ParseError,
}

/// The logs and traces of this process. Dropped last: traces that wait are sent then, for as long as
/// that may take.
#[must_use = "traces end when it is dropped"]
pub struct Telemetry {
    filter: reload::Handle<EnvFilter, Registry>,
    traces: Option<Traces>,
}

impl Telemetry {
    /// Writes other lines from now on.
    pub fn set_filter(&self, filter: &str) -> Result<(), InvalidFilter> {
        let parsed = parse(filter)?;
        // Fails only where another subscriber was installed first, whose filter is not ours.
        let _ = self.filter.reload(parsed);
        Ok(())
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(traces) = self.traces.take() {
            traces.finish();
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("traces", &self.traces).finish_non_exhaustive()
    }
}

/// A duration as `elapsed_ms`, to the microsecond.
#[must_use]
pub fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

/// Installs the subscriber of this process.
///
/// What cannot be had is reported and done without: a misspelt log level or collector is no reason
/// to keep a hub from starting.
pub fn init(options: &Options) -> Telemetry {
    let (filter, bad_filter) = match options.filter.as_deref().map(parse) {
        None => (EnvFilter::new(options.default_filter), None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(options.default_filter), Some(error)),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = log::layer().with_writer(std::io::stderr);
    let lines: BoxedLayer = match options.format {
        Format::Human => lines.with_ansi(std::io::stderr().is_terminal()).with_filter(filter).boxed(),
        Format::Json => {
            lines.fmt_fields(JsonFields::new()).event_format(json::Lines).with_filter(filter).boxed()
        }
    };
    let mut layers = vec![lines];
    let (traces, bad_collector) = match options.otlp_endpoint.as_deref().map(Traces::start) {
        None => (None, None),
        Some(Ok(traces)) => (Some(traces), None),
        Some(Err(error)) => (None, Some(error)),
    };
    if let Some(traces) = &traces {
        layers.push(traces.layer().with_filter(filter_fn(is_traced)).boxed());
    }
    if tracing_subscriber::registry().with(layers).try_init().is_ok() {
        if let Some(error) = bad_filter {
            tracing::warn!("log filter ignored: {error}");
        }
        if let Some(error) = bad_collector {
            tracing::warn!(%error, "no traces: the OTLP endpoint cannot be used");
        }
    }
    Telemetry { filter: handle, traces }
}

fn parse(filter: &str) -> Result<EnvFilter, InvalidFilter> {
    EnvFilter::try_new(filter).map_err(|source| InvalidFilter { filter: filter.to_owned(), source })
}

/// Our own spans, and what was logged in them that an operator would see by default.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("plexus") && (metadata.is_span() || *metadata.level() <= Level::INFO)
}

#[cfg(test)]
mod tests;
