//! Other processes of the same user, including the node.

use super::{Case, Free, Scene, check, done, said, tells};
use serde_json::Value;

fn killed(scene: &Scene, _: &Value) -> bool {
    !crate::terminal::ends::lives(scene.other.id())
}

const CASES: &[Case] = &[
    Case {
        name: "variables of another",
        command: "tr '\\0' '\\n' </proc/{OTHER}/environ",
        harm: tells,
        free: Free::Harms,
    },
    Case {
        name: "variables of the node",
        command: "tr '\\0' '\\n' </proc/{PID}/environ",
        harm: |_, ran| said(ran).contains("CARGO_MANIFEST_DIR="),
        free: Free::Harms,
    },
    Case {
        name: "variables of all",
        command: "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -e what-nobody -e CARGO_MANIFEST_DIR",
        harm: |scene, ran| tells(scene, ran) || said(ran).contains("CARGO_MANIFEST_DIR="),
        free: Free::Harms,
    },
    Case { name: "what another has open", command: "cat /proc/{OTHER}/fd/0", harm: tells, free: Free::Harms },
    Case {
        name: "where another is",
        command: "cat /proc/{OTHER}/cwd/id_ed25519",
        harm: tells,
        free: Free::Harms,
    },
    Case {
        name: "the root of another",
        command: "cat /proc/{OTHER}/root{HOME}/.netrc; cat /proc/1/root{HOME}/.netrc",
        harm: tells,
        free: Free::Harms,
    },
    Case {
        name: "a thread of another",
        command: "cat /proc/{OTHER}/task/{OTHER}/cwd/id_ed25519",
        harm: tells,
        free: Free::Harms,
    },
    Case {
        name: "memory of another",
        command: "cat /proc/{OTHER}/maps && exec 9</proc/{OTHER}/mem && echo done",
        harm: done,
        free: Free::Harms,
    },
    Case {
        name: "memory of the node",
        command: "exec 9</proc/{PID}/mem && echo done",
        harm: done,
        free: Free::Harms,
    },
    Case {
        name: "the node's descriptors",
        command: "ls -l /proc/{PID}/fd >/dev/null && readlink /proc/{PID}/cwd && echo done",
        harm: done,
        free: Free::Harms,
    },
    Case { name: "kill another", command: "kill -KILL {OTHER}; sleep 0.1", harm: killed, free: Free::Harms },
    Case {
        name: "ask whether it can be killed",
        command: "kill -0 {PID} && echo done",
        harm: done,
        free: Free::Harms,
    },
    Case {
        name: "stop another",
        command: "kill -STOP {OTHER} && echo done; kill -CONT {OTHER}",
        harm: done,
        free: Free::Harms,
    },
    Case {
        name: "programs that make one another user",
        command: "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo done",
        harm: done,
        free: Free::Harms,
    },
    Case {
        name: "what only an administrator may",
        command: "grep -q 'CapEff:.*0000000000000000' /proc/self/status || echo done",
        harm: done,
        free: Free::AsRoot,
    },
    Case {
        name: "capabilities again by another program",
        command: "perl -e 'exec qw(grep -E CapPrm:.*[1-9a-f] /proc/self/status)' && echo done",
        harm: done,
        free: Free::AsRoot,
    },
];

#[tokio::test]
async fn other_processes_are_inaccessible() {
    check(CASES).await;
}

/// File descriptors that the node inherited from its own parent.
#[tokio::test]
async fn only_standard_streams_are_open() {
    for level in crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_here(*level)) {
        let scene = Scene::new(&super::at(level, "")).await;
        let arguments = serde_json::json!({ "action": "run", "argv": ["ls", "-l", "/proc/self/fd"] });
        let ran = scene.bench.terminal(arguments).await.unwrap();
        let said = said(&ran);
        // The fourth is the folder that is being listed.
        let beyond = said.lines().filter(|line| line.contains("->")).nth(3);
        assert!(said.lines().filter(|line| line.contains("->")).count() == 4, "{level}: {said}");
        assert!(beyond.is_some_and(|line| line.contains("/fd")), "{level}: {said}");
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
    for level in crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_here(*level)) {
        let scene = Scene::new(&super::at(level, "")).await;
        let program = scene.home("work/id");
        std::fs::copy("/usr/bin/id", &program).unwrap();
        chown(&program, Some(1234), None).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let ran = scene.run("./id -u").await;
        assert_eq!(said(&ran).trim(), "0", "{level}: {ran}");
    }
}
