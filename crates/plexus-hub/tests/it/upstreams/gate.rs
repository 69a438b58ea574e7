//! Conditions for making the hub run a command: an admin, on the hub's machine, with a command listed in its
//! configuration.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use plexus_testkit::TestHub;
use plexus_testkit::fixture::program;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{hub_for_fixtures, outcome};
use crate::client::{Answer, Client, send};

/// Every way to make the hub run a command over REST.
fn command_requests(server: &Value) -> Vec<(&'static str, String, Value)> {
    let import = json!({ "mcpServers": { "way": server } }).to_string();
    vec![
        ("upstream_add", "/upstreams".to_owned(), json!({ "name": "way", "server": server })),
        ("upstream_test", "/upstreams/way/test".to_owned(), json!({ "server": server })),
        (
            "upstream_import",
            "/upstreams/-/import".to_owned(),
            json!({ "file_name": "x.json", "content": import, "dry_run": false }),
        ),
    ]
}

/// A command that creates a file when it is run.
fn marker_command(hub: &TestHub) -> (PathBuf, Value) {
    let mark = hub.data_dir().join("a-command-was-run");
    let server = json!({ "command": "/bin/sh", "args": ["-c", format!("touch {}; exit 1", mark.display())] });
    (mark, server)
}

/// Asserts what is missing according to the refusal or the skipped servers of an import; nothing was added.
fn assert_refused(operation: &str, answer: &Answer, words: &[&str], missing: &Value) {
    let reason = if operation == "upstream_import" {
        assert_eq!(answer.body["added"], json!([]), "{answer:?}");
        answer.body["skipped"][0]["reason"].to_string()
    } else {
        assert_eq!(answer.refused(403), "forbidden", "{operation}");
        assert_eq!(&answer.body["details"]["missing"], missing, "{answer:?}");
        assert!(answer.body["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{answer:?}");
        answer.body["message"].to_string()
    };
    for part in words {
        assert!(reason.contains(part), "{operation}: no {part} in {reason}");
    }
}

#[tokio::test]
async fn unlisted_command_is_not_run() {
    let hub = hub_for_fixtures().await;
    let admin = Client::admin(&hub);
    let (mark, server) = marker_command(&hub);
    for (operation, path, body) in command_requests(&server) {
        let answer = admin.post(&path, &body).await;
        assert_refused(operation, &answer, &["/bin/sh", "upstreams.commands"], &json!(["command"]));
    }
    // The name of a listed program in another folder, and the listed program with a variable that loads other code.
    let unlisted_path = json!({ "command": "/tmp/plexus-fixture-server" });
    for (operation, path, body) in command_requests(&unlisted_path) {
        assert_refused(operation, &admin.post(&path, &body).await, &["/tmp/"], &json!(["command"]));
    }
    for variable in ["PATH", "LD_PRELOAD"] {
        let server = json!({ "command": program(), "args": ["--stdio"], "env": { variable: "/tmp/evil" } });
        for (operation, path, body) in command_requests(&server) {
            assert_refused(operation, &admin.post(&path, &body).await, &[variable], &json!(["env"]));
        }
    }
    assert!(!mark.exists(), "a command was run");
    assert_eq!(admin.get("/upstreams").await.ok()["items"], json!([]));
    assert_eq!(outcome(&hub, "upstream_add").await, "forbidden");
    assert_eq!(outcome(&hub, "upstream_test").await, "forbidden");
}

#[tokio::test]
async fn proxied_request_is_not_local() {
    let hub = hub_for_fixtures().await;
    let admin = Client::admin(&hub);
    let server = json!({ "command": program(), "args": ["--stdio"] });
    let proxied = |path: &str, body: &Value, header: &str| -> RequestBuilder {
        admin.request(Method::POST, path).json(body).header(header, "192.0.2.7")
    };
    for header in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "Via", "X-Real-IP"] {
        for (operation, path, body) in command_requests(&server) {
            let answer = send(proxied(&path, &body, header)).await;
            assert_refused(operation, &answer, &["proxy", &header.to_lowercase()], &json!(["loopback"]));
        }
    }
    // All failed conditions are reported at once.
    let (mark, unlisted) = marker_command(&hub);
    for (operation, path, body) in command_requests(&unlisted) {
        let answer = send(proxied(&path, &body, "Via")).await;
        assert_refused(operation, &answer, &["proxy", "upstreams.commands"], &json!(["loopback", "command"]));
    }
    assert!(!mark.exists(), "a command was run");
    // A server that was added locally cannot be enabled or tested remotely, but can be disabled.
    admin.post("/upstreams", &json!({ "name": "way", "server": server })).await.ok();
    for operation in ["enable", "test"] {
        let answer = send(proxied(&format!("/upstreams/way/{operation}"), &json!({}), "Via")).await;
        assert_refused(operation, &answer, &["proxy"], &json!(["loopback"]));
    }
    for operation in ["restart", "disable"] {
        send(proxied(&format!("/upstreams/way/{operation}"), &json!({}), "Via")).await.ok();
    }
    send(admin.request(Method::DELETE, "/upstreams/way").header("Via", "1.1 proxy")).await.ok();
}

#[tokio::test]
async fn remote_request_cannot_send_local_references() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let plain = json!({ "url": "https://mcp.example.net/mcp", "enabled": false });
    let mut telling = plain.clone();
    telling["headers"] = json!({ "X-Spy": "${file:/etc/hostname}" });
    let proxied =
        |path: &str, body: &Value| admin.request(Method::POST, path).json(body).header("Via", "1.1 p");
    for (operation, path, body) in command_requests(&telling) {
        let answer = send(proxied(&path, &body)).await;
        assert_refused(operation, &answer, &["refers to"], &json!(["loopback"]));
    }
    // Every admin may add a server over HTTP without references.
    let added = send(proxied("/upstreams", &json!({ "name": "way", "server": plain }))).await;
    assert_eq!(added.status, 201, "{added:?}");
    let added = admin.post("/upstreams", &json!({ "name": "here", "server": telling })).await;
    assert_eq!(added.status, 201, "{added:?}");
}

/// Files named by a reference are not opened before the refusal, because that alone would reveal whether they exist.
#[tokio::test]
async fn remote_request_does_not_reveal_existing_files() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    for (operation, path) in [("upstream_add", 0), ("upstream_test", 1), ("upstream_import", 2)] {
        let mut reason = Vec::new();
        for file in ["/etc/passwd", "/etc/no-such-file", "/etc", "relative"] {
            let server =
                json!({ "url": "https://mcp.example.net/mcp", "timeout": format!("${{file:{file}}}") });
            let (_, path, body) = command_requests(&server).swap_remove(path);
            let answer = send(admin.request(Method::POST, &path).json(&body).header("Via", "1.1 p")).await;
            assert_refused(operation, &answer, &["refers to"], &json!(["loopback"]));
            let (message, skipped) = (&answer.body["message"], &answer.body["skipped"]);
            reason.push(json!([message, skipped, answer.body["warnings"]]));
        }
        reason.dedup();
        assert_eq!(reason.len(), 1, "{operation}: {reason:?}");
    }
}

#[tokio::test]
async fn remote_request_cannot_reach_the_hubs_network() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    let inner = [
        (json!({ "url": "http://127.0.0.1:9/mcp", "enabled": false }), "`url` names the hub's own machine"),
        (json!({ "url": "http://localhost:9/mcp", "enabled": false }), "`url` names the hub's own machine"),
        (json!({ "url": "http://10.0.0.1/mcp", "allow_private": true, "enabled": false }), "`allow_private`"),
    ];
    for (server, words) in &inner {
        for (operation, path, body) in command_requests(server) {
            let answer = send(admin.request(Method::POST, &path).json(&body).header("Via", "1.1 p")).await;
            assert_refused(operation, &answer, &[words, "proxy"], &json!(["loopback"]));
        }
    }
    assert_eq!(admin.get("/upstreams").await.ok()["items"], json!([]));
    // It is allowed for local requests, and if the hub's settings say so.
    let [(local, _), _, (private, _)] = &inner;
    admin.post("/upstreams", &json!({ "name": "here", "server": private })).await.ok();
    let open = TestHub::start_with(|config| config.upstreams.private_networks = true).await;
    let admin = Client::admin(&open);
    for (name, server) in [("a", local), ("b", private)] {
        let body = json!({ "name": name, "server": server });
        let added = send(admin.request(Method::POST, "/upstreams").json(&body).header("Via", "1.1 p")).await;
        assert_eq!(added.status, 201, "{added:?}");
    }
}

/// Non-admins learn nothing but that they lack the scope: neither what exists, nor the next error.
#[tokio::test]
async fn non_admin_gets_the_same_refusal_for_every_request() {
    let hub = hub_for_fixtures().await;
    let admin = Client::admin(&hub);
    let server = json!({ "command": program(), "args": ["--stdio"] });
    admin.post("/upstreams", &json!({ "name": "there", "server": server })).await.ok();
    let user = Client::agent(&hub, "user", &["call:*", "read:*", "write:*", "token:*"]).await;
    let (mark, unlisted) = marker_command(&hub);
    let mut requests = Vec::new();
    for server in [&server, &unlisted] {
        requests
            .extend(command_requests(server).into_iter().map(|(_, path, body)| (Method::POST, path, body)));
    }
    for name in ["there", "nowhere"] {
        for operation in ["enable", "disable", "restart", "test"] {
            requests.push((Method::POST, format!("/upstreams/{name}/{operation}"), json!({})));
        }
        requests.push((Method::DELETE, format!("/upstreams/{name}"), json!({})));
    }
    requests.push((Method::POST, "/upstreams/-/reload".to_owned(), json!({})));
    for (method, path, body) in requests {
        let answer = send(user.request(method, &path).json(&body)).await;
        assert_eq!(answer.refused(403), "forbidden", "{path}");
        assert_eq!(answer.body["message"], "your token lacks the scope admin", "{path}");
    }
    assert!(!mark.exists(), "a command was run");
    assert_eq!(outcome(&hub, "upstream_reload").await, "forbidden");
    assert_eq!(user.get("/upstreams/there").await.ok()["name"], "there");
}

/// An address of this machine other than loopback; `None` without a network.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Sends nothing: connecting a UDP socket only selects the address.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

#[tokio::test]
async fn network_request_is_not_local() {
    let Some(ip) = own_address() else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no address but loopback");
        println!("skipped the request over the network: this machine has only loopback addresses");
        return;
    };
    let hub = TestHub::start_with(|config| {
        config.listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        config.upstreams.commands = vec![program().display().to_string()];
    })
    .await;
    let server = json!({ "command": program(), "args": ["--stdio"] });
    for (operation, path, body) in command_requests(&server) {
        let url = format!("http://{}/api/v1{path}", SocketAddr::new(ip, hub.address().port()));
        let request = hub.http().post(url).bearer_auth(hub.admin_token()).json(&body);
        let answer = send(request).await;
        assert_refused(operation, &answer, &["comes from", &ip.to_string()], &json!(["loopback"]));
    }
    assert_eq!(Client::admin(&hub).get("/upstreams").await.ok()["items"], json!([]));
}
