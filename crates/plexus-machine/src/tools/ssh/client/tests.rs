use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A fake ssh: with `-G` it prints the configuration of an ssh with this home folder; otherwise it creates the socket
/// and stays, like a connection.
pub(in crate::tools::ssh) fn scripted(folder: &Path, home: &Path) -> Environment {
    let programs = folder.join("bin");
    fs::create_dir(&programs).unwrap();
    let script = format!(
        "#!/bin/sh\nfor word; do\n  case $word in\n    -G) echo userknownhostsfile {home}/.ssh/known_hosts {home}/.ssh/known_hosts2\n       \
         echo identityfile '~/.ssh/named'; echo identityfile '~/.ssh/missing'; echo identityfile /elsewhere/key; exit;;\n    \
         ControlPath=*) : >\"${{word#ControlPath=}}\";;\n  esac\ndone\nexec sleep 1000\n",
        home = home.display()
    );
    fs::write(programs.join("ssh"), script).unwrap();
    fs::set_permissions(programs.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let given = [
        ("PATH", path),
        ("HOME", folder.join("home").display().to_string()),
        ("SSH_AUTH_SOCK", "/run/agent".to_owned()),
        ("PLEXUS_NODE_KEY", "secret".to_owned()),
    ];
    given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn target() -> Target {
    Target { host: "nas".to_owned(), user: Some("me".to_owned()), port: Some(2222) }
}

fn words(command: &Command) -> Vec<String> {
    command.as_std().get_args().map(|word| word.to_str().unwrap().to_owned()).collect()
}

async fn connect_arguments(home_of_user: impl Fn(&Path) -> PathBuf) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(home.join(".ssh")).unwrap();
    for key in ["id_ed25519", "named"] {
        fs::write(home.join(".ssh").join(key), "").unwrap();
    }
    let environment = scripted(folder.path(), &home_of_user(&home));
    let client = Client::new(&environment, folder.path().to_owned());
    let command = client.connect_command(&target(), "socket").await.unwrap();
    let variable =
        |name: &str| command.as_std().get_envs().any(|(known, value)| known == name && value.is_some());
    assert!(variable("SSH_AUTH_SOCK") && variable("HOME") && !variable("PLEXUS_NODE_KEY"));
    let words = words(&command);
    (folder, words)
}

#[tokio::test]
async fn default_configuration_is_used_if_home_folders_match() {
    let (_folder, words) = connect_arguments(Path::to_owned).await;
    assert!(!words.contains(&"-F".to_owned()), "{words:?}");
    assert!(!words.iter().any(|word| word.starts_with("IdentityFile")), "{words:?}");
    for firm in ["StrictHostKeyChecking=yes", "BatchMode=yes", "ForwardAgent=no", "PermitLocalCommand=no"] {
        assert!(words.contains(&firm.to_owned()), "{firm}");
    }
    assert_eq!(words[words.len() - 6..], ["-p", "2222", "-l", "me", "--", "nas"]);
}

#[tokio::test]
async fn other_home_folder_is_passed_to_ssh() {
    let (folder, words) = connect_arguments(|_| PathBuf::from("/root-of-somebody")).await;
    let config = folder.path().join(CONFIG);
    assert_eq!(words[..3], ["-v", "-F", config.to_str().unwrap()]);
    let text = fs::read_to_string(config).unwrap();
    let ssh = folder.path().join("home/.ssh");
    assert!(text.starts_with(&format!("Include \"{}\"\n", ssh.join("config").display())), "{text}");
    assert!(text.ends_with("Include /etc/ssh/ssh_config\n"), "{text}");
    let usual = format!("    IdentityFile \"{}\"\n", ssh.join("id_ed25519").display());
    assert_eq!((text.contains(&usual), text.matches("IdentityFile").count()), (true, 1), "{text}");
    let identity = format!("IdentityFile=\"{}\"", ssh.join("named").display());
    assert_eq!(words.iter().filter(|word| word.starts_with("IdentityFile")).collect::<Vec<_>>(), [&identity]);
}

#[tokio::test]
async fn connection_users_read_no_configuration_and_open_none() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(&scripted(folder.path(), Path::new("/")), folder.path().to_owned());
    let words = words(&client.run_command(&target(), "socket", "a line"));
    assert_eq!(words[..2], ["-F", "none"]);
    assert!(
        words.contains(&"ProxyCommand=false".to_owned()) && words.contains(&"ControlPath=socket".to_owned())
    );
    assert_eq!(words[words.len() - 3..], ["--", "nas", "a line"]);
}
