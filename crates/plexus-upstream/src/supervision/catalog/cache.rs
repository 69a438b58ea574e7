//! What servers listed last, kept over a restart of the hub: their tools are listed at once, calls wait for the server
//! that is being started instead of being refused, and its era is not asked for again.
//!
//! One file per server, which is only a memory: one that cannot be read, or is of a server that is started in another
//! way now, is as good as none, and what the server says itself takes its place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_kit::private_file;
use plexus_proto::api::UpstreamEra;
use serde::{Deserialize, Serialize};

use crate::client::Definitions;

/// A list that is longer is not remembered.
const MAX_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, Default)]
pub(in crate::supervision) struct CatalogCache {
    /// None: nothing is remembered.
    folder: Option<PathBuf>,
}

/// What is known of a server before it was talked to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::supervision) struct CachedCatalog {
    /// Of how it was started then.
    fingerprint: u64,
    pub(in crate::supervision) era: UpstreamEra,
    pub(in crate::supervision) definitions: Arc<Definitions>,
}

impl CatalogCache {
    pub(in crate::supervision) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    fn file(&self, slug: &str) -> Option<PathBuf> {
        self.folder.as_deref().map(|folder: &Path| folder.join(format!("{slug}.json")))
    }

    /// What a server listed last, if it is started in the same way as then.
    pub(in crate::supervision) async fn recall(&self, slug: &str, fingerprint: u64) -> Option<CachedCatalog> {
        let text = tokio::fs::read(self.file(slug)?).await.ok().filter(|text| text.len() <= MAX_BYTES)?;
        let remembered: CachedCatalog = serde_json::from_slice(&text).ok()?;
        (remembered.fingerprint == fingerprint).then_some(remembered)
    }

    /// Keeps what a server has listed.
    pub(in crate::supervision) async fn keep(
        &self,
        slug: &str,
        fingerprint: u64,
        era: UpstreamEra,
        definitions: Arc<Definitions>,
    ) {
        let Some(file) = self.file(slug) else { return };
        let remembered = CachedCatalog { fingerprint, era, definitions };
        let kept = tokio::task::spawn_blocking(move || {
            let text = serde_json::to_vec(&remembered)?;
            if text.len() > MAX_BYTES || fs_err::read(&file).is_ok_and(|known| known == text) {
                return Ok(());
            }
            private_file::create_dir(file.parent().unwrap_or(Path::new(".")))?;
            private_file::write_unsynced(&file, &text)
        });
        if let Ok(Err(error)) = kept.await {
            tracing::warn!(server = slug, %error, "cannot remember the tools of a server");
        }
    }

    /// Keeps what is known of these servers only: files of others may have gone while no hub was there to see it.
    pub(in crate::supervision) fn retain(&self, slugs: &BTreeSet<&str>) {
        let files = self.folder.as_ref().and_then(|folder| fs_err::read_dir(folder).ok());
        for file in files.into_iter().flatten().flatten() {
            let name = file.file_name();
            let slug = name.to_str().and_then(|name| name.strip_suffix(".json"));
            if let Some(slug) = slug.filter(|slug| !slugs.contains(slug)) {
                self.forget(slug);
            }
        }
    }

    /// Its file is gone.
    pub(in crate::supervision) fn forget(&self, slug: &str) {
        if let Some(file) = self.file(slug) {
            // There may never have been one.
            let _ = fs_err::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_list_is_recalled_as_it_was_and_only_of_a_server_that_is_started_in_the_same_way() {
        let folder = tempfile::tempdir().unwrap();
        let memory = CatalogCache::new(Some(folder.path().join("tools")));
        assert_eq!(memory.recall("files", 7).await, None);
        let definitions: Definitions =
            vec![json!({ "name": "read", "inputSchema": { "type": "object" } }).as_object().unwrap().clone()];
        let definitions = Arc::new(definitions);
        memory.keep("files", 7, UpstreamEra::Session, definitions.clone()).await;
        let known = memory.recall("files", 7).await.unwrap();
        assert_eq!((known.era, &known.definitions), (UpstreamEra::Session, &definitions));
        assert_eq!(memory.recall("files", 8).await, None);

        std::fs::write(folder.path().join("tools/files.json"), "{").unwrap();
        assert_eq!(memory.recall("files", 7).await, None, "a memory that is damaged is none");
        memory.retain(&BTreeSet::from(["files"]));
        assert!(folder.path().join("tools/files.json").exists());
        memory.retain(&BTreeSet::from(["other"]));
        assert!(!folder.path().join("tools/files.json").exists());
        memory.keep("files", 7, UpstreamEra::Session, known.definitions).await;
        memory.forget("files");
        assert!(!folder.path().join("tools/files.json").exists());
    }
}
