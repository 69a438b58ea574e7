//! Variables and arguments that target the launcher instead of the command.

use plexus_machine::launch::SandboxLevel;
use serde_json::json;

use super::{SECRET, Scene, output_text, policy_with_level};
use crate::sandbox::{LEVELS, is_available};

/// The dynamic loader writes such a file for every program that starts with these variables. A sandboxed command
/// cannot create files directly in `~`, so its creator ran outside of the sandbox.
async fn leaks(level: SandboxLevel, env: serde_json::Value) -> (Vec<String>, serde_json::Value) {
    let scene = Scene::new(&policy_with_level(level, "")).await;
    let fill_placeholders: serde_json::Value =
        serde_json::from_str(&scene.fill_placeholders(&env.to_string())).unwrap();
    let script = scene.fill_placeholders("echo out > {HOME}/leak.script\n");
    std::fs::write(scene.home("work/script"), script).unwrap();
    for name in ["bwrap", "sh", "true"] {
        let path = scene.home("work").join(name);
        std::fs::write(
            &path,
            scene.fill_placeholders("#!/bin/sh\necho out > {HOME}/leak.program\nexec /bin/sh -c :\n"),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let arguments =
        json!({ "action": "run", "argv": ["/bin/cat", "/etc/hostname"], "env": fill_placeholders });
    let ran = scene.bench.terminal(arguments).await.unwrap();
    let left = std::fs::read_dir(scene.bench.home()).unwrap().flatten();
    let names = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    (names.filter(|name| name.starts_with("leak.")).collect(), ran)
}

#[tokio::test]
async fn caller_variables_do_not_affect_the_launcher() {
    let loader = json!({ "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": "{HOME}/leak" });
    let (free, _) = leaks(SandboxLevel::None, loader.clone()).await;
    assert!(!free.is_empty(), "the case proves nothing: without a sandbox, no file is created");
    let others = [
        loader,
        json!({ "PATH": "{HOME}/work:/usr/bin:/bin" }),
        json!({ "ENV": "{HOME}/work/script", "BASH_ENV": "{HOME}/work/script", "PS4": "$(echo > {HOME}/leak.ps4)" }),
        json!({ "PLEXUS_LAUNCH_0": "LD_DEBUG=libs", "PLEXUS_LAUNCH_1": "LD_DEBUG_OUTPUT={HOME}/leak" }),
        json!({ "SHELLOPTS": "xtrace", "PS4": "$(echo > {HOME}/leak.ps4)", "IFS": "/" }),
    ];
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        for env in &others {
            let (left, ran) = leaks(level, env.clone()).await;
            assert!(left.is_empty(), "{level}: {env}: {left:?}");
            assert_eq!(ran["exit_code"], 0, "{level}: {env}: {ran}");
        }
    }
}

/// Words that a launcher could interpret as its own, as a program, an argument or a folder.
#[tokio::test]
async fn arguments_are_passed_only_to_the_command() {
    let spec = r#"{"sandbox":null}"#;
    let cases: &[&[&str]] = &[
        &["--bind", "/", "/", "cat", "{HOME}/.ssh/id_ed25519"],
        &["--", "cat", "{HOME}/.ssh/id_ed25519"],
        &["--args", "9", "cat", "{HOME}/.ssh/id_ed25519"],
        &["-c", "cat {HOME}/.ssh/id_ed25519"],
        &["env", "--", "cat", "{HOME}/.ssh/id_ed25519"],
        &["{LAUNCHER}", "__launch", spec, "cat", "{HOME}/.ssh/id_ed25519"],
        &["{LAUNCHER}", "__launch", "{}", "cat", "{HOME}/.ssh/id_ed25519"],
    ];
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let scene = Scene::new(&policy_with_level(level, "")).await;
        std::fs::create_dir(scene.home("work/--bind")).unwrap();
        for case in cases {
            let launcher = env!("CARGO_BIN_EXE_plexus-launcher");
            let argv: Vec<String> = case
                .iter()
                .map(|word| scene.fill_placeholders(word).replace("{LAUNCHER}", launcher))
                .collect();
            let arguments = json!({ "action": "run", "argv": argv, "cwd": "~/work/--bind" });
            let ran = scene.bench.terminal(arguments).await.unwrap();
            assert!(!output_text(&ran).contains(SECRET) && ran["exit_code"] != 0, "{level}: {case:?}: {ran}");
        }
    }
}
