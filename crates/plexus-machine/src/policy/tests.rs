//! Tests of parsing, defaults, reloading and the working folder of a policy.

use super::*;

fn environment(home: &Path) -> Environment {
    [("HOME".to_owned(), home.display().to_string()), ("PATH".to_owned(), "/bin".to_owned())]
        .into_iter()
        .collect()
}

fn parsed(text: &str) -> Result<Policy, String> {
    let (home, data_dir) = (Path::new("/home/ada"), Path::new("/home/ada/.local/share/plexus-node"));
    read::policy(text, Path::new("node.toml"), &environment(home), data_dir)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn documented_default_equals_the_policy_without_a_file() {
    let (home, data_dir) = (Path::new("/home/ada"), Path::new("/home/ada/.local/share/plexus-node"));
    assert_eq!(parsed(DEFAULT).unwrap(), Policy::standard(&environment(home), data_dir));
}

#[test]
fn default_allows_home_folder_and_denies_credentials() {
    let files = parsed("").unwrap().files;
    let check = |path: &str, want| files.check(Path::new(path), want);
    for path in ["/home/ada/work/a.rs", "/home/ada/.ssh-notes", "/tmp/x", "/home/ada/.config/git/config"] {
        assert_eq!(check(path, AccessKind::Write), Ok(()), "{path}");
    }
    for path in ["/etc/hosts", "/home/bob/x", "/home/adam", "/usr/bin/ls", "/"] {
        assert_eq!(check(path, AccessKind::Read), Ok(()), "{path}");
        assert_eq!(check(path, AccessKind::Write), Err(PathRefused::Unwritable), "{path}");
    }
    let denied = [
        "/home/ada/.ssh",
        "/home/ada/.ssh/id_ed25519",
        "/home/ada/.aws/credentials",
        "/home/ada/.gnupg/private-keys-v1.d/x.key",
        "/home/ada/.local/share/keyrings/login.keyring",
        "/home/ada/.local/share/plexus-node/node.toml",
        "/home/ada/.local/share/plexus/admin-token",
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/ssh/ssh_host_ed25519_key",
        "/run/user/1000/bus",
    ];
    for path in denied {
        assert_eq!(check(path, AccessKind::Read), Err(PathRefused::Denied), "{path}");
        assert_eq!(check(path, AccessKind::Write), Err(PathRefused::Denied), "{path}");
    }
    assert_eq!(check("/home/ada/.bashrc", AccessKind::Read), Ok(()));
    assert_eq!(check("/home/ada/.bashrc", AccessKind::Write), Err(PathRefused::ReadOnly));
    assert_eq!(check("/etc/ssh/ssh_host_ed25519_key.pub", AccessKind::Read), Ok(()));
    assert!(files.has_exceptions_below(Path::new("/home/ada")));
    assert!(!files.has_exceptions_below(Path::new("/home/ada/work")));
}

#[test]
fn policy_cannot_allow_credentials() {
    let files =
        parsed("[files]\nread = ['/', '~/.ssh']\nwrite = ['/']\ndeny = []\nread_only = []").unwrap().files;
    assert_eq!(files.check(Path::new("/home/ada/.ssh/id"), AccessKind::Read), Err(PathRefused::Denied));
    assert_eq!(files.check(Path::new("/home/ada/.bashrc"), AccessKind::Write), Ok(()));
}

#[test]
fn command_allowlist_disables_variables_code_and_ssh() {
    let open = parsed("").unwrap();
    assert!(open.environment.can_be_set("LD_PRELOAD"));
    assert_eq!(open.check_tool("code_exec"), Ok(()));
    let narrow = parsed("[commands]\nallow = ['git']").unwrap();
    assert!(!narrow.environment.can_be_set("LD_PRELOAD"));
    assert!(narrow.check_tool("code_exec").is_err());
    assert!(narrow.check_tool("terminal").is_ok());
    assert!(narrow.ssh.hosts.is_empty() && open.ssh.hosts == ["*"]);
    let explicit = parsed("[commands]\nallow = ['git']\n[environment]\nset = ['GIT_*']").unwrap();
    assert!(explicit.environment.can_be_set("GIT_DIR") && !explicit.environment.can_be_set("PATH"));
}

#[test]
fn tools_are_enabled_and_disabled_by_name() {
    let policy = parsed("[tools]\non = ['terminal', 'mcp__*']\noff = ['mcp__git__push']").unwrap();
    let on = |name| policy.check_tool(name).is_ok();
    assert!(on("terminal") && on("mcp__git__log"));
    assert!(!on("filesystem") && !on("mcp__git__push"));
}

#[test]
fn commands_inherit_only_harmless_variables() {
    let policy = parsed("").unwrap();
    let configured =
        ["PATH", "LC_ALL", "XDG_DATA_HOME", "PLEXUS_NODE_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"];
    let environment: Environment =
        configured.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
    let passed: Vec<_> = policy.environment.passed(&environment).map(|(name, _)| name).collect();
    assert_eq!(passed, ["LC_ALL", "PATH", "XDG_DATA_HOME"]);
}

#[test]
fn all_problems_are_reported_at_once_with_hints() {
    let wrong = "level = 1\n[files]\nread = ['work', '/a/../b']\nwriite = []\n[sandbox]\nlevel = 'jail'\n[code]\nseconds = 0\n";
    insta::assert_snapshot!(parsed(wrong).unwrap_err());
    insta::assert_snapshot!(parsed("[files").unwrap_err());
}

#[test]
fn changed_file_applies_at_once_and_invalid_file_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    let policies = Policies::open(dir.path(), &environment(Path::new("/home/ada"))).unwrap();
    assert!(policies.now().check_tool("terminal").is_ok());
    std::fs::write(&file, "[tools]\noff = ['terminal']\n").unwrap();
    assert!(policies.now().check_tool("terminal").is_err());
    std::fs::write(&file, "[tools]\noff = 'terminal, or what'\n").unwrap();
    assert!(policies.now().check_tool("terminal").is_err(), "the previous policy stays in force");
    std::fs::remove_file(&file).unwrap();
    assert!(policies.now().check_tool("terminal").is_ok());

    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let problems = Policies::open(dir.path(), &environment(Path::new("/home/ada"))).unwrap_err();
    assert!(problems[0].to_string().contains("chmod go-w"), "{}", problems[0]);
}

#[test]
fn working_folder_must_be_writable_as_a_whole() {
    let work = |text: &str| {
        let policy = parsed(text).unwrap();
        policy.work_folder().map(Path::to_owned).map_err(|error| error.to_string())
    };
    assert_eq!(work("").unwrap(), Path::new("/home/ada/plexus-work"));
    assert_eq!(work("[files]\nwork = '~/code'").unwrap(), Path::new("/home/ada/code"));
    assert_eq!(
        work("[files]\nwrite = ['~/w*', '/tmp', '~/work', '~/more']").unwrap(),
        Path::new("/home/ada/work")
    );
    // A folder that every user can write is never suggested.
    let none = work("[files]\nwrite = ['/tmp']").unwrap_err();
    assert!(none.contains("/home/ada/plexus-work") && none.contains("lets tools write"), "{none}");
    for unusable in ["~", "~/.config", "~/.ssh/x", "/srv", "plexus-work", "~/*", "~/.config/systemd"] {
        let problem = parsed(&format!("[files]\nwork = '{unusable}'")).unwrap_err();
        assert!(problem.contains("files.work"), "{unusable}: {problem}");
    }
    let hub = parsed("").unwrap().with_denied(&[PathBuf::from("/home/ada/plexus-work")]);
    assert!(hub.work_folder().is_err(), "the hub's own folder cannot be the working folder");
}

/// The system service has its home folder next to its data folder, see `deploy/plexus-node.service`.
#[test]
fn system_service_can_write_its_home_and_not_its_data() {
    let (home, data_dir) = (Path::new("/var/lib/plexus-node/home"), Path::new("/var/lib/plexus-node/data"));
    let policy = Policy::standard(&environment(home), data_dir);
    assert_eq!(policy.work_folder(), Ok(Path::new("/var/lib/plexus-node/home/plexus-work")));
    assert_eq!(policy.files.check(&data_dir.join("node.toml"), AccessKind::Read), Err(PathRefused::Denied));
}
