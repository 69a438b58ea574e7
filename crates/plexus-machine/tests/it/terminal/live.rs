//! The events of a call while its command runs.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::workbench::{RecordedEvents, Workbench, poll_until};

#[tokio::test]
async fn output_and_end_are_streamed() {
    let bench = Workbench::new().await;
    let go = bench.folder().join("go");
    let command = format!(
        "printf 'begun é'; while [ ! -e {} ]; do sleep 0.02; done; echo err >&2; exit 2",
        go.display()
    );
    let events = RecordedEvents::default();
    let arguments = json!({ "action": "run", "command": command });
    let call = bench.call("terminal", arguments, CancellationToken::new(), Some(events.clone()));
    let reached_listeners = async {
        poll_until(async || {
            let events = events.lock().unwrap();
            let (kind, payload) = events.first()?;
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
    let (answer, ()) = tokio::join!(call, reached_listeners);
    let answer = answer.unwrap().structured().unwrap().into_owned();
    let events = events.lock().unwrap();
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["terminal_output", "terminal_output", "terminal_closed"]);
    assert_eq!((&events[1].1["text"], &events[1].1["stream"]), (&json!("err\n"), &json!("stderr")));
    assert_eq!((&events[2].1["exit_code"], &events[2].1["job"]), (&json!(2), &answer["job"]));
}

#[tokio::test]
async fn streamed_output_is_rate_limited() {
    let bench = Workbench::new().await;
    let events = RecordedEvents::default();
    let arguments = json!({ "action": "run", "command": "timeout 1.5 yes 0123456789; true" });
    let call = bench.call("terminal", arguments, CancellationToken::new(), Some(events.clone()));
    let answer = call.await.unwrap().structured().unwrap().into_owned();
    let events = events.lock().unwrap();
    let bytes =
        events.iter().map(|(_, payload)| payload.get("text").map_or(0, |text| text.as_str().unwrap().len()));
    assert!(bytes.clone().all(|bytes| bytes <= 16 << 10));
    assert!(bytes.sum::<usize>() <= 1 << 20);
    let tenths = answer["duration_ms"].as_u64().unwrap() / 100;
    assert!(events.len() as u64 <= tenths + 5, "{} in {tenths} tenths of a second", events.len());
    assert!(events.iter().any(|(_, payload)| payload.contains_key("skipped")), "skipped output is counted");
    // Each event starts where the previous one ended, except for skipped bytes.
    let mut at = 0;
    for (_, payload) in events.iter().filter(|(kind, _)| kind == "terminal_output") {
        at += payload.get("skipped").map_or(0, |skipped| skipped.as_u64().unwrap());
        assert_eq!(payload["offset"], at);
        at += payload["text"].as_str().unwrap().len() as u64;
    }
    assert_eq!(answer["stdout"]["bytes"], at, "the end is streamed");
}
