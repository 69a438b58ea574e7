//! A caller's text is only ever a host, a user, a port, a path or a command on the host.

use std::fs;

use plexus_proto::ErrorCode;
use serde_json::{Value, json};

use super::site::{Site, names};
use crate::workbench::RecordedEvents;

#[tokio::test]
async fn arguments_never_become_local_options_or_commands() {
    let Some(site) = Site::new().await else { return };
    let mark = site.bench.home().join("mark");
    let touch = format!("touch {}", mark.display());
    let tries = [
        format!("-oProxyCommand={touch}"),
        format!("-oProxyCommand={touch} 127.0.0.1"),
        "-F/etc/passwd".to_owned(),
        format!("x -oProxyCommand={touch}"),
        format!("x\n-oProxyCommand={touch}"),
        format!("x;{touch}"),
        format!("x$({touch})"),
        format!("x`{touch}`"),
        format!("x|{touch}"),
        format!("'x' & {touch}"),
        format!("root@127.0.0.1 -oLocalCommand={touch}"),
        format!("ssh://-oProxyCommand={touch}/"),
        "127.0.0.1%eth0".to_owned(),
        "%h".to_owned(),
        "user@127.0.0.1".to_owned(),
        "127.0.0.1:22".to_owned(),
        "[127.0.0.1]".to_owned(),
        "-".to_owned(),
        "--".to_owned(),
        String::new(),
        "a\u{0}b".to_owned(),
        "ｌocalhost".to_owned(),
    ];
    // A proxy command of the owner that passes its arguments to a shell.
    site.configure("Host *\n  ProxyCommand sh -c \"echo %n %h %r >/dev/null; exit 1\"\n");
    for text in &tries {
        let mut calls: Vec<Value> = vec![json!({ "host": text, "port": site.server.port })];
        if !text.is_empty() {
            calls.push(json!({ "host": "127.0.0.1", "port": site.server.port, "user": text }));
        }
        for mut call in calls {
            call["action"] = json!("run");
            call["command"] = json!("true");
            let refused = site.ask(call.clone()).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::InvalidArguments, "{call}: {}", refused.text());
            assert!(!mark.exists(), "{call}");
        }
    }
    for extra in ["options", "proxy_command", "config", "identity_file", "env"] {
        let mut call = site.arguments(json!({ "action": "run", "command": "true" }));
        call[extra] = json!(format!("ProxyCommand={touch}"));
        assert_eq!(site.ask(call).await.unwrap_err().code, ErrorCode::InvalidArguments, "{extra}");
    }
    assert_eq!((site.server.logins(), mark.exists()), (0, false));
    assert!(site.sockets().is_empty(), "{:?}", site.sockets());
}

#[tokio::test]
async fn remote_paths_are_never_interpreted() {
    let Some(site) = Site::new().await else { return };
    fs::write(site.bench.home().join("file"), "content").unwrap();
    let names_there =
        ["-oProxyCommand=x", "a b", "$(touch x)", "`id`", "it's", "a;b", "*", "%h", "\n", "é", "~x"];
    for name in names_there {
        let remote = site.host_folder.path().join(name);
        let upload = json!({ "action": "upload", "path": "~/file", "remote_path": remote.to_str().unwrap() });
        site.ask(upload).await.unwrap_or_else(|refused| panic!("{name:?}: {}", refused.text()));
        assert_eq!(fs::read_to_string(&remote).unwrap(), "content", "{name:?}");
    }
    let mut remote_file = names(site.host_folder.path());
    remote_file.sort();
    let mut expected: Vec<_> = names_there.iter().map(|name| (*name).to_owned()).collect();
    expected.sort();
    assert_eq!(remote_file, expected);
}

#[tokio::test]
async fn denied_files_are_neither_sent_nor_overwritten() {
    let Some(site) = Site::new().await else { return };
    let remote_file = site.host_folder.path().join("stolen");
    let remote = remote_file.to_str().unwrap();
    std::os::unix::fs::symlink(site.ssh().join("id_ed25519"), site.bench.home().join("innocent")).unwrap();
    fs::hard_link(site.ssh().join("id_ed25519"), site.bench.home().join("second-name")).unwrap();
    let node = site.bench.folder().join("node.db").display().to_string();
    for path in [
        "~/.ssh/id_ed25519",
        "~/innocent",
        "~/second-name",
        "/etc/shadow",
        "/proc/self/environ",
        "/dev/zero",
        &node,
    ] {
        let refused =
            site.ask(json!({ "action": "upload", "path": path, "remote_path": remote })).await.unwrap_err();
        assert!(!remote_file.exists(), "{path}: {}", refused.text());
    }
    let known = fs::read_to_string(site.ssh().join("known_hosts")).unwrap();
    let source = site.host_folder.path().join("evil");
    fs::write(&source, "ssh-ed25519 AAAA evil").unwrap();
    std::os::unix::fs::symlink(site.ssh().join("known_hosts"), site.bench.home().join("door")).unwrap();
    for path in [
        "~/.ssh/authorized_keys",
        "~/.ssh/config",
        "~/door",
        "~/.bashrc",
        "/etc/plexus-evil",
        "/usr/plexus-evil",
    ] {
        let download = json!({ "action": "download", "path": path, "remote_path": source.to_str().unwrap() });
        let refused = site.ask(download).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Forbidden, "{path}: {}", refused.text());
    }
    assert_eq!(fs::read_to_string(site.ssh().join("known_hosts")).unwrap(), known);
    assert_eq!(names(&site.ssh()), ["id_ed25519", "id_ed25519.pub", "known_hosts"]);
    assert_eq!(site.server.logins(), 0, "no connection was opened for it");
}

#[tokio::test]
async fn keys_never_appear_in_answers_events_or_records() {
    let Some(site) = Site::new().await else { return };
    let key = fs::read_to_string(site.ssh().join("id_ed25519")).unwrap();
    let secret = key.lines().nth(2).unwrap().to_owned();
    let events = RecordedEvents::default();
    let mut visible = String::new();
    let mut wrong = site.arguments(json!({ "action": "run", "command": "true" }));
    wrong["user"] = json!("nobody-of-that-name");
    let calls = [
        site.arguments(json!({ "action": "run", "command": "env; cat; echo e >&2", "stdin": "x" })),
        wrong,
        { json!({ "action": "list" }) },
    ];
    for arguments in calls {
        let cancel = tokio_util::sync::CancellationToken::new();
        match site.bench.call("ssh_exec", arguments, cancel, Some(events.clone())).await {
            Ok(output) => visible.push_str(&format!("{}{:?}", output.text(), output.structured())),
            Err(error) => visible.push_str(&format!("{}{}", error.text(), error.details)),
        }
    }
    visible.push_str(&format!("{:?}", events.lock().unwrap()));
    assert!(visible.contains("PATH="), "{visible}");
    for hidden in [secret.as_str(), "id_ed25519", "PRIVATE KEY", "PLEXUS_NODE_KEY"] {
        assert!(!visible.contains(hidden), "{hidden}: {visible}");
    }
    // The node's own folder, including its database.
    let mut folders = vec![site.bench.folder().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(content) = fs::read(&path) {
                let found = content.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{}", path.display());
            }
        }
    }
}
