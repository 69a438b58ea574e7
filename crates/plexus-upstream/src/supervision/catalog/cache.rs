//! Caches the tool lists of servers across restarts of the hub: their tools are listed immediately, calls
//! wait for the starting server instead of being refused, and its era need not be probed again.
//!
//! There is one file per server. A file that is unreadable, or belongs to a different configuration of the
//! server, is ignored; the server's own list replaces it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_kit::private_file;
use plexus_proto::api::UpstreamEra;
use serde::{Deserialize, Serialize};

use crate::client::Definitions;

/// A longer list is not cached.
const MAX_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, Default)]
pub(in crate::supervision) struct CatalogCache {
    /// None: nothing is cached.
    folder: Option<PathBuf>,
}

/// The knowledge about a server before it is connected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::supervision) struct CachedCatalog {
    /// Fingerprint of the configuration at that time.
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

    /// The last list of a server, if its fingerprint is unchanged.
    pub(in crate::supervision) async fn recall(&self, slug: &str, fingerprint: u64) -> Option<CachedCatalog> {
        let text = tokio::fs::read(self.file(slug)?).await.ok().filter(|text| text.len() <= MAX_BYTES)?;
        let remembered: CachedCatalog = serde_json::from_slice(&text).ok()?;
        (remembered.fingerprint == fingerprint).then_some(remembered)
    }

    /// Stores the list of a server.
    pub(in crate::supervision) async fn keep(
        &self,
        slug: &str,
        fingerprint: u64,
        era: UpstreamEra,
        definitions: Arc<Definitions>,
    ) {
        let Some(file) = self.file(slug) else { return };
        let remembered = CachedCatalog { fingerprint, era, definitions };
        let written = tokio::task::spawn_blocking(move || {
            let text = serde_json::to_vec(&remembered)?;
            if text.len() > MAX_BYTES || fs_err::read(&file).is_ok_and(|cached| cached == text) {
                return Ok(());
            }
            private_file::create_dir(file.parent().unwrap_or(Path::new(".")))?;
            private_file::write_unsynced(&file, &text)
        });
        if let Ok(Err(error)) = written.await {
            tracing::warn!(server = slug, %error, "cannot cache the tools of a server");
        }
    }

    /// Deletes the files of all other servers, including those whose configuration was deleted while no hub
    /// was running.
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

    /// Deletes a server's file.
    pub(in crate::supervision) fn forget(&self, slug: &str) {
        if let Some(file) = self.file(slug) {
            // The file may not exist.
            let _ = fs_err::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests;
