//! Connections: sharing, opening and cleanup.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::site::Site;
use super::wire::Wire;
use crate::workbench::poll_until;

#[tokio::test]
async fn session_logs_in_once_and_shares_no_connection() {
    let Some(site) = Site::new().await else { return };
    let run = || site.arguments(json!({ "action": "run", "command": "echo in" }));
    let list = async |session: &str| {
        site.ask_in(session, json!({ "action": "list" })).await.unwrap()["connections"]
            .as_array()
            .unwrap()
            .len()
    };
    // Also if the first calls are concurrent.
    let runs = (0..12).map(|_| site.ask_in("one", run()));
    for answer in futures_util::future::join_all(runs).await {
        assert_eq!(answer.unwrap()["stdout"]["text"], "in\n");
    }
    site.ask_in("one", run()).await.unwrap();
    assert_eq!((site.server.logins(), list("one").await, list("two").await), (1, 1, 0));
    site.ask_in("two", run()).await.unwrap();
    assert_eq!((site.server.logins(), list("two").await, site.sockets().len()), (2, 1, 2));
    let folder = site.bench.folder().join("ssh");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    // One session closes its own connection.
    let closed = site.ask_in("one", json!({ "action": "close" })).await.unwrap();
    assert_eq!((&closed["closed"], list("one").await, list("two").await), (&json!(1), 0, 1));
    poll_until(async || (site.sockets().len() == 1).then_some(())).await;
    site.ask_in("one", run()).await.unwrap();
    assert_eq!(site.server.logins(), 3);
}

#[tokio::test]
async fn lost_connection_is_opened_again() {
    let Some(site) = Site::new().await else { return };
    let wire = Wire::to(site.address()).await;
    site.know(wire.port);
    let run = json!({ "action": "run", "host": "127.0.0.1", "port": wire.port, "command": "echo in" });
    site.ask(run.clone()).await.unwrap();
    wire.cut();
    poll_until(async || site.sockets().is_empty().then_some(())).await;
    assert_eq!(site.ask(run).await.unwrap()["stdout"]["text"], "in\n");
    assert_eq!(site.server.logins(), 2);
}

#[tokio::test]
async fn connections_are_cleaned_up_after_stop_and_kill() {
    let Some(site) = Site::new().await else { return };
    site.sh("true").await;
    let Site { bench, server, host_folder } = site;
    let folder = bench.folder().join("ssh");
    let left = || super::site::names(&folder).into_iter().filter(|name| name != "config").count();
    assert_eq!(left(), 1);
    let stale = folder.join("0123456789abcdef.AbCdEfGh");
    let bench = bench
        .restarted_after(async || {
            assert_eq!(left(), 0, "it was closed properly");
            // The files that a killed node leaves behind.
            drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        })
        .await;
    assert!(!stale.exists());
    let site = Site { bench, server, host_folder };
    let closed = || site.server.log().matches("Disconnected from user").count();
    poll_until(async || (closed() == 1).then_some(())).await;
    assert_eq!(site.sh("echo again").await["stdout"]["text"], "again\n");
    assert_eq!(site.server.logins(), 2);
}
