//! The files of the settings `tls.cert`, `tls.key` and `nodes.client_ca`, loaded for handshakes.

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

/// Errors in the TLS configuration.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct TlsError {
    /// The setting, the file and the problem.
    pub what: String,
    /// How to fix it.
    pub fix: String,
}

impl TlsError {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }

    /// A file that cannot be read or lacks the expected content.
    fn file(setting: &str, path: &Path, kind: &str, error: &pem::Error) -> Self {
        let shown_path = path.display();
        match error {
            pem::Error::Io(error) => Self::new(
                format!("{setting}: cannot read {shown_path}: {error}"),
                "use an existing file that the hub's user can read",
            ),
            pem::Error::NoItemsFound => Self::new(
                format!("{setting}: {shown_path} contains no {kind}"),
                format!("use a PEM file that contains a {kind}"),
            ),
            error => Self::new(
                format!("{setting}: {shown_path} contains no valid {kind}: {error}"),
                format!("use a PEM file that contains a {kind}"),
            ),
        }
    }
}

/// Content of the files when they were loaded.
pub(super) struct Loaded {
    pub(super) server: Arc<ServerConfig>,
    /// Fingerprint of the hub's certificate.
    pub(super) fingerprint: String,
}

impl Loaded {
    /// `None` if no certificate is configured.
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
            .map_err(|error| TlsError::new(error.to_string(), "this build does not support TLS"))?;
        let clients = files.client_ca.as_deref().map(clients).transpose()?;
        let asks = clients.is_some();
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        let mut server = builder.with_single_cert(chain, private).map_err(|error| {
            TlsError::new(
                format!("tls.cert {} and tls.key {} do not match: {error}", cert.display(), key.display()),
                "use the private key of the certificate, and put the hub's own certificate first in its file",
            )
        })?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        if asks {
            // A resumed session would carry a client certificate without another check of it.
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
        }
        Ok(Some(Self { server: Arc::new(server), fingerprint }))
    }
}

/// All certificates in a file; at least one.
fn certificates(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error: pem::Error| TlsError::file(setting, file, "certificate", &error);
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() { Err(wrong(pem::Error::NoItemsFound)) } else { Ok(found) }
}

/// Refuses an expired or not yet valid certificate at startup instead of letting every client fail.
fn lasting(certificate: &CertificateDer<'_>, file: &Path, now: Timestamp) -> Result<(), TlsError> {
    let shown_path = file.display();
    let read = Certificate::from_der(certificate).map_err(|error| {
        TlsError::new(
            format!("tls.cert: the certificate in {shown_path} cannot be read: {error}"),
            "create a new certificate",
        )
    })?;
    let validity = read.tbs_certificate().validity();
    let (from, until) = (timestamp(validity.not_before), timestamp(validity.not_after));
    let again = "renew it and restart the hub, or unset tls.cert and tls.key to use plain HTTP";
    if until <= now {
        return Err(TlsError::new(
            format!("tls.cert: the certificate in {shown_path} expired at {until}"),
            again,
        ));
    }
    if from > now {
        let what = format!("tls.cert: the certificate in {shown_path} is not valid before {from}");
        return Err(TlsError::new(what, "check this machine's clock, or create a new certificate"));
    }
    Ok(())
}

/// Reads the private key, which must be readable by its owner only: anyone who has it can impersonate the hub.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    if let Ok(metadata) = fs_err::metadata(file)
        && metadata.permissions().mode() & 0o007 != 0
    {
        let shown_path = file.display();
        return Err(TlsError::new(
            format!("tls.key: every user of this machine can read or write {shown_path}"),
            format!("run `chmod 600 {shown_path}`, and replace the key if others may have read it"),
        ));
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| TlsError::file("tls.key", file, "private key", &error))
}

/// Client certificates are requested but optional.
fn clients(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let wrong = |error: &dyn std::fmt::Display| {
        TlsError::new(
            format!("nodes.client_ca: {} contains no usable certificate authority: {error}", file.display()),
            "use the PEM file of the authority that signs the nodes' certificates",
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
