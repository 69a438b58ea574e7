//! `plexus outbox` on the files of proxies, also while a proxy uses them.

use std::path::PathBuf;

use plexus_kit::Clock;
use plexus_store::outbox::{Limits, NewWrite, Outbox};
use plexus_testkit::Plexus;
use serde_json::json;

fn outbox_file(plexus: &Plexus, folder: &str) -> PathBuf {
    plexus.data_dir().join("proxy").join(folder).join("outbox.db")
}

pub(crate) async fn open_outbox(plexus: &Plexus, folder: &str) -> Outbox {
    Outbox::open(&outbox_file(plexus, folder), Clock::system(), Limits::default()).await.expect("an outbox").0
}

/// Queues writes and makes the first `dead` of them dead letters.
pub(crate) async fn fill(outbox: &Outbox, keys: &[&str], dead: usize) {
    for key in keys {
        let write = NewWrite {
            key: (*key).to_owned(),
            session: "codex:thread-1".to_owned(),
            client: r#"{"name":"codex","version":"1"}"#.to_owned(),
            tool: "todo".to_owned(),
            params: json!({ "name": "todo", "arguments": { "action": "add", "text": key } }).to_string(),
        };
        outbox.enqueue(write).await.expect("room");
    }
    for _ in 0..dead {
        let claimed = outbox.claim("test", Limits::default().age).await.expect("a claim").expect("a row");
        outbox
            .dead_letter(&claimed, "the hub refused it (HTTP 409): no\u{1b}[2Jsuch list")
            .await
            .expect("a dead letter");
    }
}

#[tokio::test]
async fn missing_outbox_is_explained() {
    let plexus = crate::plexus();
    let listed = plexus.run(&["outbox", "list"]).await;
    assert_eq!(listed.ok(), "");
    assert!(listed.stderr.contains("plexus mcp"), "{listed:?}");
    assert_eq!(plexus.run(&["outbox", "list", "--json"]).await.json(0), json!({ "items": [], "next": null }));
    let shown = plexus.run(&["outbox", "show", "1"]).await;
    assert!(shown.failed(1).contains("no write 1"), "{shown:?}");
    let named = plexus.run(&["outbox", "list", "--agent", "codex"]).await;
    assert!(named.failed(1).contains("no outbox of codex"), "{named:?}");
    assert!(!plexus.data_dir().exists(), "listing created something");
}

#[tokio::test]
async fn writes_are_listed_shown_retried_and_dropped_while_a_proxy_uses_them() {
    let plexus = crate::plexus();
    let codex = open_outbox(&plexus, "codex-0011aabb").await;
    fill(&codex, &["one", "two", "three"], 2).await;
    let claude = open_outbox(&plexus, "claude-0011aabb").await;
    fill(&claude, &["four"], 0).await;

    let listed = plexus.run(&["outbox", "list"]).await;
    let lines: Vec<Vec<&str>> = listed.ok().lines().map(|line| line.split('\t').collect()).collect();
    let states: Vec<_> = lines.iter().map(|line| (line[0], line[1], line[2])).collect();
    let expected = [
        ("1", "claude-0011aabb", "waiting"),
        ("1", "codex-0011aabb", "dead"),
        ("2", "codex-0011aabb", "dead"),
        ("3", "codex-0011aabb", "waiting"),
    ];
    assert_eq!(states, expected, "{listed:?}");
    assert!(!listed.ok().contains('\u{1b}') && listed.ok().contains("HTTP 409"), "{listed:?}");
    assert!(listed.stderr.contains("retry or drop"), "{listed:?}");
    let dead = plexus.run(&["outbox", "list", "--dead", "--json", "--limit", "1"]).await.json(0);
    assert_eq!(dead["items"].as_array().expect("items").len(), 1, "{dead}");
    let dead_letter = &dead["items"][0];
    assert_eq!(
        (&dead_letter["idempotency_key"], &dead_letter["state"]),
        (&json!("one"), &json!("dead")),
        "{dead_letter}"
    );
    assert_eq!(dead_letter["told"], json!({ "hub": false, "agent": false }), "{dead_letter}");

    let several = plexus.run(&["outbox", "show", "1"]).await;
    assert!(several.failed(2).contains("--agent"), "{several:?}");
    let shown = plexus.run(&["outbox", "show", "1", "--agent", "codex", "--json"]).await.json(0);
    assert_eq!(shown["params"]["arguments"]["text"], "one", "{shown}");
    assert_eq!(shown["client"]["name"], "codex", "{shown}");
    let shown = plexus.run(&["outbox", "show", "2"]).await;
    assert!(
        shown.ok().contains("\"text\":\"two\"") && shown.ok().contains("reported to\tnone yet"),
        "{shown:?}"
    );

    let retried = plexus.run(&["outbox", "retry", "2", "--json"]).await.json(0);
    assert_eq!(retried, json!({ "retried": [{ "outbox": "codex-0011aabb", "id": 4, "was": 2 }] }));
    let refused = plexus.run(&["outbox", "retry", "3"]).await;
    assert!(refused.failed(1).contains("not a dead letter"), "{refused:?}");
    // An unknown id: the other writes are not dropped either.
    let none = plexus.run(&["outbox", "drop", "1", "99", "--agent", "codex"]).await;
    assert!(none.failed(1).contains("no write 99"), "{none:?}");
    assert_eq!(codex.counts().await.expect("counts").dead, 1);
    let dropped = plexus.run(&["outbox", "drop", "1", "--agent", "codex"]).await;
    assert_eq!(dropped.ok(), "Dropped write 1 of codex-0011aabb.\n");
    let refused = plexus.run(&["outbox", "drop", "3"]).await;
    assert!(refused.failed(1).contains("--waiting"), "{refused:?}");
    plexus.run(&["outbox", "drop", "3", "--waiting"]).await.ok();

    // The proxy sees the changes.
    let left = codex.claim("proxy", Limits::default().age).await.expect("a claim").expect("a row");
    assert_eq!((left.key.as_str(), left.id), ("two", 4));
    let misspelt = plexus.run(&["outbox", "list", "--agent", "codx"]).await;
    assert!(misspelt.failed(1).contains("--agent codex"), "{misspelt:?}");
}

#[tokio::test]
async fn damaged_outbox_is_repaired_and_reported_once() {
    let plexus = crate::plexus();
    let codex = open_outbox(&plexus, "codex-0011aabb").await;
    fill(&codex, &["one"], 1).await;
    codex.close().await.expect("closed");
    let file = outbox_file(&plexus, "codex-0011aabb");
    let mut bytes = std::fs::read(&file).expect("the file");
    bytes[..100].fill(0);
    std::fs::write(&file, bytes).expect("written");
    let listed = plexus.run(&["outbox", "list"]).await;
    assert_eq!(listed.ok().lines().count(), 1, "{listed:?}");
    assert!(listed.stderr.contains("was damaged") && listed.stderr.contains(".corrupt-"), "{listed:?}");
    let again = plexus.run(&["outbox", "list", "--dead"]).await;
    assert!(!again.stderr.contains("damaged"), "{again:?}");
}
