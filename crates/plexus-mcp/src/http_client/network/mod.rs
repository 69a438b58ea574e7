//! Connections to servers: looks up a name once, checks the addresses, and connects to a checked one.
//!
//! A name is not looked up a second time for the same connection, because the second answer could contain an address
//! that was not checked (DNS rebinding).

mod rules;
mod tls;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use url::{Host, Origin, Url};

pub use self::rules::names_loopback;
use self::rules::{Allowed, refusal};
use crate::tls::TlsConfig;

/// A connection, encrypted or not.
pub(super) type Io = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DialError {
    /// Not attempted: the address rules do not allow it.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

/// The addresses that may be reached for one server, or for callers who choose URLs.
pub struct Network {
    /// The configured URL names this machine. Otherwise a redirect cannot lead here either.
    loopback: bool,
    private: bool,
    /// How to allow private networks, for error messages.
    remedy: &'static str,
    /// Time limit for lookup, connection and TLS handshake together.
    timeout: Duration,
    /// The configured certificates. The client certificate is presented to the home origin only.
    tls: Option<TlsConfig>,
    home: Origin,
    /// Created on first use, because reading the machine's certificates is slow.
    home_connector: OnceCell<TlsConnector>,
    foreign_connector: OnceCell<TlsConnector>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("loopback", &self.loopback).field("private", &self.private).finish()
    }
}

impl Network {
    /// For a configured server. `url` and `tls` are from its file; `private` is whether the file or the hub's
    /// settings allow private networks, and `remedy` says how to allow them.
    #[must_use]
    pub fn for_server(
        url: &Url,
        tls: Option<TlsConfig>,
        private: bool,
        remedy: &'static str,
        timeout: Duration,
    ) -> Self {
        let loopback = url.host().is_some_and(|host| names_loopback(&host));
        let (home_connector, foreign_connector) = (OnceCell::new(), OnceCell::new());
        let home = url.origin();
        Self { loopback, private, remedy, timeout, tls, home, home_connector, foreign_connector }
    }

    /// For a hub that the user chose, on any network. `tls` replaces the machine's trusted certificates.
    pub(super) fn for_hub(url: &Url, tls: Option<Arc<ClientConfig>>, timeout: Duration) -> Self {
        let connector = tls.map(|config| OnceCell::new_with(Some(TlsConnector::from(config))));
        Self {
            home_connector: connector.unwrap_or_default(),
            ..Self::for_server(url, None, true, "", timeout)
        }
    }

    /// For untrusted URLs: a URL that names this machine does not permit connecting to it.
    pub(super) fn for_any_url(private: bool, remedy: &'static str, timeout: Duration) -> Self {
        let (home_connector, foreign_connector) = (OnceCell::new(), OnceCell::new());
        let home = Origin::new_opaque();
        Self { loopback: false, private, remedy, timeout, tls: None, home, home_connector, foreign_connector }
    }

    /// Connects to the server of a URL, if the rules allow it.
    pub(super) async fn dial(&self, url: &Url) -> Result<Io, DialError> {
        let deadline = Instant::now() + self.timeout;
        let dialled = tokio::time::timeout_at(deadline, self.dial_until(url, deadline)).await;
        dialled.unwrap_or_else(|_| {
            let (origin, timeout) = (origin_of(url), self.timeout);
            Err(DialError::Failed(format!("{origin} could not be reached within {timeout:?}")))
        })
    }

    async fn dial_until(&self, url: &Url, deadline: Instant) -> Result<Io, DialError> {
        let addresses = self.look_up(url).await?;
        let stream = connect(url, &addresses, deadline).await?;
        // Requests are small, and each waits for its answer.
        let _ = stream.set_nodelay(true);
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let failed =
            |error: String| DialError::Failed(format!("no secure connection to {}: {error}", origin_of(url)));
        let name = match url.host() {
            Some(Host::Domain(name)) => {
                ServerName::try_from(name.to_owned()).map_err(|e| failed(e.to_string()))?
            }
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::V6(address)),
            None => return Err(failed("the URL names no host".to_owned())),
        };
        // Without a client certificate, one connector serves all origins.
        let identified = self.tls.as_ref().is_some_and(|tls| tls.identity.is_some());
        let is_home = !identified || url.origin() == self.home;
        let connector = if is_home { &self.home_connector } else { &self.foreign_connector };
        let make = || tls::connector(self.tls.clone(), is_home);
        let tls = connector.get_or_try_init(make).await.map_err(failed)?;
        let stream = tls.connect(name, stream).await.map_err(|error| failed(error.to_string()))?;
        Ok(Box::new(stream))
    }

    /// The allowed addresses of a URL's host.
    async fn look_up(&self, url: &Url) -> Result<Vec<SocketAddr>, DialError> {
        let origin = origin_of(url);
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(DialError::Failed(format!("{origin} names no host")));
        };
        let resolved: Vec<SocketAddr> = match host {
            Host::Ipv4(address) => vec![(address, port).into()],
            Host::Ipv6(address) => vec![(address, port).into()],
            Host::Domain(name) => {
                let looked_up = tokio::net::lookup_host((name, port)).await;
                let failed =
                    |error| DialError::Failed(format!("cannot look up the host name of {origin}: {error}"));
                looked_up.map_err(failed)?.collect()
            }
        };
        let allowed = Allowed { loopback: self.loopback && names_loopback(&host), private: self.private };
        let mut refused = None;
        let mut addresses = Vec::with_capacity(resolved.len());
        for address in resolved {
            match refusal(address.ip(), allowed, self.remedy) {
                Some(why) => refused = Some(why),
                None => addresses.push(address),
            }
        }
        match (addresses.is_empty(), refused) {
            (false, _) => Ok(addresses),
            (true, Some(why)) => Err(DialError::Refused(format!("{origin} is not contacted: {why}"))),
            (true, None) => Err(DialError::Failed(format!("the host name of {origin} has no address"))),
        }
    }
}

/// Connects to the first address that accepts. Each but the last gets half of the remaining time, so that one that
/// drops all packets does not use it up.
async fn connect(url: &Url, addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, DialError> {
    let mut last = "no answer".to_owned();
    for (index, address) in addresses.iter().enumerate() {
        let time_left = deadline.saturating_duration_since(Instant::now());
        let share = if index + 1 == addresses.len() { time_left } else { time_left / 2 };
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "no answer".to_owned(),
        }
    }
    Err(DialError::Failed(format!("cannot connect to {}: {last}", origin_of(url))))
}

/// The part of a URL that may be shown. Paths and queries of MCP servers often contain secrets.
#[must_use]
pub fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests;
