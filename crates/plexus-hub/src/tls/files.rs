//! The files of the settings `tls.cert`, `tls.key` and `nodes.client_ca`, read into what a handshake needs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use plexus_kit::config::TlsConfig;
use plexus_kit::hex;
use plexus_proto::Timestamp;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use super::certificate::timestamp;

/// Why a hub cannot speak TLS.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct TlsError {
    /// Which setting, which file, what is wrong with it.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

impl TlsError {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }

    /// A file that cannot be read, or has nothing of the kind in it.
    fn file(setting: &str, path: &Path, kind: &str, error: &pem::Error) -> Self {
        let place = path.display();
        match error {
            pem::Error::Io(error) => Self::new(
                format!("{setting}: cannot read {place}: {error}"),
                "name a file that is there and that the hub's user may read",
            ),
            pem::Error::NoItemsFound => Self::new(
                format!("{setting}: {place} holds no {kind}"),
                format!("name a PEM file with a {kind} in it"),
            ),
            error => Self::new(
                format!("{setting}: {place} holds no {kind} that can be read: {error}"),
                format!("name a PEM file with a {kind} in it"),
            ),
        }
    }
}

/// What the files held when they were read.
pub(super) struct Loaded {
    pub(super) server: Arc<ServerConfig>,
    /// Of the hub's certificate.
    pub(super) fingerprint: String,
}

impl Loaded {
    /// None where no certificate is named.
    pub(super) fn read(files: &TlsConfig, now: Timestamp) -> Result<Option<Self>, TlsError> {
        let Some((cert, key)) = files.identity() else { return Ok(None) };
        let chain = certificates("tls.cert", cert)?;
        let Some(own) = chain.first() else { return Ok(None) };
        lasting(own, cert, now)?;
        let fingerprint = hex::encode(digest(&SHA256, own).as_ref());
        let private = private_key(key)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(error.to_string(), "this build cannot speak TLS"))?;
        let clients = files.client_ca.as_deref().map(clients).transpose()?;
        let asks = clients.is_some();
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        let mut server = builder.with_single_cert(chain, private).map_err(|error| {
            TlsError::new(
                format!(
                    "tls.cert {} and tls.key {} do not go together: {error}",
                    cert.display(),
                    key.display()
                ),
                "name the key that the certificate was made with, and the hub's own certificate first in its file",
            )
        })?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        if asks {
            // A resumed session would bring a certificate along that nobody looks at any more.
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
        }
        Ok(Some(Self { server: Arc::new(server), fingerprint }))
    }
}

/// All certificates of a file; at least one.
fn certificates(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error: pem::Error| TlsError::file(setting, file, "certificate", &error);
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() { Err(wrong(pem::Error::NoItemsFound)) } else { Ok(found) }
}

/// A certificate that nobody would accept any more, or not yet, is refused at the start rather than by every client.
fn lasting(certificate: &CertificateDer<'_>, file: &Path, now: Timestamp) -> Result<(), TlsError> {
    let place = file.display();
    let read = Certificate::from_der(certificate).map_err(|error| {
        TlsError::new(
            format!("tls.cert: the certificate in {place} cannot be read: {error}"),
            "have it made anew",
        )
    })?;
    let validity = read.tbs_certificate().validity();
    let (from, until) = (timestamp(validity.not_before), timestamp(validity.not_after));
    let again = "renew it and start the hub again, or unset tls.cert and tls.key for plain HTTP";
    if until <= now {
        return Err(TlsError::new(format!("tls.cert: the certificate in {place} expired at {until}"), again));
    }
    if from > now {
        let what = format!("tls.cert: the certificate in {place} is not valid before {from}");
        return Err(TlsError::new(what, "look at this machine's clock, or have the certificate made anew"));
    }
    Ok(())
}

/// Whoever has the key can be the hub.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    if let Ok(metadata) = fs_err::metadata(file)
        && metadata.permissions().mode() & 0o007 != 0
    {
        let place = file.display();
        return Err(TlsError::new(
            format!("tls.key: everybody on this machine may read or write {place}"),
            format!("run `chmod 600 {place}`, and replace the key if others should not have it"),
        ));
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| TlsError::file("tls.key", file, "private key", &error))
}

/// Certificates are asked for; who shows none goes on without.
fn clients(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let wrong = |error: &dyn std::fmt::Display| {
        TlsError::new(
            format!("nodes.client_ca: {} holds no authority that can be used: {error}", file.display()),
            "name the PEM file of the authority that signs the nodes' certificates",
        )
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("nodes.client_ca", file)? {
        roots.add(authority).map_err(|error| wrong(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| wrong(&error))
}
