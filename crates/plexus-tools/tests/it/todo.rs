//! What `todo` does, action by action.

use plexus_proto::ErrorCode;
use plexus_store::TodoStatus;
use serde_json::{Value, json};

use crate::hub::{Hub, bounded};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_goes_through_all_its_actions() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let steps = [
            (json!({ "action": "list" }), "The list is empty."),
            (json!({ "action": "add", "text": "build" }), "[ ] 1. build"),
            (
                json!({ "action": "add", "text": "test", "status": "in_progress" }),
                "[ ] 1. build\n[~] 2. test",
            ),
            (json!({ "action": "update", "id": 1, "status": "done" }), "[x] 1. build\n[~] 2. test"),
            (json!({ "action": "update", "id": 2, "text": "test more" }), "[x] 1. build\n[~] 2. test more"),
            (json!({ "action": "list" }), "[x] 1. build\n[~] 2. test more"),
            (json!({ "action": "remove", "id": 1 }), "[~] 2. test more"),
            (json!({ "action": "clear" }), "The list is empty."),
            (json!({ "action": "clear" }), "The list is empty."),
        ];
        for (arguments, text) in steps {
            let output = hub.ok(&agent, "todo", arguments.clone()).await;
            assert_eq!(output.text(), text, "{arguments}");
            let items = output.structured().unwrap().into_owned()["items"].as_array().unwrap().len();
            assert_eq!(items, text.lines().filter(|line| line.starts_with('[')).count(), "{arguments}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_action_needs_and_did_not_get_is_named_and_nothing_changes() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        hub.ok(&agent, "todo", json!({ "action": "add", "text": "stays" })).await;
        let invalid = ErrorCode::InvalidArguments;
        let cases = [
            (json!({ "action": "add" }), invalid, "- /text: required for action \"add\""),
            (json!({ "action": "add", "text": null }), invalid, "- /text: required for action \"add\""),
            (json!({ "action": "add", "text": "" }), invalid, "- /text: "),
            (json!({ "action": "add", "text": " \n " }), invalid, "- /text: expected 1 to 1000 characters"),
            (json!({ "action": "add", "text": "ü".repeat(1001) }), invalid, "- /text: "),
            (
                json!({ "action": "update", "status": "done" }),
                invalid,
                "- /id: required for action \"update\"",
            ),
            (json!({ "action": "update", "id": 1 }), invalid, "- /status: required for action \"update\""),
            (json!({ "action": "update", "id": 1, "text": " " }), invalid, "- /text: "),
            (json!({ "action": "update", "id": 1, "status": "dune" }), invalid, "did you mean \"done\"?"),
            (json!({ "action": "remove" }), invalid, "- /id: required for action \"remove\""),
            (
                json!({ "action": "update", "id": 9, "status": "done" }),
                ErrorCode::NotFound,
                "there is no to-do 9",
            ),
            (json!({ "action": "remove", "id": 9 }), ErrorCode::NotFound, "there is no to-do 9"),
            (json!({ "action": "remove", "id": "1" }), invalid, "- /id: expected integer, got \"1\""),
            (json!({ "action": "ad", "text": "x" }), invalid, "did you mean \"add\"?"),
            (json!({}), invalid, "- /action: missing; this field is required"),
        ];
        for (arguments, code, words) in cases {
            let error = hub.err(&agent, "todo", arguments.clone()).await;
            assert_eq!(error.code, code, "{arguments}");
            assert!(error.message.contains(words), "{arguments}: {}", error.message);
            assert!(error.hint.is_some(), "{arguments}: what to do next?");
        }
        assert_eq!(hub.ok(&agent, "todo", json!({ "action": "list" })).await.text(), "[ ] 1. stays");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_of_1000_characters_fits_however_many_bytes_they_are() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let text = "🦀".repeat(1000);
        let output = hub.ok(&agent, "todo", json!({ "action": "add", "text": text })).await;
        assert_eq!(output.structured().unwrap().into_owned()["items"][0]["text"], text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_holds_300_items_and_then_makes_room() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let reply = hub.call(&agent, "todo", json!({ "action": "add", "text": "first" })).await;
        let session = reply.session_id.unwrap();
        hub.store
            .write(move |conn| {
                Box::pin(async move {
                    for _ in 1..300 {
                        let now = plexus_proto::Timestamp::UNIX_EPOCH;
                        conn.add_todo(session, "filler", TodoStatus::Pending, now).await?;
                    }
                    Ok(())
                })
            })
            .await
            .unwrap();
        let one_more = || json!({ "action": "add", "text": "one more" });
        let error = hub.err(&agent, "todo", one_more()).await;
        assert_eq!(
            (error.code, error.message.as_str()),
            (ErrorCode::Conflict, "the list is full: 300 items")
        );
        let count = async |arguments: Value| {
            hub.ok(&agent, "todo", arguments).await.structured().unwrap().into_owned()["items"]
                .as_array()
                .unwrap()
                .len()
        };
        assert_eq!(count(json!({ "action": "list" })).await, 300);
        assert_eq!(count(json!({ "action": "remove", "id": 7 })).await, 299);
        assert_eq!(count(one_more()).await, 300);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_outlives_a_restart() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        hub.ok(&agent, "todo", json!({ "action": "add", "text": "stays" })).await;
        let hub = hub.restarted().await;
        assert_eq!(hub.ok(&agent, "todo", json!({ "action": "list" })).await.text(), "[ ] 1. stays");
    })
    .await;
}
