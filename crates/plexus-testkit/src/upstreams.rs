//! The servers behind a hub in a test: their files, and how they are doing.

use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::private_file;
use plexus_proto::api::{Upstream, UpstreamState};
use serde_json::{Value, json};

use crate::TestHub;
use crate::fixture::{Eras, program};

/// For a server to come to a state: far beyond what it should take, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

impl TestHub {
    /// The file of a server.
    pub fn upstream_file(&self, name: &str) -> PathBuf {
        self.upstreams().folder().dir().join(format!("{name}.json"))
    }

    /// Writes the file of a server; the hub is not told.
    pub fn write_upstream(&self, name: &str, document: &Value) {
        let file = self.upstream_file(name);
        let folder = file.parent().expect("a folder");
        if !folder.exists() {
            private_file::create_dir(folder).expect("the folder of the servers");
        }
        // As a whole, since the hub may be looking, and closed to others, whatever the umask.
        private_file::write_unsynced(&file, document.to_string().as_bytes()).expect("the file of a server");
    }

    /// Writes the file of a server and returns when it is there, or as good as.
    pub async fn add_upstream(&self, name: &str, document: &Value) -> Upstream {
        self.write_upstream(name, document);
        self.upstreams().reload().await;
        self.upstream_in(name, UpstreamState::Ready).await
    }

    /// A server as soon as it is in a state.
    pub async fn upstream_in(&self, name: &str, state: UpstreamState) -> Upstream {
        self.upstream_when(name, state.as_str(), |upstream| upstream.state == state).await
    }

    /// A server as soon as something holds of it.
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
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.unwrap_or_else(|_| panic!("{name} is not {what} in time: {:?}", self.upstreams().get(name)))
    }
}

/// The file of a fixture server over standard input and output.
pub fn stdio_fixture(eras: Eras) -> Value {
    json!({ "command": program(), "args": ["--stdio", "--eras", eras.name()] })
}
