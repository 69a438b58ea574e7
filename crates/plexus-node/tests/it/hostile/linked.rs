//! A whole node with a policy, and a hub at the other end of its link that asks for what it is told it cannot have.

use plexus_kit::{Environment, Supervisor};
use plexus_node::link::memory;
use plexus_node::{Node, NodeOptions};
use plexus_proto::node::Frame;
use plexus_proto::{ErrorCode, NodeId};
use serde_json::json;

use crate::sandbox::{LEVELS, is_here};
use crate::scripted::{Hub, failure};
use crate::workbench::{bounded, until};

async fn linked(folder: &std::path::Path, supervisor: &Supervisor) -> (Hub, plexus_proto::node::Hello) {
    let variables = [("PATH", "/usr/bin:/bin"), ("HOME", "/var/tmp")];
    let environment: Environment =
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let options = NodeOptions {
        launcher: Some(env!("CARGO_BIN_EXE_plexus-launcher").into()),
        ..NodeOptions::new(NodeId::new(), folder.to_owned(), environment)
    };
    let node = Node::open(options, supervisor).await.unwrap();
    let (ours, theirs) = memory::pair();
    supervisor.spawn(plexus_kit::Stage::Intake, "serving", async move {
        node.serve(theirs).await;
    });
    let mut hub = Hub { link: ours, served: None };
    let hello = hub.let_in(&[]).await;
    (hub, hello)
}

#[tokio::test]
async fn a_tool_that_is_off_is_not_offered_and_not_run_for_any_hub() {
    bounded(async {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::write(folder.path().join("node.toml"), "[tools]\noff = ['terminal']\n").unwrap();
        let supervisor = Supervisor::new();
        let (mut hub, hello) = linked(folder.path(), &supervisor).await;
        assert!(hello.tools.iter().all(|tool| tool.name != "terminal"), "{:?}", hello.tools);
        let marker = folder.path().join("ran");
        let command = format!("touch {}", marker.display());
        let id = hub.call("terminal", json!({ "action": "run", "command": command })).await;
        let refused = failure(hub.result(id).await);
        assert_eq!(refused.code, ErrorCode::Forbidden, "{refused:?}");
        assert!(refused.nothing_ran && !marker.exists(), "{refused:?}");
        supervisor.shutdown(std::time::Duration::from_secs(10)).await;
    })
    .await;
}

#[tokio::test]
async fn what_commands_are_held_by_is_said_and_said_again_when_it_changes() {
    let Some(level) = LEVELS.into_iter().find(|level| is_here(*level)) else { return };
    bounded(async {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = folder.path().join("node.toml");
        std::fs::write(&file, format!("[sandbox]\nlevel = '{level}'\n")).unwrap();
        let supervisor = Supervisor::new();
        let (mut hub, hello) = linked(folder.path(), &supervisor).await;
        assert_eq!(hello.sandbox, Some(level.to_string()));
        std::fs::write(&file, "[sandbox]\nlevel = 'none'\n").unwrap();
        let said = until(async || match hub.word().await {
            Frame::Hello(hello) => Some(hello),
            _ => None,
        })
        .await;
        assert_eq!(said.sandbox.as_deref(), Some("none"));
        supervisor.shutdown(std::time::Duration::from_secs(10)).await;
    })
    .await;
}
