//! Connections: accepted up to a limit, with `TCP_NODELAY`, encrypted if the hub has a certificate, and drained at
//! shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use plexus_kit::metrics::Gauge;
use plexus_kit::{Stage, Supervisor, in_place};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::http::HttpMetrics;
use crate::stall::Stalling;
use crate::tls::{ClientCertificate, Tls};

/// Maximum number of concurrent connections; further ones wait in the kernel's backlog.
const CONNECTIONS: u64 = 8_192;
/// File descriptors reserved for everything except connections.
const OTHER_FILES: u64 = 256;
/// Time limit for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of all headers of a request together; hyper also limits their number to 100.
const HEADER_BYTES: usize = 64 * 1024;

/// A slot among the connections, attached to every request. A WebSocket outlives the HTTP connection that it came
/// from and retains the slot.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionSlot {
    _slot: Arc<(OwnedSemaphorePermit, OpenConnection)>,
}

/// Serves connections. A connection whose client reads nothing for `stalled` is closed.
pub(crate) fn start(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<Tls>>,
    stalled: Duration,
    metrics: &Arc<HttpMetrics>,
    supervisor: &Supervisor,
) {
    let stop = supervisor.stopping(Stage::Intake);
    let (connections, metrics) = (supervisor.clone(), metrics.clone());
    supervisor.spawn(Stage::Intake, "listener", async move {
        let slots = Arc::new(Semaphore::new(max_connections()));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let (stream, peer) = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Usually out of file descriptors: open connections must end first.
                        tracing::warn!(%error, "cannot accept a connection");
                        metrics.accept_failures.inc();
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            let open = OpenConnection::new(&metrics.connections);
            let slot = ConnectionSlot { _slot: Arc::new((slot, open)) };
            let connection = Connection { peer, certificate: None, slot, stalled, stop: stop.clone() };
            let (router, tls, metrics) = (router.clone(), tls.clone(), metrics.clone());
            connections.spawn(Stage::Intake, "connection", async move {
                match tls {
                    None => in_place(connection.serve(stream, router)).await,
                    Some(tls) => in_place(connection.serve_tls(stream, &tls, router, &metrics)).await,
                }
            });
        }
    });
}

/// Counts a connection for as long as it is open.
#[derive(Debug)]
struct OpenConnection(Gauge);

impl OpenConnection {
    fn new(connections: &Gauge) -> Self {
        connections.inc();
        Self(connections.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The process's limit of open files, after raising it to the maximum.
fn max_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let max = files.saturating_sub(OTHER_FILES).clamp(16, CONNECTIONS);
    usize::try_from(max).unwrap_or(16)
}

/// The peer and lifetime of a connection.
struct Connection {
    peer: SocketAddr,
    certificate: Option<ClientCertificate>,
    slot: ConnectionSlot,
    stalled: Duration,
    stop: CancellationToken,
}

impl Connection {
    async fn serve_tls(mut self, stream: TcpStream, tls: &Tls, router: Router, metrics: &HttpMetrics) {
        no_delay(&stream);
        let accepted = tokio::select! {
            accepted = tls.accept(stream) => accepted,
            () = self.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, certificate)) => {
                self.certificate = certificate;
                self.serve_any(stream, router).await;
            }
            Err(error) => {
                metrics.tls_failures.inc();
                tracing::debug!(peer = %self.peer, %error, "TLS handshake with a client failed");
            }
        }
    }

    async fn serve(self, stream: TcpStream, router: Router) {
        no_delay(&stream);
        self.serve_any(stream, router).await;
    }

    async fn serve_any<S>(self, stream: S, router: Router)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { peer, certificate, slot, stalled, stop } = self;
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            // The peer address cannot be forged, unlike headers about it, which are ignored.
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(slot.clone());
            if let Some(certificate) = &certificate {
                request.extensions_mut().insert(certificate.clone());
            }
            router.call(request)
        });
        let stream = Stalling::new(stream, stalled, stop.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES)
            .max_header_size(HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
    }
}

fn no_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}
