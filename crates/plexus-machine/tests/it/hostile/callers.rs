//! The caller and the form of a call do not affect the restrictions.

use plexus_machine::launch::SandboxLevel;
use plexus_proto::ErrorCode;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{SECRET, Scene, output_text, policy_with_level};
use crate::sandbox::{LEVELS, is_available};

/// A hub may make any statement about the caller.
#[tokio::test]
async fn restrictions_do_not_depend_on_the_caller() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let scene = Scene::new(&policy_with_level(level, "[commands]\ndeny = ['printenv']\n")).await;
        for subject in ["admin:admin", "admin:root", "user:owner", "node:self", "agent:admin"] {
            let arguments =
                |command: &str| json!({ "action": "run", "command": scene.fill_placeholders(command) });
            let call = |command| {
                scene.bench.call_as(subject, "terminal", arguments(command), CancellationToken::new(), None)
            };
            let output = call("cat {HOME}/.ssh/id_ed25519; cat {NODE}/node.key").await.unwrap();
            let ran = output.structured().unwrap().into_owned();
            assert!(
                !output_text(&ran).contains(SECRET) && ran["exit_code"] != 0,
                "{level}: {subject}: {ran}"
            );
            let refused = call("printenv").await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::Forbidden, "{level}: {subject}: {refused:?}");
        }
    }
}

/// With an allowlist of commands, all other commands are refused before they run, with or without a sandbox.
#[tokio::test]
async fn command_allowlist_cannot_be_bypassed() {
    let lines = [
        "echo a; touch {HOME}/work/ran",
        "echo a && touch {HOME}/work/ran",
        "echo a || touch {HOME}/work/ran",
        "echo a | tee {HOME}/work/ran",
        "echo a & touch {HOME}/work/ran",
        "echo a\ntouch {HOME}/work/ran",
        "echo $(touch {HOME}/work/ran)",
        "echo `touch {HOME}/work/ran`",
        "echo a > {HOME}/work/ran",
        "echo a >> {HOME}/work/ran",
        "echo <(touch {HOME}/work/ran)",
        "X=1 touch {HOME}/work/ran",
        "e\\cho a; t\\ouch {HOME}/work/ran",
        "echo() { touch {HOME}/work/ran; }; echo",
        "/bin/../usr/bin/touch {HOME}/work/ran",
        "{ touch {HOME}/work/ran; }",
        "(touch {HOME}/work/ran)",
        "if true; then touch {HOME}/work/ran; fi",
        "exec touch {HOME}/work/ran",
        "eval 'touch {HOME}/work/ran'",
    ];
    let levels =
        [SandboxLevel::None].into_iter().chain(LEVELS.into_iter().filter(|level| is_available(*level)));
    for level in levels {
        let scene = Scene::new(&policy_with_level(level, "[commands]\nallow = ['echo', 'git log']\n")).await;
        let allowed = scene.run("echo one; echo 'two three'").await;
        assert_eq!(output_text(&allowed), "one\ntwo three\n", "{level}");
        for line in lines {
            let arguments = json!({ "action": "run", "command": scene.fill_placeholders(line) });
            let refused = scene.bench.terminal(arguments).await;
            assert_eq!(
                refused.as_ref().map_err(|error| error.code),
                Err(ErrorCode::Forbidden),
                "{level}: {line}: {refused:?}"
            );
        }
        let target = scene.fill_placeholders("{HOME}/work/ran");
        for argv in [vec!["touch", &target], vec!["git", "push"], vec!["/tmp/echo", "a"], vec!["env", "echo"]]
        {
            let refused = scene.bench.terminal(json!({ "action": "run", "argv": argv })).await;
            assert_eq!(
                refused.as_ref().map_err(|error| error.code),
                Err(ErrorCode::Forbidden),
                "{level}: {argv:?}: {refused:?}"
            );
        }
        let refused = scene
            .bench
            .terminal(json!({ "action": "run", "command": "echo a", "env": { "PATH": "/tmp" } }))
            .await;
        assert_eq!(refused.map_err(|error| error.code), Err(ErrorCode::Forbidden), "{level}");
        assert!(!scene.home("work/ran").exists(), "{level}");
    }
}
