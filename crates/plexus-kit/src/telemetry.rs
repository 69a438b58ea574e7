//! Logs, to standard error: standard output belongs to what a command answers.

use std::fmt;
use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::LogFormat;
use crate::env::{self, Environment};

/// The filter of this process's log, to change it while the process runs.
pub struct Logs(reload::Handle<EnvFilter, Registry>);

impl Logs {
    /// From now on this filter holds; one that does not parse changes nothing.
    pub fn set_filter(&self, filter: &str) {
        if let Ok(filter) = EnvFilter::try_new(filter) {
            // Fails only where the subscriber is gone, and then there is no log to filter.
            let _ = self.0.reload(filter);
        }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logs")
    }
}

/// Installs the subscriber of this process.
pub fn init(filter: &str, format: LogFormat, environment: &Environment) -> Logs {
    let (filter, handle) = reload::Layer::new(EnvFilter::new(filter));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(environment.wants_colours(std::io::stderr().is_terminal()));
    let lines = match format {
        LogFormat::Human => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Fails only where one is installed already, by a test, which is as good.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Logs(handle)
}

/// The same for a command that has no configuration. `filter` holds where no variable says
/// otherwise; what a variable says wrong is a remark and no reason to stop.
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
            complaints.push(format!("{}: {text:?} is not `human` or `json`", env::LOG_FORMAT.name));
        }
        format
    });
    init(given.unwrap_or(filter), format.unwrap_or_default(), environment);
    for complaint in complaints {
        tracing::warn!("ignored {complaint}");
    }
}
