//! The cost of an idle hub.

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::contenders::{Site, start_to_ready};

const STARTS: usize = 5;

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct AtRest {
    pub(crate) binary_mb: f64,
    /// Time to ready on an existing database; the median of five starts.
    pub(crate) start_ms: f64,
    pub(crate) rss_mb: f64,
}

pub(crate) async fn measure(site: &Site) -> Result<AtRest> {
    let binary = std::fs::metadata(&site.plexus).with_context(|| site.plexus.display().to_string())?.len();
    let (start, rss) = start_to_ready(&site.plexus, &site.scratch.join("at-rest"), STARTS).await?;
    Ok(AtRest {
        binary_mb: binary as f64 / 1e6,
        start_ms: start.as_secs_f64() * 1e3,
        rss_mb: rss as f64 / 1e6,
    })
}
