//! Writing to denied paths, and changing read-only paths.

use super::{Case, Scene, WithoutSandbox, check, remove_if_exists, reports_success};
use serde_json::Value;

fn bashrc(scene: &Scene, _: &Value) -> bool {
    let path = scene.home(".bashrc");
    let is_link = std::fs::symlink_metadata(&path).is_ok_and(|about| about.is_symlink());
    is_link || scene.text(".bashrc") != "# mine\n"
}

fn unit(scene: &Scene, _: &Value) -> bool {
    scene.text(".config/systemd/user/mine.service") != "# mine\n"
        || scene.home(".config/systemd/user/evil.service").exists()
}

const fn changes_bashrc(name: &'static str, command: &'static str) -> Case {
    Case { name, command, harm: bashrc, free: WithoutSandbox::HarmsAnyUser }
}

const CASES: &[Case] = &[
    changes_bashrc("open it", "echo evil >> {HOME}/.bashrc"),
    changes_bashrc("open it anew", "echo evil > {HOME}/.bashrc"),
    changes_bashrc("rename over it", "echo evil > e; mv -f e {HOME}/.bashrc"),
    changes_bashrc("swap it for a link", "echo evil > e; ln -sf {HOME}/work/e {HOME}/.bashrc"),
    changes_bashrc("cut it short", "truncate -s 0 {HOME}/.bashrc"),
    changes_bashrc("cut it short by its name", "perl -e 'truncate(\"{HOME}/.bashrc\", 0)'"),
    changes_bashrc("remove it", "rm -f {HOME}/.bashrc"),
    changes_bashrc("write by a second name", "ln {HOME}/.bashrc b; echo evil >> b"),
    changes_bashrc("write by a link", "ln -s {HOME}/.bashrc b; echo evil >> b"),
    changes_bashrc("write by /proc", "echo evil >> /proc/self/root{HOME}/.bashrc"),
    changes_bashrc("open it for reading and write", "exec 9<{HOME}/.bashrc; echo evil >> /proc/self/fd/9"),
    changes_bashrc("move it away and make another", "mv {HOME}/.bashrc b; echo evil > {HOME}/.bashrc"),
    changes_bashrc(
        "move all of home aside",
        "mv {HOME} {HOME}.old && mkdir {HOME}; echo evil > {HOME}/.bashrc; rm -rf {HOME}; mv {HOME}.old {HOME}; echo evil >> {HOME}/.bashrc",
    ),
    Case {
        name: "a unit in a folder",
        command: "echo evil > {HOME}/.config/systemd/user/evil.service",
        harm: unit,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "the folder above it",
        command: "mv {HOME}/.config c; mkdir -p {HOME}/.config/systemd/user; echo evil > {HOME}/.config/systemd/user/evil.service",
        harm: unit,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "what is not there yet",
        command: "echo evil > {HOME}/.bash_profile; ln -s work/notes.txt {HOME}/.bash_login; mv notes.txt {HOME}/.zshenv",
        harm: |scene, _| {
            [".bash_profile", ".bash_login", ".zshenv"]
                .iter()
                .any(|name| scene.home(name).symlink_metadata().is_ok())
        },
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "a folder that is not there yet",
        command: "mkdir -p {HOME}/.config/autostart; echo evil > {HOME}/.config/autostart/e.desktop; mkdir a; echo evil > a/e; mv a {HOME}/.config/autostart",
        harm: |scene, _| scene.home(".config/autostart").exists(),
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "a login by a key of its own",
        command: "echo evil > {HOME}/.ssh/authorized_keys; echo evil > k; mv k {HOME}/.ssh/authorized_keys; ln -s /tmp/k {HOME}/.ssh/authorized_keys",
        harm: |scene, _| scene.home(".ssh/authorized_keys").symlink_metadata().is_ok(),
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "the policy",
        command: "echo '[sandbox]' > {NODE}/node.toml; echo > n; mv n {NODE}/node.toml; rm {NODE}/node.toml",
        harm: |scene, _| {
            !std::fs::read_to_string(scene.bench.folder().join("node.toml"))
                .unwrap_or_default()
                .contains("level")
        },
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "the node's folder",
        command: "touch {NODE}/evil; mkdir {NODE}/jobs/evil; ln -s / {NODE}/jobs/aaaaaaaa",
        harm: |scene, _| {
            ["evil", "jobs/evil", "jobs/aaaaaaaa"].iter().any(|name| scene.bench.folder().join(name).exists())
        },
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "/etc",
        command: "touch /etc/plexus-hostile",
        harm: |_, _| remove_if_exists("/etc/plexus-hostile"),
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "/usr",
        command: "touch /usr/bin/plexus-hostile",
        harm: |_, _| remove_if_exists("/usr/bin/plexus-hostile"),
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "/var",
        command: "touch /var/lib/plexus-hostile",
        harm: |_, _| remove_if_exists("/var/lib/plexus-hostile"),
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "the root",
        command: "touch /plexus-hostile",
        harm: |_, _| remove_if_exists("/plexus-hostile"),
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "beside home",
        command: "touch {HOME}-hostile && rm {HOME}-hostile && echo done",
        harm: reports_success,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "by a link out of home",
        command: "ln -s /etc/plexus-linked l; echo evil > l; ln -s /var/lib d; touch d/plexus-linked",
        harm: |_, _| remove_if_exists("/etc/plexus-linked") | remove_if_exists("/var/lib/plexus-linked"),
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "settings of the kernel",
        command: "v=$(cat /proc/sys/kernel/printk_ratelimit); echo $v > /proc/sys/kernel/printk_ratelimit && echo done",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
];

#[tokio::test]
async fn denied_and_read_only_paths_cannot_be_written() {
    check(CASES).await;
}

/// The working folder is writable as a whole, but gives no access to the names next to it.
#[tokio::test]
async fn working_folder_gives_no_access_to_protected_paths() {
    const PROTECTED: [&str; 6] = [
        ".ssh",
        ".bashrc",
        ".config/systemd/user/evil.service",
        ".netrc",
        ".profile",
        ".config/gh/hosts.yml",
    ];
    for level in crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_available(*level)) {
        let bench = crate::workbench::Workbench::with_launcher(&super::policy_with_level(level, "")).await;
        let attempts = PROTECTED.map(|name| {
            format!(
                "mkdir -p \"$(dirname ~/{name})\"; echo evil > ~/{name}; echo evil > e; mv e ~/{name}; \
                 ln -s ~/plexus-work/e ~/{name}; cd .. && echo evil > {name}; cd ~/plexus-work; "
            )
        });
        // The folder itself cannot be replaced by a link to them either.
        let swap = "mv ~/plexus-work ~/other; rmdir ~/plexus-work; ln -sfn ~ ~/plexus-work/up; echo evil > up/.zshrc; ";
        let ran = bench.sh(&format!("{}{swap} echo ran > ran; true", attempts.concat())).await;
        assert!(bench.home().join("plexus-work/ran").exists(), "it ran: {level}: {ran}");
        let entries: Vec<_> =
            std::fs::read_dir(bench.home()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(entries, ["plexus-work"], "{level}: {ran}");
    }
}

/// In a home folder without any credentials.
#[tokio::test]
async fn credential_folders_cannot_be_created() {
    for level in crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_available(*level)) {
        let scene = Scene::new(&super::policy_with_level(level, "")).await;
        std::fs::remove_dir_all(scene.home(".ssh")).unwrap();
        std::fs::remove_dir_all(scene.home(".config")).unwrap();
        let ran = scene
            .run(
                "mkdir -p {HOME}/.ssh; echo evil > {HOME}/.ssh/authorized_keys; mkdir s; echo evil > s/authorized_keys; \
                 mv s {HOME}/.ssh; ln -s {HOME}/work/s {HOME}/.ssh; mkdir -p {HOME}/.config/autostart; true",
            )
            .await;
        assert!(scene.home(".ssh").symlink_metadata().is_err(), "{level}: {ran}");
        assert!(scene.home(".config").symlink_metadata().is_err(), "{level}: {ran}");
        assert!(scene.home("work/s/authorized_keys").exists(), "it ran: {level}: {ran}");
    }
}
