use tracing::{Level, enabled};

use super::{Format, Options, init};
use crate::Environment;

fn environment(vars: &[(&str, &str)]) -> Environment {
    vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn the_environment_names_filter_format_and_collector() {
    let silent = Options::of_logs(&environment(&[]), "warn").with_traces(&environment(&[]));
    assert_eq!((silent.filter, silent.default_filter, silent.format), (None, "warn", Format::Human));
    assert_eq!(silent.otlp_endpoint, None);
    let both = environment(&[
        ("PLEXUS_LOG", "debug"),
        ("PLEXUS_LOG_FORMAT", "json"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://theirs"),
        ("PLEXUS_TELEMETRY_OTLP_ENDPOINT", "http://ours"),
    ]);
    let options = Options::of_logs(&both, "warn");
    assert_eq!(options.otlp_endpoint, None, "traces are asked for");
    let options = options.with_traces(&both);
    assert_eq!((options.filter.as_deref(), options.format), (Some("debug"), Format::Json));
    assert_eq!(options.otlp_endpoint.as_deref(), Some("http://ours"));
    let theirs = environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://theirs")]);
    let options = Options::default().with_traces(&theirs);
    assert_eq!(options.otlp_endpoint.as_deref(), Some("http://theirs"));
}

/// The only test of this process that installs a subscriber.
#[test]
fn the_filter_can_be_changed_while_it_runs() {
    let telemetry = init(&Options { default_filter: "warn", ..Options::default() });
    assert!(enabled!(Level::WARN) && !enabled!(Level::INFO));
    telemetry.set_filter("info,plexus_kit=debug").unwrap();
    assert!(enabled!(Level::DEBUG) && !enabled!(target: "other", Level::DEBUG));
    let error = telemetry.set_filter("plexus_kit=loud").unwrap_err();
    assert!(error.to_string().starts_with("\"plexus_kit=loud\" is not a log filter"), "{error}");
    assert!(enabled!(Level::DEBUG), "the old one still holds");
}
