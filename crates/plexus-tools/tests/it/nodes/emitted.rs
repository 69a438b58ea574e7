//! What a call tells while it runs.

use std::sync::{Arc, Mutex};

use plexus_tools::{Call, Progress, ToolContext, ToolOutput};
use serde_json::{Map, Value, json};

use super::{TestNodes, node, run_on, shell};
use crate::hub::{Hub, bounded, call};

type ReceivedEvents = (String, Map<String, Value>);

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn events_are_logged_before_the_end_and_reach_the_caller() {
    bounded(async {
        let tool = shell(|context: ToolContext, _| async move {
            for n in 1..=3 {
                let text = format!("line {n}\n");
                assert!(context.emit("terminal_output", object(json!({ "offset": n, "text": text }))));
            }
            assert!(
                context.emit("progress", object(json!({ "done": 1.0, "total": 2.0, "message": "half" })))
            );
            Ok(ToolOutput::new("done", &()))
        });
        let hub = Hub::with([tool]).await;
        hub.dispatcher.set_nodes(TestNodes::of([node("nas", &[])]));
        let received: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let sink = received.clone();
        let progress = Arc::new(move |progress| sink.lock().unwrap().push(progress));
        let request = Call { progress: Some(progress), ..call("shell", run_on("nas")) };
        let reply = hub.dispatcher.call(hub.admin(), request).await;
        reply.result.unwrap();
        let events = hub.events(reply.session_id.unwrap()).await;
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(
            kinds,
            ["tool_started", "terminal_output", "terminal_output", "terminal_output", "tool_call"]
        );
        let expected = json!({ "call_id": reply.call_id, "node": "nas", "offset": 1, "text": "line 1\n" });
        assert_eq!(events[1].payload, expected);
        let received = received.lock().unwrap();
        let messages: Vec<_> = received.iter().map(|progress| progress.message.clone().unwrap()).collect();
        assert_eq!(messages, ["line 1\n", "line 2\n", "line 3\n", "half"]);
        assert!(received[..3].is_sorted_by(|a, b| a.done < b.done));
    })
    .await;
}

#[tokio::test]
async fn node_cannot_forge_hub_events_or_flood_the_log() {
    bounded(async {
        let tool = shell(|context: ToolContext, _| async move {
            for kind in
                ["tool_call", "tool_started", "node_online", "approval_decided", "", "Terminal_Output"]
            {
                assert!(!context.emit(kind, Map::new()), "{kind}");
            }
            assert!(!context.emit("terminal_output", object(json!({ "text": "x".repeat(70_000) }))));
            let chunk =
                object(json!({ "text": "x".repeat(16_000), "call_id": "another", "node": "another" }));
            let accepted = (0..1_000).filter(|_| context.emit("terminal_output", chunk.clone())).count();
            Ok(ToolOutput::new("", &json!({ "taken": accepted })))
        });
        let hub = Hub::with([tool]).await;
        hub.dispatcher.set_nodes(TestNodes::of([node("nas", &[])]));
        let reply = hub.call(&hub.admin(), "shell", run_on("nas")).await;
        let output = reply.result.unwrap();
        let accepted = usize::try_from(output.structured().unwrap()["taken"].as_u64().unwrap()).unwrap();
        assert!((100..140).contains(&accepted), "{accepted}");
        let events = hub.events(reply.session_id.unwrap()).await;
        assert_eq!(events.len(), accepted + 2);
        assert!(events[1..=accepted].iter().all(|event| {
            event.payload["node"] == "nas" && event.payload["call_id"] == json!(reply.call_id)
        }));
    })
    .await;
}

#[tokio::test]
async fn on_a_node_events_go_where_the_link_takes_them() {
    bounded(async {
        let tool = crate::hub::scripted("here", |context, _| async move {
            assert!(context.emit("terminal_output", object(json!({ "text": "x" }))));
            assert!(!context.emit("terminal_output", object(json!({ "text": "full" }))));
            crate::hub::ready("done")
        });
        let hub = Hub::with([tool]).await;
        let received: Arc<Mutex<Vec<ReceivedEvents>>> = Arc::default();
        let inside = received.clone();
        let sink: plexus_tools::EventSink = Arc::new(move |kind, payload| {
            let mut received = inside.lock().unwrap();
            let has_room = received.is_empty();
            if has_room {
                received.push((kind.to_owned(), payload));
            }
            has_room
        });
        let call_id = plexus_proto::CallId::new();
        let request = Call { events: Some(sink), call_id: Some(call_id), ..call("here", json!({})) };
        let reply = hub.dispatcher.call(hub.admin(), request).await;
        assert_eq!(reply.call_id, call_id);
        reply.result.unwrap();
        assert_eq!(
            *received.lock().unwrap(),
            [("terminal_output".to_owned(), object(json!({ "text": "x" })))]
        );
        assert_eq!(hub.events(reply.session_id.unwrap()).await.len(), 2);
    })
    .await;
}
