//! Logs, to standard error: standard output belongs to what a command answers.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::env::{self, Environment};

/// Installs the subscriber of this process. `default_filter` holds where `PLEXUS_LOG` is not set.
///
/// A filter that does not parse is reported and the default used: a misspelt log level is no reason
/// to keep a hub from starting.
pub fn init(environment: &Environment, default_filter: &str) {
    let (filter, complaint) = match environment.get(env::LOG) {
        None => (EnvFilter::new(default_filter), None),
        Some(text) => match EnvFilter::try_new(text) {
            Ok(filter) => (filter, None),
            Err(e) => (EnvFilter::new(default_filter), Some(format!("{}: {e}", env::LOG.name))),
        },
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let installed = match environment.get(env::LOG_FORMAT) {
        Some("json") => builder.json().flatten_event(true).finish().try_init(),
        _ => builder.finish().try_init(),
    };
    if installed.is_ok()
        && let Some(complaint) = complaint
    {
        tracing::warn!("log filter ignored: {complaint}");
    }
}
