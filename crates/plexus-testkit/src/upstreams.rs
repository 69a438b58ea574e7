//! Upstream servers of a test's hub: their files and their states.

use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::private_file;
use plexus_proto::api::{Upstream, UpstreamState};
use serde_json::{Value, json};

use crate::TestHub;
use crate::fixture::{Eras, program};

/// Time limit for a server to reach a state: far beyond what it should take, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(40);

impl TestHub {
    /// Path of a server's file.
    pub fn upstream_file(&self, name: &str) -> PathBuf {
        self.upstreams().folder().dir().join(format!("{name}.json"))
    }

    /// Writes the file of a server without reloading.
    pub fn write_upstream(&self, name: &str, document: &Value) {
        let file = self.upstream_file(name);
        let folder = file.parent().expect("a folder");
        if !folder.exists() {
            private_file::create_dir(folder).expect("the folder of the servers");
        }
        // Write atomically, because the hub may be reading, and with private permissions regardless of the umask.
        private_file::write_unsynced(&file, document.to_string().as_bytes()).expect("the file of a server");
    }

    /// Writes the file of a server and returns when it has started or failed.
    pub async fn add_upstream(&self, name: &str, document: &Value) -> Upstream {
        self.write_upstream(name, document);
        self.upstreams().reload().await;
        self.upstream_in(name, UpstreamState::Ready).await
    }

    /// Waits until a server is in a state.
    pub async fn upstream_in(&self, name: &str, state: UpstreamState) -> Upstream {
        self.upstream_when(name, state.as_str(), |upstream| upstream.state == state).await
    }

    /// Waits until a condition holds for a server.
    pub async fn upstream_when(&self, name: &str, what: &str, holds: impl Fn(&Upstream) -> bool) -> Upstream {
        let mut changes = self.upstreams().changes();
        let wait = async {
            loop {
                if let Some(upstream) = self.upstreams().get(name).filter(|upstream| holds(upstream)) {
                    return upstream;
                }
                changes.changed().await.expect("the hub runs");
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, wait).await;
        waited.unwrap_or_else(|_| panic!("{name} is not {what} in time: {:?}", self.upstreams().get(name)))
    }
}

/// The file of a fixture server over stdio.
pub fn stdio_fixture(eras: Eras) -> Value {
    json!({ "command": program(), "args": ["--stdio", "--eras", eras.name()] })
}
