//! Whom a client's certificate is for.

use std::io;

use plexus_proto::{NodeId, Timestamp};
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;
use x509_cert::time::Time;

/// `id-at-commonName` (RFC 5280, appendix A.1).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

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
        let read = Certificate::from_der(certificate).map_err(|error| wrong(error.to_string()))?;
        let content = read.tbs_certificate();
        let alternatives = content
            .get_extension::<SubjectAltName>()
            .map_err(|error| wrong(error.to_string()))?
            .map(|(_, alternatives)| alternatives);
        let mut names: Vec<String> = alternatives
            .iter()
            .flat_map(|alternatives| &alternatives.0)
            .filter_map(|name| if let GeneralName::DnsName(name) = name { Some(name.as_str()) } else { None })
            .map(str::to_lowercase)
            .collect();
        if names.is_empty() {
            names = common_names(content.subject());
        }
        let expires_at = timestamp(content.validity().not_after);
        Ok(Self { names, expires_at })
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

/// The common names of a subject in lower case.
fn common_names(subject: &Name) -> Vec<String> {
    let common = subject.iter().filter(|attribute| attribute.oid == COMMON_NAME);
    let texts = common.filter_map(|attribute| {
        let value = &attribute.value;
        let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_lowercase());
        let printable =
            || value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_lowercase());
        let teletex = || value.decode_as::<TeletexStringRef<'_>>().map(|text| text.as_str().to_lowercase());
        utf8.or_else(|_| printable()).or_else(|_| teletex()).ok()
    });
    texts.collect()
}

/// A date of a certificate; one that does not fit never comes.
pub(super) fn timestamp(time: Time) -> Timestamp {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}
