//! `/metrics`: exact counts, and no labels that a caller chooses.

use std::collections::BTreeMap;

use plexus_testkit::TestHub;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The values of a scrape by series.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    async fn of(hub: &TestHub) -> Self {
        let request = hub.http().get(hub.url("/metrics")).bearer_auth(hub.admin_token());
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"].to_str().expect("text");
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        let text = response.text().await.expect("a body");
        assert!(text.ends_with("# EOF\n"), "cut off: {text}");
        let series = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a sample: {line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|e| panic!("{e}: {line}")))
        });
        Self(series.collect())
    }

    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0))
    }

    /// The buckets of a histogram with these labels, sorted by upper bound.
    fn buckets(&self, name: &str, labels: &str) -> Vec<(f64, f64)> {
        let prefix = format!("{name}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = self
            .0
            .iter()
            .filter_map(|(series, value)| {
                let (bound, rest) = series.strip_prefix(&prefix)?.split_once('"')?;
                rest.contains(labels)
                    .then(|| (bound.replace("+Inf", "inf").parse().expect("a bound"), *value))
            })
            .collect();
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        buckets
    }
}

async fn rest(hub: &TestHub, token: &str, tool: &str, arguments: Value) -> u16 {
    let request = hub.http().post(hub.url(&format!("/api/v1/tools/{tool}/call"))).bearer_auth(token);
    request.json(&json!({ "arguments": arguments })).send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn metrics_count_exactly_what_happened() {
    let hub = TestHub::start().await;
    let token = hub.token("ann", &["call:*"]).await.token;
    for _ in 0..5 {
        hub.mcp(&token).tool("todo", json!({ "action": "list" })).await;
    }
    for _ in 0..2 {
        assert_eq!(rest(&hub, &token, "todo", json!({ "action": 7 })).await, 400);
    }
    for n in 0..3 {
        assert_eq!(rest(&hub, &token, &format!("made_up_{n}"), json!({})).await, 404);
        hub.http().get(hub.url(&format!("/made_up_{n}"))).send().await.expect("an answer");
    }
    let invalid = hub.http().get(hub.url("/api/v1/status")).bearer_auth("made_up").send().await;
    assert_eq!(invalid.expect("an answer").status(), 401);
    hub.http().get(hub.url("/api/v1/status")).send().await.expect("an answer");
    let (_session, _) = hub.mcp(&token).initialize("2025-11-25").await;

    let scrape = Scrape::of(&hub).await;
    for (series, expected) in [
        ("plexus_tool_calls_total{tool=\"todo\",outcome=\"ok\"}", 5.0),
        ("plexus_tool_calls_total{tool=\"todo\",outcome=\"invalid_arguments\"}", 2.0),
        ("plexus_tool_calls_total{tool=\"unknown\",outcome=\"unknown_tool\"}", 3.0),
        ("plexus_tool_call_duration_seconds_count{tool=\"todo\"}", 7.0),
        ("plexus_tool_call_duration_seconds_count{tool=\"unknown\"}", 3.0),
        ("plexus_tool_calls_in_flight", 0.0),
        ("plexus_tool_calls_waiting", 0.0),
        (
            "plexus_http_requests_total{method=\"POST\",route=\"/api/v1/tools/{name}/call\",status=\"400\"}",
            2.0,
        ),
        (
            "plexus_http_requests_total{method=\"POST\",route=\"/api/v1/tools/{name}/call\",status=\"404\"}",
            3.0,
        ),
        ("plexus_http_requests_total{method=\"POST\",route=\"/api/v1/tokens\",status=\"201\"}", 1.0),
        // The calls, and the initialisation of the session.
        ("plexus_http_requests_total{method=\"POST\",route=\"/mcp\",status=\"200\"}", 6.0),
        ("plexus_http_requests_total{method=\"GET\",route=\"unmatched\",status=\"404\"}", 3.0),
        ("plexus_http_requests_total{method=\"GET\",route=\"/api/v1/status\",status=\"401\"}", 2.0),
        ("plexus_http_request_duration_seconds_count{route=\"unmatched\"}", 3.0),
        // The scrape itself.
        ("plexus_http_requests_in_flight", 1.0),
        ("plexus_auth_failures_total{reason=\"missing\"}", 1.0),
        ("plexus_auth_failures_total{reason=\"invalid\"}", 1.0),
        ("plexus_mcp_sessions", 1.0),
        ("plexus_mcp_streams", 0.0),
        ("plexus_mcp_parked_calls", 0.0),
        ("plexus_mcp_tasks", 0.0),
        ("plexus_outbox_dead_letters_total", 0.0),
        ("plexus_store_commit_failures_total", 0.0),
        ("plexus_http_accept_failures_total", 0.0),
        (concat!("plexus_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
    ] {
        assert_eq!(scrape.value(series), expected, "{series}");
    }
    let made_up: Vec<&String> = scrape.0.keys().filter(|series| series.contains("made_up")).collect();
    assert!(made_up.is_empty(), "labels chosen by callers: {made_up:?}");
    assert!(scrape.value("plexus_http_connections") >= 1.0);
    let requests = scrape.value("plexus_store_commit_requests_sum");
    assert!(requests >= 10.0 && scrape.value("plexus_store_commit_seconds_count") <= requests);

    let buckets = scrape.buckets("plexus_tool_call_duration_seconds", "tool=\"todo\"");
    assert!(buckets.len() > 10, "{buckets:?}");
    assert!(buckets.is_sorted_by(|(_, a), (_, b)| a <= b), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, 7.0)));
    let sum = scrape.value("plexus_tool_call_duration_seconds_sum{tool=\"todo\"}");
    assert!((0.0001..60.0).contains(&sum), "seven calls took {sum} s");
}

#[tokio::test]
async fn metrics_require_the_scope() {
    let hub = TestHub::start().await;
    let get = async |token: Option<String>| {
        let request = hub.http().get(hub.url("/metrics"));
        let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(get(None).await, 401);
    assert_eq!(get(Some(hub.token("ann", &["call:*", "read:status"]).await.token)).await, 403);
    assert_eq!(get(Some(hub.token("prometheus", &["read:metrics"]).await.token)).await, 200);
}

#[tokio::test]
async fn hubs_in_one_process_have_separate_metrics() {
    let (one, other) = (TestHub::start().await, TestHub::start().await);
    let token = one.token("ann", &["call:*"]).await.token;
    one.mcp(&token).tool("todo", json!({ "action": "list" })).await;
    let series = "plexus_tool_calls_total{tool=\"todo\",outcome=\"ok\"}";
    assert_eq!(Scrape::of(&one).await.value(series), 1.0);
    assert_eq!(Scrape::of(&other).await.0.get(series), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapes_under_load_are_complete_and_never_decrease() {
    const CALLERS: usize = 8;
    const CALLS: usize = 40;
    let hub = TestHub::start().await;
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        let client = hub.mcp(&hub.token(&format!("agent-{n}"), &["call:*"]).await.token);
        callers.spawn(async move {
            for _ in 0..CALLS {
                client.tool("todo", json!({ "action": "add", "text": "busy" })).await;
            }
        });
    }
    let series = "plexus_tool_calls_total{tool=\"todo\",outcome=\"ok\"}";
    let mut last = 0.0;
    while !callers.is_empty() {
        let now = Scrape::of(&hub).await.0.get(series).copied().unwrap_or_default();
        assert!(now >= last, "{now} after {last}");
        last = now;
        while let Some(ended) = callers.try_join_next() {
            ended.expect("a caller that got its answers");
        }
    }
    assert_eq!(Scrape::of(&hub).await.value(series), (CALLERS * CALLS) as f64);
}
