//! `plexus db`: backups of a running hub, restored in another home and on another kind of database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plexus_testkit::faults::Write;
use plexus_testkit::{HubProcess, Plexus, SessionWriter, WriterProtocol, postgres};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Every second write goes to a to-do list, which holds 300.
const WRITES: usize = 550;

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("text")
}

async fn writers(hub: &HubProcess, count: usize) -> Vec<SessionWriter> {
    let mut writers = Vec::new();
    for index in 0..count {
        let protocol = match index % 3 {
            0 => WriterProtocol::Session { version: "2025-06-18", id: None },
            1 => WriterProtocol::Stateless { thread: format!("thread-{index}") },
            _ => WriterProtocol::Rest { session: format!("session-{index}") },
        };
        writers.push(SessionWriter::new(hub.url(""), hub.token(&format!("agent-{index}")).await, protocol));
    }
    writers
}

async fn write_one(writer: &mut SessionWriter, index: usize, number: usize) -> String {
    let marker = format!("w0.{index}.{number};");
    let write = Write { number, key: format!("key-{marker}"), marker };
    let (tool, arguments) = SessionWriter::arguments(&write);
    writer.call(tool, arguments, Some(&write.key)).await.expect("the hub answers");
    write.marker
}

async fn backup_under_load(plexus: &Plexus, other_plexus: &Plexus) {
    let hub = plexus.up().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    let mut acknowledged = Vec::new();
    for (index, mut writer) in writers(&hub, 4).await.into_iter().enumerate() {
        let (stop, (progress, count)) = (stop.clone(), watch::channel(0));
        acknowledged.push(count);
        clients.spawn(async move {
            let mut markers = Vec::new();
            while !stop.load(Ordering::Relaxed) && markers.len() < WRITES {
                markers.push(write_one(&mut writer, index, markers.len()).await);
                progress.send_replace(markers.len());
            }
            (index, writer, markers)
        });
    }
    let file = plexus.home().join("backup.tar.gz");
    let mut before = Vec::new();
    for round in 1..=3 {
        for count in &mut acknowledged {
            count.wait_for(|count| *count >= round * 20).await.expect("writers write");
        }
        before = acknowledged.iter().map(|count| *count.borrow()).collect();
        let made = plexus.run(&["db", "backup", "--force", "--json", text(&file)]).await.json(0);
        assert_eq!(made["audit_intact"], true, "{made}");
    }
    stop.store(true, Ordering::Relaxed);
    let mut clients = clients.join_all().await;
    clients.sort_by_key(|(index, ..)| *index);
    drop(hub);

    let restored = other_plexus.run(&["db", "restore", text(&file), "--json"]).await.json(0);
    assert_eq!(restored["audit_intact"], true, "{restored}");
    let hub = other_plexus.up().await;
    let mut total = 0;
    for ((_, mut writer, markers), acknowledged) in clients.into_iter().zip(before) {
        // Token and session still work, because the backup contains the keys.
        writer.set_url(hub.url(""));
        let found = writer.stored_markers().await.expect("the restored hub answers");
        for marker in &markers[..acknowledged] {
            assert_eq!(found.iter().filter(|found| *found == marker).count(), 1, "{marker}");
        }
        assert!(found.iter().all(|found| markers.contains(found)), "{found:?}");
        total += found.len();
    }
    let report = hub.api("/api/v1/audit/verify").await;
    assert_eq!(report["ok"], true, "{report}");
    eprintln!("{total} writes in the backup, {} audit entries verified", report["entries"]);
    assert_eq!(hub.api("/api/v1/status").await["audit"]["intact_at_start"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_made_under_load_is_restored_and_verifies() {
    backup_under_load(&crate::plexus(), &crate::plexus()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_made_under_load_on_postgres_is_restored_on_sqlite() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        backup_under_load(&plexus, &crate::plexus()).await;
    }
}

/// Everything with an id, an order or a hash.
async fn contents(hub: &HubProcess) -> Value {
    let sessions = hub.list("/api/v1/sessions", |_| false).await;
    let mut logs = Vec::new();
    for session in &sessions {
        logs.push(hub.events(session["id"].as_str().expect("an id")).await);
    }
    let audit = hub.list("/api/v1/audit", |_| false).await;
    json!({ "sessions": sessions, "events": logs, "audit": audit })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_moves_a_hub_from_sqlite_to_postgres() {
    let Some(url) = postgres::database().await else { return };
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let mut writers = writers(&hub, 3).await;
    for (index, writer) in writers.iter_mut().enumerate() {
        for number in 0..30 {
            write_one(writer, index, number).await;
        }
    }
    let before = contents(&hub).await;
    let head = hub.api("/api/v1/status").await["audit"]["head"].clone();
    assert!(hub.terminate().await.success());

    let file = plexus.home().join("export.tar.gz");
    plexus.run(&["db", "export", text(&file)]).await.ok();
    let moved = [("PLEXUS_DATABASE_URL", url.as_str())];
    plexus.run_with(&["db", "restore", text(&file)], &moved).await.ok();
    let status = plexus.run_with(&["db", "status", "--json"], &moved).await.json(0);
    assert!(status["database"].as_str().is_some_and(|name| name.starts_with("PostgreSQL ")), "{status}");
    assert_eq!(status["audit_heads"][0], head, "{status}");

    let hub = plexus.up_with(&["--database-url", &url]).await;
    assert_eq!(contents(&hub).await, before);
    let report = hub.api("/api/v1/audit/verify").await;
    assert_eq!((&report["ok"], &report["signed"]), (&json!(true), &head), "{report}");
    // Clients continue to work.
    for (index, writer) in writers.iter_mut().enumerate() {
        writer.set_url(hub.url(""));
        write_one(writer, index, 30).await;
        assert_eq!(writer.stored_markers().await.expect("an answer").len(), 31);
    }
    assert_eq!(hub.api("/api/v1/audit/verify").await["ok"], true);

    // Neither the SQLite file that was left behind nor another database is used by mistake.
    assert!(hub.terminate().await.success());
    let left = plexus.data_dir().join("plexus.db");
    let before = std::fs::read(&left).expect("the file that was left behind");
    let refused = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    assert!(refused.failed(1).contains("belongs to the PostgreSQL database "), "{refused:?}");
    assert_eq!(std::fs::read(&left).expect("the same file"), before);
    let hub = plexus.up_with(&["--database-url", &url]).await;
    assert_eq!(hub.api("/api/v1/status").await["audit"]["intact_at_start"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_of_a_tampered_hub_does_not_verify() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let mut writer = writers(&hub, 1).await.remove(0);
    for number in 0..5 {
        write_one(&mut writer, 0, number).await;
    }
    assert!(hub.terminate().await.success());
    let database = sqlx::sqlite::SqliteConnectOptions::new().filename(plexus.data_dir().join("plexus.db"));
    let pool = sqlx::SqlitePool::connect_with(database).await.expect("the database");
    sqlx::query("UPDATE audit SET actor = 'agent:innocent' WHERE n = 5")
        .execute(&pool)
        .await
        .expect("a change");
    pool.close().await;

    let file = plexus.home().join("backup.tar.gz");
    let made = plexus.run(&["db", "backup", text(&file)]).await;
    assert_eq!(made.code, Some(3), "{made:?}");
    assert!(made.stderr.contains("not intact") && file.exists(), "{made:?}");
    let other_plexus = crate::plexus();
    other_plexus.run(&["db", "restore", text(&file)]).await.ok();
    let hub = other_plexus.up().await;
    let report = hub.api("/api/v1/audit/verify").await;
    assert_eq!(report["ok"], false, "{report}");
    assert!(report["problems"].to_string().contains("entry 5"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_contains_servers_and_profiles() {
    let plexus = crate::plexus();
    plexus.up().await.terminate().await;
    let data = plexus.data_dir();
    let write = |name: &str, content: &str| {
        let path = data.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    };
    write("mcp_servers.d/docs.json", r#"{ "url": "https://mcp.example.net/mcp", "enabled": false }"#);
    write("mcp_servers.d/.removed/old.json", "{}");
    write("mcp_servers.d/notes.txt", "mine");
    write("tools.d/greet.json", "{}");
    write(
        "profiles/reader/config.json",
        r#"{ "name": "Reader", "description": "Reads.", "enabled_tools": ["todo"] }"#,
    );
    write("profiles/reader/system_prompt.txt", "Read.");
    let elsewhere_dir = plexus.home().join("servers");
    std::fs::create_dir(&elsewhere_dir).expect("a folder");
    std::os::unix::fs::symlink(data.join("plexus.toml"), data.join("mcp_servers.d/link.json"))
        .expect("a link");

    let file = plexus.home().join("backup.tar.gz");
    let made = plexus.run(&["db", "backup", text(&file), "--json"]).await.json(0);
    let left_out = [data.join("mcp_servers.d/link.json"), data.join("tools.d")];
    assert_eq!(made["left_out"], json!(left_out), "{made}");
    let other_plexus = crate::plexus();
    other_plexus.run(&["db", "restore", text(&file)]).await.ok();
    for name in
        ["mcp_servers.d/docs.json", "profiles/reader/config.json", "profiles/reader/system_prompt.txt"]
    {
        let restored = std::fs::read(other_plexus.data_dir().join(name)).expect(name);
        assert_eq!(restored, std::fs::read(data.join(name)).expect(name));
    }
    for name in
        ["mcp_servers.d/.removed", "mcp_servers.d/notes.txt", "mcp_servers.d/link.json", "tools.d/greet.json"]
    {
        assert!(!other_plexus.data_dir().join(name).exists(), "{name}");
    }
    let hub = other_plexus.up().await;
    assert_eq!(hub.api("/api/v1/upstreams/docs").await["state"], "disabled");
    assert_eq!(hub.api("/api/v1/profiles/reader").await["name"], "Reader");
    assert!(hub.terminate().await.success());

    // An existing, different file is not replaced.
    let third = crate::plexus();
    let existing = third.data_dir().join("mcp_servers.d/docs.json");
    std::fs::create_dir_all(existing.parent().expect("a folder")).expect("a folder");
    std::fs::write(&existing, "{}").expect("a file");
    let refused = third.run(&["db", "restore", text(&file)]).await;
    assert!(
        refused.failed(1).contains("already contains a different mcp_servers.d/docs.json"),
        "{refused:?}"
    );

    // A folder of servers outside the data folder is left out with a note.
    let moved = [("PLEXUS_MCP_DIR", text(&elsewhere_dir))];
    let made = plexus.run_with(&["db", "backup", "--force", text(&file)], &moved).await;
    assert!(made.stderr.contains(&format!("Not in the copy: {}", elsewhere_dir.display())), "{made:?}");
    // An export contains only the database.
    let export = plexus.home().join("export.tar.gz");
    let made = plexus.run_with(&["db", "export", "--json", text(&export)], &moved).await.json(0);
    assert_eq!((&made["files"], &made["left_out"]), (&json!(0), &json!([])), "{made}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_explained_and_leave_nothing() {
    let plexus = crate::plexus();
    for command in ["status", "migrate"] {
        let output = plexus.run(&["db", command]).await;
        assert!(output.failed(1).contains("there is no database"), "{output:?}");
    }
    let hub = plexus.up().await;
    let file = plexus.home().join("backup.tar.gz");
    plexus.run(&["db", "backup", text(&file)]).await.ok();
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&file).expect("the backup").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it contains the keys");
    // A second backup does not replace the first by accident.
    let again = plexus.run(&["db", "backup", text(&file)]).await;
    assert!(again.failed(2).contains("--force"), "{again:?}");
    // Commands that write need exclusive access to the database.
    for command in [&["db", "migrate"][..], &["db", "restore", text(&file)]] {
        let output = plexus.run(command).await;
        assert!(output.failed(1).contains(&format!("process {}", hub.pid())), "{output:?}");
    }
    assert!(hub.terminate().await.success());
    let full = plexus.run(&["db", "restore", text(&file)]).await;
    assert!(full.failed(1).contains("not empty"), "{full:?}");
    assert_eq!(plexus.run(&["db", "migrate"]).await.ok(), "The database already has the current schema 7.\n");
    // A restore that fails leaves nothing, not even the folder.
    let nowhere = plexus.home().join("nowhere");
    std::fs::write(plexus.home().join("junk"), "junk").expect("a file");
    let junk = plexus.run(&["db", "restore", "junk", "--data-dir", text(&nowhere)]).await;
    assert!(junk.failed(1).contains("nothing was restored"), "{junk:?}");
    assert!(!nowhere.exists());
    // Through a pipe, as with ssh.
    let other_plexus = crate::plexus();
    let line = format!("plexus db backup - | HOME={} plexus db restore -", text(other_plexus.home()));
    let piped = plexus.shell(&line).await;
    assert!(piped.ok().starts_with("Restored "), "{piped:?}");
    other_plexus.up().await;
    let left: Vec<_> = std::fs::read_dir(plexus.home())
        .expect("the home")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".tmp")), "{left:?}");
}
