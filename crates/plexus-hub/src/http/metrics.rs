//! Metrics of requests and connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use plexus_kit::Metrics;
use plexus_kit::metrics::histogram::Histogram;
use plexus_kit::metrics::{ByName, Counter, Family, Gauge, Label, seconds};

/// Label of all paths without a route, so that callers cannot create label values.
const UNMATCHED: &str = "unmatched";
/// Status of a request whose client disconnected before the answer.
const GONE: u16 = 499;

type RequestLabels = ((Label<&'static str>, Label<Arc<str>>), Label<u16>);

/// Exists from the first connection on, before the services behind the routes.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<Label<Arc<str>>, Histogram, fn() -> Histogram>,
    routes: ByName<Route>,
    in_flight: Gauge,
    auth_failures: Family<Label<&'static str>, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) accept_failures: Counter,
    pub(crate) tls_failures: Counter,
}

#[derive(Debug, Clone)]
struct Route {
    name: Arc<str>,
    seconds: Histogram,
}

impl HttpMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let http = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            routes: ByName::default(),
            in_flight: Gauge::default(),
            auth_failures: Family::default(),
            connections: Gauge::default(),
            accept_failures: Counter::default(),
            tls_failures: Counter::default(),
        };
        let about = "Answered requests; status 499: the client disconnected first";
        metrics.add("plexus_http_requests", about, http.requests.clone());
        let about = "Time until the head of the answer was ready; streams continue after it";
        metrics.add("plexus_http_request_duration_seconds", about, http.seconds.clone());
        metrics.add("plexus_http_requests_in_flight", "Requests in flight", http.in_flight.clone());
        metrics.add("plexus_http_connections", "Open connections", http.connections.clone());
        let about = "Connections that could not be accepted";
        metrics.add("plexus_http_accept_failures", about, http.accept_failures.clone());
        let about = "Connections whose TLS handshake failed";
        metrics.add("plexus_http_tls_failures", about, http.tls_failures.clone());
        let about = "Requests with a missing or invalid token";
        metrics.add("plexus_auth_failures", about, http.auth_failures.clone());
        http
    }

    pub(crate) fn auth_failed(&self, reason: &'static str) {
        self.auth_failures.get_or_create(&[("reason", reason)]).inc();
    }

    /// Begins a request, which is counted when the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>, method: &'static str, route: Option<&str>) -> Pending {
        let route = self.routes.get(route.unwrap_or(UNMATCHED), |name| Route {
            seconds: self.seconds.get_or_create_owned(&[("route", name.clone())]),
            name,
        });
        self.in_flight.inc();
        Pending { http: self.clone(), method, route, began: Instant::now(), status: GONE }
    }
}

/// A request that has not been answered yet.
#[derive(Debug)]
pub(super) struct Pending {
    http: Arc<HttpMetrics>,
    method: &'static str,
    route: Route,
    began: Instant,
    status: u16,
}

impl Pending {
    pub(super) fn route(&self) -> &str {
        &self.route.name
    }

    /// Records the status of the answer; returns the elapsed time.
    pub(super) fn answered(&mut self, status: StatusCode) -> Duration {
        self.status = status.as_u16();
        self.began.elapsed()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Self { http, method, route, began, status } = self;
        http.in_flight.dec();
        route.seconds.observe(began.elapsed().as_secs_f64());
        let labels = (([("method", *method)], [("route", route.name.clone())]), [("status", *status)]);
        http.requests.get_or_create(&labels).inc();
    }
}
