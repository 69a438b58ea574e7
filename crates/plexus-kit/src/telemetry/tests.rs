use tracing::{Level, enabled};

use super::{Options, init};
use crate::Environment;
use crate::config::LogFormat;

/// The only test of this process that installs a subscriber.
#[test]
fn log_filter_can_be_changed_at_runtime() {
    let options = Options { filter: "warn", format: LogFormat::Text, otlp_endpoint: None };
    let telemetry = init(options, &Environment::default());
    assert!(enabled!(Level::WARN) && !enabled!(Level::INFO));
    telemetry.set_filter("info,plexus_kit=debug");
    assert!(enabled!(Level::DEBUG) && !enabled!(target: "other", Level::DEBUG));
    telemetry.set_filter("plexus_kit=loud");
    assert!(enabled!(Level::DEBUG), "the previous filter stays active");
}
