//! A hub with TLS: connections, invalid certificates, renewal and unfinished handshakes.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, Signal};
use tokio::net::TcpStream;

use crate::certificates::{Authority, CertificateFiles, Validity};

const TIMEOUT: Duration = Duration::from_secs(20);
/// The name in the certificate, which commands on the hub's machine do not use.
const NAME: &str = "hub.example.net";

fn configure(plexus: &Plexus, files: &CertificateFiles) {
    std::fs::create_dir_all(plexus.data_dir()).unwrap();
    let text = format!(
        "public_url = \"https://{NAME}\"\n[tls]\ncert = {:?}\nkey = {:?}\n",
        files.cert.display().to_string(),
        files.key.display().to_string()
    );
    std::fs::write(plexus.data_dir().join("plexus.toml"), text).unwrap();
}

/// The local address of the hub, independent of its public URL.
fn address(hub: &HubProcess) -> SocketAddr {
    let file = std::fs::read_to_string(hub.data_dir().join("hub.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    file["url"].as_str().unwrap().strip_prefix("https://").unwrap().parse().unwrap()
}

/// The status of `/healthz` for a client that trusts only this authority and uses the public name.
async fn healthz(authority: &Path, address: SocketAddr) -> Result<u16, String> {
    let authority = reqwest::Certificate::from_pem(&std::fs::read(authority).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).resolve(NAME, address);
    let request = client.build().unwrap().get(format!("https://{NAME}:{}/healthz", address.port()));
    let answer = request.header("host", NAME).timeout(TIMEOUT).send().await;
    answer.map(|answer| answer.status().as_u16()).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn tls_hub_is_reached_by_name_and_by_local_commands() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    configure(&plexus, &authority.issue(NAME));
    let hub = plexus.up().await;
    assert!(hub.welcome().contains(&format!("https://{NAME}/mcp")), "{}", hub.welcome());
    let address = address(&hub);
    assert_eq!(healthz(&authority.file, address).await, Ok(200));
    assert!(healthz(&Authority::new(plexus.home(), "another").file, address).await.is_err());

    // The certificate has no IP address: local commands accept it by its hash.
    plexus.run(&["status"]).await.ok();
    plexus.run(&["--hub", &format!("https://{address}"), "status"]).await.ok();
    // Without the data folder of the hub the hash is unknown.
    let folder = plexus.home().join("nothing");
    let args = ["--data-dir", folder.to_str().unwrap(), "--hub", &format!("https://{address}"), "status"];
    let refused = plexus.run_with(&args, &[("PLEXUS_TOKEN", &hub.admin_token())]).await;
    assert!(refused.failed(4).contains("certificate"), "{refused:?}");

    // Plain HTTP is answered with an explanation.
    let plain = plexus.http().get(format!("http://{address}/healthz")).send().await.unwrap();
    assert_eq!(plain.status(), 400);
    assert!(plain.text().await.unwrap().contains("speaks HTTPS"));
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn invalid_certificate_files_are_explained_and_prevent_the_start() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let good = authority.issue(NAME);
    let CertificateFiles { key: another, .. } = authority.issue("another");
    let CertificateFiles { cert: past, key: past_key } = authority.issue_with("past", Validity::Past);
    let CertificateFiles { cert: future, key: future_key } = authority.issue_with("future", Validity::Future);
    let CertificateFiles { cert: open, key: open_key } = authority.issue("open");
    std::fs::set_permissions(&open_key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let garbage = plexus.home().join("garbage.pem");
    std::fs::write(&garbage, "not a certificate").unwrap();
    std::fs::set_permissions(&garbage, std::fs::Permissions::from_mode(0o600)).unwrap();
    let missing = plexus.home().join("missing.pem");

    for (cert, key, ca, problem, fix) in [
        (&missing, &good.key, None, "tls.cert: cannot read", "the hub's user can read"),
        (&garbage, &good.key, None, "contains no certificate", "PEM file"),
        (&good.cert, &garbage, None, "tls.key", "PEM file"),
        (&good.cert, &another, None, "do not match", "the private key of the certificate"),
        (&past, &past_key, None, "expired at 2021-01-01", "renew it"),
        (&future, &future_key, None, "is not valid before 2120-01-01", "clock"),
        (&open, &open_key, None, "every user of this machine can read", "chmod 600"),
        (&good.cert, &good.key, Some(&garbage), "nodes.client_ca", "PEM file"),
    ] {
        let text = |path: &Path| path.display().to_string();
        let ca = ca.map(|ca| text(ca)).unwrap_or_default();
        let (cert, key) = (text(cert), text(key));
        let variables =
            [("PLEXUS_TLS_CERT", &*cert), ("PLEXUS_TLS_KEY", &*key), ("PLEXUS_NODES_CLIENT_CA", &*ca)];
        let output = plexus.run_with(&["up", "--listen", "127.0.0.1:0"], &variables).await;
        let stderr = output.failed(2);
        assert!(
            stderr.contains(problem) && stderr.contains("hint:") && stderr.contains(fix),
            "{problem}: {stderr}"
        );
    }
    let alone = [("PLEXUS_TLS_CERT", "/somewhere.pem")];
    let output = plexus.run_with(&["up", "--listen", "127.0.0.1:0"], &alone).await;
    assert!(output.failed(2).contains("set `tls.key` as well"), "{output:?}");
}

#[tokio::test]
async fn renewed_certificate_is_loaded_on_sighup_and_an_invalid_one_is_not() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    configure(&plexus, &authority.issue(NAME));
    let hub = plexus.up().await;
    let address = address(&hub);
    let certificate = || {
        let file = std::fs::read_to_string(hub.data_dir().join("hub.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&file).unwrap()["certificate_sha256"].clone()
    };
    let first = certificate();

    authority.issue(NAME);
    hub.signal(Signal::HUP);
    hub.logged("configuration reloaded", 1).await;
    let second = certificate();
    assert_ne!(first, second);
    assert_eq!(healthz(&authority.file, address).await, Ok(200));
    plexus.run(&["status"]).await.ok();

    authority.issue_with(NAME, Validity::Past);
    hub.signal(Signal::HUP);
    hub.logged("configuration reloaded", 2).await;
    assert!(hub.log().contains("the hub keeps its current certificate"), "{}", hub.log());
    assert_eq!((certificate(), healthz(&authority.file, address).await), (second, Ok(200)));
    plexus.run(&["status"]).await.ok();
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn unfinished_handshakes_do_not_delay_other_clients() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    configure(&plexus, &authority.issue(NAME));
    let hub = plexus.up().await;
    let address = address(&hub);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let answer = tokio::time::timeout(Duration::from_secs(5), healthz(&authority.file, address));
    assert_eq!(answer.await.expect("an answer in time"), Ok(200));
    assert!(hub.terminate().await.success());
}
