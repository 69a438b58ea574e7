//! Encryption of the way to the hub: whom the node believes, and what it shows of itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls_platform_verifier::Verifier;

/// Files of a person, named on the command line or in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Authorities that are believed beside those of the machine.
    pub ca: Option<PathBuf>,
    /// Certificate and key that are shown to a hub that asks for them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// In words: which file it is and what is wrong with it.
    pub fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let trusted = self.ca.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let verifier = Verifier::new_with_extra_roots(trusted, provider.clone()).map_err(told)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(told)?
            .dangerous()
            // The platform's own; what is dangerous is to put another one here.
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let shown = certificates(cert)?;
                let private = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| format!("{} holds no private key: {error}", key.display()))?;
                config.with_client_auth_cert(shown, private).map_err(|error| {
                    format!("{} and {} do not go together: {error}", cert.display(), key.display())
                })?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
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
