//! What `scratchpad` does, action by action.

use plexus_proto::ErrorCode;
use serde_json::json;

use crate::hub::{Hub, bounded};

const MAX_BYTES: usize = 256 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_go_through_all_their_actions() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let steps = [
            (json!({ "action": "list" }), "The scratchpad is empty."),
            (
                json!({ "action": "write", "section": "notes", "content": "für" }),
                "\"notes\" has 4 bytes now.\nnotes (4 bytes)",
            ),
            (
                json!({ "action": "append", "section": "notes", "content": " dich" }),
                "\"notes\" has 9 bytes now.\nnotes (9 bytes)",
            ),
            (json!({ "action": "read", "section": "notes" }), "für dich"),
            (
                json!({ "action": "append", "section": "a new one", "content": "" }),
                "\"a new one\" has 0 bytes now.\na new one (0 bytes)\nnotes (9 bytes)",
            ),
            (json!({ "action": "read", "section": "a new one" }), "(empty)"),
            (
                json!({ "action": "write", "section": "notes", "content": "x" }),
                "\"notes\" has 1 bytes now.\na new one (0 bytes)\nnotes (1 bytes)",
            ),
            (json!({ "action": "read", "section": "notes" }), "x"),
            (json!({ "action": "delete", "section": "notes" }), "Deleted \"notes\".\na new one (0 bytes)"),
            (json!({ "action": "list" }), "a new one (0 bytes)"),
        ];
        for (arguments, text) in steps {
            assert_eq!(hub.ok(&agent, "scratchpad", arguments.clone()).await.text(), text, "{arguments}");
        }
        let read = hub.ok(&agent, "scratchpad", json!({ "action": "read", "section": "a new one" })).await;
        assert_eq!(read.structured().unwrap().into_owned()["content"], "");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_action_needs_and_did_not_get_is_named_and_nothing_changes() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        hub.ok(&agent, "scratchpad", json!({ "action": "write", "section": "notes", "content": "stays" }))
            .await;
        let invalid = ErrorCode::InvalidArguments;
        let cases = [
            (json!({ "action": "read" }), invalid, "- /section: required for action \"read\""),
            (
                json!({ "action": "write", "content": "x" }),
                invalid,
                "- /section: required for action \"write\"",
            ),
            (
                json!({ "action": "write", "section": "notes" }),
                invalid,
                "- /content: required for action \"write\"",
            ),
            (
                json!({ "action": "append", "section": "a" }),
                invalid,
                "- /content: required for action \"append\"",
            ),
            (json!({ "action": "delete" }), invalid, "- /section: required for action \"delete\""),
            (json!({ "action": "read", "section": "" }), invalid, "- /section: "),
            (
                json!({ "action": "write", "section": "x".repeat(201), "content": "" }),
                invalid,
                "- /section: ",
            ),
            (
                json!({ "action": "read", "section": "nots" }),
                ErrorCode::NotFound,
                "there is no section \"nots\"",
            ),
            (
                json!({ "action": "delete", "section": "zzz" }),
                ErrorCode::NotFound,
                "there is no section \"zzz\"",
            ),
        ];
        for (arguments, code, words) in cases {
            let error = hub.err(&agent, "scratchpad", arguments.clone()).await;
            assert_eq!(error.code, code, "{arguments}");
            assert!(error.message.contains(words), "{arguments}: {}", error.message);
        }
        let error = hub.err(&agent, "scratchpad", json!({ "action": "read", "section": "nots" })).await;
        assert_eq!(error.hint.as_deref(), Some("Did you mean \"notes\"?"));
        let listed = hub.ok(&agent, "scratchpad", json!({ "action": "list" })).await;
        assert_eq!(listed.text(), "notes (5 bytes)");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_section_holds_256_kib_and_not_a_byte_more() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let full = "x".repeat(MAX_BYTES);
        hub.ok(&agent, "scratchpad", json!({ "action": "write", "section": "a", "content": full })).await;
        for arguments in [
            json!({ "action": "append", "section": "a", "content": "y" }),
            json!({ "action": "write", "section": "a", "content": format!("{full}y") }),
        ] {
            let error = hub.err(&agent, "scratchpad", arguments).await;
            assert_eq!(error.code, ErrorCode::TooLarge);
            assert!(error.message.contains("262145") && error.message.contains("262144"), "{error:?}");
        }
        assert_eq!(
            hub.ok(&agent, "scratchpad", json!({ "action": "read", "section": "a" })).await.text(),
            full
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scratchpad_holds_200_sections_and_full_ones_can_still_change() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let reply = hub.call(&agent, "scratchpad", json!({ "action": "list" })).await;
        let session = reply.session_id.unwrap();
        hub.store
            .write(move |conn| {
                Box::pin(async move {
                    for number in 0..200 {
                        let now = plexus_proto::Timestamp::UNIX_EPOCH;
                        conn.write_section(session, &format!("s{number}"), "", now).await?;
                    }
                    Ok(())
                })
            })
            .await
            .unwrap();
        for action in ["write", "append"] {
            let one_more = json!({ "action": action, "section": "one more", "content": "x" });
            let error = hub.err(&agent, "scratchpad", one_more).await;
            assert_eq!(error.code, ErrorCode::Conflict);
            assert_eq!(error.message, "the scratchpad is full: 200 sections");
            hub.ok(&agent, "scratchpad", json!({ "action": action, "section": "s7", "content": "x" })).await;
        }
        hub.ok(&agent, "scratchpad", json!({ "action": "delete", "section": "s7" })).await;
        hub.ok(&agent, "scratchpad", json!({ "action": "write", "section": "one more", "content": "x" }))
            .await;
    })
    .await;
}
