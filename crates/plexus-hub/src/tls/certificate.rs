//! Whom a client's certificate is for.

use std::io;

use plexus_proto::{NodeId, Timestamp};
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// A certificate that the other side of a connection has shown, and that the authority of the nodes has signed. With every
/// request of that connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    names: Vec<String>,
    expires_at: Timestamp,
}

impl ClientCertificate {
    /// Its DNS names; where it has none, its common name.
    pub(super) fn read(certificate: &CertificateDer<'_>) -> io::Result<Self> {
        let wrong = |error: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the client's certificate: {error}"))
        };
        let (_, read) = X509Certificate::from_der(certificate).map_err(|error| wrong(error.to_string()))?;
        let alternatives = read.subject_alternative_name().map_err(|error| wrong(error.to_string()))?;
        let mut names: Vec<String> = alternatives
            .iter()
            .flat_map(|alternatives| &alternatives.value.general_names)
            .filter_map(|name| if let GeneralName::DNSName(name) = name { Some(*name) } else { None })
            .map(str::to_lowercase)
            .collect();
        if names.is_empty() {
            let common = read.subject().iter_common_name().filter_map(|name| name.as_str().ok());
            names.extend(common.map(str::to_lowercase));
        }
        let seconds = read.validity().not_after.timestamp();
        Ok(Self { names, expires_at: Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX) })
    }

    /// What it says of itself; nothing of it stands for anything else.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Whether it is the certificate of a node.
    pub(crate) fn is_of(&self, id: NodeId, name: &str) -> bool {
        let id = id.to_string();
        self.names.iter().any(|own| *own == id || own.eq_ignore_ascii_case(name))
    }
}
