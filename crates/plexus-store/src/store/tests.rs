//! Tests for durability settings.

use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_kit::{Durability, Supervisor};

use super::{Store, StoreOptions};
use crate::{Conn, StoreError};

/// Returns 1 for NORMAL, 2 for FULL.
fn synchronous(conn: &mut Conn) -> BoxFuture<'_, Result<i64, StoreError>> {
    Box::pin(async {
        let row = conn.row("reading the setting", "PRAGMA synchronous", vec![]).await?;
        row.map_or(Ok(-1), |row| row.int(0))
    })
}

#[tokio::test]
async fn only_write_through_waits_for_the_disk() {
    for (durability, expected) in [(Durability::Process, 1), (Durability::Power, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            data_dir: dir.path().to_owned(),
            database_url: None,
            durability,
            instance_id: "main".to_owned(),
        };
        let supervisor = Supervisor::new();
        let store = Store::open(&options, &supervisor).await.unwrap();
        for _ in 0..3 {
            assert_eq!(store.write(synchronous).await.unwrap(), expected, "{durability:?}");
            assert_eq!(store.write_through(synchronous).await.unwrap(), 2, "{durability:?}");
            assert_eq!(store.write_through(synchronous).await.unwrap(), 2, "{durability:?}");
        }
        assert_eq!(store.write(synchronous).await.unwrap(), expected, "{durability:?}");
        supervisor.shutdown(Duration::from_secs(30)).await;
    }
}
