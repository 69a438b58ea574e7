//! Nodes with a client certificate instead of a credential: which are admitted, and as which node.

use std::path::Path;

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

use crate::certificates::{Authority, CertificateFiles, Validity};
use crate::nodes::{start_node, wait_for_state};

/// A hub with TLS that accepts client certificates of this authority.
async fn hub(plexus: &Plexus, authority: &Authority) -> HubProcess {
    let certificate = authority.issue("127.0.0.1");
    let text = |path: &Path| format!("{:?}", path.display().to_string());
    let settings = format!(
        "[tls]\ncert = {}\nkey = {}\n[nodes]\nclient_ca = {}\n",
        text(&certificate.cert),
        text(&certificate.key),
        text(&authority.file)
    );
    std::fs::create_dir_all(plexus.data_dir()).unwrap();
    std::fs::write(plexus.data_dir().join("plexus.toml"), settings).unwrap();
    plexus.up().await
}

/// A client that trusts the authority and may have a certificate.
fn client(authority: &Authority, identity: Option<&CertificateFiles>) -> reqwest::Client {
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&authority.file).unwrap()).unwrap();
    let mut client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]);
    if let Some(files) = identity {
        let pem = [std::fs::read(&files.cert).unwrap(), std::fs::read(&files.key).unwrap()].concat();
        client = client.identity(reqwest::Identity::from_pem(&pem).unwrap());
    }
    client.build().unwrap()
}

/// Status and body of the answer to a request; `None` if the connection failed.
async fn status_and_body(request: reqwest::RequestBuilder) -> Option<(u16, Value)> {
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.json().await.unwrap_or_default()))
}

async fn join(hub: &HubProcess, client: &reqwest::Client, params: Value) -> Option<(u16, Value)> {
    status_and_body(client.post(hub.url("/api/v1/nodes/join")).json(&params)).await
}

/// The status of a request for the link of a node without a WebSocket: 426 means that it would be admitted.
async fn link_status(
    hub: &HubProcess,
    client: &reqwest::Client,
    node: &str,
    token: Option<&str>,
) -> Option<u16> {
    let mut request = client.get(hub.url(&format!("/ws/nodes/{node}")));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    status_and_body(request).await.map(|(status, _)| status)
}

#[tokio::test]
async fn certificate_admits_only_the_node_of_its_name() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let hub = hub(&plexus, &authority).await;
    let anonymous = client(&authority, None);
    let nas = client(&authority, Some(&authority.issue("nas")));

    // It joins with only its certificate, and gets no token.
    let (status, joined) = join(&hub, &nas, json!({})).await.expect("an answer");
    assert_eq!((status, &joined["name"], &joined["token"]), (201, &json!("nas"), &Value::Null), "{joined}");
    let id = joined["node_id"].as_str().expect("an id").to_owned();
    let (_, again) = join(&hub, &nas, json!({})).await.expect("an answer");
    assert_eq!(again["node_id"], joined["node_id"]);
    assert_eq!(join(&hub, &anonymous, json!({})).await.expect("an answer").0, 400);

    // Another node joins with a code and has a credential.
    let invited = plexus.run(&["node", "invite", "vps", "--json"]).await.json(0);
    let (_, vps) = join(&hub, &anonymous, json!({ "code": invited["code"] })).await.expect("an answer");
    let (vps_id, vps_token) = (vps["node_id"].as_str().unwrap(), vps["token"].as_str().unwrap());

    let by_common_name = client(&authority, Some(&authority.issue_by_common_name("NAS")));
    let by_id = client(&authority, Some(&authority.issue(&id)));
    for certificate in [&nas, &by_common_name, &by_id] {
        assert_eq!(link_status(&hub, certificate, &id, None).await, Some(426));
        assert_eq!(link_status(&hub, certificate, vps_id, None).await, Some(403), "the path of another node");
    }
    assert_eq!(link_status(&hub, &anonymous, &id, None).await, Some(401));
    assert_eq!(
        link_status(&hub, &anonymous, vps_id, Some(vps_token)).await,
        Some(426),
        "a certificate is optional"
    );

    // A certificate with the credential of another node is refused.
    assert_eq!(link_status(&hub, &nas, &id, Some(vps_token)).await, Some(403));
    assert_eq!(link_status(&hub, &nas, vps_id, Some(vps_token)).await, Some(403));
    let wrong = client(&authority, Some(&authority.issue("another")));
    assert_eq!(link_status(&hub, &wrong, &id, None).await, Some(403));

    // A certificate is valid only for links.
    assert_eq!(status_and_body(nas.get(hub.url("/api/v1/nodes"))).await.map(|(status, _)| status), Some(401));
    let local = client(&authority, Some(&authority.issue("local")));
    assert_eq!(join(&hub, &local, json!({})).await.expect("an answer").0, 403);
    let nameless = client(&authority, Some(&authority.issue("nas.example.net")));
    assert_eq!(join(&hub, &nameless, json!({})).await.expect("an answer").0, 403);

    plexus.run(&["node", "remove", "nas", "--yes"]).await.ok();
    assert_eq!(link_status(&hub, &nas, &id, None).await, Some(403), "it was removed");
    for certificate in [&nas, &by_common_name, &by_id] {
        assert_eq!(
            join(&hub, certificate, json!({})).await.expect("an answer").0,
            403,
            "a removed node cannot join again"
        );
    }

    // A certificate does not replace the credential of a node that joined with a code, but may accompany it.
    let vps = client(&authority, Some(&authority.issue("vps")));
    assert_eq!(join(&hub, &vps, json!({})).await.expect("an answer").0, 403);
    assert_eq!(link_status(&hub, &vps, vps_id, None).await, Some(403));
    assert_eq!(link_status(&hub, &vps, vps_id, Some(vps_token)).await, Some(426));
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn link_ends_when_its_certificate_expires_and_returns_with_a_new_one() {
    let (plexus, machine) = (crate::plexus(), crate::plexus());
    let authority = Authority::new(plexus.home(), "authority");
    let hub = hub(&plexus, &authority).await;
    let files = authority.issue_with("nas", Validity::Seconds(8));
    let [ca, cert, key] = [&authority.file, &files.cert, &files.key].map(|path| path.display().to_string());
    let files = ["--ca", &ca, "--cert", &cert, "--key", &key];
    machine.run(&[&["node", "join", &hub.url("")], &files[..]].concat()).await.ok();
    let _node = start_node(&machine, "auto");
    wait_for_state(&plexus, "nas", "online").await;
    // Only the expiry ends the link; the node answers all heartbeats.
    wait_for_state(&plexus, "nas", "offline").await;
    authority.issue("nas");
    wait_for_state(&plexus, "nas", "online").await;
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn untrusted_or_expired_certificate_gets_no_connection() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let hub = hub(&plexus, &authority).await;
    let foreign = Authority::new(plexus.home(), "foreign").issue("nas");
    let past = authority.issue_with("past", Validity::Past);
    let future = authority.issue_with("future", Validity::Future);
    for files in [&foreign, &past, &future] {
        let client = client(&authority, Some(files));
        assert_eq!(join(&hub, &client, json!({})).await, None, "{}", files.cert.display());
        assert_eq!(status_and_body(client.get(hub.url("/healthz"))).await, None);
    }
    let nodes = plexus.run(&["node", "list", "--json"]).await.json(0);
    let names: Vec<&str> =
        nodes["items"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert!(!names.iter().any(|name| *name != "local"), "{names:?}");
    assert!(hub.terminate().await.success());
}
