//! The start of a hub: files, output, readiness, and refusals.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, ProgramOutput, Signal, eventually, send, until};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    metadata.permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode that can be set");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[tokio::test]
async fn first_start_creates_private_files_and_prints_no_secrets() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let folder = hub.data_dir();
    assert_eq!(folder, plexus.data_dir());
    assert_eq!(mode(folder), 0o700);
    for name in ["signing-key", "admin-token", "plexus.db", "hub.json"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    let token = hub.token("codex").await;
    hub.mcp(&token.token).tool("todo", serde_json::json!({ "action": "list" })).await;
    for entry in std::fs::read_dir(folder).expect("the data folder") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path) & 0o077, 0, "{} is open to others", path.display());
    }
    let file = std::fs::read_to_string(folder.join("hub.json")).expect("the address file");
    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!(file, serde_json::json!({ "url": hub.url(""), "pid": hub.pid() }));

    assert!(hub.welcome().starts_with("Plexus is ready.\n"), "{}", hub.welcome());
    assert!(hub.welcome().contains(&hub.url("/mcp")), "{}", hub.welcome());
    let key = std::fs::read(folder.join("signing-key")).expect("the key");
    let key_hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let printed = format!("{}{}", hub.welcome(), hub.log());
    for secret in [hub.admin_token().as_str(), &token.token, &key_hex, "eyJ"] {
        assert!(!printed.contains(secret), "a secret in {printed}");
    }
}

#[tokio::test]
async fn existing_folder_is_made_private() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("open");
    std::fs::create_dir(&folder).expect("a folder");
    set_mode(&folder, 0o755);
    let _hub = plexus.up_with(&["--data-dir", text(&folder)]).await;
    assert_eq!(mode(&folder), 0o700);
}

/// The commands that a hub prints, without their descriptions.
fn printed_commands(hub: &HubProcess) -> Vec<String> {
    let lines = hub.welcome().lines().filter_map(|line| line.strip_prefix("  plexus "));
    lines.map(|line| format!("plexus {}", line.split("   ").next().unwrap_or_default())).collect()
}

/// Runs the printed commands in a shell, like a user who copies them.
async fn check_printed_commands(plexus: &Plexus, hub: &HubProcess) {
    let commands = printed_commands(hub);
    assert_eq!(commands.len(), 4, "{}", hub.welcome());
    // No agent is installed in the test.
    let output = plexus.shell(&commands[0]).await;
    assert!(output.failed(1).contains("no agent was found on this machine"), "{output:?}");
    for (command, expected) in commands[1..].iter().zip(["audit chain\tempty", "todo", "upstream add"]) {
        let output = plexus.shell(command).await;
        assert_eq!(output.code, Some(0), "{command}: {output:?}");
        assert!(output.stdout.contains(expected), "{command}: {output:?}");
    }
}

#[tokio::test]
async fn printed_commands_work() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    check_printed_commands(&plexus, &hub).await;
}

#[tokio::test]
async fn printed_commands_work_for_another_folder() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("elsewhere/data");
    let hub = plexus.up_with(&["--data-dir", text(&folder)]).await;
    check_printed_commands(&plexus, &hub).await;
}

#[tokio::test]
async fn printed_commands_work_for_a_folder_with_a_space() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("my data");
    let hub = plexus.up_with(&["--data-dir", text(&folder)]).await;
    check_printed_commands(&plexus, &hub).await;
}

#[tokio::test]
async fn hub_on_all_interfaces_is_reached_over_loopback() {
    let plexus = crate::plexus();
    let hub = plexus.up_with(&["--listen", "0.0.0.0:0"]).await;
    assert!(hub.url("").starts_with("http://127.0.0.1:"), "{}", hub.welcome());
    assert!(
        hub.welcome().contains("0.0.0.0:") && hub.welcome().contains("all interfaces"),
        "{}",
        hub.welcome()
    );
    let file = std::fs::read_to_string(hub.data_dir().join("hub.json")).expect("the address file");
    assert!(file.contains(&hub.url("")) && !file.contains("0.0.0.0"), "{file}");
    check_printed_commands(&plexus, &hub).await;
}

/// An address of this machine that is not loopback; `None` without a network.
fn network_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing; the kernel only selects a source address.
    socket.connect("203.0.113.77:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[tokio::test]
async fn local_commands_use_a_hub_on_a_network_address() {
    let Some(ip) = network_address() else {
        eprintln!("skipped: this machine is on no network");
        return;
    };
    // The admin token must not go through a proxy.
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    proxy.set_nonblocking(true).expect("a mode that can be set");
    let proxy_url = format!("http://{}", proxy.local_addr().expect("its address"));
    let plexus = crate::plexus().with("http_proxy", proxy_url);
    let hub = plexus.up_with(&["--listen", &SocketAddr::new(ip, 0).to_string()]).await;
    assert!(hub.url("").contains(&ip.to_string()), "{}", hub.welcome());
    check_printed_commands(&plexus, &hub).await;
    plexus.run(&["doctor"]).await.ok();
    assert!(proxy.accept().is_err(), "a request went to the proxy");
    // A hub given by URL may be any hub, so it needs a token, which doctor reports.
    let named = plexus.run(&["status", "--hub", &hub.url("")]).await;
    assert!(named.failed(5).contains("set PLEXUS_TOKEN"), "{named:?}");
    let report = plexus.run(&["doctor", "--json", "--hub", &hub.url("")]).await.json(1);
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let fix = findings.find(|finding| finding["check"] == "hub").expect("the hub")["fix"].to_string();
    assert!(fix.contains("set PLEXUS_TOKEN") && !fix.contains("correct --hub"), "{fix}");
}

#[tokio::test]
async fn second_hub_on_the_same_folder_is_refused() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let second = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    let stderr = second.failed(1);
    assert!(stderr.contains(&format!("(process {})", hub.pid())), "{stderr}");
    assert!(stderr.contains("--data-dir"), "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{stderr}");
    // With the address in use too, the reported reason is the folder.
    let address = hub.url("").trim_start_matches("http://").to_owned();
    let again = plexus.run(&["up", "--listen", &address]).await;
    let stderr = again.failed(1);
    let reason = format!("a hub already runs on the data folder {}", text(hub.data_dir()));
    let expected_line = format!("error: {reason} (process {}), at {}\n", hub.pid(), hub.url(""));
    assert!(stderr.contains(&expected_line), "{expected_line} not in {stderr}");
    assert!(!stderr.contains("cannot listen"), "{stderr}");
    // The first hub is not affected.
    plexus.run(&["status"]).await.ok();
    // The lock of a killed hub is released.
    hub.kill().await;
    plexus.up().await;
}

#[tokio::test]
async fn address_in_use_is_named() {
    let plexus = crate::plexus();
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = occupied.local_addr().expect("its address").to_string();
    let output = plexus.run(&["up", "--listen", &address]).await;
    let stderr = output.failed(1);
    assert!(stderr.contains(&format!("error: cannot listen on {address}: ")), "{stderr}");
    assert!(stderr.lines().any(|line| line.starts_with("hint: ") && line.contains("--listen")), "{stderr}");
}

/// Checks that a start failed with this code and one error that contains these words.
fn check_refused(output: &ProgramOutput, code: i32, words: &[&str]) {
    let stderr = output.failed(code);
    assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{stderr}");
    for words in words {
        assert!(stderr.contains(words), "{words:?} is not in: {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[tokio::test]
async fn failed_start_is_explained() {
    let plexus = crate::plexus();
    let home = plexus.home();
    let file = home.join("file");
    std::fs::write(&file, "").expect("a file");
    let up = async |args: &[&str]| plexus.run(&[&["up", "--listen", "127.0.0.1:0"], args].concat()).await;

    check_refused(&up(&["--data-dir", text(&file)]).await, 1, &["data folder", text(&file)]);
    // Not even root can create a folder there.
    check_refused(&up(&["--data-dir", "/proc/plexus"]).await, 1, &["data folder", "/proc/plexus"]);
    check_refused(&plexus.run(&["up", "--listen", "nonsense"]).await, 2, &["\"nonsense\"", "127.0.0.1:7420"]);

    let config = home.join("plexus.toml");
    std::fs::write(&config, "lisen = \"127.0.0.1:0\"\n").expect("a file");
    check_refused(&up(&["--config", text(&config)]).await, 2, &[text(&config), "`lisen`", "`listen`"]);
    std::fs::write(&config, "durability = \"always\"\n").expect("a file");
    check_refused(&up(&["--config", text(&config)]).await, 2, &["always", "`process`", "`power`"]);
    let missing = home.join("missing.toml");
    check_refused(&up(&["--config", text(&missing)]).await, 2, &[text(&missing)]);

    let secret = "hunter2";
    let url = format!("mysql://root:{secret}@db.example.net/x");
    for output in [
        up(&["--database-url", &url]).await,
        plexus.run_with(&["up", "--listen", "127.0.0.1:0"], &[("PLEXUS_DATABASE_URL", &url)]).await,
    ] {
        let code = output.code.expect("an exit code");
        assert!(matches!(code, 1 | 2), "{output:?}");
        check_refused(&output, code, &["mysql", "sqlite:"]);
        assert!(!output.stderr.contains(secret) && !output.stderr.contains("example"), "{output:?}");
    }
}

#[tokio::test]
async fn foreign_folder_is_not_changed() {
    use std::os::unix::fs::PermissionsExt;
    let plexus = crate::plexus();
    let project = plexus.home().join("project");
    std::fs::create_dir(&project).expect("a folder");
    std::fs::write(project.join("main.rs"), "").expect("a file");
    set_mode(&project, 0o755);
    let output = plexus.run(&["up", "--listen", "127.0.0.1:0", "--data-dir", text(&project)]).await;
    check_refused(&output, 1, &[text(&project), "neither empty nor a data folder of Plexus", "--data-dir"]);
    let mode = std::fs::metadata(&project).expect("the folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(std::fs::read_dir(&project).expect("the folder").count(), 1);
}

#[tokio::test]
async fn signing_key_readable_by_others_is_refused_with_a_fix() {
    let plexus = crate::plexus();
    assert!(plexus.up().await.terminate().await.success());
    let key = plexus.data_dir().join("signing-key");
    set_mode(&key, 0o644);
    let output = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    let fix = format!("chmod 600 {}", text(&key));
    check_refused(&output, 1, &["0644", &fix]);
    assert_eq!(output.stderr.matches(&fix).count(), 1, "printed twice: {}", output.stderr);
    assert!(plexus.shell(&fix).await.ok().is_empty());
    plexus.up().await;
}

#[tokio::test]
async fn damaged_database_or_key_is_named() {
    let plexus = crate::plexus();
    let folder = plexus.data_dir();
    assert!(plexus.up().await.terminate().await.success());
    let key = std::fs::read(folder.join("signing-key")).expect("the key");
    std::fs::write(folder.join("signing-key"), "not a key").expect("it can be written");
    let up = ["up", "--listen", "127.0.0.1:0"];
    check_refused(&plexus.run(&up).await, 1, &["signing key", text(&folder.join("signing-key"))]);
    std::fs::write(folder.join("signing-key"), key).expect("it can be written");

    let database = folder.join("plexus.db");
    for name in ["plexus.db-wal", "plexus.db-shm"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    std::fs::write(&database, [7; 5000]).expect("it can be written");
    let output = plexus.run(&up).await;
    check_refused(&output, 1, &[text(&database), "file is not a database"]);
    assert_eq!(std::fs::read(&database).expect("the file"), [7; 5000], "the damaged file was changed");
}

/// Locks the database against writes until the returned connection is dropped.
async fn lock_database(plexus: &Plexus) -> sqlx::SqliteConnection {
    let folder = plexus.data_dir();
    std::fs::create_dir_all(&folder).expect("a folder");
    let options = SqliteConnectOptions::new()
        .filename(folder.join("plexus.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let mut lock = options.connect().await.expect("a database");
    sqlx::query("BEGIN IMMEDIATE").execute(&mut lock).await.expect("the lock");
    lock
}

/// Status and body of a URL, once the hub listens.
async fn status_once_listening(plexus: &Plexus, url: &str) -> (u16, String) {
    eventually(url, async || {
        let response = plexus.http().get(url).send().await?;
        Ok::<_, reqwest::Error>((response.status().as_u16(), response.text().await?))
    })
    .await
}

/// An address where nothing listens. Needed because the hub prints its address only when it is ready. In theory another
/// process could take it before the hub does.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

#[tokio::test]
async fn starting_hub_answers_service_unavailable() {
    let plexus = crate::plexus();
    let lock = lock_database(&plexus).await;
    let address = free_address();
    let child = plexus.spawn(&["up", "--listen", &address]);
    let (status, body) = status_once_listening(&plexus, &format!("http://{address}/readyz")).await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("the hub is starting"), "{body}");
    assert_eq!(
        status_once_listening(&plexus, &format!("http://{address}/healthz")).await,
        (200, "ok\n".to_owned())
    );
    for path in ["/mcp", "/mcp/v1", "/api/v1/status"] {
        let response = plexus.http().get(format!("http://{address}{path}")).bearer_auth("x").send().await;
        let response = response.expect("an answer");
        assert_eq!(response.status(), 503, "{path}");
        assert_eq!(response.headers()["retry-after"], "1", "{path}");
    }
    drop(lock);
    let url = format!("http://{address}/readyz");
    until("the hub is ready", async || status_once_listening(&plexus, &url).await.0 == 200).await;
    drop(child);
}

#[tokio::test]
async fn hub_can_be_stopped_while_it_starts() {
    let plexus = crate::plexus();
    let _lock = lock_database(&plexus).await;
    let address = free_address();
    let mut child = plexus.spawn(&["up", "--listen", &address]);
    status_once_listening(&plexus, &format!("http://{address}/healthz")).await;
    send(&child, Signal::TERM);
    let ended = tokio::time::timeout(Duration::from_secs(5), child.wait()).await;
    assert_eq!(ended.expect("it stops in time").expect("a status").code(), Some(0));
}
