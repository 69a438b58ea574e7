//! What is refused, and that it says what to do.

use plexus_proto::ErrorCode;
use serde_json::json;

use crate::workbench::Workbench;

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_runs() {
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
async fn a_line_that_is_too_long_for_the_system_is_told_where_to_go() {
    let bench = Workbench::new().await;
    let command = format!(": {}", "x".repeat(300_000));
    let refused = bench.terminal(json!({ "action": "run", "command": command })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ToolFailed);
    assert!(refused.text().contains("stdin"), "{}", refused.text());
}

#[tokio::test]
async fn input_that_was_given_at_the_start_is_not_added_to() {
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
async fn the_machine_tells_what_it_is() {
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
