//! Logs and traces of this process.
//!
//! Logs go to standard error, since standard output is for command results. A line contains the fields of its
//! enclosing spans, so all lines of a request share its `request_id` and all lines of a call its `call_id`.
//! Context spans have the level ERROR, so that no filter disables them.
//!
//! Traces are the same spans, sent to a collector if one is configured. Logs and traces are independent: the
//! log filter does not affect traces, and an unreachable collector causes only one warning.

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

/// Log target of notices from a PostgreSQL server.
const POSTGRES_NOTICE_TARGET: &str = "sqlx::postgres::notice";

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Options for logs and traces.
#[derive(Debug, Clone, Copy)]
pub struct Options<'o> {
    /// Log filter, such as `info` or `plexus_mcp=debug`.
    pub filter: &'o str,
    pub format: LogFormat,
    /// Trace collector, over OTLP with HTTP; `None` disables traces.
    pub otlp_endpoint: Option<&'o Secret>,
}

/// For commands without a configuration. `filter` applies if no variable is set; an invalid variable causes a
/// warning, not an error.
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

/// The logs and traces of this process. Must be dropped last: dropping sends the remaining traces, within a
/// time limit.
#[must_use = "dropping it ends tracing"]
pub struct Telemetry {
    filter: reload::Handle<EnvFilter, Registry>,
    traces: Option<Traces>,
}

impl Telemetry {
    /// Replaces the log filter; an invalid filter changes nothing.
    pub fn set_filter(&self, filter: &str) {
        if let Ok(filter) = filter_of(filter) {
            // Fails only if another subscriber was installed first.
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

/// A duration for `elapsed_ms`, with microsecond precision.
#[must_use]
pub fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

/// Installs the subscriber of this process.
///
/// An unusable collector is reported and ignored: it must not prevent the hub from starting.
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

/// Parses a filter, and adds a default that hides the database server's notices about statements without
/// effect; a filter that names `sqlx` shows them.
fn filter_of(text: &str) -> Result<EnvFilter, ParseError> {
    let filter = EnvFilter::try_new(text)?;
    if text.contains("sqlx") || filter.max_level_hint() < Some(LevelFilter::INFO) {
        return Ok(filter);
    }
    EnvFilter::try_new(format!("{text},{POSTGRES_NOTICE_TARGET}=warn"))
}

/// Plexus spans, and events in them that the default log level shows.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("plexus") && (metadata.is_span() || *metadata.level() <= Level::INFO)
}

#[cfg(test)]
mod tests;
