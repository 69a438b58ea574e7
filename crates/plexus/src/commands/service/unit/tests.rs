use super::*;
use crate::commands::service::{HUB, NODE};

fn of_machine(program: &str, data_dir: &str) -> Result<String, &'static str> {
    text(&NODE, Scope::System, Path::new(program), Path::new(data_dir))
}

#[test]
fn the_file_in_deploy_is_the_unit_of_a_machine_with_the_usual_paths() {
    for service in [&NODE, &HUB] {
        let unit = text(service, Scope::System, Path::new("/usr/local/bin/plexus"), Path::new(service.data))
            .unwrap();
        assert_eq!(unit, service.templates[0]);
        let folders: Vec<&str> = [service.state, service.home, service.data]
            .iter()
            .map(|folder| folder.strip_prefix("/var/lib/").unwrap())
            .collect();
        assert!(unit.contains(&format!("StateDirectory={}\n", folders.join(" "))));
        assert!(unit.contains(&format!("WorkingDirectory={}\n", service.home)));
    }
}

#[test]
fn a_hub_is_reloaded_by_a_signal_and_stays_down_when_it_was_stopped() {
    let unit = text(&HUB, Scope::User, Path::new("/opt/plexus"), Path::new("/srv/hub")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/plexus up\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=PLEXUS_DATA_DIR=/srv/hub\n"), "{unit}");
    for unit in HUB.templates {
        assert!(unit.contains("\nExecReload=/bin/kill -HUP $MAINPID\n"), "{unit}");
        assert!(unit.contains("\nRestart=on-failure\n"), "{unit}");
    }
}

#[test]
fn paths_of_this_machine_are_in_the_unit() {
    let unit = of_machine("/opt/plexus/bin/plexus", "/srv/node").unwrap();
    assert!(unit.contains("\nExecStart=/opt/plexus/bin/plexus node run\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=PLEXUS_NODE_DATA_DIR=/srv/node\n"), "{unit}");
    assert!(unit.contains("\nReadWritePaths=/tmp /var/tmp /srv/node\n"), "{unit}");
    insta::assert_snapshot!(
        text(&NODE, Scope::User, Path::new("/home/me/bin/plexus"), Path::new("/home/me/node")).unwrap()
    );
}

#[test]
fn no_path_says_anything_else_to_systemd() {
    let unit = of_machine("/opt/a b/50%/\"x\"/plexus", "/srv/a b").unwrap();
    assert!(unit.contains("\nExecStart=\"/opt/a b/50%%/\\\"x\\\"/plexus\" node run\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=\"PLEXUS_NODE_DATA_DIR=/srv/a b\"\n"), "{unit}");
    for path in ["/a\nExecStartPre=/bin/sh", "/a\tb", "/$HOME/a"] {
        assert!(of_machine(path, NODE.data).is_err(), "{path:?}");
        assert!(of_machine("/bin/plexus", path).is_err(), "{path:?}");
    }
}

fn templates() -> impl Iterator<Item = &'static str> {
    NODE.templates.into_iter().chain(HUB.templates)
}

#[test]
fn what_a_sandbox_needs_is_not_taken_from_it() {
    for line in templates().flat_map(str::lines).filter(|line| !line.starts_with('#')) {
        let name = line.split('=').next().unwrap_or_default();
        let breaks = [
            "RestrictNamespaces",
            "PrivateUsers",
            "SystemCallFilter",
            "ProtectKernelTunables",
            "ProtectKernelLogs",
            "ProtectProc",
            "ProcSubset",
            "PrivateTmp",
        ];
        assert!(!breaks.contains(&name), "{line}");
    }
    assert!(templates().all(|unit| unit.contains("\nKillMode=process\n")), "commands outlive a restart");
}

#[test]
fn a_change_by_hand_is_seen_and_another_version_is_none() {
    let template = NODE.templates[0];
    let marked = marked(&NODE, template);
    assert!(is_unchanged(&NODE, &marked));
    assert!(is_unchanged(&NODE, &super::marked(&NODE, "[Service]\nof=long ago\n")));
    for changed in [
        marked.replace("RestartSec=5", "RestartSec=6"),
        marked.clone() + "# mine\n",
        template.to_owned(),
        String::new(),
    ] {
        assert!(!is_unchanged(&NODE, &changed), "{changed}");
    }
}
