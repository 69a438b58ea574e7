//! The way to a server on the network: names looked up once, addresses checked, connections made to what was checked.
//!
//! A name is never looked up a second time for the same connection: what answered with a harmless address for the check
//! could answer with another one for the connection.

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

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreached {
    /// It was not tried: what was named leads to where nothing may be asked.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

/// What may be reached on behalf of one server's file, or of callers who name URLs.
pub struct Network {
    /// The file's own URL names this machine. One that does not may not send the hub there either.
    loopback: bool,
    inner: bool,
    /// What lets private networks be reached.
    remedy: &'static str,
    /// For looking up, connecting and agreeing on encryption, all together.
    patience: Duration,
    /// What the file says of certificates. The hub's own is shown to the file's own server only.
    tls: Option<TlsConfig>,
    home: Origin,
    /// Made when first needed: reading the machine's certificates takes a while.
    at_home: OnceCell<TlsConnector>,
    elsewhere: OnceCell<TlsConnector>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("loopback", &self.loopback).field("inner", &self.inner).finish()
    }
}

impl Network {
    /// `url` is the one in the file, `tls` what it says of certificates; `inner` whether the file or the hub allows
    /// private networks, and `remedy` what a person does to allow them.
    #[must_use]
    pub fn of(
        url: &Url,
        tls: Option<TlsConfig>,
        inner: bool,
        remedy: &'static str,
        patience: Duration,
    ) -> Self {
        let loopback = url.host().is_some_and(|host| names_loopback(&host));
        let (at_home, elsewhere) = (OnceCell::new(), OnceCell::new());
        let home = url.origin();
        Self { loopback, inner, remedy, patience, tls, home, at_home, elsewhere }
    }

    /// To one server that the user has named, wherever it is; `tls` instead of what the machine trusts.
    pub(super) fn to(url: &Url, tls: Option<Arc<ClientConfig>>, patience: Duration) -> Self {
        let known = tls.map(|config| OnceCell::new_with(Some(TlsConnector::from(config))));
        Self { at_home: known.unwrap_or_default(), ..Self::of(url, None, true, "", patience) }
    }

    /// For URLs that nobody vouches for: naming this machine is not enough to reach it.
    pub(super) fn for_anyone(inner: bool, remedy: &'static str, patience: Duration) -> Self {
        let (at_home, elsewhere, home) = (OnceCell::new(), OnceCell::new(), Origin::new_opaque());
        Self { loopback: false, inner, remedy, patience, tls: None, home, at_home, elsewhere }
    }

    /// Connects to where a URL leads, if that is allowed.
    pub(super) async fn dial(&self, url: &Url) -> Result<Io, Unreached> {
        let until = Instant::now() + self.patience;
        let dialled = tokio::time::timeout_at(until, self.dial_until(url, until)).await;
        dialled.unwrap_or_else(|_| {
            let (place, patience) = (shown(url), self.patience);
            Err(Unreached::Failed(format!("{place} could not be reached within {patience:?}")))
        })
    }

    async fn dial_until(&self, url: &Url, until: Instant) -> Result<Io, Unreached> {
        let addresses = self.look_up(url).await?;
        let stream = connect(url, &addresses, until).await?;
        // Requests are small and each waits for its answer.
        let _ = stream.set_nodelay(true);
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let failed =
            |error: String| Unreached::Failed(format!("no secure connection to {}: {error}", shown(url)));
        let name = match url.host() {
            Some(Host::Domain(name)) => {
                ServerName::try_from(name.to_owned()).map_err(|e| failed(e.to_string()))?
            }
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::V6(address)),
            None => return Err(failed("the URL names no host".to_owned())),
        };
        // Without a certificate to show there is one way to connect, and one connector.
        let identified = self.tls.as_ref().is_some_and(|tls| tls.identity.is_some());
        let at_home = !identified || url.origin() == self.home;
        let connector = if at_home { &self.at_home } else { &self.elsewhere };
        let make = || tls::connector(self.tls.clone(), at_home);
        let tls = connector.get_or_try_init(make).await.map_err(failed)?;
        let stream = tls.connect(name, stream).await.map_err(|error| failed(error.to_string()))?;
        Ok(Box::new(stream))
    }

    /// The addresses of a URL's host that may be connected to.
    async fn look_up(&self, url: &Url) -> Result<Vec<SocketAddr>, Unreached> {
        let place = shown(url);
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Unreached::Failed(format!("{place} names no host")));
        };
        let found: Vec<SocketAddr> = match host {
            Host::Ipv4(address) => vec![(address, port).into()],
            Host::Ipv6(address) => vec![(address, port).into()],
            Host::Domain(name) => {
                let looked_up = tokio::net::lookup_host((name, port)).await;
                let failed =
                    |error| Unreached::Failed(format!("{place}: the name cannot be looked up: {error}"));
                looked_up.map_err(failed)?.collect()
            }
        };
        let allowed = Allowed { loopback: self.loopback && names_loopback(&host), inner: self.inner };
        let mut refused = None;
        let mut addresses = Vec::with_capacity(found.len());
        for address in found {
            match refusal(address.ip(), allowed, self.remedy) {
                Some(why) => refused = Some(why),
                None => addresses.push(address),
            }
        }
        match (addresses.is_empty(), refused) {
            (false, _) => Ok(addresses),
            (true, Some(why)) => Err(Unreached::Refused(format!("{place} is not connected to: {why}"))),
            (true, None) => Err(Unreached::Failed(format!("{place}: the name has no address"))),
        }
    }
}

/// The first of the addresses that takes the connection. Each but the last gets half of the time that is left, so that
/// one that swallows everything does not keep the others from their turn.
async fn connect(url: &Url, addresses: &[SocketAddr], until: Instant) -> Result<TcpStream, Unreached> {
    let mut last = "no answer".to_owned();
    for (index, address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = if index + 1 == addresses.len() { left } else { left / 2 };
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "no answer".to_owned(),
        }
    }
    Err(Unreached::Failed(format!("{} cannot be connected to: {last}", shown(url))))
}

/// A URL as far as it may be shown: paths and queries of MCP servers are often as good as a password.
#[must_use]
pub fn shown(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_elsewhere_cannot_send_the_hub_to_its_own_machine() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let here = [format!("http://127.0.0.1:{port}/"), format!("http://localhost:{port}/")];
        for here in here.iter().map(|url| Url::parse(url).unwrap()) {
            let elsewhere = Url::parse("https://mcp.example/").unwrap();
            for (from, inner, reached) in
                [(&elsewhere, false, false), (&here, false, true), (&elsewhere, true, true)]
            {
                let network = Network::of(from, None, inner, "", Duration::from_secs(5));
                let dialled = network.dial(&here).await;
                assert_eq!(dialled.is_ok(), reached, "{from} {inner}: {:?}", dialled.err());
            }
        }
    }
}
