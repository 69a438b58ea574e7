//! A hub without a terminal: `plexus up --background`, `plexus down` and `plexus service`.

use plexus_kit::process::Stat;
use plexus_testkit::{Plexus, ProgramOutput, until};
use serde_json::Value;

use crate::pty::run_on_terminal;

async fn up(plexus: &Plexus, more: &[&str]) -> ProgramOutput {
    plexus.run(&[&["up", "--background", "--listen", "127.0.0.1:0"], more].concat()).await
}

fn pid_in(about: &Value) -> i32 {
    about["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a process")
}

/// Kills a background hub, in case the test fails before it has stopped.
struct KillOnDrop(i32);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(["-KILL", &self.0.to_string()]).output();
    }
}

/// Whether a process has ended, also if its parent has not asked for its exit code.
fn has_ended(pid: i32) -> bool {
    u32::try_from(pid).ok().and_then(Stat::of).is_none_or(|stat| stat.dead)
}

/// Session and terminal of a process. Its name, which may contain blanks, precedes these fields.
fn session_and_terminal(pid: i32) -> (String, String) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    (fields[3].to_owned(), fields[4].to_owned())
}

#[tokio::test]
async fn background_hub_is_ready_when_up_returns_and_stopped_by_down() {
    let plexus = crate::plexus();
    let about = up(&plexus, &["--json"]).await.json(0);
    let pid = pid_in(&about);
    let _guard = KillOnDrop(pid);
    assert_eq!(
        session_and_terminal(pid),
        (pid.to_string(), "0".to_owned()),
        "a session of its own without a terminal"
    );
    let url = about["url"].as_str().expect("an address");
    let ready = plexus.http().get(format!("{url}/readyz")).send().await.expect("an answer");
    assert_eq!(ready.status(), 200);
    let log = std::fs::read_to_string(about["log"].as_str().expect("a log")).expect("a log");
    assert!(log.contains("INFO") && !log.contains('\u{1b}'), "{log}");

    // A second `up` starts no other hub and names the first.
    let again = up(&plexus, &[]).await;
    assert!(again.ok().contains(&format!("{url}/mcp")) && again.ok().contains(&pid.to_string()), "{again:?}");
    assert!(again.stderr.contains("already runs") && again.stderr.contains(" down`"), "{again:?}");

    let down = plexus.run(&["down"]).await;
    assert!(down.ok().contains(&format!("(process {pid})")), "{down:?}");
    assert!(plexus.http().get(format!("{url}/readyz")).send().await.is_err());
    let down = plexus.run(&["down"]).await;
    assert!(down.ok().is_empty() && down.stderr.contains("No hub runs"), "{down:?}");
}

#[tokio::test]
async fn down_stops_a_foreground_hub() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let pid = hub.pid();
    assert!(plexus.run(&["down"]).await.ok().contains(&format!("(process {pid})")));
    assert!(hub.ended().await.success());
}

#[tokio::test]
async fn stopped_hub_leaves_the_address_of_the_next_one() {
    let plexus = crate::plexus();
    let servers = plexus.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&servers).expect("a folder");
    // It does not end with its standard input, so the hub waits before it kills it, after its database is closed.
    let server = r#"{ "command": "sleep", "args": ["1000"] }"#;
    std::fs::write(servers.join("stubborn.json"), server).expect("a file");
    let pid = pid_in(&up(&plexus, &["--json"]).await.json(0));
    let _first = KillOnDrop(pid);
    until("the server is starting", async || {
        plexus.run(&["upstream", "list"]).await.stdout.contains("starting")
    })
    .await;
    plexus.run(&["down"]).await.ok();
    assert!(has_ended(pid), "`plexus down` returned before");
    let next = up(&plexus, &["--json"]).await.json(0);
    let _next = KillOnDrop(pid_in(&next));
    let url = next["url"].as_str().expect("an address");
    assert!(plexus.run(&["status"]).await.ok().contains(url));
    plexus.run(&["down"]).await.ok();
}

#[tokio::test]
async fn failed_background_start_is_explained_and_leaves_nothing() {
    let plexus = crate::plexus();
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = occupied.local_addr().expect("an address").to_string();
    let refused = plexus.run(&["up", "--background", "--listen", &address]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&format!("cannot listen on {address}")), "{refused:?}");
    assert!(plexus.run(&["down"]).await.stderr.contains("No hub runs"));
    // A folder with other files is not changed.
    let foreign = plexus.home().join("foreign");
    std::fs::create_dir(&foreign).expect("a folder");
    std::fs::write(foreign.join("thesis.txt"), "").expect("a file");
    let folder = foreign.display().to_string();
    let refused = up(&plexus, &["--data-dir", &folder]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("nor a data folder of Plexus"), "{refused:?}");
    assert_eq!(std::fs::read_dir(&foreign).expect("a folder").count(), 1);
    let wrong = plexus.run(&["up", "--background", "--listen", "nowhere"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[tokio::test]
async fn background_hub_outlives_its_terminal() {
    let plexus = crate::plexus();
    let printed = run_on_terminal(&plexus, "plexus up --background --listen 127.0.0.1:0").await;
    assert!(printed.contains("MCP endpoint") && printed.contains("hub.log"), "{printed:?}");
    let pid = printed.lines().find_map(|line| line.strip_prefix("Process")).expect("its process");
    let _guard = KillOnDrop(pid.trim().parse().expect("a number"));
    // The terminal is closed now.
    plexus.run(&["status"]).await.ok();
    plexus.run(&["down"]).await.ok();
}

#[tokio::test]
async fn service_is_installed_and_uninstalled() {
    let plexus = crate::plexus();
    let units = plexus.home().join("units").display().to_string();
    let printed = plexus.run(&["service", "install", "--user", "--print"]).await;
    let data = plexus.data_dir().display().to_string();
    assert!(
        printed.ok().contains(" up\n") && printed.ok().contains(&format!("PLEXUS_DATA_DIR={data}\n")),
        "{printed:?}"
    );
    let target = ["--user", "--unit-dir", units.as_str()];
    let installed = plexus.run(&[&["service", "install"], &target[..]].concat()).await;
    assert!(installed.stderr.contains("systemctl --user enable --now plexus`"), "{installed:?}");
    let unit = std::path::Path::new(&units).join("plexus.service");
    let text = std::fs::read_to_string(&unit).expect("a unit");
    assert!(
        text.ends_with(printed.ok()) && text.starts_with("# Written by `plexus service install`"),
        "{text}"
    );
    std::fs::write(&unit, format!("{text}# mine\n")).expect("a unit");
    let refused = plexus.run(&[&["service", "uninstall"], &target[..]].concat()).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("plexus service install"), "{refused:?}");
    plexus.run(&[&["service", "uninstall", "--force"], &target[..]].concat()).await.ok();
    assert!(!unit.exists());
}
