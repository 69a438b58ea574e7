use super::{Counter, Metrics, count, seconds};

#[test]
fn text_contains_counters_and_gauges() {
    let metrics = Metrics::new("1.2.3");
    let (calls, took) = (Counter::<u64>::default(), seconds());
    metrics.add("plexus_calls", "Calls", calls.clone());
    metrics.add("plexus_call_seconds", "Time", took.clone());
    metrics.read("plexus_waiting", "Waiting", || count(3));
    metrics.read("plexus_absent", "Not known here", || None);
    calls.inc_by(2);
    took.observe(0.003);
    let text = metrics.text().unwrap();
    for line in [
        "plexus_build_info{version=\"1.2.3\"} 1",
        "plexus_calls_total 2",
        "plexus_call_seconds_bucket{le=\"0.0025\"} 0",
        "plexus_call_seconds_bucket{le=\"0.005\"} 1",
        "plexus_call_seconds_bucket{le=\"+Inf\"} 1",
        "plexus_call_seconds_count 1",
        "plexus_waiting 3.0",
        "# EOF",
    ] {
        assert!(text.lines().any(|has| has == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("plexus_absent"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn process_metrics_are_exported() {
    let text = Metrics::new("1").text().unwrap();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    assert!(value("process_resident_memory_bytes ") > 100_000.0, "{text}");
    assert!(value("process_open_fds ") >= 3.0, "{text}");
    assert!(value("process_start_time_seconds ") > 1.7e9, "{text}");
}
