//! TLS of the listener: the hub's certificate and the client certificates of nodes.
//!
//! Each handshake runs in the task of its connection with a time limit, so a slow one occupies only its connection
//! slot. The files are read at startup and when the hub is told to reload; an invalid file then changes nothing.

mod certificate;
mod files;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use plexus_kit::Clock;
use plexus_kit::config::TlsConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use certificate::ClientCertificate;
use files::Loaded;
pub use files::TlsError;

/// Time limit for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// First byte of a TLS connection.
const TLS_RECORD: u8 = 0x16;
/// Answer to a client that does not use TLS.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 45\r\n\r\n\
                     this hub speaks HTTPS: use an https:// URL.\r\n";

/// The server side of all handshakes.
pub(crate) struct Tls {
    files: TlsConfig,
    clock: Clock,
    loaded: ArcSwap<Loaded>,
}

impl Tls {
    /// `None` if the hub uses plain HTTP.
    pub(crate) fn open(files: &TlsConfig, clock: Clock) -> Result<Option<Arc<Self>>, TlsError> {
        let Some(loaded) = Loaded::read(files, clock.now())? else { return Ok(None) };
        let loaded = ArcSwap::from_pointee(loaded);
        Ok(Some(Arc::new(Self { files: files.clone(), clock, loaded })))
    }

    /// Reloads the files for later connections. Returns whether the hub's certificate has changed.
    pub(crate) fn reload(&self) -> Result<bool, TlsError> {
        let Some(read) = Loaded::read(&self.files, self.clock.now())? else { return Ok(false) };
        let before = self.loaded.swap(Arc::new(read));
        Ok(before.fingerprint != self.fingerprint())
    }

    /// SHA-256 of the hub's certificate. A client that reads it from a place that only the hub can write to needs
    /// no CA.
    pub(crate) fn fingerprint(&self) -> String {
        self.loaded.load().fingerprint.clone()
    }

    /// Performs the handshake.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
        tokio::time::timeout(HANDSHAKE, self.handshake(stream))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")))
    }

    async fn handshake(
        &self,
        mut stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
        let mut first = [0];
        if stream.peek(&mut first).await? > 0 && first != [TLS_RECORD] {
            stream.write_all(PLAIN.as_bytes()).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not use TLS"));
        }
        let acceptor = TlsAcceptor::from(self.loaded.load().server.clone());
        let stream = acceptor.accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = shown.map(ClientCertificate::read).transpose()?;
        Ok((stream, certificate))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}
