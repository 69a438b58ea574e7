use super::*;
use crate::commands::service::{HUB, NODE};

fn system_unit(program: &str, data_dir: &str) -> Result<String, &'static str> {
    text(&NODE, Scope::System, Path::new(program), Path::new(data_dir))
}

#[test]
fn system_unit_with_default_paths_equals_the_file_in_deploy() {
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
fn hub_unit_reloads_by_signal_and_restarts_only_on_failure() {
    let unit = text(&HUB, Scope::User, Path::new("/opt/plexus"), Path::new("/srv/hub")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/plexus up\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=PLEXUS_DATA_DIR=/srv/hub\n"), "{unit}");
    for unit in HUB.templates {
        assert!(unit.contains("\nExecReload=/bin/kill -HUP $MAINPID\n"), "{unit}");
        assert!(unit.contains("\nRestart=on-failure\n"), "{unit}");
    }
}

#[test]
fn unit_has_the_paths_of_this_machine() {
    let unit = system_unit("/opt/plexus/bin/plexus", "/srv/node").unwrap();
    assert!(unit.contains("\nExecStart=/opt/plexus/bin/plexus node run\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=PLEXUS_NODE_DATA_DIR=/srv/node\n"), "{unit}");
    assert!(unit.contains("\nReadWritePaths=/tmp /var/tmp /srv/node\n"), "{unit}");
    insta::assert_snapshot!(
        text(&NODE, Scope::User, Path::new("/home/me/bin/plexus"), Path::new("/home/me/node")).unwrap()
    );
}

#[test]
fn paths_cannot_inject_directives_or_variables() {
    let unit = system_unit("/opt/a b/50%/\"x\"/plexus", "/srv/a b").unwrap();
    assert!(unit.contains("\nExecStart=\"/opt/a b/50%%/\\\"x\\\"/plexus\" node run\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=\"PLEXUS_NODE_DATA_DIR=/srv/a b\"\n"), "{unit}");
    for path in ["/a\nExecStartPre=/bin/sh", "/a\tb", "/$HOME/a"] {
        assert!(system_unit(path, NODE.data).is_err(), "{path:?}");
        assert!(system_unit("/bin/plexus", path).is_err(), "{path:?}");
    }
}

fn templates() -> impl Iterator<Item = &'static str> {
    NODE.templates.into_iter().chain(HUB.templates)
}

#[test]
fn units_leave_the_sandbox_what_it_needs() {
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
    assert!(templates().all(|unit| unit.contains("\nKillMode=process\n")), "commands must outlive a restart");
}

#[test]
fn edit_is_detected_and_unit_of_another_version_is_not_an_edit() {
    let template = NODE.templates[0];
    let unit = with_checksum(&NODE, template);
    assert!(is_unchanged(&NODE, &unit));
    assert!(is_unchanged(&NODE, &with_checksum(&NODE, "[Service]\nof=long ago\n")));
    for changed in [
        unit.replace("RestartSec=5", "RestartSec=6"),
        unit.clone() + "# mine\n",
        template.to_owned(),
        String::new(),
    ] {
        assert!(!is_unchanged(&NODE, &changed), "{changed}");
    }
}
