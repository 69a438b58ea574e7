//! SQLite-specific tests: the file, its URL, its schema.

use std::error::Error;
use std::time::Duration;

use plexus_kit::{Durability, Secret, Supervisor};
use plexus_store::{Records, Store, StoreError, StoreOptions};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use crate::backend::{Backend, LIMIT, Sqlite, bounded, event, session};

fn with_url(url: String) -> StoreOptions {
    StoreOptions {
        // Holds only the lock of the folder if there is a URL.
        data_dir: "/nonexistent".into(),
        database_url: Some(Secret::from(url)),
        durability: Durability::Power,
        instance_id: "main".to_owned(),
    }
}

#[tokio::test]
async fn both_forms_of_a_sqlite_url_name_the_same_file() {
    bounded(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a folder.db");
        let mut ids = Vec::new();
        for prefix in ["sqlite:", "sqlite://"] {
            let supervisor = Supervisor::new();
            let data_dir = dir.path().to_owned();
            let options = StoreOptions { data_dir, ..with_url(format!("{prefix}{}", path.display())) };
            let store = Store::open(&options, &supervisor).await.unwrap();
            assert_eq!(store.database(), "sqlite");
            ids.push(session(&store, "agent:a", "k").await);
            supervisor.shutdown(LIMIT).await;
        }
        assert!(path.exists());
        assert_eq!(ids[0], ids[1], "the two forms must name one file");
    })
    .await;
}

#[tokio::test]
async fn database_file_defaults_to_the_data_folder() {
    bounded(async {
        let backend = Sqlite::new();
        let _store = backend.open("main", &Supervisor::new()).await;
        assert!(backend.dir.path().join("plexus.db").exists());
    })
    .await;
}

#[tokio::test]
async fn unsupported_url_error_omits_the_password() {
    bounded(async {
        for url in [
            "mysql://ann:hunter2@db.example/plexus",
            "redis://:hunter2@db.example",
            "postgres:ann:hunter2@db.example/plexus",
            "hunter2",
            "sqlite::memory:hunter2",
            "sqlite:",
            "",
        ] {
            let options = with_url(url.to_owned());
            let error = Store::open(&options, &Supervisor::new()).await.unwrap_err();
            assert!(matches!(error, StoreError::UnsupportedUrl(_)), "{url}: {error:?}");
            let mut message = format!("{error} {error:?} {options:?}");
            let mut source = error.source();
            while let Some(cause) = source {
                message.push_str(&format!("{cause} {cause:?}"));
                source = cause.source();
            }
            assert!(!message.contains("hunter2"), "{message}");
            assert!(error.to_string().contains("use sqlite:"), "says what to do instead: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn open_error_names_the_file() {
    bounded(async {
        let options = with_url("sqlite:/nonexistent/folder/plexus.db".to_owned());
        let error = Store::open(&options, &Supervisor::new()).await.unwrap_err();
        // Names the database or a file created beside it.
        assert!(error.to_string().contains("/nonexistent/folder/plexus."), "{error}");
        assert!(error.source().is_some());
    })
    .await;
}

#[tokio::test]
async fn file_is_exclusive_to_one_running_hub() {
    bounded(async {
        let backend = Sqlite::new();
        let supervisor = Supervisor::new();
        let first = backend.open("main", &supervisor).await;
        let error = Store::open(&backend.options("second"), &Supervisor::new()).await.unwrap_err();
        let own_pid = std::process::id().to_string();
        assert!(
            matches!(&error, StoreError::InUse { holder: Some(pid), .. } if *pid == own_pid),
            "{error:?}"
        );
        let message = error.to_string();
        assert!(
            message.contains("plexus.db") && message.contains(&own_pid) && message.contains("stop that one"),
            "{message}"
        );
        // The first hub is not affected.
        session(&first, "agent:a", "k").await;
        supervisor.shutdown(Duration::from_secs(30)).await;
        drop(first);
        backend.open("main", &Supervisor::new()).await;
    })
    .await;
}

#[tokio::test]
async fn database_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    bounded(async {
        let backend = Sqlite::new();
        let store = backend.open("main", &Supervisor::new()).await;
        session(&store, "agent:a", "k").await;
        let mut seen = 0;
        for entry in std::fs::read_dir(backend.dir.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.path());
            seen += 1;
        }
        assert!(seen >= 2, "the database and its log exist");
    })
    .await;
}

async fn raw(backend: &Sqlite) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(backend.dir.path().join("plexus.db"));
    SqlitePool::connect_with(options).await.unwrap()
}

/// The schema and the migration ledger, as text.
async fn schema(backend: &Sqlite) -> (Vec<String>, Vec<(i64, bool, String)>) {
    let raw = raw(backend).await;
    let objects = sqlx::query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name");
    let objects = objects.fetch_all(&raw).await.unwrap().iter().map(|row| row.get(0)).collect();
    let ledger = sqlx::query("SELECT version, success, CAST(installed_on AS TEXT) FROM _sqlx_migrations");
    let ledger = ledger.fetch_all(&raw).await.unwrap();
    raw.close().await;
    (objects, ledger.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

#[tokio::test]
async fn second_open_changes_nothing() {
    bounded(async {
        let backend = Sqlite::new();
        let (first, supervisor) = (schema_after_open(&backend).await, Supervisor::new());
        assert!(!first.1.is_empty() && first.1.iter().all(|(_, success, _)| *success), "{:?}", first.1);
        let store = backend.open("main", &supervisor).await;
        assert_eq!(store.read().await.unwrap().revocation_epoch().await.unwrap(), 0);
        assert_eq!(schema(&backend).await, first);
    })
    .await;
}

async fn schema_after_open(backend: &Sqlite) -> (Vec<String>, Vec<(i64, bool, String)>) {
    let supervisor = Supervisor::new();
    backend.open("main", &supervisor).await;
    supervisor.shutdown(LIMIT).await;
    schema(backend).await
}

#[tokio::test]
async fn newer_database_is_rejected_and_not_modified() {
    bounded(async {
        let backend = Sqlite::new();
        schema_after_open(&backend).await;
        let raw = raw(&backend).await;
        sqlx::query(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (999999, 'from the future', TRUE, x'00', 1)",
        )
        .execute(&raw)
        .await
        .unwrap();
        raw.close().await;
        let before = schema(&backend).await;
        let error = Store::open(&backend.options("main"), &Supervisor::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::Migrate(_)), "{error:?}");
        assert_eq!(schema(&backend).await, before);
    })
    .await;
}

#[tokio::test]
async fn database_file_is_in_wal_mode() {
    bounded(async {
        let backend = Sqlite::new();
        let _store = backend.open("main", &Supervisor::new()).await;
        let raw = raw(&backend).await;
        let mode: String = sqlx::query("PRAGMA journal_mode").fetch_one(&raw).await.unwrap().get(0);
        assert_eq!(mode, "wal");
    })
    .await;
}

/// Records that nobody awaits must not be lost silently: later requests are notified.
#[tokio::test]
async fn lost_records_are_reported_to_later_requests() {
    bounded(async {
        let backend = Sqlite::new();
        let supervisor = Supervisor::new();
        // Without a journal, which would not lose them.
        let options = StoreOptions { durability: Durability::Power, ..backend.options("main") };
        let store = Store::open(&options, &supervisor).await.unwrap();
        let id = session(&store, "agent:a", "k").await;
        let started = move || Records { audit: vec![], events: vec![(id, event("agent:a", 1))] };
        let ticket = store.append_soon(started()).await.unwrap();
        store.append(Records::default()).await.unwrap();
        assert!(!ticket.is_lost());
        store.check_writable().await.unwrap();

        let raw = raw(&backend).await;
        sqlx::query("ALTER TABLE session_events RENAME TO gone").execute(&raw).await.unwrap();
        let lost = store.append_soon(started()).await.unwrap();
        store.append(Records::default()).await.unwrap_err();
        assert!(lost.is_lost());
        sqlx::query("ALTER TABLE gone RENAME TO session_events").execute(&raw).await.unwrap();

        let message = lost.clone();
        store
            .append_with(move || if message.is_lost() { started() } else { Records::default() })
            .await
            .unwrap();
        assert_eq!(store.read().await.unwrap().events(id, 0, 10).await.unwrap().len(), 2);
        store.check_writable().await.unwrap();
    })
    .await;
}
