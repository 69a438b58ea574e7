//! Third-party SDKs as clients of the fixture server, over both transports and in both eras.

use std::path::Path;

use plexus_testkit::Pinned;
use plexus_testkit::fixture::{Eras, Fixture, program};
use serde_json::{Value, json};

/// How a script connects, and the expected revision.
type Connection = (&'static str, Value, &'static str);

fn over_stdio(mode: &'static str, eras: Eras, version: &'static str) -> Connection {
    (mode, json!([program(), "--stdio", "--eras", eras.name()]), version)
}

/// One run of a script for all connections, because starting the interpreter takes most of the time.
async fn assert_served(sdk: Option<Pinned>, script: &str, connections: &[Connection]) {
    let Some(sdk) = sdk else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let how: Vec<Value> = connections.iter().map(|(mode, server, _)| json!([mode, server])).collect();
    let mut script = sdk.script(&path, &[&json!(how).to_string()], "");
    for (mode, server, version) in connections {
        let report = script.line().await;
        let context = format!("{mode} at {server}: {report}");
        assert_eq!(report["version"], *version, "{context}");
        let tools = report["tools"].as_array().unwrap();
        assert!(tools.contains(&json!("test_simple_text")) && tools.contains(&json!("echo")), "{context}");
        assert_eq!(report["echo"], "hello", "{context}");
        let user = report["user"].as_str().unwrap();
        assert!(user.contains("action=accept") && user.contains("ada@example.com"), "{context}");
        // Cancelled at the first progress notification.
        assert_eq!(report["cancelled"], true, "{context}");
        assert_eq!(report["resource"], "7", "{context}");
        assert_eq!(report["prompt"], "Prompt with arguments: arg1='a', arg2='b'", "{context}");
    }
    script.end().await;
}

/// The expected revisions of an SDK that supports both eras, for every kind of server.
async fn of_both_eras(sdk: Option<Pinned>, script: &str) {
    let (both, old) = (Fixture::new().start().await, Fixture::new().only(Eras::Sessions).start().await);
    let new = Fixture::new().only(Eras::Stateless).start().await;
    let connections = [
        over_stdio("2026-07-28", Eras::Both, "2026-07-28"),
        over_stdio("auto", Eras::Both, "2026-07-28"),
        over_stdio("legacy", Eras::Both, "2025-11-25"),
        over_stdio("auto", Eras::Sessions, "2025-11-25"),
        over_stdio("auto", Eras::Stateless, "2026-07-28"),
        ("auto", json!(both.url()), "2026-07-28"),
        ("legacy", json!(both.url()), "2025-11-25"),
        ("auto", json!(old.url()), "2025-11-25"),
        ("auto", json!(new.url()), "2026-07-28"),
    ];
    assert_served(sdk, script, &connections).await;
}

#[tokio::test]
async fn python_finds_the_era_of_the_server() {
    of_both_eras(Pinned::python("mcp", "2.3.0").await, "client.py").await;
}

#[tokio::test]
async fn typescript_2_finds_the_era_of_the_server() {
    of_both_eras(Pinned::npm("sdk-2").await, "client.mjs").await;
}

#[tokio::test]
async fn typescript_1_has_sessions() {
    let server = Fixture::new().start().await;
    let connections = [
        over_stdio("legacy", Eras::Both, "2025-11-25"),
        over_stdio("legacy", Eras::Sessions, "2025-11-25"),
        ("legacy", json!(server.url()), "2025-11-25"),
    ];
    assert_served(Pinned::npm("sdk-1").await, "client.mjs", &connections).await;
}
