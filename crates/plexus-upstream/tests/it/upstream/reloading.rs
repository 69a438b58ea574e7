//! Files that are added, changed and removed while the hub runs.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use plexus_proto::api::UpstreamState;
use plexus_testkit::fixture::Eras;
use plexus_testkit::{TestHub, stdio_fixture, until};
use plexus_upstream::Timing;
use serde_json::json;

use super::script::{Script, folder};
use super::{agent, fast_polling_timing, fast_timing, is_alive, text, tools_of};

#[tokio::test]
async fn reload_restarts_only_changed_servers() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let mut one = stdio_fixture(Eras::Both);
    let mut two = stdio_fixture(Eras::Both);
    let pid = |name: &str| hub.upstreams().get(name).unwrap().pid.unwrap();
    hub.add_upstream("one", &one).await;
    hub.add_upstream("two", &two).await;
    let before = (pid("one"), pid("two"));

    one["env"] = json!({ "COLOUR": "blue" });
    two["tools"] = json!({ "allow": ["echo"], "rename": { "echo": "repeat" } });
    hub.write_upstream("one", &one);
    hub.write_upstream("two", &two);
    let report = hub.upstreams().reload().await;
    assert_eq!((report.changed, report.failed), (vec!["one".to_owned(), "two".to_owned()], vec![]));
    assert_ne!(pid("one"), before.0);
    assert!(!is_alive(before.0));
    assert_eq!(pid("two"), before.1, "what is only listed in another way goes on");
    assert_eq!(tools_of(&client, "two").await, ["mcp__two__repeat"]);

    // Rewritten with the same content.
    hub.write_upstream("one", &one);
    let now = (pid("one"), pid("two"));
    let report = hub.upstreams().reload().await;
    assert_eq!((report.changed, report.added, report.removed), (vec![], vec![], vec![]));
    assert_eq!((pid("one"), pid("two")), now);
    assert_eq!(hub.upstreams().get("two").unwrap().restarts, 0);
}

#[tokio::test]
async fn invalid_file_stops_only_its_server_until_fixed() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let good = stdio_fixture(Eras::Both);
    let before = hub.add_upstream("well", &good).await;
    hub.add_upstream("ill", &good).await;
    hub.write_upstream("ill", &json!({ "comand": "x" }));
    let report = hub.upstreams().reload().await;
    assert_eq!(report.changed, ["ill"]);
    assert_eq!(report.failed.len(), 1);
    assert!(report.failed[0].message.contains("comand"), "{report:?}");
    let ill = hub.upstreams().get("ill").unwrap();
    assert_eq!((ill.state, ill.pid, ill.transport), (UpstreamState::Invalid, None, None));
    assert_eq!(tools_of(&client, "ill").await, Vec::<String>::new());
    assert_eq!(hub.upstreams().get("well").unwrap().pid, before.pid);
    assert_eq!(text(&client.tool("mcp__well__echo", json!({ "text": "x" })).await), "x");
    hub.add_upstream("ill", &good).await;
    assert_eq!(text(&client.tool("mcp__ill__echo", json!({ "text": "y" })).await), "y");
}

#[tokio::test]
async fn file_changes_are_noticed_automatically() {
    let hub = TestHub::start_timed(fast_polling_timing()).await;
    hub.write_upstream("fix", &stdio_fixture(Eras::Both));
    let there = hub.upstream_in("fix", UpstreamState::Ready).await;
    let mut off = stdio_fixture(Eras::Both);
    off["enabled"] = json!(false);
    hub.write_upstream("fix", &off);
    let disabled = hub.upstream_in("fix", UpstreamState::Disabled).await;
    assert_eq!((disabled.pid, disabled.tools), (None, vec![]));
    assert!(!is_alive(there.pid.unwrap()));
    hub.write_upstream("fix", &stdio_fixture(Eras::Both));
    let again = hub.upstream_in("fix", UpstreamState::Ready).await;
    std::fs::remove_file(hub.upstream_file("fix")).unwrap();
    let mut changes = hub.upstreams().changes();
    let removed = async {
        while hub.upstreams().get("fix").is_some() || is_alive(again.pid.unwrap()) {
            // The process ends a moment after the last reported change.
            let _ = tokio::time::timeout(Duration::from_millis(50), changes.changed()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), removed).await.expect("gone in time");
}

#[tokio::test]
async fn world_writable_folder_starts_no_process() {
    let hub = TestHub::start_timed(fast_polling_timing()).await;
    let set_mode = |mode| {
        let dir = hub.upstreams().folder().dir();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let before = hub.add_upstream("fix", &stdio_fixture(Eras::Both)).await;
    set_mode(0o777);
    let refused = hub.upstream_in("fix", UpstreamState::Invalid).await;
    assert!(refused.last_error.unwrap().message.contains("chmod go-w"), "what to do is said");
    assert!(!is_alive(before.pid.unwrap()));
    set_mode(0o770);
    let again = hub.upstream_in("fix", UpstreamState::Ready).await;
    assert!(again.warnings.iter().any(|warning| warning.contains("mode 0770")), "{:?}", again.warnings);
    set_mode(0o700);
    let closed = hub.upstream_when("fix", "not warned about", |upstream| upstream.warnings.is_empty()).await;
    assert_eq!(
        (closed.state, closed.pid),
        (UpstreamState::Ready, again.pid),
        "that is no reason to restart it"
    );
}

#[tokio::test]
async fn restart_rereads_references_of_one_server_only() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let secret = hub.data_dir().join("secret");
    std::fs::write(&secret, "old").unwrap();
    let mut document = Script::answering("say \"$WORD\"").install(&hub, "one");
    document["env"] = json!({ "WORD": format!("${{file:{}}}", secret.display()) });
    hub.add_upstream("one", &document).await;
    let other = hub.add_upstream("two", &document).await;
    let assert_reports =
        async |server: &str| text(&client.tool(&format!("mcp__{server}__work"), json!({})).await).to_owned();
    assert_eq!(assert_reports("one").await, "old");
    std::fs::write(&secret, "new").unwrap();
    let restarted = hub.upstreams().restart("one").await.unwrap();
    assert_eq!(restarted.state, UpstreamState::Ready, "{restarted:?}");
    assert_eq!(
        (assert_reports("one").await, assert_reports("two").await),
        ("new".to_owned(), "old".to_owned())
    );
    assert_eq!(hub.upstreams().get("two").unwrap().pid, other.pid);
    // A missing value is reported, and the previous one is not used.
    std::fs::remove_file(&secret).unwrap();
    let invalid = hub.upstreams().restart("one").await.unwrap();
    assert_eq!(invalid.state, UpstreamState::Invalid, "{invalid:?}");
    assert!(invalid.last_error.unwrap().message.contains("which does not exist"));
}

#[tokio::test]
async fn change_of_one_file_does_not_reread_references_of_others() {
    let hub = TestHub::start_timed(fast_polling_timing()).await;
    let client = agent(&hub).await;
    let secret = hub.data_dir().join("secret");
    std::fs::write(&secret, "old").unwrap();
    let mut document = Script::answering("say \"$WORD\"").install(&hub, "one");
    document["env"] = json!({ "WORD": format!("${{file:{}}}", secret.display()) });
    let before = hub.add_upstream("one", &document).await;
    std::fs::write(&secret, "new").unwrap();
    // Nobody requests a reload: the hub notices the file and reads the folder.
    hub.write_upstream("two", &document);
    hub.upstream_in("two", UpstreamState::Ready).await;
    let assert_reports =
        async |server: &str| text(&client.tool(&format!("mcp__{server}__work"), json!({})).await).to_owned();
    assert_eq!(
        (assert_reports("one").await, assert_reports("two").await),
        ("old".to_owned(), "new".to_owned())
    );
    assert_eq!(hub.upstreams().get("one").unwrap().pid, before.pid);
    // It is reread when its own file is rewritten, even with the same content.
    hub.write_upstream("one", &document);
    hub.upstream_when("one", "restarted", |one| one.pid.is_some() && one.pid != before.pid).await;
    assert_eq!(assert_reports("one").await, "new");
    std::fs::write(&secret, "newest").unwrap();
    assert_eq!(hub.upstreams().reload().await.changed, ["one", "two"]);
    assert_eq!(
        (assert_reports("one").await, assert_reports("two").await),
        ("newest".to_owned(), "newest".to_owned())
    );
}

#[tokio::test]
async fn files_with_colliding_tool_names_are_both_refused() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let script = Script::answering("say done");
    hub.add_upstream("my-server", &script.install(&hub, "one")).await;
    hub.write_upstream("my_server", &script.install(&hub, "two"));
    let report = hub.upstreams().reload().await;
    let failed: Vec<_> = report.failed.iter().map(|failed| failed.name.as_str()).collect();
    assert_eq!(failed, ["my-server", "my_server"], "{report:?}");
    for failure in &report.failed {
        assert!(failure.message.contains("my-server.json") && failure.message.contains("my_server.json"));
    }
    std::fs::remove_file(hub.upstream_file("my_server")).unwrap();
    hub.upstreams().reload().await;
    hub.upstream_in("my-server", UpstreamState::Ready).await;
    let result = agent(&hub).await.tool("mcp__my_server__work", json!({})).await;
    assert_eq!(text(&result), "done", "the one that is left has its tools, whatever the other left behind");
}

#[tokio::test]
async fn hub_restart_restores_all_servers() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let before = hub.add_upstream("fix", &stdio_fixture(Eras::Both)).await;
    let hub = hub.restart().await;
    let after = hub.upstream_in("fix", UpstreamState::Ready).await;
    assert!(!is_alive(before.pid.unwrap()));
    assert_eq!(before.tools, after.tools);
}

#[tokio::test]
async fn file_restored_during_a_call_keeps_its_tools() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    let document = stdio_fixture(Eras::Both);
    let before = hub.add_upstream("fix", &document).await;
    let slow =
        json!({ "name": "mcp__fix__slow", "arguments": { "ms": 1_000 }, "_meta": { "progressToken": 1 } });
    let (streaming, request) = client.modern_request(1, "tools/call", slow);
    let mut stream = streaming.post_stream(&request).await;
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/progress", "it runs");
    std::fs::remove_file(hub.upstream_file("fix")).unwrap();
    assert_eq!(hub.upstreams().reload().await.removed, ["fix"]);
    assert_eq!(tools_of(&client, "fix").await, Vec::<String>::new(), "at once");
    let after = hub.add_upstream("fix", &document).await;
    assert_ne!(after.pid, before.pid);
    let messages = stream.to_end().await;
    assert!(
        text(&messages.last().unwrap()["result"]).starts_with("waited"),
        "what ran may end: {messages:?}"
    );
    let removed = async {
        while is_alive(before.pid.unwrap()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), removed).await.expect("the old process ends");
    assert_eq!(text(&client.tool("mcp__fix__echo", json!({ "text": "still listed" })).await), "still listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_call_fails_when_its_server_is_removed() {
    let start = Duration::from_secs(60);
    let hub = TestHub::start_timed(Timing { start, ..fast_timing() }).await;
    let client = agent(&hub).await;
    let script =
        Script::answering(": > \"$dir/in\"; until [ -e \"$dir/go\" ]; do sleep 0.02; done; say done");
    let mut document = script.install(&hub, "s");
    document["max_concurrency"] = json!(1);
    hub.add_upstream("s", &document).await;
    let dir = folder(&hub, "s");
    let first = client.tool("mcp__s__work", json!({}));
    let second = async {
        until("the first call runs", async || dir.join("in").exists()).await;
        let call = client.tool("mcp__s__work", json!({}));
        let removed = async {
            until("the second call waits", async || hub.upstreams().get("s").unwrap().in_flight == 2).await;
            std::fs::remove_file(hub.upstream_file("s")).unwrap();
            hub.upstreams().reload().await;
            std::fs::write(dir.join("go"), "").unwrap();
        };
        let warning = tokio::time::timeout(start / 3, async { tokio::join!(call, removed).0 }).await;
        warning.expect("it does not wait for a server that never comes")
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(text(&first), "done");
    assert_eq!(second["_meta"]["plexus/error"]["code"], "unavailable", "{second}");
    assert!(text(&second).contains("Nothing was run"), "{second}");
}

#[tokio::test]
async fn cache_of_a_file_deleted_while_stopped_is_removed() {
    let hub = TestHub::start_timed(fast_timing()).await;
    hub.add_upstream("stays", &Script::answering("say done").install(&hub, "stays")).await;
    let [stays, went] =
        ["stays", "went"].map(|name| hub.data_dir().join(format!("upstream-tools/{name}.json")));
    until("the tools are cached", async || stays.exists()).await;
    std::fs::copy(&stays, &went).unwrap();
    let _hub = hub.restart().await;
    assert_eq!((stays.exists(), went.exists()), (true, false));
}
