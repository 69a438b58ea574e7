//! Watched resources at a server that refuses some subscriptions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::scripted::{
    ReceivedRequest, ScriptedServer, Step, Steps, event, json_answer, result, session_era, stateless_era,
    stream,
};
use super::{ConnectParams, in_time};

const BAD: &str = "a://bad";

fn watched(request: &ReceivedRequest) -> Vec<&str> {
    let uris = request.body["params"]["notifications"]["resourceSubscriptions"].as_array();
    uris.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn discovered(request: &ReceivedRequest) -> Steps {
    let about = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": { "listChanged": true }, "resources": { "subscribe": true } },
        "ttlMs": 0,
        "cacheScope": "private",
    });
    json_answer(200, "", &result(request, &about))
}

fn acknowledged() -> Steps {
    let start_slow_call = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged" });
    stream(&event(&start_slow_call))
}

/// How a server refuses a subscription.
fn refused(request: &ReceivedRequest, status: u16) -> Steps {
    let error = json!({ "code": -32602, "message": "no such resource" });
    let error = json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error });
    match status {
        200 => [stream(&event(&error)), vec![Step::Close]].concat(),
        status => json_answer(status, "", &error),
    }
}

#[tokio::test]
async fn refused_resource_does_not_affect_other_watches() {
    for status in [400, 413, 500, 200] {
        let change = Arc::new(Notify::new());
        let release = change.clone();
        let server = ScriptedServer::start(move |request| match request.message_method() {
            "server/discover" => discovered(request),
            "subscriptions/listen" if watched(request).contains(&BAD) => refused(request, status),
            "subscriptions/listen" => {
                let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                let change = Step::Send(event(&changed).into_bytes());
                [acknowledged(), vec![Step::Wait(release.clone()), change, Step::Stall]].concat()
            }
            _ => stateless_era(request),
        })
        .await;
        let params = ConnectParams::to(&server.url());
        let client = params.connect().await;
        let count_before = params.change_counter.count();
        in_time(client.watch(BTreeSet::from([BAD.to_owned()]))).await.unwrap();
        assert_eq!(server.count("subscriptions/listen"), 2, "{status}: one that goes on, and one refused");
        change.notify_one();
        params.change_counter.wait_until_more_than(count_before).await;
        // Changes of the other resource are still reported, and the refused one is not requested again.
        in_time(client.watch(BTreeSet::from([BAD.to_owned(), "a://good".to_owned()]))).await.unwrap();
        assert_eq!(watched(server.requests().last().unwrap()), ["a://good"], "{status}");
        assert_eq!(server.count("subscriptions/listen"), 3, "{status}");
        in_time(client.close()).await;
    }
}

#[tokio::test]
async fn resource_only_server_is_resubscribed_on_changes() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "server/discover" => {
            let about = json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {}, "resources": { "subscribe": true } },
                "ttlMs": 0,
                "cacheScope": "private",
            });
            json_answer(200, "", &result(request, &about))
        }
        "subscriptions/listen" if watched(request).contains(&BAD) => refused(request, 400),
        "subscriptions/listen" => [acknowledged(), vec![Step::Stall]].concat(),
        _ => stateless_era(request),
    })
    .await;
    let client = ConnectParams::to(&server.url()).connect().await;
    in_time(client.watch(BTreeSet::from([BAD.to_owned()]))).await.unwrap();
    in_time(client.watch(BTreeSet::from([BAD.to_owned(), "a://good".to_owned()]))).await.unwrap();
    server.wait_for_request(|request| watched(request) == ["a://good"]).await;
    in_time(client.close()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pages_share_one_timeout() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "tools/list" => {
            // Each page arrives well within the time limit of one answer.
            std::thread::sleep(Duration::from_millis(300));
            let page = json!({ "tools": [], "nextCursor": request.body["id"].to_string() });
            json_answer(200, "", &result(request, &page))
        }
        _ => session_era(request),
    })
    .await;
    let params = ConnectParams::to(&server.url()).with_timeout(Duration::from_secs(2));
    let client = params.connect().await;
    let listed = in_time(client.list_tools()).await.unwrap_err().to_string();
    assert!(listed.contains("did not answer tools/list within 2 s"), "{listed}");
    assert!(server.count("tools/list") > 1, "page after page");
    in_time(client.close()).await;
}
