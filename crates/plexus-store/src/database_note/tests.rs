//! Tests for the note and for what is refused because of it.

use std::path::Path;
use std::time::Duration;

use plexus_kit::{Durability, Secret, Supervisor, private_file};
use serde_json::json;
use uuid::Uuid;

use super::{DatabaseLocation, DatabaseNote};
use crate::{Store, StoreError, StoreOptions};

fn options(folder: &Path, url: Option<String>) -> StoreOptions {
    StoreOptions {
        data_dir: folder.to_owned(),
        database_url: url.map(Secret::from),
        durability: Durability::Process,
        instance_id: "main".to_owned(),
    }
}

/// Starts and stops a store, and notes it.
async fn noted_store(folder: &Path) -> DatabaseNote {
    let supervisor = Supervisor::new();
    let store = Store::open(&options(folder, None), &supervisor).await.unwrap();
    let note = DatabaseNote { location: store.location().clone(), store_id: store.id() };
    supervisor.shutdown(Duration::from_secs(30)).await;
    note.write_if_changed(folder).unwrap();
    note
}

fn write(folder: &Path, note: &str) {
    private_file::write(&folder.join(DatabaseNote::FILE), note.as_bytes()).unwrap();
}

#[test]
fn written_note_is_read_and_a_missing_one_is_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(DatabaseNote::read(folder.path()).unwrap(), None);
    for location in [
        DatabaseLocation::Sqlite { path: None },
        DatabaseLocation::Sqlite { path: Some("/srv/plexus.db".into()) },
        DatabaseLocation::Postgresql { host: "db".to_owned(), port: 5432, database: "hub".to_owned() },
    ] {
        let note = DatabaseNote { location, store_id: Uuid::new_v4() };
        note.write_if_changed(folder.path()).unwrap();
        assert_eq!(DatabaseNote::read(folder.path()).unwrap(), Some(note));
    }
}

#[tokio::test]
async fn damaged_note_is_an_error_that_names_the_file_and_starts_no_hub() {
    let folder = tempfile::tempdir().unwrap();
    noted_store(folder.path()).await;
    for damaged in ["", "{", "[]", r#"{"kind":"sqlite"}"#, r#"{"kind":"oracle","store_id":0}"#] {
        write(folder.path(), damaged);
        for failed in [
            DatabaseNote::read(folder.path()).map(drop),
            DatabaseNote::check(&options(folder.path(), None)).await,
        ] {
            let failed = failed.unwrap_err();
            assert!(matches!(failed, StoreError::File { .. }), "{damaged}: {failed:?}");
            assert!(failed.to_string().ends_with("/database.json"), "{failed}");
        }
    }
}

#[test]
fn fields_of_a_newer_version_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let id = Uuid::new_v4();
    write(folder.path(), &json!({ "kind": "sqlite", "store_id": id, "since": "2030" }).to_string());
    let note = DatabaseNote { location: DatabaseLocation::Sqlite { path: None }, store_id: id };
    assert_eq!(DatabaseNote::read(folder.path()).unwrap(), Some(note));
}

#[tokio::test]
async fn damaged_database_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    noted_store(folder.path()).await;
    let database = folder.path().join("plexus.db");
    std::fs::write(&database, [7; 5000]).unwrap();
    let failed = DatabaseNote::check(&options(folder.path(), None)).await.unwrap_err();
    assert!(
        matches!(&failed, StoreError::Open { what, .. } if *what == database.display().to_string()),
        "{failed:?}"
    );
}

#[tokio::test]
async fn only_the_database_of_the_folder_is_accepted() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let note = noted_store(own.path()).await;
    noted_store(other.path()).await;
    DatabaseNote::check(&options(own.path(), None)).await.unwrap();

    let empty = own.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    let missing = own.path().join("missing.db");
    for path in [other.path().join("plexus.db"), empty.clone(), missing.clone()] {
        let refused =
            DatabaseNote::check(&options(own.path(), Some(format!("sqlite:{}", path.display())))).await;
        assert!(matches!(refused, Err(StoreError::OtherDatabase { .. })), "{path:?}: {refused:?}");
    }
    assert!(!missing.exists() && std::fs::read(&empty).unwrap().is_empty(), "the database was changed");

    // After a move to a server, the file that remains has the same id.
    let server =
        DatabaseLocation::Postgresql { host: "db".to_owned(), port: 5432, database: "hub".to_owned() };
    DatabaseNote { location: server, ..note }.write_if_changed(own.path()).unwrap();
    let refused = DatabaseNote::check(&options(own.path(), None)).await;
    assert!(matches!(refused, Err(StoreError::OtherDatabase { .. })), "{refused:?}");
}
