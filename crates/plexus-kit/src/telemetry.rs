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
mod terminal;
mod traces;

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, ParseError, filter_fn};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt as log, reload};

use crate::Secret;
use crate::config::LogFormat;
use crate::env::{self, Environment};
use traces::Traces;

/// Where the remarks of a PostgreSQL server are logged.
const SERVER_REMARKS: &str = "sqlx::postgres::notice";

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// What is written and sent.
#[derive(Debug, Clone, Copy)]
pub struct Options<'o> {
    /// Which lines are written, such as `info` or `plexus_mcp=debug`.
    pub filter: &'o str,
    pub format: LogFormat,
    /// Collector that traces are sent to, over OTLP with HTTP; none: no traces.
    pub otlp_endpoint: Option<&'o Secret>,
}

/// For a command that has no configuration. `filter` holds where no variable says otherwise; what a
/// variable says wrong is a remark and no reason to stop.
pub fn init_from_environment(filter: &str, environment: &Environment) {
    let mut complaints = Vec::new();
    let given = environment.get(env::LOG).filter(|text| {
        let parses = EnvFilter::try_new(text).is_ok();
        if !parses {
            complaints.push(format!(
                "{}: {text:?} is not a log filter, such as info or plexus_mcp=debug",
                env::LOG.name
            ));
        }
        parses
    });
    let format = environment.get(env::LOG_FORMAT).and_then(|text| {
        let format = LogFormat::parse(text);
        if format.is_none() {
            complaints.push(format!("{}: {text:?} is not `text` or `json`", env::LOG_FORMAT.name));
        }
        format
    });
    let (filter, format) = (given.unwrap_or(filter), format.unwrap_or_default());
    drop(init(Options { filter, format, otlp_endpoint: None }, environment));
    for complaint in complaints {
        tracing::warn!("ignored {complaint}");
    }
}

/// The logs and traces of this process. Dropped last: traces that wait are sent then, for as long as
/// that may take.
#[must_use = "traces end when it is dropped"]
pub struct Telemetry {
    filter: reload::Handle<EnvFilter, Registry>,
    traces: Option<Traces>,
}

impl Telemetry {
    /// From now on this filter holds; one that does not parse changes nothing.
    pub fn set_filter(&self, filter: &str) {
        if let Ok(filter) = filter_of(filter) {
            // Fails only where another subscriber was installed first, whose filter is not ours.
            let _ = self.filter.reload(filter);
        }
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
/// A collector that cannot be had is reported and done without: that is no reason to keep a hub from
/// starting.
pub fn init(options: Options<'_>, environment: &Environment) -> Telemetry {
    let (filter, handle) = reload::Layer::new(filter_of(options.filter).unwrap_or_default());
    let lines = log::layer().with_writer(std::io::stderr);
    let lines: BoxedLayer = match options.format {
        LogFormat::Text if std::io::stderr().is_terminal() => {
            let lines = lines.with_ansi(environment.wants_colours(true));
            lines.event_format(terminal::Lines::new()).with_filter(filter).boxed()
        }
        LogFormat::Text => lines.with_ansi(false).with_filter(filter).boxed(),
        LogFormat::Json => {
            lines.fmt_fields(JsonFields::new()).event_format(json::Lines).with_filter(filter).boxed()
        }
    };
    let mut layers = vec![lines];
    let (traces, bad_collector) = match options.otlp_endpoint.map(Traces::start) {
        None => (None, None),
        Some(Ok(traces)) => (Some(traces), None),
        Some(Err(error)) => (None, Some(error)),
    };
    if let Some(traces) = &traces {
        layers.push(traces.layer().with_filter(filter_fn(is_traced)).boxed());
    }
    let installed = tracing_subscriber::registry().with(layers).try_init().is_ok();
    if let Some(error) = bad_collector.filter(|_| installed) {
        tracing::warn!(%error, "no traces: the OTLP endpoint cannot be used");
    }
    Telemetry { filter: handle, traces }
}

/// The filter that was asked for, without the remarks of a database server on statements of ours that
/// had nothing to do; who wants those names them.
fn filter_of(text: &str) -> Result<EnvFilter, ParseError> {
    let filter = EnvFilter::try_new(text)?;
    if text.contains("sqlx") || filter.max_level_hint() < Some(LevelFilter::INFO) {
        return Ok(filter);
    }
    EnvFilter::try_new(format!("{text},{SERVER_REMARKS}=warn"))
}

/// Our own spans, and what was logged in them that an operator would see by default.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("plexus") && (metadata.is_span() || *metadata.level() <= Level::INFO)
}

#[cfg(test)]
mod tests;
