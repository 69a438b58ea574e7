//! Files of MCP servers: written before the first start, migrated from the old format, and checked by the doctor without a
//! hub.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
    set_mode(path, 0o600);
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode that can be set");
}

/// Level, message and fix of the findings of the doctor about servers; `folder` is removed from the texts.
fn findings(report: &Value, folder: &Path) -> Vec<(String, String, String)> {
    let found = report["findings"].as_array().expect("findings");
    let text =
        |value: &Value| value.as_str().unwrap_or_default().replace(&format!("{}/", folder.display()), "");
    let of_upstreams = found.iter().filter(|finding| finding["check"] == "upstreams");
    of_upstreams
        .map(|finding| (text(&finding["level"]), text(&finding["message"]), text(&finding["fix"])))
        .collect()
}

#[tokio::test]
async fn doctor_checks_the_files_without_a_hub() {
    let plexus = crate::plexus();
    let folder = plexus.data_dir().join("mcp_servers.d");
    let listen = [("PLEXUS_LISTEN", "127.0.0.1:0")];
    write(&folder.join("fine.json"), r#"{"command": "sh"}"#);
    write(&folder.join("remote.toml"), "url = \"https://mcp.example.net/mcp\"\n");
    let report = plexus.run_with(&["doctor", "--json"], &listen).await.json(0);
    let [(level, message, _)] = &findings(&report, &folder)[..] else { panic!("{report:#}") };
    assert_eq!((level.as_str(), message.ends_with(": 2")), ("ok", true), "{message}");

    write(&folder.join("gone.json"), r#"{"command": "no-such-program-anywhere"}"#);
    write(&folder.join("literal.json"), r#"{"command": "sh", "env": {"API_TOKEN": "hunter2"}}"#);
    write(&folder.join("node.json"), r#"{"command": "sh", "node": "laptop"}"#);
    write(&folder.join("off.json"), r#"{"command": "no-such-program-anywhere", "enabled": false}"#);
    write(&folder.join("wrong.json"), r#"{"comand": "sh", "timeout": "x"}"#);
    let report = plexus.run_with(&["doctor", "--json"], &listen).await.json(1);
    let found = findings(&report, &folder);
    let problems: Vec<(&str, &str)> =
        found.iter().map(|(level, message, _)| (level.as_str(), message.as_str())).collect();
    assert_eq!(
        problems,
        [
            ("problem", "gone.json: the program in `command` does not exist"),
            ("warning", "literal.json: `env.API_TOKEN` holds what looks like a credential"),
            ("problem", "node.json: `node` is set, but servers cannot run on nodes yet"),
            ("problem", "wrong.json: `comand` is not a known key"),
            ("problem", "wrong.json: `timeout` is not a duration"),
        ]
    );
    let fixes: Vec<&str> = found.iter().map(|(_, _, fix)| fix.as_str()).collect();
    assert_eq!(
        fixes[1..4],
        [
            "write `${env:API_TOKEN}` instead, and set that variable where the hub is started",
            "remove it: the server then runs on the hub's machine",
            "did you mean `command`?",
        ]
    );
    assert!(!report.to_string().contains("hunter2"), "{report:#}");
}

#[tokio::test]
async fn doctor_finds_files_writable_by_others_and_the_fix_works() {
    let plexus = crate::plexus();
    let folder = plexus.data_dir().join("mcp_servers.d");
    let listen = [("PLEXUS_LISTEN", "127.0.0.1:0")];
    let file = folder.join("a server.json");
    write(&file, r#"{"command": "sh"}"#);
    write(&folder.join("remote.json"), r#"{"url": "https://mcp.example.net/mcp"}"#);
    set_mode(&folder, 0o777);
    let report = plexus.run_with(&["doctor", "--json"], &listen).await.json(1);
    let found = findings(&report, &folder);
    let [of_folder, refused] = &found[..] else { panic!("the folder once, and the process: {found:?}") };
    assert_eq!((of_folder.0.as_str(), refused.0.as_str()), ("problem", "problem"), "{found:?}");
    assert!(of_folder.1.contains("mcp_servers.d has mode 0777: every user of this machine"), "{found:?}");
    assert!(refused.1.starts_with("a server.json: is in a folder that has mode 0777"), "{found:?}");
    plexus.shell(&of_folder.2).await.ok();
    set_mode(&file, 0o664);
    let report = plexus.run_with(&["doctor", "--json"], &listen).await.json(0);
    let found = findings(&report, Path::new("/nowhere"));
    let [(level, message, fix)] = &found[..] else { panic!("{found:?}") };
    assert!(message.contains("a server.json has mode 0664: every user of its group"), "{message}");
    assert_eq!(level, "warning");
    plexus.shell(fix).await.ok();
    let report = plexus.run_with(&["doctor", "--json"], &listen).await.json(0);
    assert_eq!(findings(&report, &folder)[0].0, "ok", "{report:#}");
}

#[tokio::test]
async fn old_file_is_migrated_at_the_first_start() {
    let plexus = crate::plexus();
    let data = plexus.data_dir();
    // Disabled, since the test is about the files only.
    let servers =
        json!({ "mcpServers": { "time": { "command": "uvx", "disabled": true }, "live": { "type": "ws" } } });
    write(&data.join("mcp_servers.json"), &servers.to_string());
    write(&data.join("mcp_servers.d/git.json"), r#"{"command": "uvx", "enabled": false}"#);
    write(&data.join("profiles/mine/config.json"), "{}");
    let hub = plexus.up().await;
    let written = std::fs::read_to_string(data.join("mcp_servers.d/time.json")).expect("a file of its own");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(written, json!({ "command": "uvx", "enabled": false }));
    assert!(!data.join("mcp_servers.json").exists());
    let names =
        std::fs::read_dir(&data).expect("the data folder").map(|entry| entry.expect("an entry").file_name());
    let backups: Vec<_> =
        names.filter(|name| name.to_string_lossy().starts_with("mcp_servers.json.migrated-")).collect();
    let [backup] = &backups[..] else { panic!("{backups:?}") };
    assert_eq!(std::fs::read_to_string(data.join(backup)).expect("the backup"), servers.to_string());
    let log = hub.log();
    assert!(log.contains("migrated the servers of mcp_servers.json to one file each"), "{log}");
    assert!(
        log.contains("\"live\" is left out: its `type` is not one of the supported stdio, sse and http"),
        "{log}"
    );
}

#[tokio::test]
async fn servers_folder_can_be_set_by_flag() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("servers");
    let path = folder.to_str().expect("UTF-8");
    let hub = plexus.up_with(&["--mcp-dir", path]).await;
    let settings = hub.api("/api/v1/config").await;
    let settings = settings["items"].as_array().expect("settings");
    let dir = settings.iter().find(|setting| setting["key"] == "upstreams.dir").expect("the setting");
    assert_eq!((&dir["value"], &dir["origin"]), (&json!(path), &json!("--mcp-dir")));
}
