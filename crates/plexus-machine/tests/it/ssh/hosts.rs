//! Host identity and login.

use std::fs;
use std::process::{Command, Stdio};

use plexus_proto::ErrorCode;
use serde_json::json;

use super::server::{Server, me, sshd};
use super::site::Site;

#[tokio::test]
async fn unknown_host_key_is_refused() {
    let Some(site) = Site::new().await else { return };
    site.forget();
    // The owner's configuration cannot change this.
    site.configure("Host *\n  StrictHostKeyChecking no\n  NoHostAuthenticationForLocalhost yes\n");
    let refused = site.ask(json!({ "action": "run", "command": "true" })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Forbidden);
    let text = refused.text();
    assert!(text.contains("not known") && text.contains(&site.server.fingerprint()), "{text}");
    assert!(
        text.contains(&format!("ssh -p {} 127.0.0.1", site.server.port)),
        "the owner is told what to run: {text}"
    );
    assert_eq!(site.server.logins(), 0);
    assert_eq!(fs::read_to_string(site.ssh().join("known_hosts")).unwrap(), "", "no key is recorded");
    // The owner has added the key.
    site.know(site.server.port);
    assert_eq!(site.sh("echo in").await["stdout"]["text"], "in\n");
}

#[tokio::test]
async fn changed_host_key_is_reported() {
    let Some(site) = Site::new().await else { return };
    let sshd = sshd().unwrap();
    let other = Server::start(sshd, "", "").await;
    // The known key is that of another host.
    let line = format!("[127.0.0.1]:{} {}", site.server.port, other.host_key());
    fs::write(site.ssh().join("known_hosts"), &line).unwrap();
    let refused = site.ask(json!({ "action": "run", "command": "true" })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Forbidden);
    let text = refused.text();
    assert!(text.contains("has changed") && text.contains(&site.server.fingerprint()), "{text}");
    assert!(text.contains("ssh-keygen -R"), "{text}");
    assert_eq!(site.server.logins(), 0);
    assert_eq!(fs::read_to_string(site.ssh().join("known_hosts")).unwrap(), line);
}

/// An ssh-agent that ends when it is dropped.
struct Agent(std::process::Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn agent_keys_are_used_and_the_agent_is_available_to_ssh_only() {
    if sshd().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent");
    let agent = Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn();
    let _agent = Agent(agent.unwrap());
    let variables = vec![("SSH_AUTH_SOCK", socket.display().to_string())];
    let site = Site::with(variables, "").await.unwrap();
    crate::workbench::poll_until(async || socket.exists().then_some(())).await;
    let key = site.ssh().join("id_ed25519");
    let added =
        Command::new("ssh-add").arg(&key).env("SSH_AUTH_SOCK", &socket).stderr(Stdio::null()).status();
    assert!(added.unwrap().success());
    fs::remove_file(&key).unwrap();
    fs::remove_file(key.with_extension("pub")).unwrap();
    // It is not forwarded, even if the owner's configuration says so.
    site.configure("Host *\n  ForwardAgent yes\n");
    let answer = site.sh("echo in; echo agent=$SSH_AUTH_SOCK").await;
    assert_eq!(answer["stdout"]["text"], "in\nagent=\n", "{answer}");
    let seen = site.bench.sh("env").await;
    assert!(!seen["stdout"]["text"].as_str().unwrap().contains("SSH_AUTH_SOCK"), "{seen}");
}

#[tokio::test]
async fn password_only_host_is_refused() {
    let only = "PubkeyAuthentication no\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes";
    let Some(site) = Site::with(Vec::new(), only).await else { return };
    site.configure("Host *\n  PasswordAuthentication yes\n  BatchMode no\n");
    let refused = site.ask(json!({ "action": "run", "command": "true" })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Forbidden);
    assert!(refused.text().contains("passwords only"), "{}", refused.text());
    assert!(!site.server.log().contains("Failed password"), "none was tried: {}", site.server.log());
}

#[tokio::test]
async fn refused_login_explains_what_to_check() {
    let Some(site) = Site::new().await else { return };
    let arguments =
        site.arguments(json!({ "action": "run", "command": "true", "user": "nobody-of-that-name" }));
    let refused = site.ask(arguments).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Forbidden);
    assert!(refused.text().contains("nobody-of-that-name@127.0.0.1"), "{}", refused.text());
    assert!(refused.text().contains("`user`"), "{}", refused.text());
    // The right user, given explicitly.
    let arguments = site.arguments(json!({ "action": "run", "command": "id -un", "user": me() }));
    assert_eq!(site.ask(arguments).await.unwrap()["stdout"]["text"], format!("{}\n", me()));
}

#[tokio::test]
async fn unreachable_host_differs_from_unknown_name() {
    let Some(site) = Site::new().await else { return };
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let run =
        |host: &str, port: u16| json!({ "action": "run", "host": host, "port": port, "command": "true" });
    let refused = site.ask(run("127.0.0.1", closed)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable, "{}", refused.text());
    assert!(refused.text().contains("refused"), "{}", refused.text());
    let refused = site.ask(run("no-such-host.invalid", 22)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound, "{}", refused.text());
    assert!(refused.text().contains("no-such-host.invalid"), "{}", refused.text());
}

#[tokio::test]
async fn policy_decides_which_hosts_are_allowed() {
    let Some(site) = Site::new().await else { return };
    let port = site.server.port;
    site.configure(&format!(
        "Host nas nas.example.net\n  HostName 127.0.0.1\n  Port {port}\n  HostKeyAlias [127.0.0.1]:{port}\n"
    ));
    site.policy("[ssh]\nhosts = [\"nas\", \"*.example.net\"]\n");
    for host in ["nas", "NAS", "nas.example.net"] {
        let answer = site.ask(json!({ "action": "run", "host": host, "command": "echo in" })).await.unwrap();
        assert_eq!(answer["stdout"]["text"], "in\n", "{host}");
    }
    let logins = site.server.logins();
    for host in ["127.0.0.1", "localhost", "nas.example.org", "nas2"] {
        for action in ["run", "upload", "download"] {
            let arguments = json!({
                "action": action, "host": host, "port": port, "path": "/tmp/x", "remote_path": "/tmp/x",
                "command": "true",
            });
            let refused = site.ask(arguments).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::Forbidden, "{host} {action}");
            assert!(
                refused.text().contains("policy") && refused.text().contains("node.toml"),
                "{}",
                refused.text()
            );
        }
    }
    assert_eq!(site.server.logins(), logins);
}

#[tokio::test]
async fn owner_ssh_configuration_applies() {
    let Some(site) = Site::new().await else { return };
    let sshd = sshd().unwrap();
    let key = site.bench.home().join("keys");
    fs::create_dir(&key).unwrap();
    fs::rename(site.ssh().join("id_ed25519"), key.join("of-the-host")).unwrap();
    let mark = site.host_folder.path().join("proxied");
    // Reached through a proxy command of the owner, with a configured key, under an alias.
    site.configure(&format!(
        "Host behind\n  HostKeyAlias [127.0.0.1]:{port}\n  User {me}\n  IdentityFile ~/keys/of-the-host\n  \
         ProxyCommand sh -c 'echo %h %p >{mark}; exec {sshd} -i -f {config}'\n  RemoteCommand echo of the owner\n  \
         LocalForward 127.0.0.1:1 127.0.0.1:2\n  LogLevel QUIET\n  ControlPath ~/elsewhere\n  ControlMaster auto\n",
        port = site.server.port,
        me = me(),
        mark = mark.display(),
        config = site.server.config().display()
    ));
    let answer = site.ask(json!({ "action": "run", "host": "behind", "command": "echo in" })).await.unwrap();
    assert_eq!(answer["stdout"]["text"], "in\n");
    assert_eq!(fs::read_to_string(mark).unwrap(), "behind 22\n");
}

#[tokio::test]
async fn jump_host_is_used_if_both_host_keys_are_known() {
    let Some(site) = Site::new().await else { return };
    let port = site.server.port;
    let inner = Server::start(sshd().unwrap(), &site.public_key(), "").await;
    site.configure(&format!(
        "Host inner\n  HostName 127.0.0.1\n  Port {}\n  ProxyJump 127.0.0.1:{port}\n",
        inner.port
    ));
    let run = || json!({ "action": "run", "host": "inner", "command": "echo in" });
    // The inner host is not known.
    let refused = site.ask(run()).await.unwrap_err();
    assert_eq!((refused.code, inner.logins(), site.server.logins()), (ErrorCode::Forbidden, 0, 1));
    assert!(refused.text().contains(&inner.fingerprint()), "{}", refused.text());
    // The jump host is not known.
    let known = format!("[127.0.0.1]:{} {}", inner.port, inner.host_key());
    fs::write(site.ssh().join("known_hosts"), known).unwrap();
    let refused = site.ask(run()).await.unwrap_err();
    assert_eq!((refused.code, inner.logins(), site.server.logins()), (ErrorCode::Forbidden, 0, 1));
    assert!(refused.text().contains(&site.server.fingerprint()), "{}", refused.text());
    assert!(refused.text().contains("jump host"), "{}", refused.text());
    site.know(port);
    assert_eq!(site.ask(run()).await.unwrap()["stdout"]["text"], "in\n");
    assert_eq!((inner.logins(), site.server.logins()), (1, 2));
}
