//! Records of a call contain the canonical name of the tool, whichever name the caller used.

use plexus_proto::EventKind;
use serde_json::json;

use super::Naming::{Bare, Full};
use super::upstream;
use crate::hub::{Hub, bounded, keyed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_carry_the_canonical_name_whatever_was_written() {
    bounded(async {
        let hub =
            Hub::with([upstream("my-server", Full, "get-it"), upstream("files", Bare, "read.file")]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for (written, name) in [
            ("mcp__my_server__get-it", "mcp__my_server__get-it"),
            ("get_it", "mcp__my_server__get-it"),
            ("mcp:my-server:get-it", "mcp__my_server__get-it"),
            ("mcp__plexus__My_Server_Get_It", "mcp__my_server__get-it"),
            ("read_file", "mcp__files__read_file"),
            ("read.file", "mcp__files__read_file"),
            ("mcp__files__read_file", "mcp__files__read_file"),
            ("files/read.file", "mcp__files__read_file"),
        ] {
            for (requested, arguments) in
                [(written, json!({})), ("tool_call", json!({ "name": written, "arguments": {} }))]
            {
                let reply = hub.call(&agent, requested, arguments).await;
                assert_eq!(reply.result.unwrap().text(), name, "{written}");
                assert_eq!(reply.tool, name);
                let audited = hub.audited(reply.call_id).await.unwrap();
                assert_eq!((audited.tool.as_str(), audited.outcome.as_str()), (name, "ok"));
                let events = hub.events(reply.session_id.unwrap()).await;
                let of_call = events.iter().filter(|event| event.payload["call_id"] == json!(reply.call_id));
                let tools: Vec<_> =
                    of_call.map(|event| (&event.kind, event.payload["tool"].clone())).collect();
                assert_eq!(
                    tools,
                    [(&EventKind::ToolStarted, json!(name)), (&EventKind::ToolCall, json!(name))],
                    "{written}"
                );
            }
            // Arguments that do not hold are a record too.
            let refused = hub.call(&agent, written, json!("no object")).await;
            assert_eq!(hub.audited(refused.call_id).await.unwrap().tool, name, "{written}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_under_another_spelling_is_the_same_call() {
    bounded(async {
        let hub = Hub::with([upstream("my-server", Full, "get-it")]).await;
        let agent = hub.agent("ann", &["call:mcp:my-server:get-it"]).await;
        let mut replies = Vec::new();
        for written in ["mcp__my_server__get-it", "get_it", "mcp__plexus__mcp__my_server__get-it"] {
            replies.push(hub.dispatcher.call(agent.clone(), keyed(written, json!({}), "k")).await);
        }
        assert_eq!(replies.iter().map(|reply| reply.replayed).collect::<Vec<_>>(), [false, true, true]);
    })
    .await;
}
