//! Tools that are programs of the user: real ones, through the dispatcher.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_kit::Environment;
use plexus_proto::ErrorCode;
use plexus_proto::api::{DefinedToolState, EnabledBy, ToolTrial};
use plexus_tools::Via;
use plexus_tools::custom::{self, CustomError, CustomOptions, CustomTools};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hub::{Hub, bounded, call, keyed};

/// A script that returns its arguments.
const ECHO: &str = "read -r arguments; printf '{\"got\": %s}' \"$arguments\"";

struct Folder {
    hub: Hub,
    tools: CustomTools,
}

impl Folder {
    /// A hub with an empty folder of tools, of which the configuration switches these on.
    async fn with(configured: &[&str]) -> Self {
        let hub = Hub::start().await;
        let dir = hub.dir.path().join("tools.d");
        std::fs::create_dir(&dir).unwrap();
        mode(&dir, 0o700);
        let tools = open(&hub, configured);
        tools.offer_tests(&hub.dispatcher);
        Self { hub, tools }
    }

    /// A tool in a folder of its own: a script for `sh`, and what its manifest says besides.
    fn tool(&self, name: &str, script: &str, manifest: Value) -> PathBuf {
        let dir = self.tools.dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let program = dir.join("run.sh");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut complete_manifest = json!({
            "description": "Does what a test wrote down.",
            "command": "run.sh",
            "input_schema": { "type": "object", "properties": { "n": { "type": "integer" } }, "additionalProperties": false },
        });
        complete_manifest.as_object_mut().unwrap().extend(manifest.as_object().unwrap().clone());
        std::fs::write(dir.join("tool.json"), complete_manifest.to_string()).unwrap();
        for (path, bits) in [(&dir, 0o700), (&program, 0o700), (&dir.join("tool.json"), 0o600)] {
            mode(path, bits);
        }
        self.tools.reload();
        dir
    }

    async fn call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<plexus_tools::ToolOutput, plexus_tools::CallError> {
        self.hub.call(&self.hub.admin(), tool, arguments).await.result
    }
}

fn open(hub: &Hub, configured: &[&str]) -> CustomTools {
    let options = CustomOptions {
        dir: hub.dir.path().join("tools.d"),
        state: hub.dir.path().join("tools-enabled.json"),
        environment: Environment::from_iter([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("HUB_SECRET".to_owned(), "of-the-hub".to_owned()),
        ]),
        configured: configured.iter().map(|name| (*name).to_owned()).collect(),
    };
    CustomTools::open(options, hub.dispatcher.registry().clone())
}

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_is_registered_only_while_enabled() {
    bounded(async {
        let folder = Folder::with(&["listed"]).await;
        folder.tool("listed", ECHO, json!({}));
        folder.tool("echo", ECHO, json!({}));
        let off = folder.call("echo", json!({ "n": 1 })).await.unwrap_err();
        assert_eq!(off.message, "Unknown tool: echo", "a file alone is not enough");
        assert!(off.hint.unwrap().contains("`plexus tools enable echo` switches it on"));
        assert_eq!(folder.call("listed", json!({})).await.unwrap().text(), "{\"got\": {}}");
        assert_eq!(folder.tools.enable("echo").unwrap().enabled_by, Some(EnabledBy::Command));
        let reply = folder.hub.call(&folder.hub.admin(), "echo", json!({ "n": 1 })).await;
        assert_eq!(reply.result.unwrap().structured().unwrap().as_ref(), &json!({ "got": { "n": 1 } }));
        let audited = folder.hub.audited(reply.call_id).await.unwrap();
        assert_eq!(audited.tool, "echo");
        // As any tool: scopes, and arguments that are checked before anything runs.
        let narrow = folder.hub.agent("ann", &["call:todo"]).await;
        let unknown = folder.hub.err(&narrow, "echo", json!({})).await;
        assert_eq!(unknown.message, "Unknown tool: echo");
        assert!(!unknown.hint.unwrap().contains("user-defined"));
        let wrong = folder.call("echo", json!({ "n": "one" })).await.unwrap_err();
        assert_eq!(wrong.code, ErrorCode::InvalidArguments);
        // Over a restart, and until it is switched off.
        let again = open(&folder.hub, &[]);
        assert_eq!(again.get("echo").unwrap().state, DefinedToolState::Enabled);
        assert_eq!(again.get("listed").unwrap().state, DefinedToolState::Disabled);
        again.disable("echo").unwrap();
        assert_eq!(folder.call("echo", json!({})).await.unwrap_err().code, ErrorCode::UnknownTool);
        assert!(matches!(folder.tools.disable("listed"), Err(CustomError::Configured(_))));
        assert!(matches!(folder.tools.enable("nothing"), Err(CustomError::Unknown(_))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_manifest_disables_only_its_own_tool() {
    bounded(async {
        let folder = Folder::with(&["one", "two", "todo"]).await;
        folder.tool("one", ECHO, json!({}));
        let two = folder.tool("two", ECHO, json!({}));
        let version = *folder.hub.dispatcher.registry().versions().borrow();
        folder.tools.reload();
        let registry = folder.hub.dispatcher.registry();
        assert_eq!(*registry.versions().borrow(), version, "nothing has changed");
        let wrong = json!({ "descripton": "x", "command": "no.sh", "timeout": "soon", "input_schema": { "type": "strin" } });
        std::fs::write(two.join("tool.json"), wrong.to_string()).unwrap();
        // Not at the first look, which may see half of it.
        folder.tools.check_for_changes();
        folder.call("two", json!({})).await.unwrap();
        folder.tools.check_for_changes();
        let broken = folder.call("two", json!({})).await.unwrap_err();
        assert_eq!(broken.code, ErrorCode::UnknownTool);
        let hint = broken.hint.unwrap();
        assert!(hint.contains("It is a user-defined tool that is wrong: ") && hint.contains("no.sh"), "{hint}");
        let other = folder.hub.agent("bob", &["call:*"]).await;
        let hint = folder.hub.err(&other, "two", json!({})).await.hint.unwrap();
        assert!(!hint.contains("user-defined"), "for others it is not there: {hint}");
        assert_eq!(folder.tools.get("two").unwrap().enabled_by, Some(EnabledBy::Configuration));
        folder.call("one", json!({})).await.unwrap();
        let text = folder.tools.get("two").unwrap().problems.join("\n");
        let file = two.join("tool.json").display().to_string();
        for part in [
            "`descripton` is not a known key; did you mean `description`?",
            "`description` is missing; say what the tool does",
            "no.sh, which is not there; put it there",
            "`timeout` is not a time; write a text such as",
            "`input_schema` is not of type object",
            file.as_str(),
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // A name that is taken is not given away, whatever the configuration says.
        folder.tool("todo", ECHO, json!({}));
        let todo = folder.tools.get("todo").unwrap();
        assert_eq!(todo.state, DefinedToolState::Invalid);
        assert!(todo.problems[0].contains("has the name of a tool of the hub; rename it"), "{todo:?}");
        folder.call("todo", json!({ "action": "list" })).await.unwrap();
        // Nor is it tried out, which would stand in the records as a call of the other.
        let before = folder.hub.all_audited().await.len();
        let refused = try_out(&folder, "todo", json!({})).await.unwrap_err();
        assert!(refused.to_string().contains("has the name of a tool of the hub"), "{refused}");
        assert_eq!(folder.hub.all_audited().await.len(), before);
        // And neither is one that models would take for another's.
        folder.tool("mcp__github__x", ECHO, json!({}));
        assert_eq!(folder.tools.get("mcp__github__x").unwrap().state, DefinedToolState::Invalid);
    })
    .await;
}

async fn try_out(folder: &Folder, name: &str, arguments: Value) -> Result<ToolTrial, CustomError> {
    let (admin, cancel) = (folder.hub.admin(), CancellationToken::new());
    custom::try_out(&folder.tools, &folder.hub.dispatcher, admin, name, arguments, Via::Rest, cancel).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trial_says_each_thing_once_and_what_was_not_started_did_not_run() {
    bounded(async {
        let folder = Folder::with(&[]).await;
        folder.tool("fail", "echo because >&2; exit 3", json!({}));
        let failed = try_out(&folder, "fail", json!({})).await.unwrap();
        assert_eq!(
            (failed.ran, failed.exit_code, failed.stderr.join("")),
            (true, Some(3), "because".to_owned())
        );
        assert_eq!(failed.error.unwrap(), "fail failed (exit status: 3)");
        let bare = folder.tool("bare", ECHO, json!({}));
        std::fs::write(bare.join("run.sh"), "#!/no/such/interpreter\n").unwrap();
        let bare = try_out(&folder, "bare", json!({})).await.unwrap();
        assert_eq!((bare.ran, bare.success, bare.exit), (false, false, None));
        assert!(bare.error.unwrap().starts_with("bare cannot be started: "));
        folder.tool(
            "silent",
            "true",
            json!({ "input_schema": { "type": "object", "properties": {}, "additionalProperties": false } }),
        );
        let silent = try_out(&folder, "silent", json!({})).await.unwrap().error.unwrap();
        assert!(silent.starts_with("silent wrote nothing to its standard output"), "{silent}");
        let problems = try_out(&folder, "silent", json!({ "n": 1 })).await.unwrap().problems;
        assert_eq!(problems[0].message, "unknown field; no fields are allowed here");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_tool_is_disabled_for_later_tools_of_its_name() {
    bounded(async {
        let folder = Folder::with(&["listed"]).await;
        for name in ["echo", "stays", "listed"] {
            folder.tool(name, ECHO, json!({}));
        }
        for name in ["echo", "stays"] {
            folder.tools.enable(name).unwrap();
        }
        let dir = folder.tools.dir().to_owned();
        let look_twice = || (0..2).for_each(|_| folder.tools.check_for_changes());
        look_twice();
        // A manifest that is being replaced is missing for a moment.
        std::fs::rename(dir.join("echo/tool.json"), dir.join("echo/tool.json~")).unwrap();
        folder.tools.reload();
        folder.tools.check_for_changes();
        std::fs::rename(dir.join("echo/tool.json~"), dir.join("echo/tool.json")).unwrap();
        look_twice();
        folder.call("echo", json!({})).await.unwrap();
        // One that is gone is not replaced by whatever comes.
        for name in ["echo", "listed"] {
            std::fs::remove_dir_all(dir.join(name)).unwrap();
        }
        look_twice();
        folder.tool("echo", "printf '{\"another\": 1}'", json!({}));
        folder.tool("listed", ECHO, json!({}));
        let echo = folder.tools.get("echo").unwrap();
        assert_eq!((echo.state, echo.enabled_by), (DefinedToolState::Disabled, None));
        assert_eq!(folder.call("echo", json!({})).await.unwrap_err().code, ErrorCode::UnknownTool);
        for name in ["stays", "listed"] {
            folder.call(name, json!({})).await.unwrap();
        }
        // Also after a restart.
        let again = open(&folder.hub, &[]);
        let states = ["echo", "stays"].map(|name| again.get(name).unwrap().state);
        assert_eq!(states, [DefinedToolState::Disabled, DefinedToolState::Enabled]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_writable_by_others_is_not_run() {
    bounded(async {
        let folder = Folder::with(&["echo"]).await;
        let dir = folder.tool("echo", ECHO, json!({}));
        folder.call("echo", json!({})).await.unwrap();
        for path in [dir.join("run.sh"), dir.join("tool.json"), dir.clone()] {
            let before = std::fs::metadata(&path).unwrap().permissions().mode();
            mode(&path, before | 0o022);
            // Also before anyone has looked again.
            let refused = folder.call("echo", json!({})).await.unwrap_err();
            assert!(refused.message.contains("which others may write to"), "{path:?}: {refused:?}");
            folder.tools.reload();
            let listed = folder.tools.get("echo").unwrap();
            assert_eq!(listed.state, DefinedToolState::Invalid, "{path:?}");
            assert!(listed.problems.join("").contains("chmod go-w"), "{listed:?}");
            mode(&path, before & 0o777);
            // Nothing but a mode has changed, and that is seen too.
            folder.tools.check_for_changes();
            folder.tools.check_for_changes();
            folder.call("echo", json!({})).await.unwrap();
        }
        mode(folder.tools.dir(), 0o777);
        folder.tools.reload();
        assert_eq!(folder.call("echo", json!({})).await.unwrap_err().code, ErrorCode::UnknownTool);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_gets_a_minimal_environment_and_stderr_is_redacted() {
    bounded(async {
        let folder = Folder::with(&["vars", "fail", "odd", "late", "flood", "wrong", "text"]).await;
        folder.tool(
            "vars",
            "printf '{\"hub\": \"%s\", \"mine\": \"%s\", \"at\": \"%s\"}' \"$HUB_SECRET\" \"$MINE\" \"$(basename \"$PWD\")\"",
            json!({ "env": { "MINE": "${env:HUB_SECRET}!" } }),
        );
        let output = folder.call("vars", json!({})).await.unwrap();
        assert_eq!(
            output.structured().unwrap().as_ref(),
            &json!({ "hub": "", "mine": "of-the-hub!", "at": "vars" })
        );
        folder.tool("fail", "echo first >&2; echo \"no $MINE for you\" >&2; exit 3", json!({ "env": { "MINE": "swordfish9" } }));
        let failed = folder.call("fail", json!({})).await.unwrap_err();
        assert_eq!(failed.code, ErrorCode::ToolFailed);
        assert_eq!(failed.message, "fail failed (exit status: 3):\nfirst\nno [redacted] for you");
        assert_eq!(failed.details["exit_code"], 3);
        folder.tool("odd", "echo hello", json!({}));
        let odd = folder.call("odd", json!({})).await.unwrap_err();
        assert!(odd.message.starts_with("odd wrote what is not JSON"), "{odd:?}");
        assert!(odd.hint.unwrap().contains("\"output\": \"text\""));
        folder.tool("text", "echo hello", json!({ "output": "text" }));
        assert_eq!(folder.call("text", json!({})).await.unwrap().text(), "hello");
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        folder.tool("wrong", "printf '{\"n\": \"x\"}'", json!({ "output_schema": schema }));
        let wrong = folder.call("wrong", json!({})).await.unwrap_err();
        assert!(wrong.message.contains("its output_schema does not allow:\n- /n: "), "{wrong:?}");
        folder.tool("flood", "yes", json!({ "output_bytes": 100_000 }));
        assert_eq!(folder.call("flood", json!({})).await.unwrap_err().code, ErrorCode::TooLarge);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout_and_cancellation_kill_the_process_group() {
    bounded(async {
        let folder = Folder::with(&["late", "slow"]).await;
        let script = "sleep 1000 & echo $! > pid; echo waiting >&2; sleep 1000";
        let late = folder.tool("late", script, json!({ "timeout": "500ms" }));
        let ended = folder.call("late", json!({})).await.unwrap_err();
        assert_eq!(ended.code, ErrorCode::DeadlineExceeded);
        assert!(ended.message.ends_with("and was killed:\nwaiting"), "{ended:?}");
        process_has_ended(&late.join("pid")).await;
        let slow = folder.tool("slow", script, json!({ "timeout": "60s" }));
        let call_request = call("slow", json!({}));
        let cancel = call_request.cancel.clone();
        let (reply, ()) = tokio::join!(folder.hub.dispatcher.call(folder.hub.admin(), call_request), async {
            while std::fs::read_to_string(slow.join("pid")).unwrap_or_default().trim().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            cancel.cancel();
        });
        assert_eq!(reply.result.unwrap_err().code, ErrorCode::Cancelled);
        process_has_ended(&slow.join("pid")).await;
    })
    .await;
}

/// Returns when the process whose number is in a file has ended.
async fn process_has_ended(file: &Path) {
    let pid = std::fs::read_to_string(file).unwrap();
    let state = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    // One that nobody has waited for yet has ended too.
    let runs = || std::fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z "));
    while runs() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_stores_the_outcome_of_a_program() {
    bounded(async {
        let folder = Folder::with(&["count", "alone"]).await;
        let dir = folder.tool("count", "echo x >> calls; printf 1; exit 1", json!({}));
        for _ in 0..2 {
            let reply = folder.hub.dispatcher.call(folder.hub.admin(), keyed("count", json!({}), "k")).await;
            assert_eq!(reply.result.unwrap_err().code, ErrorCode::ToolFailed);
        }
        let calls = std::fs::read_to_string(dir.join("calls")).unwrap();
        assert_eq!(calls, "x\n", "what failed may have done its work, and is not done again");
        // `mkdir` fails where another has it.
        let script = "mkdir lock || exit 9; sleep 0.05; rmdir lock; printf '{}'";
        folder.tool("alone", script, json!({ "concurrency": 1, "timeout": "30s" }));
        let calls = (0..6).map(|_| folder.call("alone", json!({})));
        for result in futures_util::future::join_all(calls).await {
            result.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_tool_tells_all_of_a_call_and_of_no_tool_that_the_caller_does_not_see() {
    bounded(async {
        let folder = Folder::with(&["echo"]).await;
        folder.tool("echo", &format!("echo noted >&2; {ECHO}"), json!({}));
        folder.tool("off", ECHO, json!({}));
        let agent = folder.hub.agent("ann", &["call:*"]).await;
        assert!(folder.hub.dispatcher.registry().visible_to(&agent).resolve("test_tool").is_ok());
        folder.tools.configure(Vec::new());
        let nothing = folder.hub.err(&agent, "test_tool", json!({ "tool": "echo" })).await;
        assert_eq!(nothing.message, "Unknown tool: test_tool", "there is nothing to try out");
        folder.tools.configure(vec!["echo".to_owned()]);
        let text =
            folder.hub.ok(&agent, "test_tool", json!({ "tool": "echo", "arguments": { "n": 2 } })).await;
        let text = text.structured().unwrap().into_owned();
        assert_eq!((&text["success"], &text["exit_code"]), (&json!(true), &json!(0)), "{text}");
        assert_eq!(
            (&text["structured"], &text["stderr"]),
            (&json!({ "got": { "n": 2 } }), &json!(["noted"]))
        );
        // It is a call of the tool, and recorded as one.
        let calls = folder.hub.all_audited().await;
        assert!(calls.iter().any(|one| one.tool == "echo" && one.actor == "agent:ann"), "{calls:?}");
        let text =
            folder.hub.ok(&agent, "test_tool", json!({ "tool": "echo", "arguments": { "n": "x" } })).await;
        let text = text.structured().unwrap().into_owned();
        assert_eq!((&text["success"], &text["ran"]), (&json!(false), &json!(false)));
        assert_eq!(text["problems"][0]["path"], "/n", "{text}");
        for tool in ["off", "nothing"] {
            let unknown = folder.hub.err(&agent, "test_tool", json!({ "tool": tool })).await;
            assert_eq!(unknown.message, format!("Unknown tool: {tool}"));
        }
        let native = folder.hub.err(&agent, "test_tool", json!({ "tool": "todo" })).await;
        assert!(native.message.contains("not a user-defined tool"), "{native:?}");
        let narrow = folder.hub.agent("bob", &["call:test_tool"]).await;
        assert_eq!(
            folder.hub.err(&narrow, "test_tool", json!({ "tool": "echo" })).await.message,
            "Unknown tool: echo"
        );
    })
    .await;
}

#[test]
fn the_committed_document_of_tools_is_that_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/tool.schema.json");
    let schema = custom::schema_file();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &schema).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), schema, "stale: run `make generated`");
}
