//! Nodes that show a certificate instead of a credential: which are let in, and as whom.

use std::path::Path;

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

use crate::certificates::{Authority, Pair, Time};
use crate::machines::run_node;
use crate::node_machines::state;

/// A hub with TLS that knows nodes by the certificates of this authority.
async fn hub(plexus: &Plexus, authority: &Authority) -> HubProcess {
    let own = authority.vouch("127.0.0.1");
    let text = |path: &Path| format!("{:?}", path.display().to_string());
    let settings = format!(
        "[tls]\ncert = {}\nkey = {}\n[nodes]\nclient_ca = {}\n",
        text(&own.cert),
        text(&own.key),
        text(&authority.file)
    );
    std::fs::create_dir_all(plexus.data_dir()).unwrap();
    std::fs::write(plexus.data_dir().join("plexus.toml"), settings).unwrap();
    plexus.up().await
}

/// A client that trusts the authority and shows this certificate.
fn client(authority: &Authority, shown: Option<&Pair>) -> reqwest::Client {
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&authority.file).unwrap()).unwrap();
    let mut client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]);
    if let Some(pair) = shown {
        let pem = [std::fs::read(&pair.cert).unwrap(), std::fs::read(&pair.key).unwrap()].concat();
        client = client.identity(reqwest::Identity::from_pem(&pem).unwrap());
    }
    client.build().unwrap()
}

/// What becomes of a request: its status and what was said, or nothing where there was no connection.
async fn answer(request: reqwest::RequestBuilder) -> Option<(u16, Value)> {
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.json().await.unwrap_or_default()))
}

async fn join(hub: &HubProcess, client: &reqwest::Client, params: Value) -> Option<(u16, Value)> {
    answer(client.post(hub.url("/api/v1/nodes/join")).json(&params)).await
}

/// A node that knocks at its link without opening it: 426 is yes, since it speaks no WebSocket.
async fn knock(hub: &HubProcess, client: &reqwest::Client, node: &str, token: Option<&str>) -> Option<u16> {
    let mut request = client.get(hub.url(&format!("/ws/nodes/{node}")));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    answer(request).await.map(|(status, _)| status)
}

#[tokio::test]
async fn a_certificate_is_the_node_of_its_name_and_nobody_else() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let hub = hub(&plexus, &authority).await;
    let nobody = client(&authority, None);
    let nas = client(&authority, Some(&authority.vouch("nas")));

    // It joins with nothing but its certificate, and gets nothing that could be stolen.
    let (status, joined) = join(&hub, &nas, json!({})).await.expect("an answer");
    assert_eq!((status, &joined["name"], &joined["token"]), (201, &json!("nas"), &Value::Null), "{joined}");
    let id = joined["node_id"].as_str().expect("an id").to_owned();
    let (_, again) = join(&hub, &nas, json!({})).await.expect("an answer");
    assert_eq!(again["node_id"], joined["node_id"]);
    assert_eq!(join(&hub, &nobody, json!({})).await.expect("an answer").0, 400);

    // Another one, which came with a code and has a credential.
    let invited = plexus.run(&["node", "invite", "vps", "--json"]).await.json(0);
    let (_, vps) = join(&hub, &nobody, json!({ "code": invited["code"] })).await.expect("an answer");
    let (vps_id, vps_token) = (vps["node_id"].as_str().unwrap(), vps["token"].as_str().unwrap());

    let by_common_name = client(&authority, Some(&authority.vouch_by_common_name("NAS")));
    let by_id = client(&authority, Some(&authority.vouch(&id)));
    for own in [&nas, &by_common_name, &by_id] {
        assert_eq!(knock(&hub, own, &id, None).await, Some(426));
        assert_eq!(knock(&hub, own, vps_id, None).await, Some(403), "the path of another node");
    }
    assert_eq!(knock(&hub, &nobody, &id, None).await, Some(401));
    assert_eq!(knock(&hub, &nobody, vps_id, Some(vps_token)).await, Some(426), "certificates are no must");

    // A certificate and a credential that do not go together are nobody's.
    assert_eq!(knock(&hub, &nas, &id, Some(vps_token)).await, Some(403));
    assert_eq!(knock(&hub, &nas, vps_id, Some(vps_token)).await, Some(403));
    let wrong = client(&authority, Some(&authority.vouch("another")));
    assert_eq!(knock(&hub, &wrong, &id, None).await, Some(403));

    // It opens links and nothing else.
    assert_eq!(answer(nas.get(hub.url("/api/v1/nodes"))).await.map(|(status, _)| status), Some(401));
    let local = client(&authority, Some(&authority.vouch("local")));
    assert_eq!(join(&hub, &local, json!({})).await.expect("an answer").0, 403);
    let nameless = client(&authority, Some(&authority.vouch("nas.example.net")));
    assert_eq!(join(&hub, &nameless, json!({})).await.expect("an answer").0, 403);

    plexus.run(&["node", "remove", "nas", "--yes"]).await.ok();
    assert_eq!(knock(&hub, &nas, &id, None).await, Some(403), "it was removed");
    for own in [&nas, &by_common_name, &by_id] {
        assert_eq!(join(&hub, own, json!({})).await.expect("an answer").0, 403, "it does not come back");
    }

    // A certificate alone is nobody who came with a code; beside the credential it does no harm.
    let vps = client(&authority, Some(&authority.vouch("vps")));
    assert_eq!(join(&hub, &vps, json!({})).await.expect("an answer").0, 403);
    assert_eq!(knock(&hub, &vps, vps_id, None).await, Some(403));
    assert_eq!(knock(&hub, &vps, vps_id, Some(vps_token)).await, Some(426));
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn a_link_ends_with_its_certificate_and_comes_back_with_the_next_one() {
    let (plexus, machine) = (crate::plexus(), crate::plexus());
    let authority = Authority::new(plexus.home(), "authority");
    let hub = hub(&plexus, &authority).await;
    let pair = authority.vouch_for("nas", Time::Shortly(8));
    let [ca, cert, key] = [&authority.file, &pair.cert, &pair.key].map(|path| path.display().to_string());
    let files = ["--ca", &ca, "--cert", &cert, "--key", &key];
    machine.run(&[&["node", "join", &hub.url("")], &files[..]].concat()).await.ok();
    let _node = run_node(&machine, "auto");
    state(&plexus, "nas", "online").await;
    // Nothing else ends it: it answers all heartbeats.
    state(&plexus, "nas", "offline").await;
    authority.vouch("nas");
    state(&plexus, "nas", "online").await;
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_time_gets_no_connection() {
    let plexus = crate::plexus();
    let authority = Authority::new(plexus.home(), "authority");
    let hub = hub(&plexus, &authority).await;
    let foreign = Authority::new(plexus.home(), "foreign").vouch("nas");
    let past = authority.vouch_for("past", Time::Past);
    let future = authority.vouch_for("future", Time::Future);
    for pair in [&foreign, &past, &future] {
        let client = client(&authority, Some(pair));
        assert_eq!(join(&hub, &client, json!({})).await, None, "{}", pair.cert.display());
        assert_eq!(answer(client.get(hub.url("/healthz"))).await, None);
    }
    let nodes = plexus.run(&["node", "list", "--json"]).await.json(0);
    let names: Vec<&str> =
        nodes["items"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert!(!names.iter().any(|name| *name != "local"), "{names:?}");
    assert!(hub.terminate().await.success());
}
