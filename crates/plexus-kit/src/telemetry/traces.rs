//! Traces: finished spans, exported to a collector in the background.
//!
//! Spans wait in a bounded queue that a dedicated thread drains; they are dropped while it is full. Traced
//! code never waits for the collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry::{KeyValue, Value};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanData, SpanExporter as Export,
};
use tokio::runtime::Runtime;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Registry;

use crate::config::redacted;
use crate::{ExposeSecret, Secret};

/// Capacity of the queue; further spans are dropped.
const QUEUE: usize = 4096;
const BATCH: usize = 512;
/// Maximum time that a finished span waits for its batch.
const DELAY: Duration = Duration::from_secs(2);
/// Timeout for exporting a batch.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for exporting the remaining spans when the process ends.
const FLUSH: Duration = Duration::from_secs(3);
/// Path of traces on a collector.
const PATH: &str = "/v1/traces";

#[derive(Debug)]
pub(super) struct Traces(SdkTracerProvider);

/// Why tracing could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum TracesError {
    // Omits the value, which may contain a password.
    #[error("the value is not a valid collector URL (expected e.g. http://127.0.0.1:4318)")]
    Address,
    #[error("cannot create the exporter: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[error("cannot create the exporter's runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

impl Traces {
    pub(super) fn start(endpoint: &Secret) -> Result<Self, TracesError> {
        let endpoint = endpoint.expose_secret();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(address(endpoint)?)
            .with_timeout(TIMEOUT)
            // Losing a batch is better than filling the queue with old spans.
            .with_retry_policy(RetryPolicy::disabled())
            .build()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sender = Sender { exporter, runtime, shown: redacted(endpoint), failing: AtomicBool::new(false) };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY)
            .build();
        let resource = Resource::builder_empty()
            .with_service_name("plexus")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", uuid::Uuid::new_v4().to_string()))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(BatchSpanProcessor::new(sender, batches))
            .build();
        Ok(Self(provider))
    }

    pub(super) fn layer(&self) -> OpenTelemetryLayer<Registry, SdkTracer> {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("plexus"))
            // Source locations are of no use to operators, and the subscriber already tracks the current
            // span.
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
    }

    /// Exports the remaining spans.
    pub(super) fn finish(self) {
        if let Err(error) = self.0.shutdown_with_timeout(FLUSH) {
            tracing::debug!(%error, "the last traces were not sent");
        }
    }
}

/// The URL for traces; the collector URL may already include the traces path.
fn address(endpoint: &str) -> Result<String, TracesError> {
    let (base, query) = endpoint.find('?').map_or((endpoint, ""), |at| endpoint.split_at(at));
    let base = base.trim_end_matches('/');
    let host = base.strip_prefix("http://").or_else(|| base.strip_prefix("https://"));
    if host.is_none_or(str::is_empty) {
        return Err(TracesError::Address);
    }
    let base = base.strip_suffix(PATH).unwrap_or(base);
    Ok(format!("{base}{PATH}{query}"))
}

/// The exporter with its own runtime: the queue's thread has none.
#[derive(Debug)]
struct Sender {
    exporter: SpanExporter,
    runtime: Runtime,
    /// The URL with secrets redacted.
    shown: String,
    /// Whether the newest batch was lost; only changes are logged at a visible level.
    failing: AtomicBool,
}

impl Export for Sender {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let batch = batch.into_iter().map(by_convention).collect();
        let sent = self.runtime.block_on(self.exporter.export(batch));
        // The caller logs this error too, so it must not contain the URL.
        let sent =
            sent.map_err(|error| OTelSdkError::InternalFailure(without_url(&error.to_string(), &self.shown)));
        match (&sent, self.failing.swap(sent.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                tracing::warn!(%error, spans, "the collector rejects traces; traces are dropped until it accepts them");
            }
            (Ok(()), true) => tracing::info!("the collector accepts traces again"),
            (Err(error), true) => tracing::debug!(%error, spans, "the collector still rejects traces"),
            (Ok(()), false) => {}
        }
        sent
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// An error with the URL removed, which may contain a password; the text after it is removed too, since the
/// end of the URL is unknown.
fn without_url(error: &str, shown: &str) -> String {
    match ["http://", "https://"].iter().filter_map(|scheme| error.find(scheme)).min() {
        Some(start) => format!("{}{shown} …", &error[..start]),
        None => error.to_owned(),
    }
}

/// Renames a span and its attributes to OpenTelemetry conventions; logs use shorter names.
fn by_convention(mut span: SpanData) -> SpanData {
    let known = |name: &str| match span.attributes.iter().find(|known| known.key.as_str() == name) {
        Some(KeyValue { value: Value::String(text), .. }) => text.as_str(),
        _ => "",
    };
    match &*span.name {
        "request" => {
            span.name = format!("{} {}", known("method"), known("route")).into();
            span.span_kind = SpanKind::Server;
        }
        "call" => span.name = format!("call {}", known("tool")).trim_end().to_owned().into(),
        _ => {}
    }
    for attribute in &mut span.attributes {
        let name = match attribute.key.as_str() {
            "method" => "http.request.method",
            "route" => "http.route",
            "status" => "http.response.status_code",
            "tool" => "gen_ai.tool.name",
            _ => continue,
        };
        attribute.key = name.into();
    }
    span
}

#[cfg(test)]
mod tests;
