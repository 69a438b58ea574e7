//! Rules for archives; a damaged or hostile one has no effect.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use plexus_kit::Supervisor;
use plexus_proto::{CallId, NodeId};
use plexus_store::archive::{AuditState, Content, Manifest, restore, write};
use plexus_store::{
    NodeCallRecord, NodeCallState, PinRecord, PinState, Records, Snapshot, StoreError, TodoStatus,
};

use crate::backend::{Backend, Database, LIMIT, Sqlite, at, audited, bounded, event, external};
use crate::nodes;
use crate::postgres::Postgres;
use crate::state::task;
use uuid::Uuid;

/// Fills every table that an archive contains.
async fn fill(database: &Database<impl Backend>, count: usize) {
    for key in ["a", "b"] {
        let session = database.session("agent:a", key).await;
        for number in 0..count {
            let records = Records {
                audit: audited(CallId::new(), "agent:a", "todo"),
                events: vec![
                    (session, event("agent:a", number)),
                    (session, external("agent:a", number, &format!("x{number}"))),
                ],
            };
            database.store.append(records).await.unwrap();
        }
        database
            .store
            .write(move |conn| {
                Box::pin(async move {
                    conn.add_todo(session, "caf\u{e9} \u{1F600}\n\"quoted\"", TodoStatus::Done, at(1))
                        .await?;
                    conn.write_section(session, "notes", "", at(2)).await?;
                    conn.write_section(session, "Notes", "text", at(2)).await?;
                    conn.set_upstream_pin(key, &pinned("read")).await?;
                    let task = task(&CallId::new().to_string(), "agent:a", 3);
                    conn.insert_mcp_task("main", &task).await?;
                    conn.insert_node(&nodes::node(&CallId::new().to_string())).await?;
                    conn.insert_node_invite(&nodes::invite(key, &CallId::new().to_string(), 9)).await?;
                    conn.bar_node_certificate(&CallId::new().to_string(), NodeId::new(), at(3)).await?;
                    for state in [NodeCallState::Queued, NodeCallState::Sent] {
                        conn.insert_node_call(&nodes::call(NodeId::new(), state)).await?;
                    }
                    conn.insert_held_call(CallId::new(), "terminal", "agent:a", at(3)).await?;
                    conn.store_upstream_credential("docs", "grant", "sealed", at(3)).await
                })
            })
            .await
            .unwrap();
    }
}

fn pinned(tool: &str) -> PinRecord {
    PinRecord {
        tool: tool.to_owned(),
        hash: "hash".to_owned(),
        definition: "{}".to_owned(),
        state: PinState::Approved,
        decided_by: "tofu".to_owned(),
        decided_at: at(3),
    }
}

fn keys() -> Vec<(String, Content)> {
    let file = |name: &str, text: &str| (name.to_owned(), Content::Bytes(text.as_bytes().to_vec()));
    vec![
        file("signing-key", "key"),
        file("sealing-key", "another key"),
        file("audit.head", "head"),
        file("sessions/a/b.txt", "file"),
        file("mcp_servers.d/a.json", "server"),
        file("profiles/p/config.json", "profile"),
    ]
}

async fn archived(backend: &impl Backend, files: Vec<(String, Content)>) -> (Manifest, Vec<u8>) {
    let mut snapshot = Snapshot::open(&backend.options("main")).await.unwrap().unwrap();
    let heads = snapshot.audit_heads().await.unwrap();
    let audit = heads.into_iter().map(|head| AuditState { head, ok: true }).collect();
    write(&mut snapshot, Vec::new(), files, audit, at(0), &mut |_, _| {}).await.unwrap()
}

async fn restored(backend: &impl Backend, archive: &[u8]) -> Result<Manifest, StoreError> {
    let supervisor = Supervisor::new();
    let done = restore(&backend.options("main"), archive, &supervisor, &mut |_, _| {}).await;
    supervisor.shutdown(LIMIT).await;
    done.map(|restored| restored.manifest)
}

/// From a full database of one kind to an empty one of another kind, and back.
async fn check_migration<A: Backend, B: Backend>(from: Database<A>) {
    let Some(to) = B::create().await else { return };
    fill(&from, 700).await;
    let (manifest, archive) = archived(&from.backend, keys()).await;
    assert!(manifest.rows() > 5_000, "{manifest:?}");
    assert!(
        manifest.tables.iter().all(|table| table.count > 0
            || ["tokens", "idempotency", "mcp_sessions"].contains(&table.name.as_str()))
    );
    assert_eq!(restored(&to, &archive).await.unwrap(), manifest);
    let (mut again, _) = archived(&to, keys()).await;
    again.tables.retain(|table| table.name != "node_calls");
    let rest = manifest.tables.iter().filter(|table| table.name != "node_calls");
    assert!(again.tables.iter().eq(rest), "the same rows in the same order: {again:?}");
    // The restored database is usable.
    let supervisor = Supervisor::new();
    let store = to.open("main", &supervisor).await;
    let to = Database { backend: to, store, supervisor };
    // The outcome of calls since the backup is unknown: none is sent again.
    let calls = to.store.read().await.unwrap().node_calls(None).await.unwrap();
    let in_doubt =
        |call: &NodeCallRecord| (call.state, call.store_id) == (NodeCallState::Sent, Some(Uuid::nil()));
    assert!(!calls.is_empty() && calls.iter().all(in_doubt), "{calls:?}");
    fill(&to, 1).await;
    let head = to.head().await;
    let report = to.store.verify_audit(Ok(head), &plexus_store::NoWitness).await.unwrap();
    assert_eq!((report.ok, report.entries), (true, 2_804), "{report:?}");
    assert!(matches!(restored(&to.backend, &archive).await, Err(StoreError::InUse { .. })));
    to.supervisor.shutdown(LIMIT).await;
    assert!(matches!(restored(&to.backend, &archive).await, Err(StoreError::NotEmpty { .. })));
}

pub(crate) async fn archive_round_trips_everything<B: Backend>(database: Database<B>) {
    check_migration::<B, B>(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archive_moves_from_sqlite_to_postgres() {
    bounded(async { check_migration::<Sqlite, Postgres>(Database::fresh().await.unwrap()).await }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archive_moves_from_postgres_to_sqlite() {
    bounded(async {
        if let Some(database) = Database::fresh().await {
            check_migration::<Postgres, Sqlite>(database).await;
        }
    })
    .await;
}

pub(crate) async fn archive_is_a_snapshot_despite_concurrent_writers<B: Backend>(database: Database<B>) {
    fill(&database, 50).await;
    let mut snapshot = Snapshot::open(&database.backend.options("main")).await.unwrap().unwrap();
    let heads = snapshot.audit_heads().await.unwrap();
    // Everything was written after the snapshot began, part of it while the archive is written.
    fill(&database, 50).await;
    let audit = heads.into_iter().map(|head| AuditState { head, ok: true }).collect();
    let (manifest, archive) =
        write(&mut snapshot, Vec::new(), keys(), audit, at(0), &mut |_, _| {}).await.unwrap();
    let count = |name: &str| manifest.tables.iter().find(|table| table.name == name).unwrap().count;
    assert_eq!((count("audit"), count("session_events")), (200, 200));
    let target = B::create().await.unwrap();
    assert_eq!(restored(&target, &archive).await.unwrap(), manifest);
}

/// Names and contents.
type Entries = Vec<(String, Vec<u8>)>;

/// The entries of an archive.
fn entries(archive: &[u8]) -> Entries {
    let mut tar = tar::Archive::new(GzDecoder::new(archive));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        Read::read_to_end(&mut entry, &mut content).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), content)
    };
    tar.entries().unwrap().map(read).collect()
}

fn packed(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        // The library rejects names outside the folder; a hostile archive does not.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, content.as_slice()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_or_hostile_archive_has_no_effect() {
    bounded(async {
        let database = Database::<Sqlite>::fresh().await.unwrap();
        fill(&database, 20).await;
        let (_, good) = archived(&database.backend, keys()).await;
        let whole = entries(&good);
        let changed = |change: &dyn Fn(&mut Entries)| {
            let mut entries = whole.clone();
            change(&mut entries);
            packed(&entries)
        };
        let find = |entries: &mut Entries, name: &str| {
            entries.iter().position(|(entry, _)| entry.contains(name)).unwrap()
        };
        let cases: Vec<(&str, Vec<u8>, &str)> = vec![
            ("not an archive", b"hello".to_vec(), "archive"),
            ("cut in the middle", good[..good.len() / 2].to_vec(), "archive"),
            ("no manifest", changed(&|entries| drop(entries.pop())), "truncated"),
            (
                "a row less",
                changed(&|entries| {
                    let audit = find(entries, "tables/audit");
                    let lines = String::from_utf8(entries[audit].1.clone()).unwrap();
                    let (_, rest) = lines.split_once('\n').unwrap();
                    entries[audit].1 = rest.as_bytes().to_vec();
                }),
                "rows of audit",
            ),
            (
                "another key",
                changed(&|entries| {
                    let key = find(entries, "signing-key");
                    entries[key].1 = b"other".to_vec();
                }),
                "files",
            ),
            (
                "a table twice",
                changed(&|entries| {
                    let todos = find(entries, "tables/todos");
                    let again = entries[todos].clone();
                    entries.insert(todos, again);
                }),
                "restoring rows",
            ),
            (
                "a file outside",
                changed(&|entries| entries.insert(1, ("files/../../evil".to_owned(), b"x".to_vec()))),
                "not a file of a data folder",
            ),
            (
                "a foreign file",
                changed(&|entries| entries.insert(1, ("files/plexus.toml".to_owned(), b"x".to_vec()))),
                "not a file of a data folder",
            ),
            (
                "a removed server",
                changed(&|entries| {
                    entries.insert(1, ("files/mcp_servers.d/.removed/a.json".to_owned(), b"x".to_vec()));
                }),
                "not a file of a data folder",
            ),
            (
                "a program beside the servers",
                changed(&|entries| entries.insert(1, ("files/mcp_servers.d/a.sh".to_owned(), b"x".to_vec()))),
                "not a file of a data folder",
            ),
            (
                "a program in a profile",
                changed(&|entries| entries.insert(1, ("files/profiles/p/a.sh".to_owned(), b"x".to_vec()))),
                "not a file of a data folder",
            ),
            (
                "a server that is too large",
                changed(&|entries| {
                    entries.insert(1, ("files/mcp_servers.d/b.json".to_owned(), vec![b' '; 300_000]));
                }),
                "mcp_servers.d/b.json is too large",
            ),
            (
                "too many servers",
                changed(&|entries| {
                    let many = (0..3_000).map(|n| (format!("files/mcp_servers.d/{n}.json"), vec![b'x']));
                    entries.splice(1..1, many);
                }),
                "more than 2000",
            ),
            (
                "another schema",
                changed(&|entries| {
                    let header = String::from_utf8(entries[0].1.clone()).unwrap();
                    let current = format!("\"schema\": {}", Snapshot::NEEDED_SCHEMA);
                    entries[0].1 = header.replace(&current, "\"schema\": 99").into_bytes();
                }),
                "schema 99",
            ),
            (
                "another type",
                changed(&|entries| {
                    let sessions = find(entries, "tables/sessions");
                    entries[sessions].1.write_all(b"[1,2,3,4,5,6,7,8,9,10]\n").unwrap();
                }),
                "another type",
            ),
        ];
        let target = Sqlite::new();
        for (what, archive, message) in cases {
            let error = restored(&target, &archive).await.unwrap_err();
            assert!(error.to_string().contains(message), "{what}: {error}");
            for name in [
                "signing-key",
                "audit.head",
                "sessions",
                "mcp_servers.d",
                "profiles",
                "restore.tmp",
                "../evil",
            ] {
                assert!(!target.dir.path().join(name).exists(), "{what} left {name}");
            }
        }
        assert!(restored(&target, &good).await.is_ok(), "the target is still empty");
        let mode = |name: &str| {
            let metadata = std::fs::metadata(target.dir.path().join(name)).unwrap();
            std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
        };
        for (name, content) in [
            ("sessions/a/b.txt", "file"),
            ("mcp_servers.d/a.json", "server"),
            ("profiles/p/config.json", "profile"),
        ] {
            assert_eq!(std::fs::read_to_string(target.dir.path().join(name)).unwrap(), content);
            assert_eq!(mode(name), 0o600, "{name}");
        }
        for folder in ["sessions", "sessions/a", "mcp_servers.d", "profiles", "profiles/p"] {
            assert_eq!(mode(folder), 0o700, "{folder}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archive_without_keys_requires_a_folder_with_keys() {
    bounded(async {
        let database = Database::<Sqlite>::fresh().await.unwrap();
        fill(&database, 2).await;
        let (_, export) = archived(&database.backend, vec![]).await;
        let target = Sqlite::new();
        let error = restored(&target, &export).await.unwrap_err();
        assert!(error.to_string().contains("without keys"), "{error}");
        std::fs::write(target.dir.path().join("signing-key"), "key").unwrap();
        restored(&target, &export).await.unwrap();
    })
    .await;
}

/// A column added by a migration but missing from the archive would be lost silently.
#[tokio::test]
async fn archive_contains_every_column_of_every_table() {
    bounded(async {
        let database = Database::<Sqlite>::fresh().await.unwrap();
        let (_, archive) = archived(&database.backend, vec![]).await;
        let header: serde_json::Value = serde_json::from_slice(&entries(&archive)[0].1).unwrap();
        let mut archived: Vec<String> = Vec::new();
        for table in header["tables"].as_array().unwrap() {
            for column in table["columns"].as_array().unwrap() {
                archived.push(format!("{}.{}", table["name"].as_str().unwrap(), column.as_str().unwrap()));
            }
        }
        let file = sqlx::sqlite::SqliteConnectOptions::new().filename(database.backend.dir.path().join("plexus.db"));
        let raw = sqlx::SqlitePool::connect_with(file).await.unwrap();
        let sql = "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c \
                   WHERE m.type = 'table' AND m.name NOT LIKE '!_sqlx%' ESCAPE '!' AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!'";
        let rows = sqlx::query(sql).fetch_all(&raw).await.unwrap();
        let mut there: Vec<String> = rows.iter().map(|row| sqlx::Row::get(row, 0)).collect();
        archived.sort();
        there.sort();
        assert_eq!(archived, there);
    })
    .await;
}
