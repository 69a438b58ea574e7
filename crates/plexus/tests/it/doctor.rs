//! `plexus doctor`: a healthy home has no findings, each problem is found, and the suggested fix repairs it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plexus_testkit::{Plexus, until};
use serde_json::Value;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode that can be set");
}

fn findings(report: &Value) -> &Vec<Value> {
    report["findings"].as_array().expect("findings")
}

/// Check and level of all findings that are not `ok`.
fn complaints(report: &Value) -> Vec<(String, String)> {
    let text = |finding: &Value, key: &str| finding[key].as_str().expect("text").to_owned();
    let wrong = findings(report).iter().filter(|finding| finding["level"] != "ok");
    wrong.map(|finding| (text(finding, "check"), text(finding, "level"))).collect()
}

/// A home whose hub has stopped, and a free address.
async fn stopped_home() -> (Plexus, String) {
    let plexus = crate::plexus();
    assert!(plexus.up().await.terminate().await.success());
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("its address").to_string();
    (plexus, address)
}

/// The only complaint about a healthy home without a running hub.
fn hub_not_running() -> (String, String) {
    ("hub".to_owned(), "problem".to_owned())
}

async fn doctor(plexus: &Plexus, code: i32, variables: &[(&str, &str)]) -> Value {
    plexus.run_with(&["doctor", "--json"], variables).await.json(code)
}

/// Message and fix of the problem that a check has found.
async fn problem(plexus: &Plexus, check: &str, variables: &[(&str, &str)]) -> (String, String) {
    let report = doctor(plexus, 1, variables).await;
    assert_eq!(report["ok"], false);
    let found: Vec<_> = findings(&report).iter().filter(|finding| finding["level"] == "problem").collect();
    let found = found.iter().find(|finding| finding["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no problem with the {check}: {report:#}"));
    let text = |key: &str| found[key].as_str().expect("text").to_owned();
    (text("message"), text("fix"))
}

#[tokio::test]
async fn healthy_home_has_no_complaints() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let report = doctor(&plexus, 0, &[]).await;
    assert_eq!(complaints(&report), [], "{report:#}");
    assert_eq!(report["ok"], true);
    let checks: Vec<_> = findings(&report).iter().map(|finding| finding["check"].as_str()).collect();
    for check in [
        "configuration",
        "environment",
        "data folder",
        "database",
        "signing key",
        "admin token",
        "upstreams",
        "profiles",
        "user tools",
        "hub",
        "version",
        "port",
        "clock",
        "disk",
        "open files",
    ] {
        assert!(checks.contains(&Some(check)), "{check} not in {checks:?}");
    }
    let printed = plexus.run(&["doctor"]).await;
    assert!(printed.ok().ends_with("Everything is in order.\n"), "{printed:?}");
}

#[tokio::test]
async fn missing_data_folder_is_one_warning() {
    let plexus = crate::plexus();
    let report = doctor(&plexus, 0, &[("PLEXUS_LISTEN", "127.0.0.1:0")]).await;
    let wrong = complaints(&report);
    // A missing folder is reported once.
    assert_eq!(wrong, [("data folder".to_owned(), "warning".to_owned())], "{report:#}");
    assert!(!plexus.data_dir().exists(), "a check created something");
}

#[tokio::test]
async fn wrong_file_modes_are_found_and_fixed() {
    let (plexus, address) = stopped_home().await;
    let listen = [("PLEXUS_LISTEN", address.as_str())];
    let folder = plexus.data_dir();
    for (path, mode, check) in [
        (folder.clone(), 0o755, "data folder"),
        (folder.join("plexus.db"), 0o644, "data folder"),
        (folder.join("signing-key"), 0o640, "signing key"),
        (folder.join("admin-token"), 0o604, "admin token"),
    ] {
        set_mode(&path, mode);
        let (message, fix) = problem(&plexus, check, &listen).await;
        assert!(fix.starts_with("chmod "), "{message}: {fix}");
        plexus.shell(&fix).await.ok();
        assert_eq!(complaints(&doctor(&plexus, 1, &listen).await), [hub_not_running()]);
    }
}

#[tokio::test]
async fn invalid_configuration_is_found_and_fixed() {
    let (plexus, address) = stopped_home().await;
    let listen = [("PLEXUS_LISTEN", address.as_str())];
    for text in ["lisen = 1\n", "[limits]\nbody_bytes = \"much\"\n"] {
        std::fs::write(plexus.data_dir().join("plexus.toml"), text).expect("a file");
        let (message, fix) = problem(&plexus, "configuration", &listen).await;
        assert!(message.contains("plexus.toml:"), "{message}");
        let (_, command) = fix.split_once("comment it out: ").expect("a command");
        plexus.shell(command).await.ok();
        assert_eq!(complaints(&doctor(&plexus, 1, &listen).await), [hub_not_running()]);
    }
    let (_, fix) = problem(&plexus, "configuration", &[("PLEXUS_DURABILITY", "always")]).await;
    assert_eq!(fix, "unset PLEXUS_DURABILITY");
    let report = doctor(&plexus, 1, &[listen[0], ("PLEXUS_LITSEN", "x")]).await;
    let misspelled = ("environment".to_owned(), "warning".to_owned());
    assert_eq!(complaints(&report), [misspelled, hub_not_running()], "{report:#}");
}

#[tokio::test]
async fn damaged_key_or_token_is_found() {
    let (plexus, address) = stopped_home().await;
    let listen = [("PLEXUS_LISTEN", address.as_str())];
    let folder = plexus.data_dir();
    let original = std::fs::read(folder.join("signing-key")).expect("the key");
    std::fs::write(folder.join("signing-key"), "not a key").expect("it can be written");
    let (message, _) = problem(&plexus, "signing key", &listen).await;
    assert!(message.contains("Ed25519"), "{message}");
    std::fs::write(folder.join("signing-key"), original).expect("it can be written");

    std::fs::write(folder.join("admin-token"), "not a token\n").expect("it can be written");
    let (_, fix) = problem(&plexus, "admin token", &listen).await;
    assert!(fix.contains("plexus up"), "{fix}");
    // The fix works: the next start creates a new token.
    let _hub = plexus.up().await;
    assert_eq!(complaints(&doctor(&plexus, 0, &[]).await), []);
}

#[tokio::test]
async fn damaged_or_newer_database_is_found_and_not_changed() {
    let (plexus, address) = stopped_home().await;
    let listen = [("PLEXUS_LISTEN", address.as_str())];
    let database = plexus.data_dir().join("plexus.db");
    let entries = || std::fs::read_dir(plexus.data_dir()).expect("the folder").count();
    let before = (std::fs::read(&database).expect("the database"), entries());
    let report = doctor(&plexus, 1, &listen).await;
    assert_eq!(complaints(&report), [hub_not_running()], "{report:#}");
    assert!(
        (std::fs::read(&database).expect("the database"), entries()) == before,
        "a check changed something"
    );

    use sqlx::ConnectOptions;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&database);
    let mut connection = options.connect().await.expect("the database");
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (999, 'later', TRUE, x'00', 0)";
    sqlx::query(newer).execute(&mut connection).await.expect("a row");
    sqlx::Connection::close(connection).await.expect("it closes");
    let (message, _) = problem(&plexus, "database", &listen).await;
    assert!(message.contains("schema 999, newer"), "{message}");

    for name in ["plexus.db-wal", "plexus.db-shm"] {
        let _ = std::fs::remove_file(plexus.data_dir().join(name));
    }
    std::fs::write(&database, [7; 5000]).expect("it can be written");
    let (message, _) = problem(&plexus, "database", &listen).await;
    assert!(message.contains("file is not a database"), "{message}");
}

#[tokio::test]
async fn port_in_use_is_found_and_the_fix_starts_a_hub() {
    let (plexus, _) = stopped_home().await;
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = occupied.local_addr().expect("its address").to_string();
    let (message, fix) = problem(&plexus, "port", &[("PLEXUS_LISTEN", &address)]).await;
    assert!(message.contains(&address), "{message}");
    let args: Vec<_> = fix.split_whitespace().skip(2).collect();
    let _hub = plexus.up_with(&args).await;
    assert_eq!(complaints(&doctor(&plexus, 0, &[("PLEXUS_LISTEN", &address)]).await), []);
}

#[tokio::test]
async fn killed_hub_is_found_and_the_fix_starts_another() {
    let plexus = crate::plexus();
    plexus.up().await.kill().await;
    let report = doctor(&plexus, 1, &[("PLEXUS_LISTEN", "127.0.0.1:0")]).await;
    let hub = findings(&report).iter().find(|finding| finding["check"] == "hub").expect("the check");
    assert_eq!((&hub["level"], &hub["fix"]), (&"problem".into(), &"plexus up".into()), "{report:#}");
    let _hub = plexus.up().await;
    assert_eq!(complaints(&doctor(&plexus, 0, &[]).await), []);
}

#[tokio::test]
async fn password_in_the_configuration_causes_a_warning() {
    let (plexus, address) = stopped_home().await;
    let file = plexus.home().join("mine.toml");
    std::fs::write(&file, "database_url = \"postgres://ann:hunter2@db.example/x\"\n").expect("a file");
    let args = ["doctor", "--config", file.to_str().expect("UTF-8")];
    let output = plexus.run_with(&args, &[("PLEXUS_LISTEN", &address)]).await;
    let line = output.stdout.lines().find(|line| line.contains("configuration")).expect("the check");
    assert!(line.starts_with("warning") && line.contains("mine.toml:1"), "{output:?}");
    assert!(!output.stdout.contains("hunter2") && !output.stderr.contains("hunter2"), "{output:?}");
}

#[tokio::test]
async fn missing_files_are_to_be_restored_from_a_backup() {
    let (plexus, address) = stopped_home().await;
    let listen = [("PLEXUS_LISTEN", address.as_str())];
    for (name, check, words) in [
        ("plexus.db", "database", "plexus db restore"),
        ("signing-key", "signing key", "from a backup"),
        ("audit.head", "audit", "put it back"),
    ] {
        let (original, moved_aside) = (plexus.data_dir().join(name), plexus.home().join(name));
        std::fs::rename(&original, &moved_aside).expect("it can be moved");
        let (message, fix) = problem(&plexus, check, &listen).await;
        assert!(message.contains(name) && fix.contains(words), "{message}: {fix}");
        std::fs::rename(&moved_aside, &original).expect("it can be moved");
    }
    let report = doctor(&plexus, 1, &listen).await;
    assert_eq!(complaints(&report), [hub_not_running()], "{report:#}");
}

#[tokio::test]
async fn audit_found_broken_by_a_running_hub_is_a_problem() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    hub.mcp(&token).tool("todo", serde_json::json!({ "action": "list" })).await;
    assert!(hub.terminate().await.success());
    std::fs::remove_file(plexus.data_dir().join("audit.head")).expect("it can be removed");
    let _hub = plexus.up().await;
    let (message, fix) = problem(&plexus, "audit", &[]).await;
    assert!(message.contains("signed head"), "{message}");
    assert_eq!(plexus.shell(&fix).await.code, Some(3));
}

#[tokio::test]
async fn database_that_differs_from_the_configuration_is_a_problem() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let other_database = [("PLEXUS_DATABASE_URL", "postgres://nobody@127.0.0.1:1/x")];
    let report = doctor(&plexus, 1, &other_database).await;
    let of = |words: &str| findings(&report).iter().any(|found| found["message"].to_string().contains(words));
    assert!(of("the hub uses sqlite"), "{report:#}");
    // The cause is reported once.
    let text = report.to_string();
    assert!(text.matches("refused").count() <= 1, "{text}");
}

#[tokio::test]
async fn foreign_folder_is_one_problem() {
    let plexus = crate::plexus();
    let project = plexus.home().join("project");
    std::fs::create_dir(&project).expect("a folder");
    std::fs::write(project.join("main.rs"), "").expect("a file");
    for path in [project.clone(), project.join("main.rs")] {
        let args = ["doctor", "--json", "--data-dir", path.to_str().expect("UTF-8")];
        let report = plexus.run_with(&args, &[("PLEXUS_LISTEN", "127.0.0.1:0")]).await.json(1);
        let problems: Vec<_> =
            complaints(&report).into_iter().filter(|(_, level)| level == "problem").collect();
        assert_eq!(problems, [("data folder".to_owned(), "problem".to_owned())], "{report:#}");
        assert!(!report.to_string().contains("chmod"), "{report:#}");
    }
}

#[tokio::test]
async fn invalid_custom_tool_is_found_with_and_without_a_hub() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    assert_eq!(plexus.run(&["tools", "new", "greet"]).await.code, Some(0));
    assert_eq!(plexus.run(&["tools", "enable", "greet"]).await.code, Some(0));
    let report = doctor(&plexus, 0, &[]).await;
    assert!(report.to_string().contains("defined: 1, enabled: 1"), "{report:#}");
    let enabled = plexus.run(&["tools", "list", "--defined", "--json"]).await.json(0);
    let manifest = enabled["items"][0]["file"].as_str().expect("a file").to_owned();
    assert!(hub.terminate().await.success());

    std::fs::write(&manifest, "{").expect("a file");
    let found = async || {
        let (message, fix) = problem(&plexus, "user tools", &[]).await;
        assert!(message.contains(&manifest) && fix.contains(&manifest), "{message}: {fix}");
    };
    found().await;
    std::fs::remove_file(&manifest).expect("a file");
    let _hub = plexus.up().await;
    let named = [("PLEXUS_TOOLS_ENABLED", "nowhere")];
    let report = doctor(&plexus, 0, &named).await;
    assert_eq!(complaints(&report), [("user tools".to_owned(), "warning".to_owned())], "{report:#}");
    assert!(report.to_string().contains("nowhere is enabled by `tools.enabled`"), "{report:#}");
    std::fs::write(&manifest, "{").expect("a file");
    assert_eq!(plexus.run(&["tools", "enable", "greet"]).await.code, Some(1), "the file is read again");
    found().await;
}

#[tokio::test]
async fn invalid_profile_and_unknown_tool_in_a_profile_are_found() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let folder = plexus.data_dir().join("profiles");
    let write = |id: &str, config: &str| {
        std::fs::create_dir_all(folder.join(id)).expect("a folder");
        std::fs::write(folder.join(id).join("config.json"), config).expect("a file");
    };
    write("small", r#"{"enabled_tools": ["todo", "zebra"]}"#);
    // Once a token can be created for the profile, the hub has read it.
    let create = ["token", "create", "--kind", "agent", "--name", "a", "--profile", "small"];
    until("the hub has read the profile", async || plexus.run(&create).await.code == Some(0)).await;
    let report = doctor(&plexus, 0, &[]).await;
    assert_eq!(complaints(&report), [("profiles".to_owned(), "warning".to_owned())], "{report:#}");
    assert!(
        report.to_string().contains("small: enabled_tools: there is no tool zebra at present"),
        "{report:#}"
    );

    write("small", r#"{"enabled_tool": ["todo"], "budgets": {}}"#);
    let (message, fix) = problem(&plexus, "profiles", &[]).await;
    assert!(message.contains("small/config.json") && fix.contains("see no tools"), "{message}: {fix}");
    let report = doctor(&plexus, 1, &[]).await;
    let problems = complaints(&report).into_iter().filter(|(_, level)| level == "problem").count();
    assert_eq!(problems, 2, "each mistake of a file is reported: {report:#}");

    std::fs::remove_dir_all(folder.join("small")).expect("it can be removed");
    until("the token without a profile causes a warning", async || {
        doctor(&plexus, 0, &[]).await.to_string().contains("has the profile small, which does not exist")
    })
    .await;
}
