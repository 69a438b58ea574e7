//! Statistics of a session, identical on both databases.

use plexus_proto::api::{RunStats, SessionStats, ToolStats};
use plexus_proto::{EventKind, NewEvent, SessionId};
use serde_json::{Value, json};

use crate::backend::{Backend, Database, at, events};

fn new_event(kind: &str, millis: i64, payload: &Value) -> NewEvent {
    let Ok(kind) = kind.parse::<EventKind>();
    NewEvent {
        at: at(millis),
        kind,
        actor: "agent:a".to_owned(),
        payload: payload.to_string(),
        external_id: None,
    }
}

/// A call with its duration, its failure if any, and the time it was queued.
fn call(
    id: &str,
    tool: &str,
    from: i64,
    took: i64,
    failure: Option<&str>,
    waited: Option<i64>,
) -> [NewEvent; 2] {
    let mut payload =
        json!({ "call_id": id, "tool": tool, "args": { "code": "not this one", "tool": "nor this" } });
    if let Some(waited) = waited {
        payload["waited_ms"] = json!(waited);
    }
    let started = new_event("tool_started", from, &payload);
    payload["success"] = json!(failure.is_none());
    payload["result"] = match failure {
        None => json!({ "text": "done" }),
        // From an upstream server: failed without a Plexus error code.
        Some("tool_failed") => json!({ "content": [], "structured": null }),
        Some(code) => json!({ "code": code, "message": "no" }),
    };
    [started, new_event("tool_call", from + took, &payload)]
}

async fn stats<B: Backend>(db: &Database<B>, id: SessionId, most: i64) -> SessionStats {
    let mut reader = db.store.read().await.unwrap();
    let session = reader.session(id).await.unwrap().unwrap();
    reader.session_stats(session, most).await.unwrap()
}

pub(crate) async fn events_are_counted_by_their_content<B: Backend>(db: Database<B>) {
    let (id, other) = (db.session("agent:a", "k").await, db.session("agent:a", "other").await);
    let nothing = stats(&db, id, 1_000).await;
    assert_eq!((nothing.events, nothing.first_at, nothing.calls.total, nothing.tokens), (0, None, 0, None));
    let mut log: Vec<NewEvent> = Vec::new();
    // Two concurrent calls, one of which was rejected and never started.
    log.extend(call("c1", "todo", 1_000, 30, None, Some(5_000)));
    log.extend(call("c2", "todo", 1_010, 50, None, Some(7_001)));
    log.extend(call("c3", "todo", 2_000, 5, Some("not_found"), None));
    let [_, refused] = call("c4", "exec", 2_500, 0, Some("overloaded"), None);
    log.push(refused);
    log.extend(call("c5", "mcp__far__write", 3_000, 100, Some("tool_failed"), None));
    // Has not ended.
    let [begun, _] = call("c6", "todo", 3_500, 0, None, Some(1));
    log.push(begun);
    for state in ["started", "crashed", "restarted", "started", "exited", "danced"] {
        log.push(new_event("notification", 4_000, &json!({ "source": "run", "state": state })));
    }
    log.push(new_event(
        "notification",
        4_100,
        &json!({ "source": "outbox", "event": "dead_letter", "key": "k\0" }),
    ));
    log.push(new_event("notification", 4_100, &json!({ "source": "outbox", "event": "dead_letter" })));
    log.push(new_event("notification", 4_200, &json!({ "text": "hello", "source": ["run"] })));
    for tokens in [json!(1_200), json!(34), json!("many"), json!(-5), json!(1.5), json!(null)] {
        log.push(new_event("stream_end", 5_000, &json!({ "token_count": tokens })));
    }
    let count = log.len() as i64;
    db.store.append(events(id, log)).await.unwrap();
    db.store.append(events(other, call("c9", "todo", 1, 1, None, None))).await.unwrap();

    let counted = stats(&db, id, 1_000).await;
    assert_eq!((counted.events, counted.partial), (count, false));
    assert_eq!((counted.first_at, counted.last_at), (Some(at(1_000)), Some(at(5_000))));
    let calls = &counted.calls;
    assert_eq!((calls.total, calls.failed, calls.took_ms), (5, 3, 185));
    let failures: Vec<_> = calls.failures.iter().map(|(code, count)| (code.as_str(), *count)).collect();
    assert_eq!(failures, [("not_found", 1), ("overloaded", 1), ("tool_failed", 1)]);
    let tool =
        |tool: &str, calls, failed, took_ms| ToolStats { tool: tool.to_owned(), calls, failed, took_ms };
    let tools = [tool("todo", 3, 1, 85), tool("exec", 1, 1, 0), tool("mcp__far__write", 1, 1, 100)];
    assert_eq!(calls.tools, tools);
    let queued = &counted.queued;
    assert_eq!((queued.writes, queued.longest_ms, queued.mean_ms), (2, 7_001, 6_000));
    assert_eq!(counted.tokens, Some(1_234));
    assert_eq!(counted.runs, RunStats { started: 2, exited: 1, crashed: 1, stopped: 0, restarted: 1 });
    // On PostgreSQL, a payload with U+0000 cannot be inspected as text.
    let expected = if db.store.database() == "postgresql" { 1 } else { 2 };
    assert_eq!(counted.dead_letters, expected);

    // For a log that is too long, only the newest events are counted.
    let newest = stats(&db, id, 6).await;
    assert_eq!((newest.events, newest.partial, newest.calls.total, newest.tokens), (6, true, 0, Some(1_234)));
}
