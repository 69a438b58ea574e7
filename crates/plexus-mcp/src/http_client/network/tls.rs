//! TLS for connections to servers.
//!
//! Configured certificates are read for the first connection. A changed one takes effect when the server is
//! restarted.

use std::sync::Arc;

use tokio_rustls::TlsConnector;

use crate::tls::{TlsConfig, client_config};

/// `identified`: presents the configured certificate to servers that request one.
pub(super) async fn connector(tls: Option<TlsConfig>, identified: bool) -> Result<TlsConnector, String> {
    let mut tls = tls.unwrap_or_default();
    tls.identity = tls.identity.filter(|_| identified);
    let made = tokio::task::spawn_blocking(move || client_config(tls));
    let config = made.await.map_err(|error| error.to_string())??;
    Ok(TlsConnector::from(Arc::new(config)))
}
