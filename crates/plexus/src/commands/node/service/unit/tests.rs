use super::*;

fn of_machine(program: &str, data_dir: &str) -> Result<String, &'static str> {
    text(Scope::System, Path::new(program), Path::new(data_dir))
}

#[test]
fn the_file_in_deploy_is_the_unit_of_a_machine_with_the_usual_paths() {
    assert_eq!(of_machine("/usr/local/bin/plexus", SYSTEM_DATA).unwrap(), TEMPLATES[0]);
    assert!(SYSTEM_HOME.starts_with(SYSTEM_STATE) && SYSTEM_DATA.starts_with(SYSTEM_STATE));
    assert!(TEMPLATES[0].contains("StateDirectory=plexus-node plexus-node/home plexus-node/data\n"));
    assert!(TEMPLATES[0].contains(&format!("WorkingDirectory={SYSTEM_HOME}\n")));
}

#[test]
fn paths_of_this_machine_are_in_the_unit() {
    let unit = of_machine("/opt/plexus/bin/plexus", "/srv/node").unwrap();
    assert!(unit.contains("\nExecStart=/opt/plexus/bin/plexus node run\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=PLEXUS_NODE_DATA_DIR=/srv/node\n"), "{unit}");
    assert!(unit.contains("\nReadWritePaths=/tmp /var/tmp /srv/node\n"), "{unit}");
    insta::assert_snapshot!(
        text(Scope::User, Path::new("/home/me/bin/plexus"), Path::new("/home/me/node")).unwrap()
    );
}

#[test]
fn no_path_says_anything_else_to_systemd() {
    let unit = of_machine("/opt/a b/50%/\"x\"/plexus", "/srv/a b").unwrap();
    assert!(unit.contains("\nExecStart=\"/opt/a b/50%%/\\\"x\\\"/plexus\" node run\n"), "{unit}");
    assert!(unit.contains("\nEnvironment=\"PLEXUS_NODE_DATA_DIR=/srv/a b\"\n"), "{unit}");
    for path in ["/a\nExecStartPre=/bin/sh", "/a\tb", "/$HOME/a"] {
        assert!(of_machine(path, SYSTEM_DATA).is_err(), "{path:?}");
        assert!(of_machine("/bin/plexus", path).is_err(), "{path:?}");
    }
}

#[test]
fn what_a_sandbox_needs_is_not_taken_from_it() {
    for line in TEMPLATES.iter().flat_map(|unit| unit.lines()).filter(|line| !line.starts_with('#')) {
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
    assert!(TEMPLATES.iter().all(|unit| unit.contains("\nKillMode=process\n")), "commands outlive a restart");
}

#[test]
fn a_change_by_hand_is_seen_and_another_version_is_none() {
    let marked = marked(TEMPLATES[0]);
    assert!(is_unchanged(&marked));
    assert!(is_unchanged(&super::marked("[Service]\nof=long ago\n")));
    for changed in [
        marked.replace("RestartSec=5", "RestartSec=6"),
        marked.clone() + "# mine\n",
        TEMPLATES[0].to_owned(),
        String::new(),
    ] {
        assert!(!is_unchanged(&changed), "{changed}");
    }
}
