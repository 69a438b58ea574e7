//! Other processes of the same user, including the node.

use super::{Case, Scene, WithoutSandbox, check, contains_secret, output_text, reports_success};
use serde_json::Value;

fn killed(scene: &Scene, _: &Value) -> bool {
    !crate::terminal::ends::is_process_alive(scene.other.id())
}

const CASES: &[Case] = &[
    Case {
        name: "variables of another",
        command: "tr '\\0' '\\n' </proc/{OTHER}/environ",
        harm: contains_secret,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "variables of the node",
        command: "tr '\\0' '\\n' </proc/{PID}/environ",
        harm: |_, ran| output_text(ran).contains("CARGO_MANIFEST_DIR="),
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "variables of all",
        command: "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -e what-nobody -e CARGO_MANIFEST_DIR",
        harm: |scene, ran| contains_secret(scene, ran) || output_text(ran).contains("CARGO_MANIFEST_DIR="),
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "what another has open",
        command: "cat /proc/{OTHER}/fd/0",
        harm: contains_secret,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "where another is",
        command: "cat /proc/{OTHER}/cwd/id_ed25519",
        harm: contains_secret,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "the root of another",
        command: "cat /proc/{OTHER}/root{HOME}/.netrc; cat /proc/1/root{HOME}/.netrc",
        harm: contains_secret,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "a thread of another",
        command: "cat /proc/{OTHER}/task/{OTHER}/cwd/id_ed25519",
        harm: contains_secret,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "memory of another",
        command: "cat /proc/{OTHER}/maps && exec 9</proc/{OTHER}/mem && echo done",
        harm: reports_success,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "memory of the node",
        command: "exec 9</proc/{PID}/mem && echo done",
        harm: reports_success,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "the node's descriptors",
        command: "ls -l /proc/{PID}/fd >/dev/null && readlink /proc/{PID}/cwd && echo done",
        harm: reports_success,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "kill another",
        command: "kill -KILL {OTHER}; sleep 0.1",
        harm: killed,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "ask whether it can be killed",
        command: "kill -0 {PID} && echo done",
        harm: reports_success,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "stop another",
        command: "kill -STOP {OTHER} && echo done; kill -CONT {OTHER}",
        harm: reports_success,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "programs that make one another user",
        command: "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo done",
        harm: reports_success,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "what only an administrator may",
        command: "grep -q 'CapEff:.*0000000000000000' /proc/self/status || echo done",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "capabilities again by another program",
        command: "perl -e 'exec qw(grep -E CapPrm:.*[1-9a-f] /proc/self/status)' && echo done",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
];

#[tokio::test]
async fn other_processes_are_inaccessible() {
    check(CASES).await;
}

/// File descriptors that the node inherited from its own parent.
#[tokio::test]
async fn only_standard_streams_are_open() {
    for level in crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_available(*level)) {
        let scene = Scene::new(&super::policy_with_level(level, "")).await;
        let arguments = serde_json::json!({ "action": "run", "argv": ["ls", "-l", "/proc/self/fd"] });
        let ran = scene.bench.terminal(arguments).await.unwrap();
        let output = output_text(&ran);
        // The fourth is the folder that is being listed.
        let beyond = output.lines().filter(|line| line.contains("->")).nth(3);
        assert!(output.lines().filter(|line| line.contains("->")).count() == 4, "{level}: {output}");
        assert!(beyond.is_some_and(|line| line.contains("/fd")), "{level}: {output}");
    }
}

/// A setuid program, such as `sudo`.
#[tokio::test]
#[allow(clippy::print_stderr, reason = "what is left out is named")]
async fn setuid_programs_have_no_effect() {
    if !super::is_root() {
        return eprintln!("left out: only root can make such a file");
    }
    use std::os::unix::fs::{PermissionsExt as _, chown};
    for level in crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_available(*level)) {
        let scene = Scene::new(&super::policy_with_level(level, "")).await;
        let program = scene.home("work/id");
        std::fs::copy("/usr/bin/id", &program).unwrap();
        chown(&program, Some(1234), None).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let ran = scene.run("./id -u").await;
        assert_eq!(output_text(&ran).trim(), "0", "{level}: {ran}");
    }
}
