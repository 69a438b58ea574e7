//! Rules for pinned tool definitions.

use plexus_store::{PinRecord, PinState};

use crate::backend::{Backend, Database, at};

fn pin(tool: &str, hash: &str, state: PinState) -> PinRecord {
    PinRecord {
        tool: tool.to_owned(),
        hash: hash.to_owned(),
        definition: format!("{{\"name\":\"{tool}\",\"description\":\"caf\u{e9} \u{1F600}\"}}"),
        state,
        decided_by: "admin:local".to_owned(),
        decided_at: at(5),
    }
}

async fn set<B: Backend>(db: &Database<B>, server: &'static str, pin: &PinRecord) {
    let pin = pin.clone();
    let set = db.store.write(move |conn| Box::pin(async move { conn.set_upstream_pin(server, &pin).await }));
    set.await.unwrap();
}

pub(crate) async fn tool_pin_is_unique_replaceable_and_deleted_with_its_server<B: Backend>(db: Database<B>) {
    let [held, approved] = [PinState::Held, PinState::Approved].map(|state| pin("read", "one", state));
    set(&db, "files", &held).await;
    set(&db, "files", &pin("Zip", "two", PinState::Approved)).await;
    set(&db, "other", &held).await;
    let mut reader = db.store.read().await.unwrap();
    assert_eq!(
        reader.upstream_pins("files").await.unwrap(),
        [pin("Zip", "two", PinState::Approved), held.clone()]
    );
    set(&db, "files", &approved).await;
    assert_eq!(reader.upstream_pins("files").await.unwrap()[1], approved);
    db.store.write(|conn| Box::pin(conn.delete_upstream_pin("files", "Zip"))).await.unwrap();
    assert_eq!(reader.upstream_pins("files").await.unwrap(), [approved]);
    assert_eq!(db.store.write(|conn| Box::pin(conn.delete_upstream_pins("files"))).await.unwrap(), 1);
    assert_eq!(reader.upstream_pins("files").await.unwrap(), []);
    assert_eq!(reader.upstream_pins("other").await.unwrap(), [held]);
}
