use serde_json::json;

use super::*;

#[tokio::test]
async fn list_is_recalled_only_for_the_same_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let memory = CatalogCache::new(Some(folder.path().join("tools")));
    assert_eq!(memory.recall("files", 7).await, None);
    let definitions: Definitions =
        vec![json!({ "name": "read", "inputSchema": { "type": "object" } }).as_object().unwrap().clone()];
    let definitions = Arc::new(definitions);
    memory.keep("files", 7, UpstreamEra::Session, definitions.clone()).await;
    let cached = memory.recall("files", 7).await.unwrap();
    assert_eq!((cached.era, &cached.definitions), (UpstreamEra::Session, &definitions));
    assert_eq!(memory.recall("files", 8).await, None);

    std::fs::write(folder.path().join("tools/files.json"), "{").unwrap();
    assert_eq!(memory.recall("files", 7).await, None, "a damaged file is ignored");
    memory.retain(&BTreeSet::from(["files"]));
    assert!(folder.path().join("tools/files.json").exists());
    memory.retain(&BTreeSet::from(["other"]));
    assert!(!folder.path().join("tools/files.json").exists());
    memory.keep("files", 7, UpstreamEra::Session, cached.definitions).await;
    memory.forget("files");
    assert!(!folder.path().join("tools/files.json").exists());
}
