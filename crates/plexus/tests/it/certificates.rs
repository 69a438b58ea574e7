//! A private certificate authority and the certificates that it issues, as files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// When a certificate is valid.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Now,
    /// For this many seconds from now.
    Seconds(u32),
    Past,
    Future,
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    pub(crate) file: PathBuf,
}

/// A certificate and its key.
pub(crate) struct CertificateFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// All its files are in a folder of this name in `home`.
    pub(crate) fn new(home: &Path, name: &str) -> Self {
        let folder = home.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let file = folder.join("ca.pem");
        std::fs::write(&file, pem("CERTIFICATE", certificate.der())).unwrap();
        Self { issuer: Issuer::new(params, key), folder, file }
    }

    pub(crate) fn issue(&self, name: &str) -> CertificateFiles {
        self.issue_with(name, Validity::Now)
    }

    pub(crate) fn issue_with(&self, name: &str, validity: Validity) -> CertificateFiles {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        self.sign(params, name, validity)
    }

    /// With the name as common name instead of a subject alternative name, as some people still make them.
    pub(crate) fn issue_by_common_name(&self, name: &str) -> CertificateFiles {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(params, name, Validity::Now)
    }

    fn sign(&self, mut params: CertificateParams, name: &str, validity: Validity) -> CertificateFiles {
        (params.not_before, params.not_after) = match validity {
            Validity::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1)),
            Validity::Seconds(seconds) => {
                let until = SystemTime::now() + Duration::from_secs(seconds.into());
                (date_time_ymd(2020, 1, 1), until.into())
            }
            Validity::Past => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Validity::Future => (date_time_ymd(2120, 1, 1), date_time_ymd(2121, 1, 1)),
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = CertificateFiles {
            cert: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        std::fs::write(&files.cert, pem("CERTIFICATE", certificate.der())).unwrap();
        std::fs::write(&files.key, pem("PRIVATE KEY", &key.serialize_der())).unwrap();
        std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o600)).unwrap();
        files
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}
