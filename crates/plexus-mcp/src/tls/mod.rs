//! Encryption of connections that this machine dials: whom it believes, and what it shows of itself.
//!
//! Used for the servers behind a hub and for the link of a node to its hub. Certificates are read when this is asked for;
//! who wants a changed one to hold asks again.

mod key_readers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls_platform_verifier::Verifier;

pub use key_readers::KeyReaders;

/// Files of this machine, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TlsConfig {
    /// The certificate that is shown to servers, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Trusted beside what the machine trusts.
    pub ca: Option<PathBuf>,
}

/// Trusts what the machine trusts, or what `SSL_CERT_FILE` says instead, and beside that the authority of `tls.ca`. The
/// certificate of `tls.identity` is shown to servers that ask for one. Reads files: not for the async runtime's threads.
pub fn client_config(tls: TlsConfig) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let trusted = tls.ca.as_deref().map(certificates).transpose()?.unwrap_or_default();
    let verifier = Verifier::new_with_extra_roots(trusted, provider.clone()).map_err(told)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(told)?
        .dangerous()
        // The platform's own; what is dangerous is to put another one here.
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match tls.identity {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let shown = certificates(&cert)?;
            // One that those of its group can read is warned about with its file: they may be there for the hub.
            if let Some(readers) = KeyReaders::of(&key).filter(KeyReaders::is_everyone) {
                return Err(format!("{} {readers}", key.display()));
            }
            let private = PrivateKeyDer::from_pem_file(&key)
                .map_err(|error| format!("{} holds no private key: {error}", key.display()))?;
            config.with_client_auth_cert(shown, private).map_err(|error| {
                format!("{} and {} do not go together: {error}", cert.display(), key.display())
            })?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{} holds no certificates: {error}", file.display());
    let read = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let found: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
    if found.is_empty() { Err(wrong(&"there is none in it")) } else { Ok(found) }
}

fn told(error: rustls::Error) -> String {
    error.to_string()
}
