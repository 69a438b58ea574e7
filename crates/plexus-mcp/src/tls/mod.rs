//! TLS configuration of outgoing connections: trusted authorities and the client certificate.
//!
//! Used for the servers behind a hub and for a node's link to its hub. Certificates are read once per configuration;
//! a changed one needs a new configuration.

mod key_readers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls_platform_verifier::Verifier;

pub use key_readers::KeyReaders;

/// Paths of PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TlsConfig {
    /// The client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Authorities trusted in addition to the machine's.
    pub ca: Option<PathBuf>,
}

/// Trusts the machine's authorities, or those in `SSL_CERT_FILE` instead, and the authorities in `tls.ca`. Presents
/// the certificate of `tls.identity` to servers that request one. Reads files, so it must not run on an async runtime
/// thread.
pub fn client_config(tls: TlsConfig) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let trusted = tls.ca.as_deref().map(certificates).transpose()?.unwrap_or_default();
    let verifier = Verifier::new_with_extra_roots(trusted, provider.clone()).map_err(text)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(text)?
        .dangerous()
        // The platform's verifier; only a different one would be dangerous.
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match tls.identity {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates(&cert)?;
            // A key that only its group can read causes a warning elsewhere, because that may be intended.
            if let Some(readers) = KeyReaders::of(&key).filter(KeyReaders::is_everyone) {
                return Err(format!("{} {readers}", key.display()));
            }
            let private = PrivateKeyDer::from_pem_file(&key)
                .map_err(|error| format!("{} contains no private key: {error}", key.display()))?;
            config
                .with_client_auth_cert(chain, private)
                .map_err(|error| format!("{} and {} do not match: {error}", cert.display(), key.display()))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong =
        |error: &dyn std::fmt::Display| format!("{} contains no certificates: {error}", file.display());
    let read = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let items: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
    if items.is_empty() { Err(wrong(&"no PEM block found")) } else { Ok(items) }
}

fn text(error: rustls::Error) -> String {
    error.to_string()
}
