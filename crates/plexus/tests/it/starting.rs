//! How a hub starts: what it makes, what it prints, when it is ready, and why it refuses.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, Ran, Signal, send};
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
async fn the_first_start_makes_private_files_and_prints_nothing_secret() {
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
async fn an_existing_folder_is_closed_to_others() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("open");
    std::fs::create_dir(&folder).expect("a folder");
    set_mode(&folder, 0o755);
    let _hub = plexus.up_with(&["--data-dir", text(&folder)]).await;
    assert_eq!(mode(&folder), 0o700);
}

/// The commands in what a hub prints: indented, and followed by what they are for.
fn printed_commands(hub: &HubProcess) -> Vec<String> {
    let lines = hub.welcome().lines().filter_map(|line| line.strip_prefix("  plexus "));
    lines.map(|line| format!("plexus {}", line.split("   ").next().unwrap_or_default())).collect()
}

/// Runs them in a shell, as somebody would who copies them from the terminal.
async fn printed_commands_work(plexus: &Plexus, hub: &HubProcess) {
    let commands = printed_commands(hub);
    assert_eq!(commands.len(), 4, "{}", hub.welcome());
    // No agent is installed here, which is said.
    let ran = plexus.shell(&commands[0]).await;
    assert!(ran.failed(1).contains("no agent was found on this machine"), "{ran:?}");
    for (command, expected) in commands[1..].iter().zip(["nothing is on record yet", "todo", "upstream add"])
    {
        let ran = plexus.shell(command).await;
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
        assert!(ran.stdout.contains(expected), "{command}: {ran:?}");
    }
}

#[tokio::test]
async fn the_printed_commands_work() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    printed_commands_work(&plexus, &hub).await;
}

#[tokio::test]
async fn the_printed_commands_work_for_another_folder() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("elsewhere/data");
    let hub = plexus.up_with(&["--data-dir", text(&folder)]).await;
    printed_commands_work(&plexus, &hub).await;
}

#[tokio::test]
async fn the_printed_commands_work_for_a_folder_with_a_space() {
    let plexus = crate::plexus();
    let folder = plexus.home().join("my data");
    let hub = plexus.up_with(&["--data-dir", text(&folder)]).await;
    printed_commands_work(&plexus, &hub).await;
}

#[tokio::test]
async fn a_hub_on_all_interfaces_is_reached_over_loopback() {
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
    printed_commands_work(&plexus, &hub).await;
}

/// An address of this machine that is not loopback; none where it is on no network.
fn network_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this only asks which way it would go.
    socket.connect("203.0.113.77:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[tokio::test]
async fn a_hub_on_a_network_address_is_used_by_commands_of_its_own_machine() {
    let Some(ip) = network_address() else {
        eprintln!("left out: this machine is on no network");
        return;
    };
    // A proxy is no place for the admin token.
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    proxy.set_nonblocking(true).expect("a mode that can be set");
    let proxy_url = format!("http://{}", proxy.local_addr().expect("its address"));
    let plexus = crate::plexus().with("http_proxy", proxy_url);
    let hub = plexus.up_with(&["--listen", &SocketAddr::new(ip, 0).to_string()]).await;
    assert!(hub.url("").contains(&ip.to_string()), "{}", hub.welcome());
    printed_commands_work(&plexus, &hub).await;
    plexus.run(&["doctor"]).await.ok();
    assert!(proxy.accept().is_err(), "the proxy was asked");
    // Named by hand it may be any hub, and doctor says what is missing.
    let named = plexus.run(&["status", "--hub", &hub.url("")]).await;
    assert!(named.failed(5).contains("set PLEXUS_TOKEN"), "{named:?}");
    let report = plexus.run(&["doctor", "--json", "--hub", &hub.url("")]).await.json(1);
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let fix = findings.find(|finding| finding["check"] == "hub").expect("the hub")["fix"].to_string();
    assert!(fix.contains("set PLEXUS_TOKEN") && !fix.contains("correct --hub"), "{fix}");
}

#[tokio::test]
async fn a_second_hub_on_the_same_folder_is_refused() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let second = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    let said = second.failed(1);
    assert!(said.contains(&format!("(process {})", hub.pid())), "{said}");
    assert!(said.contains("--data-dir"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
    // Also where it would find its address taken: that the folder is in use is the reason.
    let address = hub.url("").trim_start_matches("http://").to_owned();
    let again = plexus.run(&["up", "--listen", &address]).await;
    let said = again.failed(1);
    let reason = format!("a hub already runs on the data folder {}", text(hub.data_dir()));
    let whole = format!("error: {reason} (process {}), at {}\n", hub.pid(), hub.url(""));
    assert!(said.contains(&whole), "{whole} not in {said}");
    assert!(!said.contains("cannot listen"), "{said}");
    // The first one is none the worse for it, and found as before.
    plexus.run(&["status"]).await.ok();
    // What a dead hub held is free.
    hub.kill().await;
    plexus.up().await;
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let plexus = crate::plexus();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let refused = plexus.run(&["up", "--listen", &address]).await;
    let said = refused.failed(1);
    assert!(said.contains(&format!("error: cannot listen on {address}: ")), "{said}");
    assert!(said.lines().any(|line| line.starts_with("hint: ") && line.contains("--listen")), "{said}");
}

/// A start that fails says why in one error, with this code and these words.
fn refused(ran: &Ran, code: i32, words: &[&str]) {
    let said = ran.failed(code);
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
    for words in words {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[tokio::test]
async fn a_start_that_cannot_be_says_why() {
    let plexus = crate::plexus();
    let home = plexus.home();
    let file = home.join("file");
    std::fs::write(&file, "").expect("a file");
    let up = async |args: &[&str]| plexus.run(&[&["up", "--listen", "127.0.0.1:0"], args].concat()).await;

    refused(&up(&["--data-dir", text(&file)]).await, 1, &["data folder", text(&file)]);
    // No folder can be made there, not even by root.
    refused(&up(&["--data-dir", "/proc/plexus"]).await, 1, &["data folder", "/proc/plexus"]);
    refused(&plexus.run(&["up", "--listen", "nonsense"]).await, 2, &["\"nonsense\"", "127.0.0.1:7420"]);

    let config = home.join("plexus.toml");
    std::fs::write(&config, "lisen = \"127.0.0.1:0\"\n").expect("a file");
    refused(&up(&["--config", text(&config)]).await, 2, &[text(&config), "`lisen`", "`listen`"]);
    std::fs::write(&config, "durability = \"always\"\n").expect("a file");
    refused(&up(&["--config", text(&config)]).await, 2, &["always", "`process`", "`power`"]);
    let missing = home.join("missing.toml");
    refused(&up(&["--config", text(&missing)]).await, 2, &[text(&missing)]);

    let secret = "hunter2";
    let url = format!("mysql://root:{secret}@db.example.net/x");
    for ran in [
        up(&["--database-url", &url]).await,
        plexus.run_with(&["up", "--listen", "127.0.0.1:0"], &[("PLEXUS_DATABASE_URL", &url)]).await,
    ] {
        let code = ran.code.expect("an exit code");
        assert!(matches!(code, 1 | 2), "{ran:?}");
        refused(&ran, code, &["mysql", "sqlite:"]);
        assert!(!ran.stderr.contains(secret) && !ran.stderr.contains("example"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_folder_of_somebody_else_is_neither_locked_nor_filled() {
    use std::os::unix::fs::PermissionsExt;
    let plexus = crate::plexus();
    let project = plexus.home().join("project");
    std::fs::create_dir(&project).expect("a folder");
    std::fs::write(project.join("main.rs"), "").expect("a file");
    set_mode(&project, 0o755);
    let ran = plexus.run(&["up", "--listen", "127.0.0.1:0", "--data-dir", text(&project)]).await;
    refused(&ran, 1, &[text(&project), "neither empty nor a data folder of Plexus", "--data-dir"]);
    let mode = std::fs::metadata(&project).expect("the folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(std::fs::read_dir(&project).expect("the folder").count(), 1);
}

#[tokio::test]
async fn a_signing_key_that_others_can_read_is_refused_with_the_fix() {
    let plexus = crate::plexus();
    assert!(plexus.up().await.terminate().await.success());
    let key = plexus.data_dir().join("signing-key");
    set_mode(&key, 0o644);
    let ran = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    let fix = format!("chmod 600 {}", text(&key));
    refused(&ran, 1, &["0644", &fix]);
    assert_eq!(ran.stderr.matches(&fix).count(), 1, "said twice: {}", ran.stderr);
    assert!(plexus.shell(&fix).await.ok().is_empty());
    plexus.up().await;
}

#[tokio::test]
async fn a_damaged_database_or_key_is_named() {
    let plexus = crate::plexus();
    let folder = plexus.data_dir();
    assert!(plexus.up().await.terminate().await.success());
    let key = std::fs::read(folder.join("signing-key")).expect("the key");
    std::fs::write(folder.join("signing-key"), "not a key").expect("it can be written");
    let up = ["up", "--listen", "127.0.0.1:0"];
    refused(&plexus.run(&up).await, 1, &["signing key", text(&folder.join("signing-key"))]);
    std::fs::write(folder.join("signing-key"), key).expect("it can be written");

    let database = folder.join("plexus.db");
    for name in ["plexus.db-wal", "plexus.db-shm"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    std::fs::write(&database, [7; 5000]).expect("it can be written");
    let ran = plexus.run(&up).await;
    refused(&ran, 1, &[text(&database), "file is not a database"]);
    assert_eq!(std::fs::read(&database).expect("the file"), [7; 5000], "evidence is not touched");
}

/// A database that nobody can write to until the returned connection is gone.
async fn held_database(plexus: &Plexus) -> sqlx::SqliteConnection {
    let folder = plexus.data_dir();
    std::fs::create_dir_all(&folder).expect("a folder");
    let options = SqliteConnectOptions::new()
        .filename(folder.join("plexus.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let mut held = options.connect().await.expect("a database");
    sqlx::query("BEGIN IMMEDIATE").execute(&mut held).await.expect("the lock");
    held
}

/// The status of a path, once there is somebody to ask.
async fn first_status(plexus: &Plexus, url: &str) -> (u16, String) {
    let asked = async {
        loop {
            if let Ok(response) = plexus.http().get(url).send().await {
                return (response.status().as_u16(), response.text().await.expect("a body"));
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asked).await.expect("an answer in time")
}

/// An address where nobody listens. Taken again by another process it fails the test, which is so
/// unlikely that it has not happened; the hub says where it is only when it is ready.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

#[tokio::test]
async fn a_hub_that_is_not_ready_says_so_to_everyone() {
    let plexus = crate::plexus();
    let held = held_database(&plexus).await;
    let address = free_address();
    let child = plexus.spawn(&["up", "--listen", &address]);
    let (status, body) = first_status(&plexus, &format!("http://{address}/readyz")).await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("the hub is starting"), "{body}");
    assert_eq!(first_status(&plexus, &format!("http://{address}/healthz")).await, (200, "ok\n".to_owned()));
    for path in ["/mcp", "/mcp/v1", "/api/v1/status"] {
        let response = plexus.http().get(format!("http://{address}{path}")).bearer_auth("x").send().await;
        let response = response.expect("an answer");
        assert_eq!(response.status(), 503, "{path}");
        assert_eq!(response.headers()["retry-after"], "1", "{path}");
    }
    drop(held);
    let ready = async {
        while first_status(&plexus, &format!("http://{address}/readyz")).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ready).await.expect("it gets ready in time");
    drop(child);
}

#[tokio::test]
async fn a_hub_can_be_stopped_while_it_starts() {
    let plexus = crate::plexus();
    let _held = held_database(&plexus).await;
    let address = free_address();
    let mut child = plexus.spawn(&["up", "--listen", &address]);
    first_status(&plexus, &format!("http://{address}/healthz")).await;
    send(&child, Signal::TERM);
    let ended = tokio::time::timeout(Duration::from_secs(5), child.wait()).await;
    assert_eq!(ended.expect("it stops in time").expect("a status").code(), Some(0));
}
