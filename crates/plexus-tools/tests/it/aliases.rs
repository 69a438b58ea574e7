//! Arguments under other names: a call that uses them is the same call, everywhere it is seen.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_tools::{Alias, CallError, Outcome, Tool, ToolContext, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::hub::{Hub, Output, bounded, call, keyed, ready, spec};

const SECRET: &str = "zebra crossing";

const ALIASES: &[Alias] = &[
    Alias::new("path", &["file_path", "filename"]),
    Alias::new("text", &["content"]),
    Alias::new("edits/old", &["old_string"]),
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    old: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    text: Option<String>,
    edits: Option<Vec<Edit>>,
}

/// Stores its arguments; their text is not recorded.
#[derive(Clone, Default)]
struct Note(Arc<Mutex<Vec<String>>>);

impl TypedTool for Note {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec("note", Duration::from_secs(5)).without_record_of(&["text"]).with_aliases(ALIASES)
    }

    async fn run(&self, _: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let Args { path, text, edits } = args;
        let olds: Vec<_> = edits.unwrap_or_default().into_iter().map(|edit| edit.old).collect();
        self.0.lock().unwrap().push(format!("{path} {} {olds:?}", text.unwrap_or_default()));
        ready("noted")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_and_handlers_see_canonical_names_only() {
    bounded(async {
        let note = Note::default();
        let hub = Hub::with([Tool::typed(note.clone())]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let given = json!({ "file_path": "a", "content": SECRET, "edits": [{ "old_string": "x" }] });
        let through = json!({ "tool": "note", "args": given });
        for (tool, arguments) in [("note", given.clone()), ("tool_call", through)] {
            let reply = hub.dispatcher.call(agent.clone(), call(tool, arguments)).await;
            assert!(reply.result.is_ok(), "{:?}", reply.result);
            let audited = hub.audited(reply.call_id).await.unwrap();
            let expected =
                json!({ "path": "a", "text": { "not_recorded": SECRET.len() }, "edits": [{ "old": "x" }] });
            assert_eq!(audited.arguments, expected, "{tool}");
            let events = serde_json::to_string(&hub.events(reply.session_id.unwrap()).await).unwrap();
            assert!(events.contains(r#""path":"a""#) && !events.contains("file_path"), "{events}");
            assert!(!events.contains(SECRET), "{events}");
        }
        assert_eq!(*note.0.lock().unwrap(), vec![format!("a {SECRET} [\"x\"]"); 2]);
        // No list contains the aliases, so they cost no tokens.
        let listed = hub.ok(&agent, "list_tools", json!({ "schemas": true })).await;
        assert!(!listed.structured().unwrap().to_string().contains("file_path"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotency_key_stands_for_the_canonical_arguments() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let add = |name: &str| keyed("todo", json!({ "action": "add", name: "milk" }), "k");
        let first = hub.dispatcher.call(agent.clone(), add("text")).await;
        let again = hub.dispatcher.call(agent.clone(), add("content")).await;
        assert_eq!((first.replayed, again.replayed), (false, true), "{:?}", again.result);
        assert_eq!(first.result.unwrap(), again.result.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn argument_under_two_names_is_refused_and_its_content_is_not_recorded() {
    bounded(async {
        let note = Note::default();
        let hub = Hub::with([Tool::typed(note.clone())]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let both = json!({ "path": "a", "text": "b", "content": SECRET });
        let reply = hub.dispatcher.call(agent.clone(), call("note", both)).await;
        let error = reply.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert_eq!(error.details["problems"][0]["path"], "/content", "{}", error.message);
        assert!(error.message.contains("is an alias of \"text\""), "{}", error.message);
        assert!(note.0.lock().unwrap().is_empty());
        let audited = hub.audited(reply.call_id).await.unwrap();
        assert!(!audited.arguments.to_string().contains(SECRET), "{}", audited.arguments);
        let twice = json!({ "file_path": "a", "filename": "a" });
        assert!(hub.err(&agent, "note", twice).await.message.contains("give only one"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misspelt_argument_is_answered_with_the_name_it_is_near() {
    bounded(async {
        let hub = Hub::with([Tool::typed(Note::default())]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for (arguments, path, nearest_name) in [
            (json!({ "path": "a", "contnt": "b" }), "/contnt", "content"),
            (json!({ "file_pth": "a", "path": "b" }), "/file_pth", "file_path"),
            (json!({ "path": "a", "txt": "b" }), "/txt", "text"),
            (
                json!({ "path": "a", "edits": [{ "old": "a", "old_strin": "b" }] }),
                "/edits/0/old_strin",
                "old_string",
            ),
        ] {
            let error = hub.err(&agent, "note", arguments).await;
            let expected = format!("- {path}: unknown field; did you mean {nearest_name:?}?");
            assert!(error.message.contains(&expected), "{}", error.message);
            let known_fields =
                error.details["problems"][0]["expected"].as_array().cloned().unwrap_or_default();
            assert!(
                !known_fields.contains(&Value::from(nearest_name)) || nearest_name == "text",
                "{known_fields:?}"
            );
        }
    })
    .await;
}
