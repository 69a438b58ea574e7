//! Servers that require a client certificate.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_proto::api::UpstreamState;
use plexus_testkit::TestHub;
use plexus_testkit::fixture::Fixture;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::upstream::{agent, fast_timing, text};

/// A private certificate authority, and its certificates.
struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    roots: RootCertStore,
}

impl CertificateAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        Self { pem: pem("CERTIFICATE", certificate.der()), roots, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// The fixture server behind a port that requires a certificate of this authority.
    async fn serve(&self, inside: std::net::SocketAddr) -> (u16, JoinSet<()>) {
        let (certificate, key) = self.issue("localhost");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = Arc::new(self.roots.clone());
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build().unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let Ok(mut outside) = acceptor.accept(stream).await else { return };
                    let mut inside = TcpStream::connect(inside).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
        (port, serving)
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    set_mode(folder, name, 0o600);
}

fn set_mode(folder: &Path, name: &str, mode: u32) {
    std::fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificate_of_the_file_is_presented() {
    let authority = CertificateAuthority::new();
    let fixture = Fixture::new().start().await;
    let (port, _serving) = authority.serve(fixture.address()).await;
    let hub = TestHub::start_timed(fast_timing()).await;
    let folder = hub.upstreams().folder().dir().join("certificates");
    let (certificate, key) = authority.issue("the hub");
    write(&folder, "ca.pem", &authority.pem);
    write(&folder, "hub.pem", &pem("CERTIFICATE", certificate.der()));
    write(&folder, "hub.key", &pem("PRIVATE KEY", &key.serialize_der()));
    let url = format!("https://localhost:{port}/mcp");
    let shown = json!({
        "url": url,
        "auth": { "tls": {
            "client_cert": "certificates/hub.pem",
            "client_key": "certificates/hub.key",
            "ca": "certificates/ca.pem",
        } },
    });
    hub.add_upstream("mutual", &shown).await;
    let result = agent(&hub).await.tool("mcp__mutual__echo", json!({ "text": "shown" })).await;
    assert_eq!(text(&result), "shown", "{result}");

    for (name, tls, expected_text) in [
        ("nameless", json!({ "ca": "certificates/ca.pem" }), ""),
        (
            "distrustful",
            json!({ "client_cert": "certificates/hub.pem", "client_key": "certificates/hub.key" }),
            "certificate",
        ),
        (
            "mistaken",
            json!({
                "client_cert": "certificates/hub.key",
                "client_key": "certificates/hub.key",
                "ca": "certificates/ca.pem",
            }),
            "hub.key contains no certificates",
        ),
    ] {
        hub.write_upstream(name, &json!({ "url": url, "auth": { "tls": tls } }));
        hub.upstreams().reload().await;
        let down = hub.upstream_in(name, UpstreamState::Down).await;
        let why = down.last_error.unwrap().message;
        assert!(why.contains(expected_text), "{name}: {why}");
    }

    // A key that others can read causes a warning, and one that everyone can read is refused.
    set_mode(&folder, "hub.key", 0o640);
    hub.add_upstream("grouped", &shown).await;
    let warnings = hub.upstream_in("grouped", UpstreamState::Ready).await.warnings.join("\n");
    assert!(warnings.contains("`auth.tls.client_key` has mode 0640"), "{warnings}");
    set_mode(&folder, "hub.key", 0o644);
    hub.write_upstream("open", &shown);
    hub.upstreams().reload().await;
    let why = hub.upstream_in("open", UpstreamState::Down).await.last_error.unwrap().message;
    assert!(why.contains("every user of this machine can read the key"), "{why}");
}
