//! Refused calls, and the hints of their errors.

use plexus_proto::ErrorCode;
use serde_json::json;

use crate::workbench::Workbench;

#[tokio::test]
async fn invalid_arguments_are_refused_before_anything_runs() {
    let bench = Workbench::new().await;
    for (arguments, says) in [
        (json!({ "action": "run" }), "command"),
        (json!({ "action": "run", "command": "true", "argv": ["true"] }), "not both"),
        (json!({ "action": "run", "argv": [] }), "argv"),
        (json!({ "action": "run", "argv": [""] }), "empty"),
        (json!({ "action": "run", "command": "a\u{0}b" }), "U+0000"),
        (json!({ "action": "run", "command": "true", "env": { "A=B": "c" } }), "env"),
        (json!({ "action": "run", "command": "true", "timeout_seconds": 0 }), "timeout_seconds"),
        (json!({ "action": "read" }), "job"),
        (json!({ "action": "write", "job": "x", "txt": "y" }), "did you mean"),
    ] {
        let refused = bench.terminal(arguments.clone()).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidArguments, "{arguments}");
        assert!(refused.text().contains(says), "{arguments}: {}", refused.text());
    }
    let list = bench.terminal(json!({ "action": "list" })).await.unwrap();
    assert_eq!(list["jobs"], json!([]));
}

#[tokio::test]
async fn too_long_command_line_is_refused_with_a_hint() {
    let bench = Workbench::new().await;
    let command = format!(": {}", "x".repeat(300_000));
    let refused = bench.terminal(json!({ "action": "run", "command": command })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ToolFailed);
    assert!(refused.text().contains("stdin"), "{}", refused.text());
}

#[tokio::test]
async fn write_is_refused_if_stdin_was_given_at_the_start() {
    let bench = Workbench::new().await;
    let start = json!({ "action": "start", "command": "cat; sleep 1000", "stdin": "all of it" });
    let job = bench.terminal(start).await.unwrap();
    let write = json!({ "action": "write", "job": job["job"], "text": "more" });
    let refused = bench.terminal(write).await.unwrap_err();
    assert!(refused.text().contains("without `stdin`"), "{}", refused.text());
    let kill = json!({ "action": "kill", "job": job["job"], "signal": "BOGUS" });
    assert!(bench.terminal(kill).await.unwrap_err().text().contains("TERM"));
}

#[tokio::test]
async fn system_info_describes_the_machine() {
    let bench = Workbench::new().await;
    let call = bench.call("system_info", json!({}), tokio_util::sync::CancellationToken::new(), None);
    let output = call.await.unwrap();
    let info = output.structured().unwrap().into_owned();
    assert_eq!(info["os"], std::env::consts::OS);
    assert!(info["cpu"]["count"].as_u64().unwrap() > 0, "{info}");
    assert!(info["memory"]["total"].as_u64().unwrap() > info["memory"]["used"].as_u64().unwrap());
    assert!(info["uptime_seconds"].as_u64().unwrap() > 0);
    assert!(output.text().contains("memory:"), "{}", output.text());
    let probe = bench.call("probe", json!({}), tokio_util::sync::CancellationToken::new(), None).await;
    assert_eq!(probe.unwrap().text(), "");
}
