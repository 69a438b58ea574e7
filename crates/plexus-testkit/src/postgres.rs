//! Databases on a real PostgreSQL server, and a server that can be stopped.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use plexus_proto::CallId;
use rustix::process::Signal;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::send;

/// URL of the server that `scripts/postgres run` starts for all tests.
const SERVER: &str = "PLEXUS_TEST_POSTGRES";
/// Time limit for a server to start or stop.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// URL of a new database on the shared server. `None` without a server, which is printed; with `CI=true` that is a
/// failure.
pub async fn database() -> Option<String> {
    let Some(server) = std::env::var_os(SERVER) else {
        report_skipped(&format!("{SERVER} is not set; run the tests with `scripts/postgres run`"));
        return None;
    };
    let server = server.into_string().expect("a URL");
    let name = format!("hub_{}", CallId::new()).replace('-', "_");
    let mut connection = PgConnection::connect(&server).await.expect("the server answers");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::query(create).execute(&mut connection).await.expect("a database can be made");
    let (base, _) = server.rsplit_once('/').expect("a URL with a database");
    Some(format!("{base}/{name}"))
}

fn report_skipped(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{reason}");
    // Ignore a closed standard error.
    let _ = writeln!(std::io::stderr(), "left out: {reason}");
}

/// A separate server.
#[derive(Debug)]
pub struct PostgresServer {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl PostgresServer {
    /// `None` if PostgreSQL is not available, as in [`database`].
    pub async fn start() -> Option<Self> {
        if std::env::var_os(SERVER).is_none() {
            report_skipped(&format!("{SERVER} is not set; run the tests with `scripts/postgres run`"));
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let mut server = Self { child: spawn(folder.path(), port), folder, port };
        server.wait_until_up().await;
        Some(server)
    }

    pub fn url(&self) -> String {
        format!("postgres://plexus@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops the server: `INT` closes connections and shuts down cleanly, `QUIT` is a crash.
    pub async fn stop(&mut self, signal: Signal) {
        send(&self.child, signal);
        let ended = tokio::time::timeout(TIMEOUT, self.child.wait()).await;
        ended.expect("the server stops in time").expect("a status");
    }

    /// Starts it again at the same address.
    pub async fn start_again(&mut self) {
        self.child = spawn(self.folder.path(), self.port);
        self.wait_until_up().await;
    }

    async fn wait_until_up(&mut self) {
        let url = self.url();
        let up = async {
            while PgConnection::connect(&url).await.is_err() {
                let ended = self.child.try_wait().expect("a status");
                assert!(ended.is_none(), "the server ended: {ended:?}");
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(TIMEOUT, up).await.expect("the server starts in time");
    }
}

fn spawn(folder: &Path, port: u16) -> Child {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
    Command::new(script)
        .arg("serve")
        .arg(folder)
        .arg(port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("scripts/postgres starts")
}
