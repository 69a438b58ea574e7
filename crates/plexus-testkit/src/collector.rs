//! A trace collector as operators run one: OTLP over HTTP. Tests query the received spans.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A span as it arrived.
#[derive(Debug, Clone)]
pub struct ExportedSpan {
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    /// Empty for a root span.
    pub parent_id: String,
    /// Attributes of the span.
    pub attributes: Vec<(String, String)>,
    /// Attributes of the program that sent it.
    pub resource: Vec<(String, String)>,
    /// As in the protocol: 2 is a server span.
    pub kind: i32,
}

impl ExportedSpan {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        find(&self.attributes, name)
    }

    pub fn resource(&self, name: &str) -> Option<&str> {
        find(&self.resource, name)
    }
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    spans: watch::Receiver<Vec<ExportedSpan>>,
    _tasks: JoinSet<()>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (span_sender, spans) = watch::channel(Vec::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let span_sender = span_sender.clone();
                let service = service_fn(move |request| take(request, span_sender.clone()));
                let connection = hyper::server::conn::http1::Builder::new();
                let connection = connection.serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    let _ = connection.await;
                });
            }
        });
        Self { address, spans, _tasks: tasks }
    }

    /// Its URL, as used in the configuration.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the first matching span.
    pub async fn span(&mut self, wanted: impl Fn(&ExportedSpan) -> bool) -> ExportedSpan {
        let arrived = self.spans.wait_for(|spans| spans.iter().any(&wanted));
        let in_time = tokio::time::timeout(TIMEOUT, arrived).await.is_ok();
        let spans = self.spans.borrow();
        let found = spans.iter().find(|span| wanted(span)).cloned();
        found.filter(|_| in_time).unwrap_or_else(|| panic!("no such span among {:#?}", *spans))
    }
}

async fn take(
    request: Request<Incoming>,
    span_sender: watch::Sender<Vec<ExportedSpan>>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    let expected = request.uri().path() == "/v1/traces"
        && request.headers().get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    match ExportTraceServiceRequest::decode(body) {
        Ok(export) if expected => span_sender.send_modify(|spans| spans.extend(all(export))),
        _ => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(response)
}

fn all(export: ExportTraceServiceRequest) -> impl Iterator<Item = ExportedSpan> {
    export.resource_spans.into_iter().flat_map(|of_one| {
        let resource = of_one.resource.map(|resource| texts(resource.attributes)).unwrap_or_default();
        let spans = of_one.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.map(move |span| exported(span, resource.clone()))
    })
}

fn exported(span: Span, resource: Vec<(String, String)>) -> ExportedSpan {
    ExportedSpan {
        name: span.name,
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_id: hex(&span.parent_span_id),
        attributes: texts(span.attributes),
        resource,
        kind: span.kind,
    }
}

fn texts(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    let text = |value: Option<Value>| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.into_iter().map(|pair| (pair.key, text(pair.value.and_then(|value| value.value)))).collect()
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
