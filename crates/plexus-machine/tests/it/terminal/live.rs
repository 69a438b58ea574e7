//! The events of a call while its command runs.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::workbench::{Told, Workbench, until};

#[tokio::test]
async fn output_and_end_are_streamed() {
    let bench = Workbench::new().await;
    let go = bench.folder().join("go");
    let command = format!(
        "printf 'begun é'; while [ ! -e {} ]; do sleep 0.02; done; echo err >&2; exit 2",
        go.display()
    );
    let told = Told::default();
    let arguments = json!({ "action": "run", "command": command });
    let call = bench.call("terminal", arguments, CancellationToken::new(), Some(told.clone()));
    let heard = async {
        until(async || {
            let told = told.lock().unwrap();
            let (kind, payload) = told.first()?;
            assert_eq!(kind, "terminal_output");
            assert_eq!(
                (&payload["text"], &payload["stream"], &payload["offset"]),
                (&json!("begun é"), &json!("stdout"), &json!(0))
            );
            Some(())
        })
        .await;
        std::fs::write(&go, "").unwrap();
    };
    let (answer, ()) = tokio::join!(call, heard);
    let answer = answer.unwrap().structured().unwrap().into_owned();
    let told = told.lock().unwrap();
    let kinds: Vec<&str> = told.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["terminal_output", "terminal_output", "terminal_closed"]);
    assert_eq!((&told[1].1["text"], &told[1].1["stream"]), (&json!("err\n"), &json!("stderr")));
    assert_eq!((&told[2].1["exit_code"], &told[2].1["job"]), (&json!(2), &answer["job"]));
}

#[tokio::test]
async fn streamed_output_is_rate_limited() {
    let bench = Workbench::new().await;
    let told = Told::default();
    let arguments = json!({ "action": "run", "command": "timeout 1.5 yes 0123456789; true" });
    let call = bench.call("terminal", arguments, CancellationToken::new(), Some(told.clone()));
    let answer = call.await.unwrap().structured().unwrap().into_owned();
    let told = told.lock().unwrap();
    let bytes =
        told.iter().map(|(_, payload)| payload.get("text").map_or(0, |text| text.as_str().unwrap().len()));
    assert!(bytes.clone().all(|bytes| bytes <= 16 << 10));
    assert!(bytes.sum::<usize>() <= 1 << 20);
    let tenths = answer["duration_ms"].as_u64().unwrap() / 100;
    assert!(told.len() as u64 <= tenths + 5, "{} in {tenths} tenths of a second", told.len());
    assert!(told.iter().any(|(_, payload)| payload.contains_key("skipped")), "skipped output is counted");
    // Each event starts where the previous one ended, except for skipped bytes.
    let mut at = 0;
    for (_, payload) in told.iter().filter(|(kind, _)| kind == "terminal_output") {
        at += payload.get("skipped").map_or(0, |skipped| skipped.as_u64().unwrap());
        assert_eq!(payload["offset"], at);
        at += payload["text"].as_str().unwrap().len() as u64;
    }
    assert_eq!(answer["stdout"]["bytes"], at, "the end is streamed");
}
