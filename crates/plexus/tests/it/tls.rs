//! A hub with a certificate: who reaches it, what it refuses to start with, and how it gets a new one.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, Signal};
use tokio::net::TcpStream;

use crate::certificates::{Authority, Pair, Time};

const PATIENCE: Duration = Duration::from_secs(20);
/// What the certificate is for; commands on the hub's machine never use it.
const NAME: &str = "hub.example.net";

fn configure(plexus: &Plexus, pair: &Pair) {
    std::fs::create_dir_all(plexus.data_dir()).unwrap();
    let text = format!(
        "public_url = \"https://{NAME}\"\n[tls]\ncert = {:?}\nkey = {:?}\n",
        pair.cert.display().to_string(),
        pair.key.display().to_string()
    );
    std::fs::write(plexus.data_dir().join("plexus.toml"), text).unwrap();
}

/// Where it is on this machine, whatever it calls itself.
fn address(hub: &HubProcess) -> SocketAddr {
    let file = std::fs::read_to_string(hub.data_dir().join("hub.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    file["url"].as_str().unwrap().strip_prefix("https://").unwrap().parse().unwrap()
}

/// What a client that trusts only this authority is answered at the hub's name.
async fn healthz(authority: &Path, address: SocketAddr) -> Result<u16, String> {
    let authority = reqwest::Certificate::from_pem(&std::fs::read(authority).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).resolve(NAME, address);
    let asked = client.build().unwrap().get(format!("https://{NAME}:{}/healthz", address.port()));
    let answer = asked.header("host", NAME).timeout(PATIENCE).send().await;
    answer.map(|answer| answer.status().as_u16()).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn a_hub_with_a_certificate_is_reached_by_its_name_and_by_commands_on_its_machine() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    configure(&plexus, &authority.vouch(NAME));
    let hub = plexus.up().await;
    assert!(hub.welcome().contains(&format!("https://{NAME}/mcp")), "{}", hub.welcome());
    let address = address(&hub);
    assert_eq!(healthz(&authority.file, address).await, Ok(200));
    assert!(healthz(&Authority::new(plexus.home(), "another").file, address).await.is_err());

    // The certificate is not for an address: commands know the hub by the certificate itself.
    plexus.run(&["status"]).await.ok();
    plexus.run(&["--hub", &format!("https://{address}"), "status"]).await.ok();
    // Who does not have the hub's data folder does not know it.
    let folder = plexus.home().join("nothing");
    let args = ["--data-dir", folder.to_str().unwrap(), "--hub", &format!("https://{address}"), "status"];
    let refused = plexus.run_with(&args, &[("PLEXUS_TOKEN", &hub.admin_token())]).await;
    assert!(refused.failed(4).contains("certificate"), "{refused:?}");

    // A client that speaks plain HTTP is told so.
    let plain = plexus.http().get(format!("http://{address}/healthz")).send().await.unwrap();
    assert_eq!(plain.status(), 400);
    assert!(plain.text().await.unwrap().contains("speaks HTTPS"));
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn what_is_wrong_with_the_files_is_said_and_the_hub_does_not_start() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let good = authority.vouch(NAME);
    let Pair { key: another, .. } = authority.vouch("another");
    let Pair { cert: past, key: past_key } = authority.vouch_for("past", Time::Past);
    let Pair { cert: future, key: future_key } = authority.vouch_for("future", Time::Future);
    let Pair { cert: open, key: open_key } = authority.vouch("open");
    std::fs::set_permissions(&open_key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let garbage = plexus.home().join("garbage.pem");
    std::fs::write(&garbage, "not a certificate").unwrap();
    std::fs::set_permissions(&garbage, std::fs::Permissions::from_mode(0o600)).unwrap();
    let missing = plexus.home().join("missing.pem");

    for (cert, key, ca, words, fix) in [
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
        let ran = plexus.run_with(&["up", "--listen", "127.0.0.1:0"], &variables).await;
        let said = ran.failed(2);
        assert!(said.contains(words) && said.contains("hint:") && said.contains(fix), "{words}: {said}");
    }
    let alone = [("PLEXUS_TLS_CERT", "/somewhere.pem")];
    let ran = plexus.run_with(&["up", "--listen", "127.0.0.1:0"], &alone).await;
    assert!(ran.failed(2).contains("set `tls.key` as well"), "{ran:?}");
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_on_sighup_and_a_wrong_one_is_not() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    configure(&plexus, &authority.vouch(NAME));
    let hub = plexus.up().await;
    let address = address(&hub);
    let certificate = || {
        let file = std::fs::read_to_string(hub.data_dir().join("hub.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&file).unwrap()["certificate_sha256"].clone()
    };
    let first = certificate();

    authority.vouch(NAME);
    hub.signal(Signal::HUP);
    logged(&hub, "configuration reloaded", 1).await;
    let second = certificate();
    assert_ne!(first, second);
    assert_eq!(healthz(&authority.file, address).await, Ok(200));
    plexus.run(&["status"]).await.ok();

    authority.vouch_for(NAME, Time::Past);
    hub.signal(Signal::HUP);
    logged(&hub, "configuration reloaded", 2).await;
    assert!(hub.log().contains("the hub goes on with the certificate it has"), "{}", hub.log());
    assert_eq!((certificate(), healthz(&authority.file, address).await), (second, Ok(200)));
    plexus.run(&["status"]).await.ok();
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn clients_that_do_not_finish_their_handshake_hold_up_nobody() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    configure(&plexus, &authority.vouch(NAME));
    let hub = plexus.up().await;
    let address = address(&hub);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let asked = tokio::time::timeout(Duration::from_secs(5), healthz(&authority.file, address));
    assert_eq!(asked.await.expect("an answer in time"), Ok(200));
    assert!(hub.terminate().await.success());
}

async fn logged(hub: &HubProcess, words: &str, times: usize) {
    let told = async {
        while hub.log().matches(words).count() < times {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("no {words:?} in {}", hub.log()));
}
