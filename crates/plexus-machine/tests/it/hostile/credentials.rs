//! Reading denied files by every name that they have or can be given.

use super::{Case, Scene, WithoutSandbox, check, contains_secret, output_text};
use plexus_machine::launch::SandboxLevel;
use std::sync::atomic::{AtomicBool, Ordering};

const fn case(name: &'static str, command: &'static str) -> Case {
    Case { name, command, harm: contains_secret, free: WithoutSandbox::HarmsAnyUser }
}

const CASES: &[Case] = &[
    case("by its path", "cat {HOME}/.ssh/id_ed25519"),
    case("by ..", "cat ../.ssh/id_ed25519; cat {HOME}/work/../.ssh/../.ssh/id_ed25519"),
    case("by a link made there", "ln -s ../.ssh/id_ed25519 l; cat l; ln -s {HOME}/.ssh d; cat d/id_ed25519"),
    case("by a hard link made there", "ln {HOME}/.ssh/id_ed25519 h; cat h"),
    case("by a hard link of perl", "perl -e 'link(\"{HOME}/.netrc\", \"n\")'; cat n"),
    case("moved away", "mv {HOME}/.ssh s; cat s/id_ed25519"),
    case("moved away by its parent", "mv {HOME}/.config c; cat c/gh/hosts.yml"),
    case("moved away within its parent", "mv {HOME}/.ssh {HOME}/x; cat {HOME}/x/id_ed25519"),
    case(
        "exchanged with another folder",
        "mkdir e; mv -T --exchange e {HOME}/.ssh 2>/dev/null || mv {HOME}/.ssh e; cat e/id_ed25519 e/.ssh/id_ed25519",
    ),
    case(
        "by the root of its own process",
        "cat /proc/self/root/{HOME}/.ssh/id_ed25519; cat /proc/$$/root{HOME}/.ssh/id_ed25519",
    ),
    case("by its own folder in /proc", "cat /proc/self/cwd/../.ssh/id_ed25519"),
    case(
        "by an open folder",
        "exec 9<{HOME}; cat /proc/self/fd/9/.ssh/id_ed25519; cat /dev/fd/9/.ssh/id_ed25519",
    ),
    case("keys of gpg", "cat {HOME}/.gnupg/private-keys-v1.d/a.key"),
    case("a key ring", "cat {HOME}/.local/share/keyrings/login.keyring"),
    case("a cloud", "cat {HOME}/.aws/credentials"),
    case("a forge", "cat {HOME}/.config/gh/hosts.yml"),
    case("a file of passwords", "cat {HOME}/.netrc; cat < {HOME}/.netrc"),
    case("the node's own folder", "cat {NODE}/node.key; cat {NODE}/*"),
    case(
        "an archive of everything",
        "tar -cf - -C {HOME} . 2>/dev/null | strings 2>/dev/null || tar -cf - -C {HOME} . | cat -v",
    ),
    case("a copy of everything", "cp -a {HOME}/. copy; cat copy/.netrc copy/.ssh/*"),
    case("a search of everything", "grep -rh what-nobody- {HOME} {NODE}"),
    case("by a mode of its own", "chmod -R a+rwx {HOME}/.ssh; cat {HOME}/.ssh/id_ed25519"),
    case("in a shell of its own", "setsid sh -c 'cat {HOME}/.ssh/id_ed25519' & wait"),
];

#[tokio::test]
async fn credentials_cannot_be_read() {
    check(CASES).await;
}

#[tokio::test]
async fn machine_passwords_cannot_be_read() {
    check(&[
        Case {
            name: "the shadow file",
            command: "cat /etc/shadow; cat /proc/self/root/etc/shadow; cp /etc/shadow s; cat s",
            harm: |_, ran| output_text(ran).contains("root:"),
            free: WithoutSandbox::AsRoot,
        },
        Case {
            name: "its copy",
            command: "cat /etc/shadow-; cat /etc/gshadow",
            harm: |_, ran| output_text(ran).contains("root:"),
            free: WithoutSandbox::Unknown,
        },
    ])
    .await;
}

/// A symlink whose target changes all the time.
#[tokio::test(flavor = "multi_thread")]
async fn changing_symlink_does_not_reach_denied_files() {
    for level in crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_available(*level)) {
        let scene = Scene::new(&super::policy_with_level(level, "")).await;
        let (link, next) = (scene.home("work/link"), scene.home("work/next"));
        let targets = [scene.home("work/notes.txt"), scene.home(".ssh/id_ed25519")];
        std::os::unix::fs::symlink(&targets[0], &link).unwrap();
        let stop = AtomicBool::new(false);
        let ran = std::thread::scope(|scope| {
            scope.spawn(|| {
                for target in targets.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    std::os::unix::fs::symlink(target, &next).unwrap();
                    std::fs::rename(&next, &link).unwrap();
                }
            });
            let command = "i=0; while [ $i -lt 300 ]; do cat link; i=$((i+1)); done 2>&1";
            let ran = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(scene.run(command))
            });
            stop.store(true, Ordering::Relaxed);
            ran
        });
        let output = output_text(&ran);
        assert!(!output.contains(super::SECRET), "{level}");
        assert!(
            output.contains("notes") && output.contains("ermission denied"),
            "both were met: {level}: {output}"
        );
        assert_ne!(level, SandboxLevel::None);
    }
}
