//! Watched resources at a server that refuses some subscriptions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::scripted::{
    Asked, Scripted, Step, Steps, event, json_answer, result, session_era, stateless_era, stream,
};
use super::{Way, soon};

const BAD: &str = "a://bad";

fn watched(asked: &Asked) -> Vec<&str> {
    let uris = asked.body["params"]["notifications"]["resourceSubscriptions"].as_array();
    uris.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn discovered(asked: &Asked) -> Steps {
    let about = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": { "listChanged": true }, "resources": { "subscribe": true } },
        "ttlMs": 0,
        "cacheScope": "private",
    });
    json_answer(200, "", &result(asked, &about))
}

fn acknowledged() -> Steps {
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged" });
    stream(&event(&begun))
}

/// How a server refuses a subscription.
fn refused(asked: &Asked, status: u16) -> Steps {
    let error = json!({ "code": -32602, "message": "no such resource" });
    let error = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error });
    match status {
        200 => [stream(&event(&error)), vec![Step::Close]].concat(),
        status => json_answer(status, "", &error),
    }
}

#[tokio::test]
async fn refused_resource_does_not_affect_other_watches() {
    for status in [400, 413, 500, 200] {
        let change = Arc::new(Notify::new());
        let word = change.clone();
        let server = Scripted::start(move |asked| match asked.what() {
            "server/discover" => discovered(asked),
            "subscriptions/listen" if watched(asked).contains(&BAD) => refused(asked, status),
            "subscriptions/listen" => {
                let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                let told = Step::Send(event(&changed).into_bytes());
                [acknowledged(), vec![Step::Wait(word.clone()), told, Step::Stall]].concat()
            }
            _ => stateless_era(asked),
        })
        .await;
        let way = Way::to(&server.url());
        let client = way.connect().await;
        let heard = way.ears.count();
        soon(client.watch(BTreeSet::from([BAD.to_owned()]))).await.unwrap();
        assert_eq!(server.count("subscriptions/listen"), 2, "{status}: one that goes on, and one refused");
        change.notify_one();
        way.ears.more_than(heard).await;
        // Changes of the other resource are still reported, and the refused one is not requested again.
        soon(client.watch(BTreeSet::from([BAD.to_owned(), "a://good".to_owned()]))).await.unwrap();
        assert_eq!(watched(server.asked().last().unwrap()), ["a://good"], "{status}");
        assert_eq!(server.count("subscriptions/listen"), 3, "{status}");
        soon(client.close()).await;
    }
}

#[tokio::test]
async fn resource_only_server_is_resubscribed_on_changes() {
    let server = Scripted::start(|asked| match asked.what() {
        "server/discover" => {
            let about = json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {}, "resources": { "subscribe": true } },
                "ttlMs": 0,
                "cacheScope": "private",
            });
            json_answer(200, "", &result(asked, &about))
        }
        "subscriptions/listen" if watched(asked).contains(&BAD) => refused(asked, 400),
        "subscriptions/listen" => [acknowledged(), vec![Step::Stall]].concat(),
        _ => stateless_era(asked),
    })
    .await;
    let client = Way::to(&server.url()).connect().await;
    soon(client.watch(BTreeSet::from([BAD.to_owned()]))).await.unwrap();
    soon(client.watch(BTreeSet::from([BAD.to_owned(), "a://good".to_owned()]))).await.unwrap();
    server.sees(|asked| watched(asked) == ["a://good"]).await;
    soon(client.close()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pages_share_one_timeout() {
    let server = Scripted::start(|asked| match asked.what() {
        "tools/list" => {
            // Each page arrives well within the time limit of one answer.
            std::thread::sleep(Duration::from_millis(300));
            let page = json!({ "tools": [], "nextCursor": asked.body["id"].to_string() });
            json_answer(200, "", &result(asked, &page))
        }
        _ => session_era(asked),
    })
    .await;
    let way = Way::to(&server.url()).patience(Duration::from_secs(2));
    let client = way.connect().await;
    let listed = soon(client.list_tools()).await.unwrap_err().to_string();
    assert!(listed.contains("did not answer tools/list within 2 s"), "{listed}");
    assert!(server.count("tools/list") > 1, "page after page");
    soon(client.close()).await;
}
