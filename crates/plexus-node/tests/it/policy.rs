//! The machine's policy as seen by the hub: disabled tools are neither offered nor run, and the sandbox is reported.

use std::path::{Path, PathBuf};

use plexus_kit::Environment;
use plexus_node::NodeOptions;
use plexus_proto::node::Frame;
use plexus_proto::{ErrorCode, NodeId};
use serde_json::json;

use super::scripted_hub::{TestNode, failure, within};

/// A program that succeeds whatever it is asked for, so every sandbox seems to work. Real ones are tested in
/// `plexus-machine`, and the level that a node reports in `plexus`.
const LAUNCHER: &str = "/bin/true";

async fn start(folder: &Path, policy: &str) -> TestNode {
    std::fs::write(folder.join("node.toml"), policy).unwrap();
    let variables = [("PATH", "/usr/bin:/bin"), ("HOME", "/var/tmp")];
    let environment: Environment =
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let options = NodeOptions {
        launcher: Some(PathBuf::from(LAUNCHER)),
        ..NodeOptions::new(NodeId::new(), folder.to_owned(), environment)
    };
    TestNode::start(options).await
}

#[tokio::test]
async fn disabled_tool_is_neither_offered_nor_run() {
    for is_off in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let tools = if is_off { "[tools]\noff = ['terminal']\n" } else { "" };
        let test_node = start(folder.path(), &format!("[sandbox]\nlevel = 'none'\n{tools}")).await;
        let (mut hub, hello) = test_node.link(&[]).await;
        assert_eq!(hello.tools.iter().any(|tool| tool.name == "terminal"), !is_off, "{:?}", hello.tools);
        // The control: the same command runs while the tool is on.
        let marker = std::env::temp_dir().join(format!("plexus-policy-{}", NodeId::new()));
        let command = format!("touch {}", marker.display());
        let id = hub.call("terminal", json!({ "action": "run", "command": command })).await;
        let result = hub.result(id).await;
        let ran = std::fs::remove_file(&marker).is_ok();
        assert_eq!(ran, !is_off, "{result:?}");
        if is_off {
            let refused = failure(result);
            assert_eq!(refused.code, ErrorCode::Forbidden, "{refused:?}");
            assert!(refused.nothing_ran, "{refused:?}");
        }
    }
}

#[tokio::test]
async fn hub_is_informed_of_the_sandbox_and_its_changes() {
    let folder = tempfile::tempdir().unwrap();
    let test_node = start(folder.path(), "[sandbox]\nlevel = 'landlock'\n").await;
    let (mut hub, hello) = test_node.link(&[]).await;
    assert_eq!(hello.sandbox.as_deref(), Some("landlock"));
    std::fs::write(folder.path().join("node.toml"), "[sandbox]\nlevel = 'none'\n").unwrap();
    let hello = within("an updated hello", async {
        loop {
            if let Frame::Hello(hello) = hub.next_frame().await {
                return hello;
            }
        }
    })
    .await;
    assert_eq!(hello.sandbox.as_deref(), Some("none"));
}
