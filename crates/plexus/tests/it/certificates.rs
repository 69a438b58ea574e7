//! An authority that nobody else knows, and certificates that it vouches for, as files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// When a certificate is good.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    Now,
    /// For so many seconds from now.
    Shortly(u32),
    Past,
    Future,
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    pub(crate) file: PathBuf,
}

/// A certificate and its key.
pub(crate) struct Pair {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// Its files, and those of all that it vouches for, are in a folder of this name.
    pub(crate) fn new(home: &Path, name: &str) -> Self {
        let folder = home.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let file = folder.join("ca.pem");
        std::fs::write(&file, pem("CERTIFICATE", own.der())).unwrap();
        Self { issuer: Issuer::new(params, key), folder, file }
    }

    pub(crate) fn vouch(&self, name: &str) -> Pair {
        self.vouch_for(name, Time::Now)
    }

    pub(crate) fn vouch_for(&self, name: &str, time: Time) -> Pair {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        self.sign(params, name, time)
    }

    /// As people make them who do not know that names belong elsewhere by now.
    pub(crate) fn vouch_by_common_name(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(params, name, Time::Now)
    }

    fn sign(&self, mut params: CertificateParams, name: &str, time: Time) -> Pair {
        (params.not_before, params.not_after) = match time {
            Time::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1)),
            Time::Shortly(seconds) => {
                let until = SystemTime::now() + Duration::from_secs(seconds.into());
                (date_time_ymd(2020, 1, 1), until.into())
            }
            Time::Past => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Time::Future => (date_time_ymd(2120, 1, 1), date_time_ymd(2121, 1, 1)),
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair {
            cert: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        std::fs::write(&pair.cert, pem("CERTIFICATE", certificate.der())).unwrap();
        std::fs::write(&pair.key, pem("PRIVATE KEY", &key.serialize_der())).unwrap();
        std::fs::set_permissions(&pair.key, std::fs::Permissions::from_mode(0o600)).unwrap();
        pair
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}
